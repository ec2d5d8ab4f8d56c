from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like.benchmarking import score as sc

COSTS = st.lists(
    st.integers(1, 50).map(float) | st.just(float("nan")), min_size=2, max_size=9
).filter(lambda row: any(v == v for v in row))


@given(COSTS, st.data())
def test_random_curve_is_the_mean_over_all_samples(costs, data):
    k = data.draw(st.integers(1, len(costs)))
    best = [np.nanmin(s) for s in combinations(costs, k) if not np.isnan(s).all()]
    assert sc.random_curve(costs, len(costs))[k - 1] == pytest.approx(np.mean(best))


def test_random_curve_rejects_more_draws_than_configurations():
    with pytest.raises(ValueError, match="evaluations = 3"):
        sc.random_curve([1.0, 2.0], 3)


def test_budget_by_hand():
    """Of 1..100 the target is 1 + 49.5 * 0.05 = 3.475: index 97 from the worst, 97 / 4 evaluations, rounded up."""
    assert sc.budget(np.arange(1.0, 101.0)) == 25


def test_the_second_best_counts_if_only_the_optimum_is_good_enough():
    """Index 9 would be the optimum; index 8 from the worst takes 8 / 3 evaluations."""
    assert sc.budget([1.0, *range(100, 109)]) == 3


@pytest.mark.parametrize("costs", [[2.0, 2.0], [np.nan, np.nan], []])
def test_budget_needs_differences(costs):
    with pytest.raises(ValueError, match="all the same"):
        sc.budget(costs)


def baseline(rng, n=400):
    costs = np.exp(rng.normal(size=n))
    costs[::7] = np.nan
    return sc.Baseline.from_costs(costs, rng.uniform(0.1, 2.0, n))


def test_optimum_at_once_is_one_and_the_baseline_itself_is_zero():
    base = baseline(np.random.default_rng(0))
    last = base.evaluations()[1]
    assert sc.score(np.full((3, last), base.optimum), base).mean == 1.0
    random = base.at_evaluations(np.arange(1, last + 1))[None]
    assert sc.score(random, base).mean == 0.0


def test_random_search_scores_about_zero_over_time_and_more_over_evaluations():
    """The median rank of the best of k draws is about ln 2 of the mean rank, which the baseline is."""
    rng = np.random.default_rng(1)
    base = baseline(rng)
    curves = sc.best_so_far([rng.permutation(base.costs)[:120] for _ in range(400)])
    times = np.cumsum(np.full((400, 120), base.seconds), axis=1)
    assert abs(sc.score_over_time(curves, times, base, points=500).mean) < 0.1
    assert 0.1 < sc.score(curves, base).mean < 0.3


def test_runs_that_end_early_keep_their_last_best():
    base = baseline(np.random.default_rng(0))
    curves = np.fmin.accumulate(np.random.default_rng(2).permutation(base.costs)[None, :5], axis=1)
    longer = np.pad(curves, ((0, 0), (0, 300)), mode="edge")
    assert np.array_equal(sc.score(curves, base).scores, sc.score(longer, base).scores)


def test_without_any_success_the_cost_is_the_worst():
    base = baseline(np.random.default_rng(0))
    curves = np.full((4, 200), np.nan)
    assert set(sc.score(curves, base).costs) == {base.costs[-1]}


def test_points_where_random_search_is_at_the_optimum_do_not_count():
    base = sc.Baseline.from_costs(np.arange(1.0, 11.0))
    first, last = base.evaluations(1.0)
    assert base.at_evaluations(last) == base.optimum < base.at_evaluations(first)
    curves = np.full((2, last), 1.5)
    assert sc.score(curves, base, cutoff=1.0).at.max() < last
    with pytest.raises(ValueError, match="too small"):
        sc.score(curves, sc.Baseline.from_costs([1.0, 2.0]))


