"""An objective and the values that are measured of it: direction, sign, standard errors, types of values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, SupportsFloat, get_args

from baco_like.exceptions import TrialError

Direction = Literal["minimize", "maximize"]
"""Which values are better: small ones (``minimize``) or large ones (``maximize``)."""


def sign_of(direction: Direction) -> float:
    """Return the factor between a value in the user's unit and its cost, which is always minimised.

    The factor is its own inverse: ``cost = sign * value`` and ``value = sign * cost``.
    """
    return 1.0 if direction == "minimize" else -1.0


@dataclass(frozen=True)
class Objective:
    """A measured value that is minimised or maximised.

    Attributes:
        name: Name of the measured value.
        unit: Shown in tables and plots; evaluators that measure time need ``s``, ``ms``, ``us`` or ``ns``.
        direction: Which values are better.
        exact: Whether each measurement gives the same value, as for sizes and counts; such a value is measured once.
            Sizes in ``[evaluator.metrics]`` are exact by themselves.

    Raises:
        ValueError: The name or the direction is wrong.
    """

    name: str = "value"
    unit: str = ""
    direction: Direction = "minimize"
    exact: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"objectives: {self.name!r:.80} is not the name of a value")
        if self.direction not in get_args(Direction):
            allowed = " or ".join(map(repr, get_args(Direction)))
            raise ValueError(
                f"objectives[{self.name!r}] = {self.direction!r:.80}: expected {allowed}"
            )

    @property
    def gain(self) -> str:
        """Word for a ratio to the default: ``speed-up`` of times, ``improvement`` of other values, such as bytes."""
        is_time = self.unit in ("s", "ms", "us", "ns") or "time" in self.name.lower()
        return "speed-up" if is_time else "improvement"

    @property
    def label(self) -> str:
        """The name with the unit in brackets, for tables and axes."""
        return self.name + (f" ({self.unit})" if self.unit else "")


@dataclass(frozen=True)
class Measurement:
    """A value with a known standard error, for `Optimizer.observe` or as the result of an objective.

    Use it if your tool returns an average, not the repeats. The models take the squared standard error as known
    noise of this observation, as for repeats.

    Attributes:
        mean: The value. NaN and infinities are recorded as failures.
        sem: Its standard error, in the unit of the value.

    Raises:
        TrialError: The standard error is not a finite number from 0.
    """

    mean: SupportsFloat
    sem: SupportsFloat

    def __post_init__(self) -> None:
        try:
            error = math.nan if isinstance(self.sem, (bool, str)) else float(self.sem)
        except (TypeError, ValueError, OverflowError):
            error = math.nan
        if not 0.0 <= error < math.inf:
            raise TrialError(
                f"Measurement: sem = {self.sem!r:.60}: expected a finite number from 0; without a standard error "
                "observe the value itself"
            )

    def __float__(self) -> float:
        """Return the mean."""
        return float(self.mean)


ObservedNumber = SupportsFloat | Sequence[SupportsFloat]
"""A number, a `Measurement`, or repeats. Type checkers refuse a text."""

ObservedValue = ObservedNumber | Mapping[str, object] | BaseException
"""The result of one trial: a number, a mapping of metrics by name, or the exception of a failure."""


def stated_error(value: object) -> float | None:
    """Return the standard error that a measurement states, or several the error of their mean; None without one."""
    entries = value if isinstance(value, (list, tuple)) else [value]
    errors = [float(entry.sem) for entry in entries if isinstance(entry, Measurement)]
    return math.hypot(*errors) / len(errors) if errors else None
