"""How many times a configuration is measured: until its value is precise enough, or is clearly too slow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from baco_like._tables import Positive, Shape, check_values, whole
from baco_like.records.trial import (
    MEASURED_AGAIN,
    SLOW,
    STOPPED,
    Outcome,
    Trial,
    median,
    standard_error,
)

_DEVIATIONS = 3.0
"""Standard errors by which the median must exceed the best value before a configuration cannot win."""

_LEAST_GAP = 0.01
"""Relative gap that it must exceed in any case: the standard error of two or three values may be 0 by chance."""

MOST = 1_000_000
"""Most repeats of one configuration; a larger number is an error of the user."""

_CHEAP = 0.1
"""Share of the time of a build below which the time of its runs does not matter."""


def takes_little(seconds: Mapping[str, float]) -> bool:
    """Whether the runs of a trial took little time compared with its build; ``seconds`` are by stage."""
    return seconds.get("run", 0.0) < _CHEAP * seconds.get("compile", 0.0)


class BestValues:
    """The least value so far; with a fidelity or tasks, the least at each level or task: only these can be compared.

    Args:
        fidelity: Name of the fidelity parameter, or None.
        trials: Trials that were observed before.
    """

    def __init__(self, fidelity: str | None = None, trials: Iterable[Trial] = ()) -> None:
        self._fidelity = fidelity
        self._values: dict[Any, float] = {}
        for trial in trials:
            self.add(trial, trial.value)

    def find(self, trial: Trial) -> float | None:
        """Return the best value at the level or task of a trial, or None."""
        return self._values.get(self._level(trial))

    def add(self, trial: Trial, value: float | None) -> None:
        """Add the value of a trial, if it has one."""
        if value is not None:
            level = self._level(trial)
            self._values[level] = min(value, self._values.get(level, value))

    def _level(self, trial: Trial) -> Any:
        if trial.task is not None:
            return tuple(trial.task.values())
        return None if self._fidelity is None else trial.config.get(self._fidelity)


@dataclass(frozen=True)
class Repeats:
    """A rule for the number of measurements.

    Without ``relative_error`` and ``slow_ratio`` every configuration is measured ``repeats`` times. With
    ``relative_error`` the measurements continue, up to ``max_repeats``, until the standard error of the mean is at most
    this fraction of the median. After the first ``repeats`` values (at least two) their spread predicts the total
    number needed, as the standard error falls with the square root of the number.

    With ``first_repeats`` the number of measurements begins there and doubles up to ``repeats``, but only while the
    configuration may win. It cannot win if every value is above the best value and their median is above it by more
    than three standard errors and 1 %. Then the median of the measured values is its value; it is not censored. If no
    best value exists, ``first_repeats`` values are enough. This is a race (Maron and Moore, "Hoeffding races", NeurIPS
    1993) with a simpler bound. Short runs are always completed: the rule applies once they take a tenth of the time of
    the build.

    ``slow_ratio`` and ``first_repeats`` are only for objectives that are minimised. The value of a configuration that
    is stopped by ``slow_ratio``, as its every measurement exceeds this many times the best median, is censored.

    Attributes:
        repeats: Measurements of every configuration.
        max_repeats: Largest number of measurements; needs ``relative_error``.
        relative_error: Measure until the standard error of the mean is this share of the median; needs
            ``max_repeats``.
        slow_ratio: Stop measuring a configuration that is this many times slower than the best.
        first_repeats: First number of measurements; more follow, up to ``repeats``, only while the configuration may be
            the best; None: ``repeats``.

    Raises:
        ValueError: A value is out of range, or two of them contradict each other.
    """

    repeats: Annotated[int, whole(1, MOST)] = 1
    max_repeats: Annotated[int | None, whole(1, MOST)] = None
    relative_error: Positive | None = None
    slow_ratio: Annotated[float | None, Shape(type="number", exclusiveMinimum=1)] = None
    first_repeats: Annotated[int | None, whole(2, MOST)] = None

    def __post_init__(self) -> None:
        check_values(self)
        least, first, most = self.repeats, self.first_repeats, self.max_repeats
        if first is not None and first > least:
            raise ValueError(
                f"first_repeats = {first}: expected a whole number from 2 to repeats = {least}"
            )
        if (most is None) != (self.relative_error is None):
            raise ValueError(
                f"relative_error = {self.relative_error}: expected both it and max_repeats"
            )
        if most is not None and most < least:
            raise ValueError(f"max_repeats = {most}: expected a whole number, {least} or more")

    @property
    def most(self) -> int:
        """Largest number of measurements."""
        return self.repeats if self.max_repeats is None else self.max_repeats

    @property
    def is_adaptive(self) -> bool:
        """Whether the number of measurements depends on their values."""
        return (self.relative_error, self.slow_ratio, self.first_repeats) != (None, None, None)

    def for_trial(self, trial: Trial) -> Repeats:
        """Return the rule for a trial: one that is measured again to be compared is never ended early."""
        if trial.origin not in MEASURED_AGAIN:
            return self
        return replace(self, slow_ratio=None, first_repeats=None)

    def limit(self, best: float | None) -> float | None:
        """Return the value above which a configuration is clearly slower than the best median, or None."""
        if self.slow_ratio is None or best is None or best <= 0:
            return None
        return self.slow_ratio * best

    def is_slow(self, values: Sequence[float], best: float | None) -> bool:
        """Whether there are values and all exceed the `limit`."""
        limit = self.limit(best)
        return limit is not None and bool(values) and min(values) > limit

    def may_win(self, values: Sequence[float], best: float | None) -> bool:
        """Whether ``first_repeats`` values or more leave open that the configuration is better than the best value."""
        first = self.first_repeats
        if first is None or len(values) < first or (best is not None and best <= 0):
            return True
        if best is None:
            return False
        gap = max(_DEVIATIONS * (standard_error(tuple(values)) or 0.0), _LEAST_GAP * best)
        return min(values) <= best or median(tuple(values)) - gap <= best

    def censor(
        self, trial_id: int, values: Sequence[float], best: float | None, extra: Mapping[str, Any]
    ) -> Outcome | None:
        """Return the censored outcome of a slow configuration that was measured fewer times; None for others.

        Args:
            trial_id: Number of the trial.
            values: Its values.
            best: Median of the best configuration, or None.
            extra: As for `Outcome`.
        """
        if len(values) >= self.most or not self.is_slow(values, best):
            return None
        message = (
            f"run: stopped after {len(values)} of {self.most} repeats: more than {self.slow_ratio:g} times the best, "
            f"{best:.6g}"
        )
        extra = {**extra, "repeats": list(values), STOPPED: SLOW}
        return Outcome.censored(trial_id, min(values), message=message, extra=extra)

    def missing(
        self, values: Sequence[float], best: float | None, *, is_cheap: bool = False
    ) -> int:
        """Return how many more measurements to make now; 0 means that no more are needed.

        Args:
            values: The values so far; at least one after the first call.
            best: Median of the best configuration so far, or None.
            is_cheap: Whether the measurements so far took little of the time of the build (see `takes_little`), so that
                ``first_repeats`` saves nothing.
        """
        if self.is_slow(values, best) or not (is_cheap or self.may_win(values, best)):
            return 0
        if len(values) < self.repeats:
            first = self.first_repeats or self.repeats
            return min(self.repeats, max(first, 2 * len(values))) - len(values)
        if self.relative_error is None or len(values) >= self.most:
            return 0
        if len(values) < 2:
            return 1
        return min(self._count_needed(values), self.most) - len(values)

    def _count_needed(self, values: Sequence[float]) -> int:
        """Return the total number of values needed for the error; at most twice the present number.

        The spread of a few values is a poor estimate, so the number grows in steps with a new estimate after each.
        """
        assert self.relative_error is not None
        error, middle = standard_error(tuple(values)), abs(median(tuple(values)))
        if error is None or error <= self.relative_error * middle:
            return len(values)
        if middle == 0:
            return 2 * len(values)
        factor = min((error / middle / self.relative_error) ** 2, 2.0)
        return max(len(values) + 1, math.floor(len(values) * factor))


ONCE = Repeats()
"""Each configuration is measured once."""
