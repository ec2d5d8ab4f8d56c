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

from baco_like._typing import Array, Codes, Mask
from baco_like.acquisitions.optimizers.protocol import AcquisitionOptimizer, IsExcluded
from baco_like.acquisitions.protocol import Score
from baco_like.spaces.rows import drop_duplicates
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
    optimizer: AcquisitionOptimizer,
    space: Space,
    n: int,
    is_excluded: IsExcluded = exclude_none,
    start: int = 3,
) -> Codes:
    rng = np.random.default_rng(3)
    rows = space.feasible.sample(start, rng)
    return optimizer.maximise(make_score(space), space, n, rng, rows, is_excluded)


def rows_are_distinct_feasible_free_and_sorted(
    optimizer: AcquisitionOptimizer, space: Space
) -> None:
    """At most n rows come back, distinct, feasible, not excluded, best first; with and without start rows."""
    excluded = {row.tobytes() for row in space.feasible.sample(20, np.random.default_rng(1))}

    def is_excluded(codes: Codes) -> Mask:
        return np.array([row.tobytes() in excluded for row in codes], bool)

    for start in (0, 3):
        rows = _maximise(optimizer, space, 5, is_excluded, start)
        assert rows.shape[1] == space.width, "rows have the width of the space"
        assert len(rows) <= 5, "at most n rows are returned"
        assert len(rows) or space.feasible.count == 1, "at least one row is returned if one is free"
        assert len(drop_duplicates(rows)) == len(rows), "the rows are distinct"
        assert space.feasible.contains(rows).all(), "the rows are feasible"
        assert not is_excluded(rows).any(), "excluded rows are not returned"
        scores = make_score(space)(rows)
        scores[np.isnan(scores)] = -np.inf
        assert (scores[1:] <= scores[:-1]).all(), "the rows are sorted by score, best first"


def nothing_free_gives_nothing(optimizer: AcquisitionOptimizer, space: Space) -> None:
    """If every row is excluded, the result has no row."""
    assert _maximise(optimizer, space, 2, exclude_all).shape == (0, space.width), (
        "if every row is excluded, an array of shape (0, width) is returned"
    )


def generator_decides(optimizer: AcquisitionOptimizer, space: Space) -> None:
    """Equal generators give equal rows."""
    first, second = (_maximise(optimizer, space, 4) for _ in range(2))
    np.testing.assert_array_equal(first, second, err_msg="equal generators give equal rows")


def more_rows_than_exist_can_be_requested(optimizer: AcquisitionOptimizer, space: Space) -> None:
    """If n exceeds the number of configurations, the result has at most all of them; for spaces up to 400."""
    count = space.feasible.count
    if count is not None and count <= 400:
        assert len(_maximise(optimizer, space, count + 5)) <= count, (
            "at most all feasible rows are returned"
        )


def arguments_do_not_change(optimizer: AcquisitionOptimizer, space: Space) -> None:
    """The start rows are left unchanged."""
    start = space.feasible.sample(4, np.random.default_rng(0))
    before = start.copy()
    rng = np.random.default_rng(0)
    optimizer.maximise(make_score(space), space, 2, rng, start, exclude_none)
    np.testing.assert_array_equal(start, before, err_msg="the start rows are left unchanged")


CHECKS: tuple[Check, ...] = (
    rows_are_distinct_feasible_free_and_sorted,
    nothing_free_gives_nothing,
    generator_decides,
    more_rows_than_exist_can_be_requested,
    arguments_do_not_change,
)
