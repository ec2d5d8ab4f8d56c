"""The settings that all evaluators of kernels have, and how they are read from a TOML table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from baco_like.evaluators._processes.process import cpus_from_table
from baco_like.evaluators.repeats import REPEATS_KEYS, Repeats
from baco_like.evaluators.settings_table import Table, time_scale

KERNEL_KEYS = (
    *("kind", "problem", "constants", "size", "input_seed", "tolerance", *REPEATS_KEYS),
    *("timeout", "build_timeout", "memory", "cpus"),
)
"""Keys of the TOML table that `read_settings` reads."""

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
        tolerance: Largest accepted error, relative to the largest magnitude of the correct result.
        input_seed: Seed of the inputs.
        scale: Units of the objective in one second: 1e3 for milliseconds.
        constants: New values for constants of the problem file, by name.
        memory: Limit of the address space of the process that runs the kernel, in bytes; None for no limit.
        cpus: Numbers of the CPUs that runs may use; None for all.
    """

    problem: str | Path
    size: int
    repeats: Repeats = FIVE_REPEATS
    timeout: float = 10.0
    build_timeout: float = 30.0
    tolerance: float = 1e-5
    input_seed: int = 0
    scale: float = 1e3
    constants: Mapping[str, Any] = field(default_factory=dict)
    memory: int | None = None
    cpus: frozenset[int] | None = None


def read_settings(table: Table, unit: str, scale: float | None = None) -> dict[str, Any]:
    """Return the fields of `KernelSettings` that a table gives; absent keys keep their default.

    Args:
        table: The ``[evaluator]`` table.
        unit: The objective's unit.
        scale: Units of the objective in one second, if the unit is not one of time.

    Raises:
        RunFileError: A key is missing, or a value is wrong.
        EvaluatorError: This process may not use one of the CPUs.
    """
    fields: dict[str, Any] = {
        "problem": table.text("problem"),
        "size": table.whole("size", low=1),
        "repeats": Repeats.from_table(table, FIVE_REPEATS.least),
        "scale": time_scale(table, unit) if scale is None else scale,
        "constants": table.table("constants").entries,
        "memory": table.bytes("memory") if table.has("memory") else None,
        "cpus": cpus_from_table(table),
    }
    limits = ("timeout", "build_timeout", "tolerance")
    fields |= {key: table.positive(key) for key in limits if table.has(key)}
    if table.has("input_seed"):
        fields["input_seed"] = table.whole("input_seed")
    return fields
