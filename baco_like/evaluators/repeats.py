"""How many times a configuration is measured: until its value is precise enough, or is clearly too slow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from baco_like.evaluators.settings_table import POSITIVE, Key, Shape, Table, whole
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import SLOW, STOPPED, Outcome, Trial, median, standard_error

_ABOVE_ONE: Shape = {"type": "number", "exclusiveMinimum": 1}

_DEVIATIONS = 3.0
"""Standard errors by which the median must exceed the best value before a configuration cannot win."""

_LEAST_GAP = 0.01
"""Relative gap that it must exceed in any case: the standard error of two or three values may be 0 by chance."""

_MOST = 1_000_000
"""Most repeats of one configuration; a larger number is an error of the user."""

_CHEAP = 0.1
"""Share of the time of a build below which the time of its runs does not matter."""


def takes_little(seconds: Mapping[str, float]) -> bool:
    """Whether the runs of a trial took little time compared with its build; ``seconds`` are by stage."""
    return seconds.get("run", 0.0) < _CHEAP * seconds.get("compile", 0.0)


def repeats_keys(least: int) -> tuple[Key, ...]:
    """Return the keys of a table that `Repeats.from_table` reads; ``least`` is the default of ``repeats``."""
    return (
        Key("repeats", whole(1, _MOST), "measurements of every configuration", default=least),
        Key(
            "first_repeats",
            whole(2, _MOST),
            "first number of measurements; more follow, up to `repeats`, only while the configuration may be the best",
            absent="`repeats`",
        ),
        Key(
            "max_repeats", whole(1, _MOST), "largest number of measurements; needs `relative_error`"
        ),
        Key(
            "relative_error",
            POSITIVE,
            "measure until the standard error of the mean is this share of the median; needs `max_repeats`",
        ),
        Key(
            "slow_ratio",
            _ABOVE_ONE,
            "stop measuring a configuration that is this many times slower than the best",
        ),
    )


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

    Without the last two fields every configuration is measured ``least`` times. With ``relative_error`` the
    measurements continue, up to ``most``, until the standard error of the mean is at most this fraction of the median.
    After the first ``least`` values (at least two) their spread predicts the total number needed, as the standard
    error falls with the square root of the number.

    With ``first`` the number of measurements begins there and doubles up to ``least``, but only while the configuration
    may win. It cannot win if every value is above the best value and their median is above it by more than three
    standard errors and 1 %. Then the median of the measured values is its value; it is not censored. If no best value
    exists, ``first`` values are enough. This is a race (Maron and Moore, "Hoeffding races", NeurIPS 1993) with a
    simpler bound. Short runs are always completed: the rule applies once they take a tenth of the time of the build.

    Attributes:
        least: Number of measurements of every configuration.
        most: Largest number of measurements.
        relative_error: Standard error over median at which the measurements end, or None.
        slow_ratio: A configuration whose every measurement exceeds ``slow_ratio`` times the best median is not
            measured again; its value is censored. Above 1, and only for objectives that are minimised. None: never.
        first: Number of measurements, at least 2, before the first comparison with the best value; only for
            objectives that are minimised. None: all get ``least``.
    """

    least: int = 1
    most: int = 1
    relative_error: float | None = None
    slow_ratio: float | None = None
    first: int | None = None

    def __post_init__(self) -> None:
        if self.least < 1:
            raise EvaluatorError(f"least = {self.least}: expected 1 or more repeats")
        if self.first is not None and not 2 <= self.first <= self.least:
            raise EvaluatorError(
                f"first = {self.first}: expected 2 or more repeats, and at most least = {self.least}"
            )
        if self.relative_error is not None and not self.relative_error > 0:
            raise EvaluatorError(f"relative_error = {self.relative_error}: expected more than 0")
        if self.slow_ratio is not None and not self.slow_ratio > 1:
            raise EvaluatorError(f"slow_ratio = {self.slow_ratio}: expected more than 1")

    @classmethod
    def from_table(cls, table: Table, least: int) -> Repeats:
        """Read the keys ``repeats``, ``first_repeats``, ``max_repeats``, ``relative_error`` and ``slow_ratio``.

        Args:
            table: The evaluator's table.
            least: Default of ``repeats``.

        Raises:
            RunFileError: A value is wrong, or only one of ``max_repeats`` and ``relative_error`` is given.
        """
        least, first, most, error, slow = table.values(repeats_keys(least)).values()
        if first is not None and first > least:
            raise table.error("first_repeats", first, f"a whole number from 2 to repeats = {least}")
        if table.has("max_repeats") != table.has("relative_error"):
            raise table.error(
                "relative_error", table.entries.get("relative_error"), "both it and max_repeats"
            )
        if most is None:
            return cls(least, least, slow_ratio=slow, first=first)
        if most < least:
            raise table.error("max_repeats", most, f"a whole number, {least} or more")
        return cls(least, most, error, slow, first)

    @property
    def is_adaptive(self) -> bool:
        """Whether the number of measurements depends on their values."""
        return (self.relative_error, self.slow_ratio, self.first) != (None, None, None)

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
        """Whether ``first`` values or more leave open that the configuration is better than the best value."""
        if self.first is None or len(values) < self.first or (best is not None and best <= 0):
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
                ``first`` saves nothing.
        """
        if self.is_slow(values, best) or not (is_cheap or self.may_win(values, best)):
            return 0
        if len(values) < self.least:
            return self._next_total(values) - len(values)
        if self.relative_error is None or len(values) >= self.most:
            return 0
        if len(values) < 2:
            return 1
        return min(self._count_needed(values), self.most) - len(values)

    def _next_total(self, values: Sequence[float]) -> int:
        """Return the number of values after the next ones: ``least``, or a step towards it."""
        return (
            self.least if self.first is None else min(self.least, max(self.first, 2 * len(values)))
        )

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
