"""The settings that all evaluators of kernels have, and how they are read from a TOML table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from baco_like.evaluators._processes.process import CPUS_KEY, cpus_from_table
from baco_like.evaluators.comparison import TOLERANCE_KEYS
from baco_like.evaluators.repeats import Repeats, repeats_keys
from baco_like.evaluators.settings_table import (
    FLAG,
    KIND,
    POSITIVE,
    SIZE,
    TABLE,
    TEXT,
    Key,
    RunArguments,
    Shape,
    Table,
    choice,
    keys_of,
    time_scale,
    whole,
)

FIVE_REPEATS = Repeats(5, 5)


@dataclass(frozen=True)
class KernelSettings:
    """How kernels are compiled and measured, whatever their language.

    Attributes:
        problem: Path of the problem file.
        size: Size of the problem, passed to the file's functions: rows of a matrix, number of points.
        repeats: How many runs are measured after the warm-up.
        timeout: Limit of one run, in seconds.
        build_timeout: Limit of the compilation, in seconds.
        tolerance: Accepted error of each element, relative to the largest magnitude of the correct result. If it,
            ``rtol`` and ``atol`` are None, the default of the result's type; see `baco_like.evaluators.comparison`.
        rtol: Accepted error relative to each element.
        atol: Accepted error, absolute.
        input_seed: Seed of the inputs; other inputs, for one check of the kernel, have a seed that is drawn at random.
        restore: Which inputs get their values back before each launch: with ``auto`` those that the first launch has
            changed, with ``always`` all except constant ones, with ``never`` none.
        warmup: Runs before the measured ones, at least 1: the result of the first one is checked.
        flush: Whether the caches are emptied before each run.
        scale: Units of the objective in one second: 1e3 for milliseconds.
        constants: New values for constants of the problem file, by name.
        memory: Limit of the address space of the process that runs the kernel, in bytes; None for no limit.
        cpus: Numbers of the CPUs that runs may use; None for all.
        environment: Environment variables of the process that runs the kernel, such as those of a device slot.
    """

    problem: str | Path
    size: int
    repeats: Repeats = FIVE_REPEATS
    timeout: float = 10.0
    build_timeout: float = 30.0
    tolerance: float | None = None
    rtol: float | None = None
    atol: float | None = None
    input_seed: int = 0
    restore: str = "auto"
    warmup: int = 1
    flush: bool = False
    scale: float = 1e3
    constants: Mapping[str, Any] = field(default_factory=dict)
    memory: int | None = None
    cpus: frozenset[int] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


_SHAPES: Mapping[str, Shape] = {
    "problem": TEXT,
    "size": whole(1),
    "input_seed": whole(0),
    "restore": choice(("auto", "always", "never")),
    "warmup": whole(1),
    "flush": FLAG,
    "timeout": POSITIVE,
    "build_timeout": POSITIVE,
}
_CONSTANTS = Key("constants", TABLE, "new values for constants of the problem file", default={})
_MEMORY = Key("memory", SIZE, "limit of the memory of the process that runs the kernel")
_REPEATS = repeats_keys(FIVE_REPEATS.least)


def kernel_keys(make: type[KernelSettings], own: Mapping[str, Shape]) -> tuple[Key, ...]:
    """Return the keys of a table whose settings are fields of ``make``.

    Args:
        make: The settings; its fields have the defaults, its docstring the meanings.
        own: Shapes of the keys besides those of every kernel.
    """
    keys = keys_of(make, {**_SHAPES, **own})
    return (*keys, *TOLERANCE_KEYS, _CONSTANTS, *_REPEATS, _MEMORY, CPUS_KEY)


def read_settings(
    table: Table, keys: Iterable[Key], run: RunArguments, scale: float | None = None
) -> dict[str, Any]:
    """Return the values of a table as fields of its settings.

    Args:
        table: The ``[evaluator]`` table.
        keys: All its keys.
        run: The run, with the objective's unit.
        scale: Units of the objective in one second, if the unit is not one of time.

    Raises:
        RunFileError: A key is unknown, missing, or a value is wrong.
        EvaluatorError: This process may not use one of the CPUs.
    """
    values = table.read((KIND, *keys))
    for key in (KIND, *_REPEATS):
        del values[key.name]
    return {
        **{
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
        },
        "repeats": Repeats.from_table(table, FIVE_REPEATS.least),
        "scale": time_scale(table, run.unit) if scale is None else scale,
        "memory": table.bytes(_MEMORY),
        "cpus": cpus_from_table(table),
        "environment": run.environment or {},
    }
