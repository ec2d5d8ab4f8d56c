import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like.surrogates.transform import fit_asinh, fit_transform, quantile_of, standardise

POSITIVE = st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=30)
NEGATIVE = st.lists(st.floats(-1e300, -1e-300), min_size=1, max_size=30)
ANY = st.lists(st.floats(-1e300, 1e300, allow_subnormal=False), min_size=1, max_size=30)


@given(st.one_of(POSITIVE, NEGATIVE, ANY))
def test_values_are_standardised_and_keep_their_order(values):
    y = np.array(values)
    z = fit_transform(y).forward(y)
    assert np.all(np.isfinite(z))
    assert abs(z.mean()) < 1e-6
    assert z.std() == pytest.approx(1.0, abs=1e-6) or np.ptp(z) < 1e-9
    order = np.argsort(y, kind="stable")
    assert np.all(np.diff(z[order]) >= -1e-12)


@given(POSITIVE)
def test_backward_inverts_a_logarithm(values):
    y = np.array(values)
    transform = fit_transform(y)
    assert transform.kind == "log"
    np.testing.assert_allclose(transform.backward(transform.forward(y)), y, rtol=1e-9)


@given(st.lists(st.integers(-900, 900), min_size=1, max_size=30))
def test_a_rate_is_modelled_like_the_corresponding_time(exponents):
    times = np.ldexp(1.0, exponents)
    np.testing.assert_allclose(
        fit_transform(-1.0 / times).forward(-1.0 / times),
        fit_transform(times).forward(times),
        atol=1e-9,
    )


@given(NEGATIVE)
def test_backward_inverts_a_mirrored_logarithm(values):
    y = np.array(values)
    transform = fit_transform(y)
    np.testing.assert_allclose(transform.backward(transform.forward(y)), y, rtol=1e-9)


@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=30))
def test_backward_inverts_asinh(values):
    y = np.array([*values, 0.0])
    transform = fit_transform(y)
    assert transform.kind == "asinh"
    scale = np.abs(y).max()
    np.testing.assert_allclose(transform.backward(transform.forward(y)), y, atol=1e-9 * scale)


@given(st.one_of(NEGATIVE, ANY), st.floats(-1e6, 1e6), st.floats(0.0, 1e6))
def test_backward_and_moments_are_finite(values, mean, variance):
    transform = fit_transform(np.array(values))
    z = np.array([mean])
    assert np.all(np.isfinite(transform.backward(z)))
    moments = transform.moments(z, np.array([variance]))
    assert all(np.all(np.isfinite(part)) for part in moments)
    assert moments[1] >= 0.0


@given(st.one_of(NEGATIVE, ANY))
def test_known_variances_stay_finite(values):
    y = np.array(values)
    variance = fit_transform(y).forward_variance(y, np.full(len(y), 1e10))
    assert np.all(np.isfinite(variance))
    assert np.all(variance >= 0.0)


@pytest.mark.parametrize(
    "y", [[1.0, 2.0, 9.0, 4.0], [-3.0, 0.5, 2.0, 60.0], [-60.0, -2.0, -0.5, -3.0]]
)
@pytest.mark.parametrize(("mean", "variance"), [(0.3, 0.2), (-1.1, 0.01), (0.8, 0.6)])
def test_moments_equal_those_of_many_draws(y, mean, variance):
    transform = fit_transform(np.array(y))
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    values = transform.backward(mean + np.sqrt(variance) * nodes)
    centre = weights @ values
    found_mean, found_variance = transform.moments(np.array([mean]), np.array([variance]))
    assert found_mean[0] == pytest.approx(centre, rel=1e-6)
    assert found_variance[0] == pytest.approx(weights @ (values - centre) ** 2, rel=1e-6)


@pytest.mark.parametrize(
    "y", [[1.0, 2.0, 9.0, 4.0], [-3.0, 0.5, 2.0, 60.0], [-60.0, -2.0, -0.5, -3.0]]
)
def test_known_variance_follows_the_slope(y):
    values = np.array(y)
    transform = fit_transform(values)
    step = 1e-6
    slope = (transform.forward(values + step) - transform.forward(values - step)) / (2 * step)
    found = transform.forward_variance(values, np.full(len(y), 0.04))
    np.testing.assert_allclose(found, 0.04 * slope**2, rtol=1e-6)


def test_equal_values_become_zeros():
    for y in (np.full(5, 3.7), np.zeros(3), np.full(2, -1e300)):
        transform = fit_transform(y)
        np.testing.assert_array_equal(transform.forward(y), 0.0)
        np.testing.assert_allclose(transform.backward(np.zeros(2)), y[:2], rtol=1e-12)


def test_a_bound_of_zero_has_a_finite_logarithm():
    for values in ([1.0, 2.0], [-2.0, -1.0]):
        transform = fit_transform(np.array(values))
        assert np.isfinite(transform.forward(np.array([0.0])))[0]


@pytest.mark.parametrize("y", [[], [1.0, np.nan], [np.inf]])
def test_values_that_cannot_be_modelled_are_refused(y):
    with pytest.raises(ValueError, match="finite"):
        fit_transform(np.array(y))


@given(st.one_of(POSITIVE, NEGATIVE, ANY))
def test_standardised_without_a_logarithm(values):
    y = np.array(values)
    scale = standardise(y)
    z = scale.forward(y)
    assert np.all(np.isfinite(z))
    assert abs(z.mean()) < 1e-6
    assert z.std() == pytest.approx(1.0, abs=1e-6) or np.ptp(z) < 1e-9
    mean, variance = scale.moments(z, np.zeros(len(y)))
    np.testing.assert_allclose(mean, y, atol=1e-12 * np.abs(y).max())
    assert np.all(variance == 0.0)


def test_standardised_is_linear():
    scale = standardise(np.array([1.0, 2.0, 6.0]))
    low, middle, high = scale.forward(np.array([0.0, 5.0, 10.0]))
    assert middle - low == pytest.approx(high - middle)
    slope = (high - low) / 10.0
    assert scale.forward_variance(np.array([3.0]), np.array([4.0]))[0] == pytest.approx(
        4.0 * slope**2
    )
    assert scale.moments(np.array([0.0]), np.array([1.0]))[1][0] == pytest.approx(1.0 / slope**2)


@pytest.mark.parametrize("wrong", [[], [1.0, np.nan], [np.inf]])
def test_standardise_needs_finite_values(wrong):
    with pytest.raises(ValueError, match="finite"):
        standardise(np.array(wrong))


@given(st.lists(st.floats(-10.0, 10.0), min_size=1, max_size=30), st.floats(0.0, 1.0))
def test_quantiles_are_those_of_numpy(values, share):
    y = np.array(values)
    assert quantile_of(np.sort(y), share) == np.quantile(y, share)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30))
def test_asinh_is_centred_at_the_median_and_scaled_by_the_quartiles(values):
    y = np.array(values, dtype=float)
    scale = fit_asinh(y)
    assert scale.centre * scale.unit == np.median(y)
    low, high = np.quantile(y / scale.unit, [0.25, 0.75])
    assert scale.width == (float(high - low) / 1.349 or float(y.std()) / scale.unit or 1.0)
