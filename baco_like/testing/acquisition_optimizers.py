"""Conformance suite for acquisition optimizers.

`CHECKS` lists functions of an acquisition optimizer and a space; a check that fails raises `AssertionError`. Run them
on your own::

    from baco_like.testing import acquisition_optimizers

    @pytest.mark.parametrize("check", acquisition_optimizers.CHECKS)
    def test_my_acquisition_optimizer(check):
        check(MyAcquisitionOptimizer(), space)
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.testing import assert_array_equal

from baco_like._typing import Array, Codes, Mask
from baco_like.acquisitions.functions import comparable
from baco_like.acquisitions.protocol import AcquisitionOptimizer, IsExcluded, Score
from baco_like.records.rows import row_keys
from baco_like.spaces.space import Space

Check = Callable[[AcquisitionOptimizer, Space], None]


def exclude_none(codes: Codes) -> Mask:
    """Return False for every row."""
    return np.zeros(len(codes), bool)


def exclude_all(codes: Codes) -> Mask:
    """Return True for every row."""
    return np.ones(len(codes), bool)


def make_score(space: Space, seed: int = 0) -> Score:
    """Return a score with few levels, ties, NaN and -inf, smooth in reals; it accepts feasible rows only."""
    features = space.features(space.feasible.sample(1, np.random.default_rng(seed)))

    def score(codes: Codes) -> Array:
        assert space.feasible.contains(codes).all(), "the score was called with an infeasible row"
        difference = space.features(codes) - features
        values = -np.round(4 * np.abs(difference)).sum(axis=1)
        if space.size == math.inf:
            values -= (difference**2).sum(axis=1)
        values[values == -3.0] = np.nan
        values[values < -6.0] = -np.inf
        return np.asarray(values)

    return score


def _maximise(
    optimizer: AcquisitionOptimizer, space: Space, n: int, excluded: IsExcluded, starts: int = 3
) -> Codes:
    rng = np.random.default_rng(3)
    rows = space.feasible.sample(starts, rng)
    before = rows.copy()
    best, scores = optimizer.maximise(make_score(space), space, n, rng, rows, excluded)
    assert_array_equal(rows, before, "the start rows are left unchanged")
    expected = make_score(space)(best)
    assert_array_equal(comparable(scores), comparable(expected), "the scores are those of the rows")
    return best


def rows_are_distinct_feasible_free_and_sorted(
    optimizer: AcquisitionOptimizer, space: Space
) -> None:
    """At most n rows come back, distinct, feasible, not excluded, best first; with and without start rows."""
    excluded = set(row_keys(space.feasible.sample(20, np.random.default_rng(1))))

    def is_excluded(codes: Codes) -> Mask:
        return np.array([key in excluded for key in row_keys(codes)], bool)

    for starts in (0, 3):
        rows = _maximise(optimizer, space, 5, is_excluded, starts)
        assert rows.shape[1] == space.width, "rows have the width of the space"
        assert len(rows) <= 5, "at most n rows are returned"
        assert len(rows) or space.feasible.count == 1, "at least one row is returned if one is free"
        assert len(set(row_keys(rows))) == len(rows), "the rows are distinct"
        assert space.feasible.contains(rows).all(), "the rows are feasible"
        assert not is_excluded(rows).any(), "excluded rows are not returned"
        scores = np.nan_to_num(make_score(space)(rows), nan=-np.inf, neginf=-np.inf)
        assert (scores[1:] <= scores[:-1]).all(), "the rows are sorted by score, best first"


def nothing_free_gives_nothing(optimizer: AcquisitionOptimizer, space: Space) -> None:
    """If every row is excluded, the result has no row."""
    rows = _maximise(optimizer, space, 2, exclude_all)
    assert rows.shape == (0, space.width), "no row is returned if every row is excluded"


def generator_decides(optimizer: AcquisitionOptimizer, space: Space) -> None:
    """Equal generators give equal rows."""
    first, second = (_maximise(optimizer, space, 4, exclude_none) for _ in range(2))
    assert_array_equal(first, second, "equal generators give equal rows")


def more_rows_than_exist_can_be_requested(optimizer: AcquisitionOptimizer, space: Space) -> None:
    """If n exceeds the number of configurations, the result has at most all of them; for spaces up to 400."""
    count = space.feasible.count
    if count is not None and count <= 400:
        rows = _maximise(optimizer, space, count + 5, exclude_none)
        assert len(rows) <= count, "at most all feasible rows are returned"


CHECKS: tuple[Check, ...] = (
    rows_are_distinct_feasible_free_and_sorted,
    nothing_free_gives_nothing,
    generator_decides,
    more_rows_than_exist_can_be_requested,
)
