"""How many times a configuration is measured: until its value is precise enough, or is clearly too slow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from baco_like.evaluators.settings_table import POSITIVE, Key, Shape, Table, whole
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import median, standard_error

_ABOVE_ONE: Shape = {"type": "number", "exclusiveMinimum": 1}


def repeats_keys(least: int) -> tuple[Key, ...]:
    """Return the keys of a table that `Repeats.from_table` reads; ``least`` is the default of ``repeats``."""
    return (
        Key("repeats", whole(1), "measurements of every configuration", default=least),
        Key("max_repeats", whole(1), "largest number of measurements; needs `relative_error`"),
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


@dataclass(frozen=True)
class Repeats:
    """A rule for the number of measurements.

    Without the last two fields every configuration is measured ``least`` times. With ``relative_error`` the
    measurements continue, up to ``most``, until the standard error of the mean is at most this fraction of the median.
    After the first ``least`` values (at least two) their spread predicts the total number needed, as the standard
    error falls with the square root of the number.

    Attributes:
        least: Number of measurements of every configuration.
        most: Largest number of measurements.
        relative_error: Standard error over median at which the measurements end, or None.
        slow_ratio: A configuration whose every measurement exceeds ``slow_ratio`` times the best median is not
            measured again; its value is censored. Above 1, and only for objectives that are minimised. None: never.
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
            least: Default of ``repeats``.

        Raises:
            RunFileError: A value is wrong, or only one of ``max_repeats`` and ``relative_error`` is given.
        """
        least, most, error, slow = table.values(repeats_keys(least)).values()
        if table.has("max_repeats") != table.has("relative_error"):
            raise table.error(
                "relative_error", table.entries.get("relative_error"), "both it and max_repeats"
            )
        if most is None:
            return cls(least, least, slow_ratio=slow)
        if most < least:
            raise table.error("max_repeats", most, f"a whole number, {least} or more")
        return cls(least, most, error, slow)

    def limit(self, best: float | None) -> float | None:
        """Return the value above which a configuration is clearly slower than the best median, or None."""
        if self.slow_ratio is None or best is None or best <= 0:
            return None
        return self.slow_ratio * best

    def is_slow(self, values: Sequence[float], best: float | None) -> bool:
        """Whether there are values and all exceed the `limit`."""
        limit = self.limit(best)
        return limit is not None and bool(values) and min(values) > limit

    def stopped_early(self, values: Sequence[float], best: float | None) -> str | None:
        """Return the message of the censored outcome if a slow configuration was measured fewer times, else None."""
        if len(values) >= self.most or not self.is_slow(values, best):
            return None
        return (
            f"stopped after {len(values)} of {self.most} repeats: more than {self.slow_ratio:g} times the best, "
            f"{best:.6g}"
        )

    def missing(self, values: Sequence[float], best: float | None) -> int:
        """Return how many more measurements to make now; 0 means that no more are needed.

        Args:
            values: The values so far; at least one after the first call.
            best: Median of the best configuration so far, or None.
        """
        if self.is_slow(values, best):
            return 0
        if len(values) < self.least:
            return self.least - len(values)
        if self.relative_error is None or len(values) >= self.most:
            return 0
        if len(values) < 2:
            return 1
        return min(self._needed(values), self.most) - len(values)

    def _needed(self, values: Sequence[float]) -> int:
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
