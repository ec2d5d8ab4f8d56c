"""Helpers of several formats: outcomes from the values of a row, times of stages."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from baco_like.exceptions import RunFileError
from baco_like.records.objective import Direction
from baco_like.records.reading import finite_number
from baco_like.records.trial import Outcome, Status, standard_error

TIME_UNITS: Mapping[str, tuple[str, float]] = {
    "nanoseconds": ("ns", 1e9),
    "microseconds": ("us", 1e6),
    "miliseconds": ("ms", 1e3),  # as files of the benchmark hub have it
    "milliseconds": ("ms", 1e3),
    "seconds": ("s", 1.0),
}
"""A file's unit of time -> our unit, and its number per second."""


def one_objective(declared: Any, chosen: str | None, known: Collection[Any]) -> str:
    """Return the objective of a file.

    Args:
        declared: Its name, or a list of names, from the file.
        chosen: The caller's choice, or None.
        known: Names of all measurements.

    Raises:
        RunFileError: The file has several objectives and the caller chooses none, or the chosen one was not measured.
    """
    names = declared if isinstance(declared, list) else [declared]
    if chosen is not None and chosen not in known:
        raise RunFileError(
            f"it has no measurement {chosen!r}; it has {', '.join(sorted(map(str, known)))}"
        )
    if chosen is None and len(names) != 1:
        raise RunFileError(
            f"it has several objectives ({', '.join(map(str, names))}); name the one that counts"
        )
    return str(names[0]) if chosen is None else chosen


def default_direction(objective: str) -> Direction | None:
    """Return ``maximize`` for an objective that Kernel Tuner maximises by default (``GFLOP/s``), else None."""
    maximised = re.fullmatch(r"fitness|[GT](FLOP/s|FLOP/J|FLOPS/W|B/s)", objective)
    return "maximize" if maximised else None


def measured(
    value: float,
    repeats: tuple[float, ...],
    seconds: Mapping[str, float],
    metrics: Mapping[str, float] | None = None,
) -> Outcome:
    """Return an outcome whose value comes from the file (often the mean of the repeats)."""
    return Outcome(
        0,
        Status.OK,
        value=value,
        repeats=repeats or (value,),
        sem=standard_error(repeats),
        metrics=metrics or {},
        extra={"seconds": dict(seconds)} if seconds else {},
    )


def failure(word: str, message: str, seconds: Mapping[str, float]) -> Outcome:
    """Return a failed outcome with the times of its stages."""
    return Outcome.failure(0, word, message, extra={"seconds": dict(seconds)} if seconds else {})


def stages(
    times: Mapping[str, Any], names: Mapping[str, str], per_second: float
) -> dict[str, float]:
    """Return the positive times of stages in seconds, by our names."""
    numbers = ((ours, finite_number(times.get(theirs)) or 0.0) for theirs, ours in names.items())
    return {name: time / per_second for name, time in numbers if time > 0}


def milliseconds(seconds: Any) -> float:
    """Return seconds as milliseconds such that dividing by 1,000 gives the same float again, if possible."""
    exact = finite_number(seconds) or 0.0
    near = 1e3 * exact
    around = (near, math.nextafter(near, 0.0), math.nextafter(near, math.inf))
    return next((number for number in around if number / 1e3 == exact), near)


def numbers(values: Iterable[Any]) -> tuple[float, ...]:
    """Return those of the values that are finite numbers."""
    read = (  # nearly all are floats already, and there may be millions
        value if type(value) is float and math.isfinite(value) else finite_number(value)
        for value in values
    )
    return tuple(value for value in read if value is not None)
