"""The kinds of evaluators that a TOML file can name; a new kind is one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from baco_like.evaluators import replay
from baco_like.evaluators.c_kernels import evaluator as c_kernels
from baco_like.evaluators.command import evaluator as command
from baco_like.evaluators.function import isolated
from baco_like.evaluators.gpu.cuda import evaluator as cuda
from baco_like.evaluators.gpu.opencl import evaluator as opencl
from baco_like.evaluators.halide import evaluator as halide
from baco_like.evaluators.protocol import Evaluator
from baco_like.evaluators.result_cache import ResultCache, digest
from baco_like.evaluators.settings_table import TEXT, TEXTS, Key, Table, shown, suggestion
from baco_like.evaluators.wrappers.cached import CachedEvaluator
from baco_like.exceptions import RunFileError
from baco_like.spaces.space import Space

COMMON_KEYS = (
    Key("cache", TEXT, "file that keeps results for later runs with the same keys"),
    Key("cache_files", TEXTS, "files that the results depend on: sources, inputs; needs `cache`"),
)
"""Keys of every kind besides ``kind``."""

CACHE_KEYS = tuple(key.name for key in COMMON_KEYS)

ORGANISING = ("ahead", "workers", "cache", "large")
"""Keys that do not change measured values: number of parallel evaluations, cache, limit of a file's size."""

Factory = Callable[[Table, Space, str, Path], Evaluator]
"""Makes an evaluator from its table, the space, the objective's unit and the folder of the TOML file.

It checks its arguments and makes no folders and no processes; these are made when the first trial is evaluated.
"""

_MODULES = {
    "c": c_kernels,
    "command": command,
    "cupy": cuda,
    "function": isolated,
    "halide": halide,
    "opencl": opencl,
    "replay": replay,
}

KINDS: Mapping[str, Factory] = {kind: module.from_table for kind, module in _MODULES.items()}

KEYS: Mapping[str, Sequence[Key]] = {kind: module.KEYS for kind, module in _MODULES.items()}
"""Keys of the table of each kind besides ``kind`` and `COMMON_KEYS`."""

_REPLACED = {"c_loop_nest": "kernels/c_loop_nest.py", "taco": "kernels/taco_kernels.py"}
"""Former kinds, and the problem file of kind "c" that each is now."""


def create(table: Table, space: Space, unit: str, folder: Path) -> Evaluator:
    """Return the evaluator that a table describes.

    Args:
        table: The ``[evaluator]`` table; its key ``kind`` names the kind.
        space: The space.
        unit: The objective's unit.
        folder: Folder of the TOML file.

    Raises:
        RunFileError: The kind is unknown, or a key of its table is unknown, missing or wrong.
        EvaluatorError: A program, package, file or device that it needs does not exist.
    """
    kind = table.text("kind")
    if kind not in KINDS:
        hint = suggestion(kind, KINDS)
        if kind in _REPLACED:
            hint = (
                f'write kind = "c" and problem = "{_REPLACED[kind]}" (a file of examples/kernels)'
            )
        raise RunFileError(f"[{table.name}] kind = {shown(kind)} is unknown; {hint}")
    cache, cache_files = table.values(COMMON_KEYS).values()
    own = Table(table.name, {k: v for k, v in table.entries.items() if k not in CACHE_KEYS})
    evaluator = KINDS[kind](own, space, unit, folder)
    if cache is not None:
        # Results depend on all other keys and on the listed files.
        files = {name: digest(folder / name) for name in cache_files or []}
        settings = {k: v for k, v in own.entries.items() if k != "large"}
        context = {**settings, "[objective] unit": unit, **files}
        return CachedEvaluator(evaluator, ResultCache(folder / cache, context))
    if cache_files is not None:
        raise table.error("cache_files", cache_files, "cache = FILE besides")
    return evaluator
