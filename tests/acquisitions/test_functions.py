import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from baco_like.acquisitions.functions import (
    FAR,
    ExpectedImprovement,
    LowerConfidenceBound,
    ProbabilityOfImprovement,
    log_ei,
    log_h,
    log_pi,
)
from baco_like.testing.doubles import ChosenModel

CODES = np.zeros((1, 1))
RNG = np.random.default_rng(0)


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


def test_more_uncertainty_is_better_beyond_the_incumbent():
    values = log_ei(np.full(4, 2.0), np.array([0.01, 0.1, 1.0, 4.0]), 1.0)
    assert np.all(np.diff(values) > 0.0)


def test_lower_confidence_bound_combines_mean_and_deviation():
    assert at(LowerConfidenceBound(1.5), 2.0, 4.0, 0.0) == pytest.approx(-(2.0 - 1.5 * 2.0))


def test_scores_depend_on_the_codes():
    model = ChosenModel(lambda c: c[:, 0], lambda c: np.ones(len(c)))
    codes = np.arange(5.0)[:, None]
    for acquisition in (ExpectedImprovement(), ProbabilityOfImprovement(), LowerConfidenceBound()):
        assert np.argmax(acquisition.bind(model, 1.0, RNG)(codes)) == 0
