"""Friedman's test with Conover's comparisons: the candidates of a race that are worse than the best."""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array, Mask


def worse_than_best(costs: Array, level: float) -> Mask:
    """Return which candidates are worse than the one with the least sum of ranks, ``(m,)``.

    Candidates are ranked within each block; ties get their mean rank. If Friedman's test at this level finds
    differences, a candidate is worse if its sum of ranks exceeds the least one by more than Conover's critical
    difference (Conover 1999, section 5.8; the test of F-Race, Birattari et al. 2002).

    Args:
        costs: One row per block, one column per candidate, ``(b, m)`` with b, m >= 2.
        level: Probability of an error of the first kind.
    """
    from scipy.special import chdtrc, stdtrit

    blocks, m = costs.shape
    ranks = mean_ranks(costs)
    sums = ranks.sum(axis=0)
    squares = float((ranks**2).sum())
    centre = blocks * m * (m + 1) ** 2 / 4.0
    if squares <= centre:  # all candidates are tied in every block
        return np.zeros(m, dtype=np.bool_)
    statistic = (m - 1) * float(((sums - blocks * (m + 1) / 2.0) ** 2).sum()) / (squares - centre)
    if chdtrc(m - 1, statistic) >= level:
        return np.zeros(m, dtype=np.bool_)
    freedom = (blocks - 1) * (m - 1)
    variance = 2.0 * max(0.0, blocks * squares - float((sums**2).sum())) / freedom
    critical = float(stdtrit(freedom, 1.0 - level / 2.0)) * np.sqrt(variance)
    return np.asarray(sums - sums.min() > critical)


def mean_ranks(costs: Array) -> Array:
    """Return the ranks from 1 within each row, ties by their mean rank, ``(b, m)`` -> ``(b, m)``."""
    others, own = costs[:, None, :], costs[:, :, None]
    below, equal = (others < own).sum(axis=2), (others == own).sum(axis=2)
    return np.asarray(below + (equal + 1.0) / 2.0)
