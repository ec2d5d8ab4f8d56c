"""Compare a few noisy configurations that are measured alternately, in rounds, until the ranking is decided.

Values are compared within rounds: the difference of two configurations in the same round does not contain the slow
drift of the machine. Positive values are compared by their logarithms, so a difference is a ratio.

The comparison may be looked at after every round and may end at any round, because its intervals are *confidence
sequences*: they cover the true difference at all rounds together with the stated probability. A fixed-sample t
interval that is looked at repeatedly does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from baco_like._random import Purpose, generator
from baco_like._typing import Array, Mask

_EFFECT_VARIANCE = 30.0
"""Prior variance of the mixture, in squared standard deviations of one difference.

Of 3, 10, 30 and 100 it gave the shortest intervals at 4 to 6 rounds, where confirmations end; at 20 rounds they are
5 % longer than with 10.
"""

_PRECISE = 0.05
"""Half width of the winner's speed-up, as a logarithm, above which a decided race continues while its budget lasts."""

_SAME = 1e-12
"""Differences that vary less than this in all rounds are equal: rounding errors of logarithms are below it."""

_DISTURBED = 3.5 * 1.4826
"""Median absolute deviations from the median beyond which a value is disturbed.

The modified z-score of B. Iglewicz and D. Hoaglin, "How to detect and handle outliers" (1993), with their threshold.
"""


@dataclass(frozen=True)
class Speedup:
    """How many times better one configuration is than the default, with a confidence interval.

    Attributes:
        value: Geometric mean of the ratios in the rounds; above 1 if the configuration is better.
        low: Lower end of the interval; 0 while there are too few rounds.
        high: Upper end of the interval; infinity while there are too few rounds.
        search: The ratio of the values of the search, if the interval includes this change; else None. It does on a
            machine with changing load: the ratio varies within the rounds, and was another one in the search.
    """

    value: float
    low: float
    high: float
    search: float | None = None


def confidence_sequence(differences: Array, alpha: float) -> tuple[float, float]:
    """Return mean and half width of an interval for the mean of independent normal values of unknown variance.

    The intervals after 2, 3, 4, ... values cover the mean all at once with probability 1 - alpha, so the number of
    values may depend on them. They come from a likelihood ratio with a right Haar prior on the standard deviation,
    which cancels it (T. L. Lai, "On confidence sequences", Annals of Statistics 1976), mixed over a normal prior of
    variance g on mean / standard deviation (H. Wang and A. Ramdas, "Anytime-valid t-tests and confidence sequences for
    Gaussian means with unknown variance", arXiv:2310.03722, the Gaussian mixture). With n values and ``t`` the t
    statistic, the ratio is ``(1 + n g)^(-1/2) [(1 + t^2/(n-1)) / (1 + t^2/((n-1)(1 + n g)))]^(n/2)``; it exceeds
    1 / alpha at any n with at most probability alpha (Ville's inequality). The interval holds the means for which it
    does not.

    Args:
        differences: The values, shape (n,).
        alpha: Probability that any of the intervals misses the mean.

    Returns:
        Mean and half width. The half width is infinite with too few values, and 0 if three or more values are equal.
    """
    if not len(differences):
        return 0.0, math.inf
    means, halves = confidence_sequences(differences, alpha)
    return float(means[-1]), float(halves[-1])


def confidence_sequences(differences: Array, alpha: float) -> tuple[Array, Array]:
    """Return `confidence_sequence` after 1, 2, 3, ... of the values: means and half widths, both of shape (n,)."""
    n = np.arange(1.0, len(differences) + 1.0)
    # Small, so that their squares can be added up.
    shifted = np.subtract(differences, differences[0])
    means = np.cumsum(shifted) / n
    variances = np.maximum(np.cumsum(shifted**2) / n - means**2, 0.0)
    gain = 1.0 + n * _EFFECT_VARIANCE
    bound = (np.sqrt(gain) / alpha) ** (2.0 / n)
    left = 1.0 - bound / gain
    is_finite = (n > 1) & (left > 0.0)
    squared = (bound - 1.0) / np.where(is_finite, left, 1.0)  # t^2 / (n - 1) at the ends
    halves = np.where(is_finite, np.sqrt(variances * squared), math.inf)
    spread = np.maximum.accumulate(shifted) - np.minimum.accumulate(shifted)
    halves = np.where((n > 2) & (spread <= _SAME), 0.0, halves)
    halves = np.where((n == 2) & (spread <= _SAME), math.inf, halves)
    return differences[0] + means, halves


@dataclass(frozen=True)
class Standing:
    """The ranking of a race after its complete rounds.

    Attributes:
        remaining: Indices of the candidates that may be the best.
        winner: Index of the remaining candidate with the lowest level, or None before the first round.
        rounds: Number of complete rounds.
        is_decided: Whether each remaining candidate is the winner, or worse than it by at most the tolerance.
    """

    remaining: tuple[int, ...]
    winner: int | None
    rounds: int
    is_decided: bool


