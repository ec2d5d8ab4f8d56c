"""The linear model of many parameters: its posterior, and which effects it finds."""

import numpy as np
import pytest

from baco_like import Space
from baco_like.surrogates import Data, SparseLinear

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
    model = SparseLinear().fit(FLAGS, data, np.random.default_rng(0))
    base = np.zeros((1, FLAGS.width))
    single = np.repeat(base, FLAGS.width, axis=0)
    np.fill_diagonal(single, 1.0)
    found = np.abs(model.predict(single)[0] - model.predict(base)[0])
    assert set(np.argsort(-found)[:4]) == set(EFFECTS)


def test_the_posterior_is_that_of_bayesian_regression():
    """With the fitted variances: mean and covariance of the effects from their precision (Bishop 2006, Eq. 3.50)."""
    data = observe(draw(30), 0.2)
    model = SparseLinear().fit(FLAGS, data, np.random.default_rng(0))
    design = np.column_stack([np.ones(30), FLAGS.features(data.codes) - model.centre])
    prior = np.concatenate([[1.0], model.variances])
    covariance = np.linalg.inv(design.T @ design / model.noise + np.diag(1.0 / prior))
    mean = covariance @ design.T @ data.y / model.noise
    codes = draw(20, seed=1)
    rows = np.column_stack([np.ones(20), FLAGS.features(codes) - model.centre])
    centre, variance = model.predict(codes)
    np.testing.assert_allclose(centre, rows @ mean, atol=1e-6)
    np.testing.assert_allclose(
        variance, np.einsum("ij,jk,ik->i", rows, covariance, rows), atol=1e-6
    )


def test_the_noise_is_learned():
    rng = np.random.default_rng(0)
    exact, noisy = (SparseLinear().fit(FLAGS, observe(draw(100), n), rng).noise for n in (0.0, 2.0))
    assert exact <= 0.02 < noisy


def test_a_start_shortens_the_fit_but_leads_to_the_same_effects():
    data = observe(draw(60), 0.1)
    first = SparseLinear(rounds=200).fit(FLAGS, data, np.random.default_rng(0))
    again = SparseLinear(rounds=8).fit(FLAGS, data, np.random.default_rng(0), first.hyperparameters)
    cold = SparseLinear(rounds=2).fit(FLAGS, data, np.random.default_rng(0))
    codes = draw(50, seed=2)
    distance = [np.abs(m.predict(codes)[0] - first.predict(codes)[0]).max() for m in (again, cold)]
    assert distance[0] < 0.02 < distance[1]


def test_many_observations_are_thinned():
    data = observe(draw(80))
    model = SparseLinear(fitted_rows=20, seen_rows=50).fit(FLAGS, data, np.random.default_rng(0))
    assert model.count == 50
