"""Fronts of several objectives, against definitions that try all points."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from baco_like.records.front import (
    crowding_distances,
    hypervolume,
    is_non_dominated,
    iterate_fronts,
    knee,
    non_dominated_boxes,
)

ROWS = st.integers(1, 4).flatmap(
    lambda m: hnp.arrays(
        float, st.tuples(st.integers(0, 8), st.just(m)), elements=st.integers(0, 5).map(float)
    )
)
"""Few distinct values, so that there are ties and equal rows."""

ODD_ROWS = st.lists(
    st.tuples(*[st.sampled_from([0.0, 1.0, 2.0, 3.0, np.inf, np.nan])] * 2), max_size=12
).map(lambda rows: np.array(rows).reshape(-1, 2))
"""Two objectives, which have their own fast way, with infinities and NaN."""


@given(ROWS | ODD_ROWS)
def test_non_dominated_rows_are_those_that_no_row_dominates(costs):
    expected = [
        not np.isnan(row).any()
        and not any((other <= row).all() and (other < row).any() for other in costs)
        for row in costs
    ]
    assert is_non_dominated(costs).tolist() == expected


@given(ROWS)
def test_each_front_is_what_no_row_dominates_without_the_ones_before(costs):
    left = np.arange(len(costs))
    for front in iterate_fronts(costs):
        expected = is_non_dominated(costs[left])
        assert sorted(front) == left[expected].tolist()
        left = left[~expected]
    assert not len(left)


def test_the_ends_and_the_sparse_parts_of_a_front_come_first():
    costs = np.array([[0.0, 10.0], [2.0, 4.0], [3.0, 3.0], [10.0, 0.0], [np.nan, 0.0]])
    (front,) = iterate_fronts(costs)
    assert front.tolist() == [0, 3, 2, 1]
    (front,) = iterate_fronts(costs, costs[:, [1, 1]])
    assert front.tolist() == [0, 3, 1, 2]


def test_the_crowding_distance_is_that_of_the_neighbours():
    costs = np.array([[0.0, 10.0], [1.0, 5.0], [4.0, 1.0], [10.0, 0.0]])
    expected = [np.inf, 0.4 + 0.9, 0.9 + 0.5, np.inf]
    assert crowding_distances(costs) == pytest.approx(expected)


def test_failures_are_the_last_front_and_crowded():
    costs = np.array([[np.inf, np.inf], [2.0, 2.0], [np.inf, np.inf], [3.0, 3.0]])
    assert [front.tolist() for front in iterate_fronts(costs)] == [[1], [3], [0, 2]]
    assert crowding_distances(costs[[0, 2]]).tolist() == [0.0, 0.0]


@given(ROWS, st.integers(0, 2**31))
def test_boxes_fill_the_region_that_no_row_dominates_once(costs, seed):
    reference = np.full(costs.shape[1], 5.5)
    front = costs[is_non_dominated(costs)]
    lower, upper = non_dominated_boxes(front, reference)
    points = np.random.default_rng(seed).uniform(-1.0, 6.0, (300, costs.shape[1]))
    dominated = (front[None] <= points[:, None]).all(axis=2).any(axis=1)
    counts = ((points[:, None] >= lower) & (points[:, None] < upper)).all(axis=2).sum(axis=1)
    assert counts.tolist() == ((points < reference).all(axis=1) & ~dominated).tolist()


@pytest.mark.parametrize(("objectives", "most"), [(2, 9), (3, 17)])
def test_the_number_of_boxes_grows_linearly(objectives, most):
    rng = np.random.default_rng(0)
    points = rng.random((200, objectives))
    front = points[is_non_dominated(points)][:8]
    assert len(non_dominated_boxes(front, np.full(objectives, 2.0))[0]) <= most


@given(ROWS)
def test_hypervolume_is_what_the_boxes_leave(costs):
    reference = np.full(costs.shape[1], 5.5)
    front = costs[is_non_dominated(costs)]
    lower, upper = non_dominated_boxes(front, reference)
    left = np.prod(upper - np.maximum(lower, -1.0), axis=1).sum()
    assert hypervolume(costs, reference) == pytest.approx(6.5 ** costs.shape[1] - left)


def test_points_beyond_the_reference_add_nothing():
    costs = np.array([[1.0, 3.0], [3.0, 1.0], [9.0, 0.0]])
    assert hypervolume(costs, np.array([4.0, 4.0])) == 3.0 * 1.0 + 1.0 * 3.0 - 1.0


def test_the_knee_is_near_the_best_of_both():
    costs = np.array([[1.0, 100.0], [2.0, 3.0], [100.0, 1.0], [3.0, 4.0]])
    assert knee(costs) == 1
    assert knee(costs, np.array([10.0, 1.0])) == 0
    assert knee(-costs[:, ::-1], np.array([0.0, 1.0])) == 2


def test_the_knee_of_values_with_both_signs():
    assert knee(np.array([[-1.0, 5.0], [0.0, 0.0], [5.0, -1.0]])) == 1
