"""Feasibility, belief, contextual variance and Thompson draws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from baco_like import Integer, Space
from baco_like.acquisitions.functions import (
    ThompsonSampling,
    draw_minimum,
    weight_by_feasibility,
    weight_by_prior,
)
from baco_like.acquisitions.selectors import exploration_factor
from baco_like.surrogates.gp.gaussian_process import FixedGaussianProcess
from baco_like.surrogates.protocol import Data
from baco_like.testing.doubles import ChosenFeasibility

CODES = np.arange(6.0)[:, None]


def column(values):
    table = np.asarray(values, dtype=float)
    return lambda codes: table[codes[:, 0].astype(int)]


def test_weighting_by_feasibility_adds_the_logarithms():
    score = column([0.0, -1.0, -2.0, -3.0, 1.0, 2.0])
    chance = column([0.5, 0.2, 1.0, 0.9, 0.7, 0.3])
    found = weight_by_feasibility(score, ChosenFeasibility(chance), 0.0)(CODES)
    np.testing.assert_allclose(np.exp(found), np.exp(score(CODES)) * chance(CODES))


@given(
    st.lists(st.floats(-1e12, 700.0), min_size=6, max_size=6),
    st.lists(st.floats(0.0, 1.0), min_size=6, max_size=6),
    st.floats(0.0, 1.0),
)
def test_rows_below_the_minimum_rank_last_and_stay_ordered(scores, chances, minimum):
    found = weight_by_feasibility(column(scores), ChosenFeasibility(column(chances)), minimum)(
        CODES
    )
    assert np.all(np.isfinite(found))
    likely = np.array(chances) >= minimum
    if likely.any() and not likely.all():
        assert found[likely].min() > found[~likely].max()


def test_a_score_does_not_depend_on_the_other_rows():
    scorer = weight_by_feasibility(
        column([5.0, 4, 3, 2, 1, 0]), ChosenFeasibility(column([0.01] * 6)), 0.05
    )
    whole = scorer(CODES)
    assert np.all(np.diff(whole) < 0.0)
    np.testing.assert_array_equal([scorer(CODES[i : i + 1])[0] for i in range(6)], whole)


def test_rows_are_ordered_if_no_row_is_feasible():
    found = weight_by_feasibility(
        column([1.0, 2, 3, 4, 5, 6]), ChosenFeasibility(column([0.0] * 6)), 0.1
    )(CODES)
    assert np.all(np.diff(found) > 0.0)


def test_the_minimum_is_uniform_over_eleven_steps_from_zero():
    rng = np.random.default_rng(0)
    drawn = np.array([draw_minimum(rng, 0.4) for _ in range(2200)])
    assert drawn.min() == 0.0
    assert drawn.max() == pytest.approx(0.4)
    counts = np.unique(drawn, return_counts=True)[1]
    assert len(counts) == 11
    assert stats.chisquare(counts).pvalue > 0.001


def test_the_influence_of_the_prior_fades():
    belief = np.array([0.5, 0.3, 0.1, 0.05, 0.05, 0.0])
    log_belief = column(np.log(np.maximum(belief, 1e-300)))
    score = column(np.zeros(6))
    early = weight_by_prior(score, log_belief, 1, strength=10.0)(CODES)
    np.testing.assert_allclose(early, 10.0 * np.log(belief + 1e-6), rtol=1e-9)
    late = weight_by_prior(score, log_belief, 1000, strength=10.0)(CODES)
    np.testing.assert_allclose(late, 0.01 * np.log(belief + 1e-6), rtol=1e-9)
    np.testing.assert_allclose(weight_by_prior(score, log_belief, 0, strength=10.0)(CODES), early)


def test_exploration_factor_equals_the_formula_in_the_paper():
    # sigma^2 / (mu_s / f(x+)) / sigma_s^2
    assert exploration_factor(0.3, 8.0, 20.0, 0.6) == pytest.approx((0.3 / (20.0 / 8.0)) / 0.6)
    assert exploration_factor(0.6, 20.0, 20.0, 0.6) == 1.0
    assert exploration_factor(0.0, 8.0, 20.0, 0.6) == 0.0


def test_exploration_shrinks_as_a_rate_grows():
    """Costs are negative rates: 10 items a second at first and 40 now are times of 4 and 1."""
    assert exploration_factor(0.5, -40.0, -10.0, 1.0) == pytest.approx(0.5 / 4)
    assert exploration_factor(0.5, -40.0, -10.0, 1.0) == exploration_factor(0.5, 1.0, 4.0, 1.0)


@pytest.mark.parametrize(
    ("best", "mean", "variance", "expected"),
    [(-5.0, 5.0, 1.0, 0.5), (3.0, 0.0, 1.0, 0.5), (2.0, 4.0, 0.0, 0.5), (1e308, 1e-308, 1.0, 0.5)],
)
def test_an_undefined_ratio_counts_as_one(best, mean, variance, expected):
    assert exploration_factor(0.5, best, mean, variance) == pytest.approx(expected)


def test_thompson_sampling_follows_one_function():
    space = Space({"a": Integer(0, 60)})
    codes = np.array([[0.0], [30.0], [60.0]])
    data = Data(codes, np.array([0.0, 1.0, 0.0]), np.zeros(3), np.zeros(3, dtype=bool))
    model = FixedGaussianProcess(lengthscale=0.3).fit(space, data, np.random.default_rng(0))
    everywhere = np.arange(61.0)[:, None]
    score = ThompsonSampling().bind(model, 0.0, np.random.default_rng(1))
    np.testing.assert_allclose(score(everywhere)[5:6], score(everywhere[5:6]))
    np.testing.assert_allclose(score(codes), -data.y, atol=0.02)
    chosen = {
        int(np.argmax(ThompsonSampling().bind(model, 0.0, np.random.default_rng(s))(everywhere)))
        for s in range(10)
    }
    assert len(chosen) > 3
