"""Acquisition functions against integrals, and the weights of feasibility and of the prior."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from baco_like import Integer, Space
from baco_like.acquisitions import (
    ExpectedImprovement,
    LowerConfidenceBound,
    ProbabilityOfImprovement,
    ThompsonSampling,
)
from baco_like.acquisitions.functions import (
    FAR,
    draw_minimum,
    log_ei,
    log_h,
    log_pi,
    prior_weight,
    weight_by_feasibility,
)
from baco_like.acquisitions.hypervolume import ends_of, log_ehvi
from baco_like.records.front import is_non_dominated, non_dominated_boxes
from baco_like.surrogates import MATERN32, Data, GaussianProcess
from baco_like.testing.acquisitions import (
    CHECKS,
    ChosenModel,
    extreme_predictions_can_be_compared,
)

CODES = np.zeros((1, 1))
RNG = np.random.default_rng(0)


class Chances:
    def __init__(self, probability):
        self.probability = probability


def at(acquisition, mean, variance, incumbent):
    model = ChosenModel(lambda c: np.full(len(c), mean), lambda c: np.full(len(c), variance))
    return acquisition.bind(model, incumbent, RNG)(CODES)[0]


@pytest.mark.parametrize("mean", [-2.0, 0.0, 1.3, 4.0])
@pytest.mark.parametrize("deviation", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("margin", [0.0, 0.4])
def test_expected_improvement_equals_the_integral(mean, deviation, margin):
    density = stats.norm(mean, deviation).pdf
    bound = 0.5 - margin

    def gain(f):
        return (bound - f) * density(f)

    low = min(mean, bound) - 12.0 * deviation
    expected = integrate.quad(gain, low, bound, epsabs=0.0, epsrel=1e-10, limit=200)[0]
    found = at(ExpectedImprovement(margin), mean, deviation**2, 0.5)
    if expected > 1e-250:
        assert found == pytest.approx(np.log(expected), rel=1e-7, abs=1e-7)
    else:
        assert found < -500.0


def reference_log_h(z):
    """Return log E[max(z - x, 0)] for a standard normal x, by an integral without underflow.

    With t = z - x >= 0: h(z) = phi(z) int_0^inf t exp(-t^2/2 + z t) dt.
    """
    scale = 1.0 / max(1.0, -z)
    integral = integrate.quad(
        lambda u: u * np.exp(-0.5 * (u * scale) ** 2 + z * u * scale), 0.0, 60.0, epsrel=1e-12
    )[0]
    return stats.norm.logpdf(z) + np.log(integral) + 2.0 * np.log(scale)


@pytest.mark.parametrize(
    "z", [3.0, 0.0, -0.999, -1.0, -1.001, -5.0, -30.0, -300.0, -999.0, FAR, -1001.0, -1e4, -1e6]
)
def test_log_h_equals_the_integral_far_in_the_tail(z):
    assert log_h(np.array([z]))[0] == pytest.approx(reference_log_h(z), rel=1e-9, abs=1e-9)


@given(st.floats(-1e8, 1e3), st.floats(1e-9, 10.0))
def test_log_h_rises(z, step):
    low, high = log_h(np.array([z, z + step * max(1.0, abs(z)) * 1e-3]))
    assert np.isfinite(low)
    assert low <= high + 1e-12 * abs(low)


def test_log_h_is_continuous_where_its_ranges_meet():
    for edge in (-1.0, FAR):
        z = edge + np.linspace(-1e-6, 1e-6, 21) * abs(edge)
        rises = np.diff(log_h(z)) / np.diff(z)
        np.testing.assert_allclose(rises, rises.mean(), rtol=1e-3)


@pytest.mark.parametrize("z", [4.0, 0.0, -3.0, -30.0, -1e3])
def test_probability_of_improvement_equals_the_normal_tail(z):
    found = at(ProbabilityOfImprovement(0.25), 1.0, 4.0, 1.25 + 2.0 * z)
    assert found == pytest.approx(stats.norm.logcdf(z), rel=1e-10)


def test_a_certain_model_still_ranks():
    mean = np.array([-1.0, 0.0, 1.0, 2.0])
    for score in (log_ei, log_pi):
        values = score(mean, np.zeros(4), 0.5)
        assert np.all(np.isfinite(values))
        assert np.all(np.diff(values) <= 0.0)
        assert values[1] > values[2] > values[3]
    assert log_ei(mean, np.zeros(4), 0.5)[0] == pytest.approx(np.log(1.5))


def test_lower_confidence_bound_combines_mean_and_deviation():
    assert at(LowerConfidenceBound(1.5), 2.0, 4.0, 0.0) == pytest.approx(-(2.0 - 1.5 * 2.0))


ROWS = np.arange(6.0)[:, None]


def column(values):
    table = np.asarray(values, dtype=float)
    return lambda codes: table[codes[:, 0].astype(int)]


def test_weighting_by_feasibility_adds_the_logarithms():
    score = column([0.0, -1.0, -2.0, -3.0, 1.0, 2.0])
    chance = column([0.5, 0.2, 1.0, 0.9, 0.7, 0.3])
    found = weight_by_feasibility(score, Chances(chance), 0.0)(ROWS)
    np.testing.assert_allclose(np.exp(found), np.exp(score(ROWS)) * chance(ROWS))


@given(
    st.lists(st.floats(-1e12, 700.0), min_size=6, max_size=6),
    st.lists(st.floats(0.0, 1.0), min_size=6, max_size=6),
    st.floats(0.0, 1.0),
)
def test_rows_below_the_minimum_rank_last_and_stay_ordered(scores, chances, minimum):
    found = weight_by_feasibility(column(scores), Chances(column(chances)), minimum)(ROWS)
    assert np.all(np.isfinite(found))
    likely = np.array(chances) >= minimum
    if likely.any() and not likely.all():
        assert found[likely].min() > found[~likely].max()


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
    early = prior_weight(log_belief, 1, strength=10.0)(ROWS)
    np.testing.assert_allclose(early, 10.0 * np.log(belief + 1e-6), rtol=1e-9)
    late = prior_weight(log_belief, 1000, strength=10.0)(ROWS)
    np.testing.assert_allclose(late, 0.01 * np.log(belief + 1e-6), rtol=1e-9)
    np.testing.assert_allclose(prior_weight(log_belief, 0, strength=10.0)(ROWS), early)


def test_thompson_sampling_follows_one_function():
    space = Space({"a": Integer(0, 60)})
    codes = np.array([[0.0], [30.0], [60.0]])
    data = Data(codes, np.array([0.0, 1.0, 0.0]), np.zeros(3), np.zeros(3, dtype=bool))
    model = GaussianProcess(MATERN32, fixed=(0.3, 1.0, 1e-6)).fit(
        space, data, np.random.default_rng(0)
    )
    everywhere = np.arange(61.0)[:, None]
    score = ThompsonSampling().bind(model, 0.0, np.random.default_rng(1))
    np.testing.assert_allclose(score(everywhere)[5:6], score(everywhere[5:6]))
    np.testing.assert_allclose(score(codes), -data.y, atol=0.02)
    chosen = {
        int(np.argmax(ThompsonSampling().bind(model, 0.0, np.random.default_rng(s))(everywhere)))
        for s in range(10)
    }
    assert len(chosen) > 3


# ---- Conformance of the acquisition functions ----


FUNCTIONS = [
    ExpectedImprovement(),
    ExpectedImprovement(margin=0.3),
    ProbabilityOfImprovement(),
    ProbabilityOfImprovement(margin=0.3),
    LowerConfidenceBound(),
    LowerConfidenceBound(deviations=0.0),
    ThompsonSampling(),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("function", FUNCTIONS, ids=repr)
def test_conformance(check, function):
    check(function)


class IgnoresTheModel:
    def bind(self, model, incumbent, rng):
        return lambda codes: rng.random(len(codes))


def test_a_function_that_ignores_the_model_fails():
    failed = set()
    for check in CHECKS:
        try:
            check(IgnoresTheModel())
        except AssertionError:
            failed.add(check.__name__)
    assert failed == {"lower_means_are_better", "rows_are_independent", "generator_decides"}


class DividesByTheDeviation:
    def bind(self, model, incumbent, rng):
        def score(codes):
            mean, variance = model.predict(codes)
            with np.errstate(invalid="ignore", divide="ignore"):
                return (incumbent - mean) / variance**0.5

        return score


def test_a_failed_check_says_what_is_required():
    with pytest.raises(AssertionError, match="the score is NaN where the variance is 0"):
        extreme_predictions_can_be_compared(DividesByTheDeviation())


# ---- The expected gain of hypervolume, against BoTorch and the expected improvement of one objective ----


def _case(objectives, seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(30, objectives))
    front = points[is_non_dominated(points)]
    return front, rng.normal(size=(50, objectives)), rng.uniform(0.05, 1.5, (50, objectives)) ** 2


@pytest.mark.parametrize("objectives", [2, 3])
def test_it_agrees_with_botorch(objectives):
    pytest.importorskip("botorch", reason="BoTorch comes with the extra ax")
    import torch
    from botorch.acquisition.multi_objective.analytic import ExpectedHypervolumeImprovement
    from botorch.models.deterministic import GenericDeterministicModel
    from botorch.posteriors.gpytorch import GPyTorchPosterior
    from botorch.utils.multi_objective.box_decompositions import NondominatedPartitioning
    from gpytorch.distributions import MultitaskMultivariateNormal

    front, means, variances = _case(objectives, objectives)
    reference = front.max(axis=0) + 0.3

    class Normal(GenericDeterministicModel):
        """A model whose posterior has the given means and variances; BoTorch maximises, so the signs differ."""

        def posterior(self, X, **_):
            rows = X[..., 0, 0].long()
            mean = -torch.tensor(means)[rows][:, None, :]
            covariance = torch.diag_embed(torch.tensor(variances)[rows])
            return GPyTorchPosterior(MultitaskMultivariateNormal(mean, covariance))

    partitioning = NondominatedPartitioning(
        ref_point=-torch.tensor(reference), Y=-torch.tensor(front)
    )
    theirs = ExpectedHypervolumeImprovement(
        Normal(lambda X: X, num_outputs=objectives), (-reference).tolist(), partitioning
    )(torch.arange(50, dtype=torch.double)[:, None, None])
    ours = np.exp(log_ehvi(means, variances, ends_of(*non_dominated_boxes(front, reference))))
    np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-6, atol=1e-12)


def test_with_one_objective_it_is_expected_improvement():
    means, variances = np.linspace(-3.0, 40.0, 30)[:, None], np.full((30, 1), 0.4)
    boxes = ends_of(*non_dominated_boxes(np.array([[0.2]]), np.array([5.0])))
    ours = log_ehvi(means, variances, boxes)
    np.testing.assert_allclose(ours, log_ei(means[:, 0], variances[:, 0], 0.2), rtol=1e-9)


def test_it_has_a_slope_far_from_the_front():
    front = np.array([[0.0, 1.0], [1.0, 0.0]])
    boxes = ends_of(*non_dominated_boxes(front, np.array([2.0, 2.0])))
    means = np.linspace(50.0, 500.0, 10)[:, None] * np.ones((1, 2))
    scores = log_ehvi(means, np.full((10, 2), 1e-4), boxes)
    assert np.isfinite(scores).all()
    assert (np.diff(scores) < 0.0).all()


@pytest.mark.parametrize("objectives", [2, 3])
def test_the_sum_and_the_sum_of_logarithms_agree(objectives, monkeypatch):
    """Candidates from near the front to so far away that most terms underflow."""
    front, means, variances = _case(objectives, 7)
    boxes = ends_of(*non_dominated_boxes(front, front.max(axis=0) + 0.3))
    means = means + np.linspace(0.0, 12.0, len(means))[:, None]
    by_sum = log_ehvi(means, np.minimum(variances, 0.25), boxes)
    monkeypatch.setattr("baco_like.acquisitions.hypervolume._LEAST", np.inf)
    by_logarithms = log_ehvi(means, np.minimum(variances, 0.25), boxes)
    np.testing.assert_allclose(by_sum, by_logarithms, rtol=1e-9, atol=1e-9)
    assert by_logarithms.min() < -1000.0


def test_an_unknown_mean_concerns_its_candidate_only():
    boxes = ends_of(*non_dominated_boxes(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([2.0, 2.0])))
    means = np.array([[0.5, 0.5], [np.nan, 0.5], [50.0, 50.0]])
    with np.errstate(invalid="ignore"):
        scores = log_ehvi(means, np.full((3, 2), 1e-2), boxes)
    assert np.isnan(scores).tolist() == [False, True, False]
