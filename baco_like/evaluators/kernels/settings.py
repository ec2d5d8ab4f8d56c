"""The settings that all evaluators of kernels have, and how they are read from a TOML table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from baco_like._tables import (
    TEXT,
    Bytes,
    Count,
    Given,
    Group,
    Natural,
    Positive,
    Table,
    time_scale,
)
from baco_like.evaluators._processes.process import Cpus
from baco_like.evaluators.comparison import Tolerances
from baco_like.evaluators.protocol import KIND, RunArguments
from baco_like.evaluators.repeats import Repeats

FIVE_REPEATS = Repeats(5)

S = TypeVar("S", bound="KernelSettings")


@dataclass(frozen=True)
class KernelSettings(Tolerances):
    """How kernels are compiled and measured, whatever their language.

    Attributes:
        problem: Path of the problem file.
        size: Size of the problem, passed to the file's functions: rows of a matrix, number of points.
        repeats: How many runs are measured after the warm-up.
        timeout: Limit of one run, in seconds.
        build_timeout: Limit of the compilation, in seconds.
        input_seed: Seed of the inputs; other inputs, for one check of the kernel, have a seed that is drawn at random.
        restore: Which inputs get their values back before each launch: with ``auto`` those that the first launch has
            changed, with ``always`` all except constant ones, with ``never`` none.
        warmup: Runs before the measured ones, at least 1: the result of the first one is checked.
        flush: Whether the caches are emptied before each run.
        scale: Units of the objective in one second: 1e3 for milliseconds.
        constants: New values for constants of the problem file.
        memory: Limit of the memory of the process that runs the kernel; a number is in bytes.
        cpus: CPUs of the runs; None: all.
        environment: Environment variables of the process that runs the kernel, such as those of a device slot.
    """

    problem: Annotated[str | Path, TEXT]
    size: Count
    repeats: Group[Repeats] = FIVE_REPEATS
    timeout: Positive = 10.0
    build_timeout: Positive = 30.0
    input_seed: Natural = 0
    restore: Literal["auto", "always", "never"] = "auto"
    warmup: Count = 1
    flush: bool = False
    scale: Given[float] = 1e3
    constants: Mapping[str, Any] = field(default_factory=dict)
    memory: Bytes | None = None
    cpus: Cpus | None = None
    environment: Given[Mapping[str, str]] = field(default_factory=dict)


def read_settings(
    make: type[S], table: Table, run: RunArguments, scale: float | None = None, **given: Any
) -> S:
    """Return the settings in a table.

    Args:
        make: The settings, a `KernelSettings`.
        table: The ``[evaluator]`` table.
        run: The run, with the objective's unit.
        scale: Units of the objective in one second, if the unit is not one of time.
        given: Further settings that are not in the table.

    Raises:
        RunFileError: A key is unknown, missing, or a value is wrong.
    """
    settings = table.create(make, KIND, environment=run.environment or {}, **given)
    return replace(settings, scale=time_scale(table, run.unit) if scale is None else scale)
