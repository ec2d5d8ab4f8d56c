"""How often a configuration is measured: until its value is known well enough, or is clearly not worth it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from baco_like.evaluators.settings_table import Table
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import median, standard_error

KEYS = ("repeats", "max_repeats", "relative_error", "slow_ratio")


@dataclass(frozen=True)
class Repeats:
    """A rule of repeats.

    Without further fields every configuration is measured ``least`` times. With a relative error it goes on until the
    standard error of the mean is at most so much of the median, up to ``most`` times; after the first ``least`` values
    (two, if that is one) the number still needed follows from their spread, as the standard error falls with the square
    root of the number.

    Attributes:
        least: Measurements of every configuration.
        most: Measurements at most; ``least`` where nothing asks for more.
        relative_error: Standard error over median that is small enough, or None.
        slow_ratio: A configuration of which every value so far is more than so many times the best median is not
            measured again: its value is censored. Above 1; only where less is better. None: never.
    """

    least: int = 1
    most: int = 1
    relative_error: float | None = None
    slow_ratio: float | None = None

    def __post_init__(self) -> None:
        if self.least < 1:
            raise EvaluatorError(f"least = {self.least}: expected 1 or more repeats")
        if self.relative_error is not None and not self.relative_error > 0:
            raise EvaluatorError(f"relative_error = {self.relative_error}: expected more than 0")
        if self.slow_ratio is not None and not self.slow_ratio > 1:
            raise EvaluatorError(f"slow_ratio = {self.slow_ratio}: expected more than 1")

    @classmethod
    def from_table(cls, table: Table, least: int) -> Repeats:
        """Read the keys ``repeats``, ``max_repeats``, ``relative_error`` and ``slow_ratio``.

        Args:
            table: The evaluator's table.
            least: Repeats where the table does not say.

        Raises:
            RunFileError: A value is wrong, or one of ``max_repeats`` and ``relative_error`` lacks the other.
        """
        least = table.whole("repeats", least, low=1)
        if table.has("max_repeats") != table.has("relative_error"):
            raise table.wrong(
                "relative_error", table.entries.get("relative_error"), "both it and max_repeats"
            )
        slow = table.positive("slow_ratio") if table.has("slow_ratio") else None
        if slow is not None and slow <= 1:
            raise table.wrong("slow_ratio", slow, "a number above 1")
        if not table.has("max_repeats"):
            return cls(least, least, slow_ratio=slow)
        most = table.whole("max_repeats", low=least)
        return cls(least, most, table.positive("relative_error"), slow)

    def limit(self, best: float | None) -> float | None:
        """Return the value above which a configuration is clearly slower than the best median so far, or None."""
        if self.slow_ratio is None or best is None or best <= 0:
            return None
        return self.slow_ratio * best

    def hopeless(self, values: Sequence[float], best: float | None) -> bool:
        """Whether there are values, and all are above the `limit`."""
        limit = self.limit(best)
        return limit is not None and bool(values) and min(values) > limit

    def missing(self, values: Sequence[float], best: float | None) -> int:
        """Return how many more measurements are wanted now; 0 is the end.

        Args:
            values: Those so far, at least one after the first call.
            best: Median of the best configuration so far.
        """
        if len(values) < self.least:
            return 0 if self.hopeless(values, best) else self.least - len(values)
        if self.relative_error is None or len(values) >= self.most or self.hopeless(values, best):
            return 0
        if len(values) < 2:
            return 1
        return min(self._needed(values), self.most) - len(values)

    def _needed(self, values: Sequence[float]) -> int:
        """Return how many there must be in all for the error; not more than twice as many as there are."""
        assert self.relative_error is not None
        error, middle = standard_error(tuple(values)), abs(median(tuple(values)))
        if error is None or error <= self.relative_error * middle:
            return len(values)
        if middle == 0:
            return 2 * len(values)
        factor = min((error / middle / self.relative_error) ** 2, 2.0)
        return max(len(values) + 1, math.floor(len(values) * factor))
