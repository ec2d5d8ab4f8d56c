""""""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like import Space
from baco_like.surrogates import Data, SparseEffects
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


# ---- The linear model of many parameters: its posterior, and which effects it finds ----


FLAGS = Space({f"f{i}": [False, True] for i in range(120)})
EFFECTS = {3: -2.0, 40: 1.5, 77: -1.0, 90: 3.0}


def observe(codes, noise=0.0, seed=0):
    y = sum(effect * codes[:, place] for place, effect in EFFECTS.items())
    y = y + noise * np.random.default_rng(seed).standard_normal(len(y))
    y = (y - y.mean()) / y.std()
    return Data(codes, y, np.zeros(len(y)), np.zeros(len(y), bool))


def draw(n, seed=0, share=0.2):
    return (np.random.default_rng(seed).random((n, FLAGS.width)) < share).astype(float)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_strong_effects_are_found_among_more_flags_than_observations(noise):
    data = observe(draw(60), noise)
    model = SparseEffects().fit(FLAGS, data, np.random.default_rng(0))
    base = np.zeros((1, FLAGS.width))
    single = np.repeat(base, FLAGS.width, axis=0)
    np.fill_diagonal(single, 1.0)
    found = np.abs(model.predict(single)[0] - model.predict(base)[0])
    assert set(np.argsort(-found)[:4]) == set(EFFECTS)


def test_the_posterior_is_that_of_bayesian_regression():
    """With the fitted variances, on main effects and all products of two (Bishop 2006, Eq. 3.50)."""
    space = Space({f"f{i}": [False, True] for i in range(12)})
    rng = np.random.default_rng(0)
    codes = (rng.random((50, 12)) < 0.3).astype(float)
    y = codes[:30, 0] - 2.0 * codes[:30, 3] * codes[:30, 5] + 0.1 * rng.standard_normal(30)
    data = Data(codes[:30], (y - y.mean()) / y.std(), np.zeros(30), np.zeros(30, bool))
    model = SparseEffects().fit(space, data, rng)

    def design(codes):
        x = space.features(codes) - model.centre
        products = (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
        return np.column_stack([np.ones(len(x)), x, products])

    products = model.interaction * np.outer(model.variances, model.variances).ravel()
    prior = np.concatenate([[1.0], model.variances, products])
    known = design(codes[:30])
    covariance = np.linalg.inv(known.T @ known / model.noise + np.diag(1.0 / prior))
    rows = design(codes[30:])
    centre, variance = model.predict(codes[30:])
    np.testing.assert_allclose(
        centre, rows @ covariance @ known.T @ data.y / model.noise, atol=1e-6
    )
    np.testing.assert_allclose(variance, ((rows @ covariance) * rows).sum(axis=1), atol=1e-6)


def test_interactions_of_strong_effects_are_predicted():
    codes = draw(160, share=0.5)
    y = 3.0 * codes[:, 1] + 2.0 * codes[:, 2] - 2.0 * codes[:, 1] * codes[:, 2]
    y = (y - y.mean()) / y.std()
    data = Data(codes[:120], y[:120], np.zeros(120), np.zeros(120, bool))

    def error(interactions):
        model = SparseEffects(interactions=interactions).fit(FLAGS, data, np.random.default_rng(0))
        return np.sqrt(np.mean((model.predict(codes[120:])[0] - y[120:]) ** 2))

    assert error(1.0) < 0.7 * error(0.0)


def test_the_noise_is_learned():
    rng = np.random.default_rng(0)
    exact, noisy = (
        SparseEffects().fit(FLAGS, observe(draw(100), n), rng).noise for n in (0.0, 2.0)
    )
    assert exact <= 0.02 < noisy


def test_a_start_shortens_the_fit_but_leads_to_the_same_effects():
    data = observe(draw(60), 0.1)
    first = SparseEffects(rounds=200).fit(FLAGS, data, np.random.default_rng(0))
    again = SparseEffects(rounds=8).fit(
        FLAGS, data, np.random.default_rng(0), first.hyperparameters
    )
    cold = SparseEffects(rounds=2).fit(FLAGS, data, np.random.default_rng(0))
    codes = draw(50, seed=2)
    distance = [np.abs(m.predict(codes)[0] - first.predict(codes)[0]).max() for m in (again, cold)]
    assert distance[0] < 0.02 < distance[1]


def test_many_observations_are_thinned():
    data = observe(draw(80))
    model = SparseEffects(fitted_rows=20, seen_rows=50).fit(FLAGS, data, np.random.default_rng(0))
    assert model.count == 50
