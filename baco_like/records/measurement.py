"""A measured value with its standard error, and the types of values that can be observed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import SupportsFloat

from baco_like.exceptions import TrialError


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
