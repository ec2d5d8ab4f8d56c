"""The kinds of evaluators that a run file can name; a new kind is one line here, or a plug-in."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from baco_like._plugins import Plugin, Registry
from baco_like._tables import TEXT, Key, Shape, Table, keys_of, shown, suggestion
from baco_like.evaluators import llvm, replay
from baco_like.evaluators.command import evaluator as command
from baco_like.evaluators.function import evaluator as function
from baco_like.evaluators.kernels import c as c_kernels
from baco_like.evaluators.kernels import cuda, halide, opencl
from baco_like.evaluators.protocol import KIND, Evaluator, RunArguments
from baco_like.evaluators.repeats import Repeats
from baco_like.evaluators.result_cache import ResultCache
from baco_like.evaluators.slots import resolve_slots
from baco_like.evaluators.sources import table_hashes
from baco_like.evaluators.wrappers import CachedEvaluator, SlotsEvaluator
from baco_like.exceptions import RunFileError
from baco_like.journal.header import DEVICE_TYPE, UNIT
from baco_like.spaces.space import Space

_SLOTS = Shape(
    title="an array of slots",
    type="array",
    items={"anyOf": [TEXT, {"type": "object"}]},
    minItems=1,
)


@dataclass(frozen=True)
class Common:
    """The keys that every kind has.

    Attributes:
        cache: File that keeps results for later runs with the same keys.
        files: Files that the values depend on, besides [those that are found](../evaluators.md#changed-sources).
        slots: Device slots, each with one measurement at a time, such as ``["cuda:0", "cuda:1"]``; see
            [device slots](../parallel.md#device-slots).
    """

    cache: str | None = None
    files: Sequence[str] | None = None
    slots: Annotated[Sequence[Any] | None, _SLOTS] = None


CACHE_KEYS = tuple(field.name for field in fields(Common))

Factory = Callable[[Table, RunArguments], Evaluator]
"""Makes an evaluator from its table and `RunArguments`.

It checks its arguments and makes no folders and no processes; these are made when the first trial is evaluated.
"""

_KINDS: Mapping[str, tuple[Any, tuple[Callable[..., Any], ...]]] = {
    "c": (c_kernels, (c_kernels.CKernelSettings,)),
    "command": (command, (command.Commands,)),
    "cuda": (cuda, (cuda.CudaSettings,)),
    "function": (function, (function.isolated_function,)),
    "halide": (halide, (halide.HalideSettings,)),
    "llvm": (llvm, (llvm.LlvmSettings,)),
    "opencl": (opencl, (opencl.OpenCLSettings,)),
    "replay": (replay, (replay.ReplayTable, Repeats)),
}
"""The module of each kind, and the classes and functions that define its table, besides ``kind`` and `Common`."""

KINDS: Mapping[str, Factory] = {kind: module.from_table for kind, (module, _) in _KINDS.items()}

REGISTRY: Registry[Factory] = Registry("baco_like.evaluators", "evaluator", KINDS)
"""`KINDS`, and the evaluators of plug-ins."""

_PASSED = tuple(field.name for field in fields(RunArguments))
"""Arguments of a plug-in that are not keys of its table."""


def create(table: Table, space: Space, unit: str, folder: Path) -> Evaluator:
    """Return the evaluator that a table describes.

    Args:
        table: The ``[evaluator]`` table; its key ``kind`` names the kind.
        space: The space.
        unit: The objective's unit.
        folder: Folder of the run file.

    Raises:
        RunFileError: The kind is unknown, or a key of its table is unknown, missing or wrong.
        EvaluatorError: A program, package, file or device that it needs does not exist.
        PluginError: The plug-in cannot be imported, or makes something else than an evaluator.
    """
    kind = table.text("kind")
    if kind not in REGISTRY:
        hint = suggestion(kind, REGISTRY.names)
        raise RunFileError(f"[{table.name}] kind = {shown(kind)} is unknown; {hint}")
    entries = table.entries
    own = Table(table.name, {k: v for k, v in entries.items() if k not in CACHE_KEYS})
    shared = {k: v for k, v in entries.items() if k in CACHE_KEYS}
    common = Table(table.name, shared).create(Common)
    cache, slots = common.cache, common.slots
    hashes = table_hashes(entries, folder) if cache is not None or common.files else {}
    make, run = _factory(kind), RunArguments(space, unit, folder)
    if slots is None:
        evaluator = make(own, run)
    else:
        _check_slots(own, slots)
        evaluator = SlotsEvaluator(lambda slot: make(own, replace(run, environment=slot)), slots)
    if cache is not None:
        # Results depend on all other keys and on the files that the table names.
        settings = {k: v for k, v in own.entries.items() if k != "large"}
        context = {**settings, UNIT: unit, **hashes, **slot_context(table)}
        return CachedEvaluator(evaluator, ResultCache(folder / cache, context))
    return evaluator


def _factory(kind: str) -> Factory:
    part = REGISTRY.find(kind)
    return partial(_create_plugin, part, kind) if isinstance(part, Plugin) else part


def kind_keys(kind: str) -> Sequence[Key]:
    """Return the keys of a kind's table besides ``kind`` and those of `Common`.

    Those of a plug-in are its arguments, except for the ones that are not read from the table.

    Raises:
        PluginError: The plug-in cannot be imported.
    """
    part = REGISTRY.find(kind)
    makes = (part.load(),) if isinstance(part, Plugin) else _KINDS[kind][1]
    keys: dict[str, Key] = {}
    for key in (key for make in makes for key in keys_of(make)):
        keys.setdefault(key.name, key)
    return [key for name, key in keys.items() if name not in _PASSED]


def _create_plugin(plugin: Plugin, kind: str, table: Table, run: RunArguments) -> Evaluator:
    """Return the evaluator of a plug-in; it receives those keys that the table has."""
    make = plugin.load()
    given = table.read((KIND, *kind_keys(kind)))
    accepted = inspect.signature(make).parameters
    if run.environment is not None and "environment" not in accepted:
        raise table.error(
            "kind", kind, "with slots a kind whose evaluator has an argument 'environment'"
        )
    arguments = {key: value for key, value in given.items() if table.has(key) and key != "kind"}
    arguments |= {key: value for key, value in vars(run).items() if key in accepted}
    evaluator: Evaluator = plugin.create(("submit", "wait", "close"), **arguments)
    return evaluator


def slot_context(table: Table) -> dict[str, str]:
    """Return the device type of the slots, by its name in the context of a run; empty without slots.

    Raises:
        EvaluatorError: The slots are wrong, or of different types.
    """
    slots = table.entries.get("slots")
    return {} if slots is None else {DEVICE_TYPE: resolve_slots(slots)[0].type}


def _check_slots(table: Table, slots: Sequence[object]) -> None:
    """Reject keys that cannot be used with slots."""
    entries = table.entries
    if entries["kind"] == "replay":
        raise table.error("slots", slots, 'another kind than "replay", which measures nothing')
    if entries.get("workers", 1) != 1:
        raise table.error("workers", entries["workers"], "1 with slots: each slot is a worker")
    if entries["kind"] == "cuda" and entries.get("device", 0) != 0:
        raise table.error("device", entries["device"], "0 with slots: each process sees one GPU")