def test_a_score_over_time_needs_times():
    base = sc.Baseline.from_costs([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="no seconds"):
        sc.score_over_time(np.ones((1, 3)), np.ones((1, 3)), base)
    timed = sc.Baseline.from_costs([1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="shape"):
        sc.score_over_time(np.ones((1, 3)), np.ones((1, 2)), timed)
    with pytest.raises(ValueError, match="no run has a success"):
        sc.score_over_time(np.ones((1, 3)), np.full((1, 3), 99.0), timed)


def test_a_run_without_success_changes_nothing_over_time():
    rng = np.random.default_rng(3)
    base = baseline(rng)
    curves = sc.best_so_far([rng.permutation(base.costs)[:60] for _ in range(20)])
    times = np.cumsum(np.full(curves.shape, 0.5), axis=1)
    more = np.vstack([curves, np.full((1, 60), np.nan)]), np.vstack([times, times[:1]])
    with_it = sc.score_over_time(*more, base, points=100)
    assert with_it.mean == pytest.approx(sc.score_over_time(curves, times, base, points=100).mean)


def test_slower_runs_score_less_over_time():
    rng = np.random.default_rng(3)
    base = baseline(rng)
    curves = sc.best_so_far([rng.permutation(base.costs)[:60] for _ in range(20)])
    times = np.cumsum(np.full(curves.shape, 0.5), axis=1)
    fast, slow = (sc.score_over_time(curves, f * times, base, points=300) for f in (1, 3))
    assert slow.mean < fast.mean


def test_aggregates_give_every_space_the_same_weight():
    one = sc.Performance(np.array([1.0, 2.0]), np.array([0.0, 1.0]), np.zeros(2))
    two = sc.Performance(np.array([5.0, 6.0, 7.0]), np.array([1.0, 1.0, 1.0]), np.zeros(3))
    assert sc.aggregate([one, two]) == 0.75
    shares, scores = sc.aggregate_curve([one, two], points=3)
    assert shares.tolist() == [0, 0.5, 1]
    assert scores.tolist() == [0.5, 0.75, 1.0]


def test_best_so_far_keeps_shorter_runs():
    curves = sc.best_so_far([[None, 3.0, 4.0, 2.0], [5.0]])
    assert np.array_equal(curves, [[np.nan, 3, 3, 2], [5, 5, 5, 5]], equal_nan=True)
    with pytest.raises(ValueError, match="a run has no evaluation"):
        sc.best_so_far([[1.0], []])


def test_fractions_of_the_optimum():
    assert sc.fraction_of_optimum(np.array([[np.nan, 4.0, 2.0]]), 2.0).tolist() == [[0, 0.5, 1]]
    assert sc.fraction_of_optimum(np.array([-50.0, -100.0]), -100.0).tolist() == [0.5, 1]
    with pytest.raises(ValueError, match="optimum = 0"):
        sc.fraction_of_optimum(np.ones(2), 0.0)
    with pytest.raises(ValueError, match="optimum = -2"):
        sc.fraction_of_optimum(np.array([1.0, -1.0]), -2.0)


def test_at_budgets():
    curves = np.array([[4.0, 3.0, 2.0]])
    assert sc.at_budgets(curves, [1, 3, 99]).tolist() == [[4, 2, 2]]
    with pytest.raises(ValueError, match="budgets"):
        sc.at_budgets(curves, [0])


def test_mean_absolute_error_of_the_paper():
    """Curves 220 - t: at 40, 60, ... 220 the errors are 180, 160, ... 0."""
    curves = 220 - np.arange(1.0, 221.0)[None]
    assert sc.mean_absolute_error(curves, 0.0).tolist() == [90.0]
    with pytest.raises(ValueError, match="219"):
        sc.mean_absolute_error(curves[:, :219], 0.0)


def test_mean_deviation_factor():
    means, spreads = sc.mean_deviation_factor([[1.0, 30.0], [3.0, 10.0]])
    assert means.tolist() == [1.0, 1.0]
    assert spreads.tolist() == [0.5, 0.5]
