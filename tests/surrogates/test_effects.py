"""The linear model of many parameters: its posterior, and which effects it finds."""

import numpy as np
import pytest

from baco_like import Space
from baco_like.surrogates import Data, SparseEffects

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