@dataclass(frozen=True)
class Race:
    """The values that each candidate has so far; the k-th value of each candidate belongs to round k.

    A candidate leaves when it is worse than the one with the lowest mean: its confidence sequence excludes zero, and
    its mean is worse by more than the tolerance. The best candidate leaves with at most probability 1 - confidence
    (Bonferroni over the other candidates). The default stays in all rounds, because the speed-ups refer to it.

    Other programs disturb few runs by much, and the mean of five rounds follows the candidate that was hit. Therefore
    the choice leaves out disturbed values: of the remaining candidates, the one with the lowest *level* (the mean of
    the others) wins. The intervals use all values: without the disturbed ones they are shorter, but too short for the
    true means (of 200 intervals after 60 rounds, 42 to 68 % covered them on three of the eight recorded data sets of
    `benchmarks/quality/confirmation.py`).

    Attributes:
        costs: For each candidate its costs, on the scale of the comparison.
        failed: Whether each candidate has failed.
        default: Index of the default configuration, or None.
        confidence: Joint probability of the intervals, such as 0.95.
        tolerance: Difference, on the scale of the comparison, that does not matter.
        is_log: Whether costs are logarithms.
        is_exact: Whether each measurement of a candidate gives the same value, so that intervals have no width.
    """

    costs: tuple[tuple[float, ...], ...]
    failed: tuple[bool, ...]
    default: int | None
    confidence: float
    tolerance: float
    is_log: bool
    is_exact: bool = False

    @classmethod
    def of(
        cls,
        values: Sequence[Sequence[float]],
        failed: Sequence[bool],
        default: int | None,
        sign: float,
        confidence: float,
        tolerance: float,
        exact: bool = False,
    ) -> Race:
        """Return the race of values in the user's unit.

        Args:
            values: For each candidate its values in the order of the rounds.
            failed: Whether each candidate has failed.
            default: Index of the default configuration, or None.
            sign: 1 if values are minimised, -1 if they are maximised.
            confidence: Joint probability of the intervals.
            tolerance: Relative difference that does not matter, such as 0.01.
            exact: Whether each measurement of a candidate gives the same value.
        """
        is_log = all(value > 0.0 for row in values for value in row)
        if is_log:
            costs = tuple(tuple(sign * math.log(value) for value in row) for row in values)
            return cls(
                costs, tuple(failed), default, confidence, math.log1p(tolerance), True, exact
            )
        costs = tuple(tuple(sign * value for value in row) for row in values)
        sizes = [abs(float(np.mean(row))) for row in costs if row]
        absolute = tolerance * min(sizes, default=0.0)
        return cls(costs, tuple(failed), default, confidence, absolute, False, exact)

    @property
    def alpha(self) -> float:
        """Probability that one interval misses its value."""
        return (1.0 - self.confidence) / max(1, len(self.costs) - 1)

    @property
    def measurements(self) -> int:
        """Number of values so far, failures included."""
        return sum(map(len, self.costs)) + sum(self.failed)

    @cached_property
    def standing(self) -> Standing:
        """The ranking after the complete rounds, found round by round, because candidates leave at any round."""
        remaining = [k for k, failed in enumerate(self.failed) if not failed]
        is_decided, n = len(remaining) < 1, 0
        while remaining and all(len(self.costs[k]) > n for k in remaining):
            n += 1
            best = min(remaining, key=lambda k: (self._means[k][n - 1], k))
            is_decided, stays = True, []
            for k in remaining:
                low, high = (0.0, 0.0) if k == best else self._difference(k, best, n)
                if low > 0.0 and (low + high) / 2.0 > self.tolerance:
                    continue
                stays.append(k)
                is_decided = is_decided and high <= self.tolerance
            remaining = stays
        levels = self._levels(n)
        winner = min(remaining, key=lambda k: (levels[k], k)) if n and remaining else None
        return Standing(tuple(remaining), winner, n, is_decided)

    def next_candidates(self, seed: int, start: int, budget: int, rounds: int | None) -> list[int]:
        """Return the candidates to measure next, in order: the rest of the round; none when the race ends.

        It ends when the ranking is decided and the speed-up of the winner is known to 5 %, or the budget is spent.

        Args:
            seed: The run's seed; with ``start`` it decides the order within each round.
            start: Number of evaluations before the race.
            budget: Largest number of measurements. A round that would exceed it does not begin.
            rounds: Largest number of rounds, or None.
        """
        standing = self.standing
        active = set(standing.remaining)
        if self.default is not None and not self.failed[self.default]:
            active.add(self.default)
        if not active:
            return []
        n = min(len(self.costs[k]) for k in active)
        waiting = [k for k in active if len(self.costs[k]) == n]
        is_sure = standing.is_decided and n > 0 and self._is_precise
        is_over = is_sure or (rounds is not None and n >= rounds)
        if is_over and len(waiting) == len(active):  # not within a round
            return []
        if self.measurements + len(waiting) > budget:
            return []
        order = generator(seed, Purpose.CONFIRM, start + n).permutation(len(self.costs))
        return [int(k) for k in order if k in waiting]

    def speedup(self, k: int) -> Speedup | None:
        """Return how many times better candidate k is than the default.

        None without a default, without values of both, or if a value is not positive.
        """
        if self.default is None or not self.is_log:
            return None
        if k == self.default:
            return Speedup(1.0, 1.0, 1.0) if self.costs[k] else None
        gains = self._gains(k)
        if not len(gains):
            return None
        mean, half = confidence_sequence(gains, self.alpha)
        half = 0.0 if self.is_exact else half
        high = math.inf if half == math.inf else math.exp(mean + half)
        return Speedup(math.exp(mean), math.exp(mean - half), high)

    def _gains(self, k: int) -> Array:
        """Return how much lower the cost of candidate k is than the default's, for each of their rounds, ``(n,)``."""
        assert self.default is not None
        n = min(len(self.costs[k]), len(self.costs[self.default]))
        return np.subtract(self.costs[self.default][:n], self.costs[k][:n])

    def is_tied_with_default(self, k: int) -> bool:
        """Return whether it is not shown that candidate k is better than the default.

        It is shown if its interval excludes 0, or by the one-sided t-test of the undisturbed rounds with the same error
        probability. The test is valid at the end of the budget only, which does not depend on the values; the interval,
        at any round, needs differences that are 2.7 times larger after five rounds.

        False without a default that has run, and with too few rounds for an interval.
        """
        if self.default is None or self.failed[self.default] or k == self.default:
            return False
        gains = self._gains(k)
        low, high = self._difference(self.default, k, len(gains))
        if low > 0.0 or math.isinf(high):
            return False
        kept = self._kept(len(gains))
        gains = gains[kept[k] & kept[self.default]]
        mean, count = float(np.mean(gains)), len(gains)
        if count < 2 or mean <= 0.0:
            return True
        from scipy.special import stdtr  # `import baco_like` loads no SciPy

        error = float(np.std(gains, ddof=1)) / math.sqrt(count)
        return error > 0.0 and float(stdtr(count - 1, -mean / error)) > self.alpha

    @property
    def _is_precise(self) -> bool:
        """Whether the interval of the winner's speed-up is short, or there is no speed-up."""
        winner = self.standing.winner
        speedup = None if winner is None else self.speedup(winner)
        return speedup is None or speedup.high <= speedup.value * math.exp(_PRECISE)

    def spread(self, k: int) -> float:
        """Return the standard deviation of the differences of candidate k from the default; 0 with fewer than two."""
        if self.default is None:
            return 0.0
        gains = self._gains(k)
        return float(np.std(gains, ddof=1)) if len(gains) > 1 else 0.0

    def loss(self, k: int) -> float:
        """Return by how much the level of candidate k exceeds the winner's; infinite if it left before the end."""
        standing = self.standing
        levels = self._levels(standing.rounds)
        if standing.winner is None or k not in levels:
            return math.inf
        return levels[k] - levels[standing.winner]

    def _levels(self, n: int) -> dict[int, float]:
        """Return the mean cost without disturbed values of each candidate that was in the first n rounds."""
        kept = self._kept(n)
        return {k: float(np.mean(np.array(self.costs[k][:n])[rows])) for k, rows in kept.items()}

    def _kept(self, n: int) -> dict[int, Mask]:
        """Return which of its first n values are not disturbed, (n,), of each candidate that was in so many rounds.

        A value is disturbed if it is far from the median of its candidate, by the spread of this candidate and of all
        candidates together: one that varies more than the others is not cut to its median.
        """
        if not n:
            return {}
        rows = {k: np.array(row[:n]) for k, row in enumerate(self.costs) if len(row) >= n}
        gaps = {k: np.abs(row - np.median(row)) for k, row in rows.items()}
        common = np.median(np.concatenate(list(gaps.values())))
        limits = {k: _DISTURBED * max(common, np.median(gap)) + _SAME for k, gap in gaps.items()}
        return {k: gap <= limits[k] for k, gap in gaps.items()}

    @cached_property
    def _means(self) -> list[list[float]]:
        """For each candidate its mean cost after each of its rounds."""
        return [(np.cumsum(row) / np.arange(1, len(row) + 1)).tolist() for row in self.costs]

    @cached_property
    def _sequences(self) -> dict[tuple[int, int], tuple[list[float], list[float]]]:
        return {}

    def _difference(self, k: int, other: int, n: int) -> tuple[float, float]:
        """Return the interval for the cost of candidate k minus the cost of another, after n rounds."""
        if not n:
            return -math.inf, math.inf
        if (k, other) not in self._sequences:
            length = min(len(self.costs[k]), len(self.costs[other]))
            differences = np.subtract(self.costs[k][:length], self.costs[other][:length])
            means, halves = confidence_sequences(differences, self.alpha)
            halves = 0.0 * means if self.is_exact else halves
            self._sequences[k, other] = ((means - halves).tolist(), (means + halves).tolist())
        lows, highs = self._sequences[k, other]
        return lows[n - 1], highs[n - 1]
