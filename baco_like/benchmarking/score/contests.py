"""Who is better, and how sure that is: wins by t-test and bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from baco_like._typing import Array, Ints, Mask, Rng


def wins(samples: Sequence[npt.ArrayLike], alpha: float = 0.05) -> Mask:
    """Return which strategies are significantly better than which others, on one space and budget.

    Student's two-sample t-test with pooled variance, two-sided ("Benchmarking optimization algorithms", section VI-B
    and Table IV).

    Args:
        samples: The cost that each run reached (minimised), ``(runs,)`` per strategy, two runs or more.
        alpha: Level of significance.

    Returns:
        ``(strategies, strategies)``: row i, column j says whether i beats j.

    Raises:
        ValueError: A strategy has fewer than two runs, or a cost is not finite.
    """
    from scipy.special import stdtr

    rows = [np.asarray(sample, dtype=float) for sample in samples]
    for number, row in enumerate(rows):
        if len(row) < 2 or not np.isfinite(row).all():
            raise ValueError(
                f"samples[{number}] needs two finite costs or more; a run without a success counts as the worst cost"
            )
    count = np.array([len(row) for row in rows])
    mean = np.array([row.mean() for row in rows])
    scatter = np.array([((row - row.mean()) ** 2).sum() for row in rows])
    freedom = count[:, None] + count - 2
    error = np.sqrt((scatter[:, None] + scatter) / freedom * (1 / count[:, None] + 1 / count))
    gain = mean - mean[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * stdtr(freedom, -np.abs(gain / error))
    significant = np.where(error > 0, p < alpha, gain != 0)
    return np.asarray(significant & (gain > 0))


def totals(contests: Sequence[Mask]) -> tuple[Ints, Ints]:
    """Return the wins and the losses of each strategy over several `wins`, ``(strategies,)`` each (Table IV)."""
    table = np.sum(np.asarray(contests, dtype=np.int64), axis=0)
    return table.sum(axis=1), table.sum(axis=0)


def bootstrap_interval(
    statistic: Callable[[Sequence[Array]], float],
    samples: Sequence[Array],
    rng: Rng,
    *,
    level: float = 0.95,
    resamples: int = 1000,
) -> tuple[float, float]:
    """Return a percentile bootstrap interval of a statistic of some samples.

    Args:
        statistic: Takes the samples, or resampled ones, in their order.
        samples: Each is resampled along its first axis (the runs), independently of the others: one array of curves
            for a space's score, one per space for an aggregate.
        rng: Chance.
        level: The interval holds this share of the resampled statistics.
        resamples: How often.

    Raises:
        ValueError: The level is not between 0 and 1, or there is no resample.
    """
    if not 0 < level < 1 or resamples < 1:
        raise ValueError(
            f"level = {level}, resamples = {resamples}; give 0 < level < 1, resamples > 0"
        )
    drawn = [
        statistic([s[rng.integers(len(s), size=len(s))] for s in samples]) for _ in range(resamples)
    ]
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
