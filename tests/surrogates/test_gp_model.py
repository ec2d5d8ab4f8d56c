"""The Gaussian process in closed form, and its growth by rows."""

import json
from dataclasses import replace

import gpytorch
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from baco_like import Integer, Ordinal, Space
from baco_like.acquisitions.functions import condition_on_pending
from baco_like.surrogates import MATERN32
from baco_like.surrogates.gp.fit import (
    Effort,
    Evidence,
    Hyperparameters,
    chosen_rows,
    from_json,
    maximise_evidence,
    to_json,
)
from baco_like.surrogates.gp.gaussian_process import GaussianProcess
from baco_like.surrogates.gp.gpytorch_model import DTYPE, GroupedKernel, LogPosterior, make_process
from baco_like.surrogates.gp.growing import (
    EVERY_COUNT,
    MOST_NEW,
    CandidatePosterior,
    CandidateTable,
    add_rows,
    informative_rows,
    last_refit,
)
from baco_like.surrogates.gp.kernel import (
    KERNELS,
    MATERN52,
    DistanceTable,
    FeatureDistances,
    cross_squared_distances,
    parameter_distances,
    squared_distances,
)
from baco_like.surrogates.gp.model import (
    GPModel,
    fit_imputed,
    fit_posterior,
    safe_cholesky,
    truncated_mean,
)
from baco_like.surrogates.gp.prior import SMOOTH_PRIORS, Gamma, LogNormal, Priors
from baco_like.surrogates.protocol import Data
from baco_like.surrogates.transform import fit_transform


def rng(seed=0):
    return np.random.default_rng(seed)


def plain(codes, y):
    return Data(codes, y, np.zeros(len(y)), np.zeros(len(y), dtype=bool))


def test_a_parameter_without_effect_gets_the_longest_lengthscale():
    space = Space({"a": Integer(0, 20), "b": Integer(0, 20), "idle": Integer(0, 20)})
    codes = space.feasible.sample(60, rng(2))
    features = space.features(codes)
    y = np.sin(6.0 * features[:, 0]) + features[:, 1] ** 2
    lengthscales = (
        GaussianProcess().fit(space, plain(codes, y), rng()).hyperparameters["lengthscales"]
    )
    assert np.argmax(lengthscales) == 2
    assert np.argmin(lengthscales) == 0


def test_conditioning_equals_a_refit_with_the_same_hyperparameters(mixed, make_data):
    data = make_data(mixed, 50)
    first = Data(data.codes[:35], data.y[:35], data.variance[:35], data.censored[:35])
    recipe = GaussianProcess(MATERN32, fixed=(0.7, 1.0, 0.03))
    whole = recipe.fit(mixed, data, rng())
    grown = recipe.fit(mixed, first, rng()).condition(data.codes[35:42], data.y[35:42])
    grown = grown.condition(data.codes[42:], data.y[42:])
    candidates = mixed.feasible.sample(40, rng(4))
    for one, other in zip(whole.predict(candidates), grown.predict(candidates), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
    np.testing.assert_allclose(
        whole.predict_joint(candidates)[1], grown.predict_joint(candidates)[1], atol=1e-9
    )


def test_prediction_in_blocks_equals_the_textbook_formula(mixed, make_data):
    data = make_data(mixed, 30, variance=np.linspace(0.0, 0.2, 30))
    model = GaussianProcess(mean="constant").fit(mixed, data, rng())
    assert isinstance(model, GPModel)
    p, h = model, model.fitted
    candidates = mixed.feasible.sample(1100, rng(8))
    scaled = mixed.features(candidates) * p.scales
    covariance = p.covariance(p.rows, p.rows) + np.diag(h.noise + data.variance)
    cross = p.covariance(scaled, p.rows)
    inverse = np.linalg.inv(covariance)
    ones = np.ones(30)
    level = ones @ inverse @ data.y / (ones @ inverse @ ones)
    mean, variance = model.predict(candidates)
    np.testing.assert_allclose(mean, level + cross @ inverse @ (data.y - level), atol=1e-9)
    expected = h.outputscale - np.einsum("ij,jk,ik->i", cross, inverse, cross)
    np.testing.assert_allclose(variance, expected, atol=1e-9)


def test_values_imputed_at_the_mean_lower_the_variance_and_keep_the_mean(mixed, make_data):
    model = GaussianProcess().fit(mixed, make_data(mixed, 30), rng())
    pending = mixed.feasible.sample(5, rng(3))
    candidates = mixed.feasible.sample(100, rng(4))
    mean, variance = model.predict(candidates)
    later = condition_on_pending(model, pending)
    np.testing.assert_allclose(later.predict(candidates)[0], mean, atol=1e-8)
    assert np.all(later.predict(candidates)[1] <= variance + 1e-12)
    assert np.all(later.predict(pending)[1] <= model.fitted.noise)
    assert condition_on_pending(model, pending[:0]) is model


def test_a_fit_is_reproducible_and_starts_from_an_earlier_optimum(mixed, make_data):
    data = make_data(mixed, 60)
    recipe = GaussianProcess()
    found = recipe.fit(mixed, data, rng(1)).hyperparameters
    assert recipe.fit(mixed, data, rng(1)).hyperparameters == found
    assert json.loads(json.dumps(found)) == found
    lazy = GaussianProcess(effort=Effort(draws=1, fresh_starts=0, steps=1))
    again = lazy.fit(mixed, data, rng(2), found).hyperparameters
    np.testing.assert_allclose(again["lengthscales"], found["lengthscales"], rtol=0.05)


@pytest.mark.parametrize(
    "start",
    [
        {},
        {"lengthscales": [1.0], "outputscale": 1.0, "noise": 0.1},
        {"lengthscales": "abc", "outputscale": 1.0, "noise": 0.1},
        {"lengthscales": [1.0] * 5, "outputscale": -1.0, "noise": 0.1},
        {"lengthscales": [1.0] * 5, "outputscale": float("nan"), "noise": 0.1},
        {"lengthscales": [1.0] * 5, "outputscale": None, "noise": 0.1},
        {"parameters": [1.0]},
    ],
)
def test_a_start_of_another_model_is_ignored(mixed, make_data, start):
    data = make_data(mixed, 10)
    assert from_json(start, 5) is None
    with_start = GaussianProcess().fit(mixed, data, rng(1), start).hyperparameters
    assert with_start == GaussianProcess().fit(mixed, data, rng(1)).hyperparameters


def test_hyperparameters_survive_json():
    h = Hyperparameters(np.array([0.3, 2.0]), 1.5, 0.01)
    back = from_json(json.loads(json.dumps(to_json(h))), 2)
    assert back is not None
    np.testing.assert_allclose(back.logs, h.logs)
    np.testing.assert_allclose(Hyperparameters.from_logs(h.logs).logs, h.logs)


def test_hyperparameters_are_fitted_to_a_part_of_many_rows():
    space = Space({"a": Integer(0, 300), "b": Integer(0, 300)})
    codes = space.feasible.sample(90, rng(1))
    y = np.sin(space.features(codes) @ np.array([4.0, 2.0]))
    model = GaussianProcess(effort=Effort(fitted_rows=30)).fit(space, plain(codes, y), rng())
    assert len(model.rows) == 90
    np.testing.assert_allclose(model.predict(codes)[0], y, atol=0.1)


def test_the_model_uses_a_part_of_very_many_rows():
    space = Space({"a": Integer(0, 300), "b": Integer(0, 300)})
    codes = space.feasible.sample(90, rng(1))
    y = np.sin(space.features(codes) @ np.array([4.0, 2.0]))
    model = GaussianProcess(effort=Effort(seen_rows=40)).fit(space, plain(codes, y), rng())
    assert len(model.rows) == 40
    np.testing.assert_allclose(
        model.predict(codes[np.argsort(y)[:20]])[0], np.sort(y)[:20], atol=0.1
    )


@pytest.mark.parametrize(("count", "has_fresh_starts"), [(51, False), (50, True), (None, True)])
def test_fits_follow_an_earlier_optimum_and_sometimes_try_fresh_starts(count, has_fresh_starts):
    space = Space({"a": Integer(0, 300), "b": Integer(0, 300)})
    codes = space.feasible.sample(20, rng(1))
    features = space.features(codes)
    squares = parameter_distances(features, space.feature_owner, 2)
    y = np.sin(features @ np.array([4.0, 2.0]))
    evidence = Evidence(MATERN52, Priors(), squares, y, np.zeros(20))
    first = to_json(maximise_evidence(evidence, Effort(), rng(1)))
    # Only fresh starts draw from the priors.
    generator = rng(2)
    maximise_evidence(evidence, Effort(fresh_every=5), generator, first, count)
    assert (generator.bit_generator.state != rng(2).bit_generator.state) == has_fresh_starts


def test_a_holding_fit_keeps_the_hyperparameters_and_draws_nothing():
    space = Space({"a": Integer(0, 300), "b": Integer(0, 300)})
    codes = space.feasible.sample(20, rng(1))
    y = np.sin(space.features(codes) @ np.array([4.0, 2.0]))
    first = GaussianProcess().fit(space, plain(codes[:10], y[:10]), rng(1)).hyperparameters
    generator = rng(2)
    model = GaussianProcess().holding.fit(space, plain(codes, y), generator, first)
    assert (model.hyperparameters, model.count) == (first, 20)
    assert generator.bit_generator.state == rng(2).bit_generator.state
    # Without hyperparameters to keep it fits them.
    fitted = GaussianProcess().holding.fit(space, plain(codes, y), rng(1)).hyperparameters
    assert fitted != first


@pytest.mark.parametrize("name", ["draws", "starts", "fitted_rows", "seen_rows", "fresh_every"])
def test_numbers_of_an_effort_must_be_positive(name):
    with pytest.raises(ValueError, match=name):
        Effort(**{name: 0})


def test_chosen_rows_contain_the_best():
    y = rng(1).standard_normal(100)
    rows = chosen_rows(y, 20, rng(2))
    assert len(np.unique(rows)) == 20
    assert set(np.argsort(y)[:10]) <= set(rows)
    np.testing.assert_array_equal(chosen_rows(y, 200, rng()), np.arange(100))


def test_a_known_variance_reduces_the_influence_of_a_value():
    space = Space({"a": Integer(0, 10)})
    codes = np.array([[0.0], [5.0], [10.0]])
    y = np.array([0.0, 3.0, 0.0])
    recipe = GaussianProcess(MATERN32, fixed=(0.5, 1.0, 1e-4))
    sure = recipe.fit(space, plain(codes, y), rng()).predict(codes)[0][1]
    unsure = Data(codes, y, np.array([0.0, 4.0, 0.0]), np.zeros(3, dtype=bool))
    assert recipe.fit(space, unsure, rng()).predict(codes)[0][1] < 0.3 * sure


def test_a_censored_value_is_imputed_above_its_bound():
    space = Space({"a": Integer(0, 10)})
    codes = np.arange(11.0)[:, None]
    y = np.linspace(-1.5, 1.5, 11)
    stopped = y >= 0.6
    bounds = np.where(stopped, 0.6, y)
    data = Data(codes, bounds, np.zeros(11), stopped)
    recipe = GaussianProcess(MATERN32, fixed=(1.0, 1.0, 1e-3))
    imputed = recipe.fit(space, data, rng()).predict(codes)[0]
    at_bounds = recipe.fit(space, plain(codes, bounds), rng()).predict(codes)[0]
    assert np.all(imputed[stopped] > 0.55)
    # The uncensored values rise towards the bound, so the imputed ones continue the trend.
    assert np.abs(imputed - y).max() < 0.7 * np.abs(at_bounds - y).max()
    fitted = GaussianProcess().fit(space, data, rng())
    assert fitted.predict(codes)[0][-1] > 0.6


def test_values_count_at_their_bounds_if_all_are_censored():
    space = Space({"a": Integer(0, 10)})
    codes, y = np.arange(3.0)[:, None], np.array([0.0, 0.5, -0.5])
    data = Data(codes, y, np.zeros(3), np.ones(3, dtype=bool))
    recipe = GaussianProcess(MATERN32, fixed=(1.5, 1.0, 1e-6))
    np.testing.assert_array_equal(
        recipe.fit(space, data, rng()).predict(codes),
        recipe.fit(space, plain(codes, y), rng()).predict(codes),
    )


@pytest.mark.parametrize("bound", [-30.0, -2.0, 0.0, 1.0, 6.0, 40.0])
def test_truncated_mean_equals_scipy(bound):
    found = truncated_mean(np.array([0.5]), np.array([4.0]), np.array([bound]))[0]
    expected = stats.truncnorm((bound - 0.5) / 2.0, np.inf, loc=0.5, scale=2.0).mean()
    assert found == pytest.approx(expected, rel=1e-6)
    assert found >= bound


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_drawn_functions_have_the_moments_of_the_posterior(kernel):
    space = Space({"a": Integer(0, 10), "b": Integer(0, 10)})
    codes = space.feasible.sample(12, rng(1))
    features = space.features(codes)
    data = replace(plain(codes, np.sin(4.0 * features[:, 0])), variance=np.full(12, 0.05))
    model = GaussianProcess(kernel, fixed=(0.4, 1.0, 0.05)).fit(space, data, rng())
    candidates = space.feasible.sample(6, rng(2))
    generator = rng(3)
    draws = np.array([model.draw(generator)(candidates) for _ in range(1500)])
    mean, covariance = model.predict_joint(candidates)
    deviation = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=5.0 * deviation.max() / np.sqrt(1500))
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.12 * deviation.max() ** 2)
    one = model.draw(rng(4))
    np.testing.assert_allclose(one(candidates)[2:3], one(candidates[2:3]), atol=1e-12)


def test_functions_drawn_together_have_the_moments_of_the_posterior(mixed, make_data):
    model = GaussianProcess().fit(mixed, make_data(mixed, 12), rng())
    codes = np.concatenate([make_data(mixed, 12).codes[:3], mixed.feasible.sample(5, rng(1))])
    drawn = model.draw_several(4000, 1024, rng(2))(codes)
    mean, variance = model.predict(codes)
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.08)
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.15, atol=0.02)


def test_hyperparameters_are_drawn_around_the_optimum(mixed, make_data):
    data, recipe = make_data(mixed, 30), GaussianProcess()
    models = recipe.fit_draws(mixed, data, rng(), 64)
    again = recipe.fit_draws(mixed, data, rng(), 64)
    logs = np.array([model.fitted.logs for model in models])
    assert np.array_equal(logs, [model.fitted.logs for model in again])
    assert len(np.unique(logs, axis=0)) > 10
    optimum = recipe.fit(mixed, data, rng()).fitted.logs
    # The last one, the noise, may be anything small.
    assert np.all(np.abs(np.median(logs, axis=0) - optimum)[:-1] < 1.0)


def test_hyperparameters_of_wide_spaces_are_the_optimum():
    space = Space({f"x{i}": [0, 1] for i in range(70)})
    codes = space.feasible.sample(8, rng())
    models = GaussianProcess().fit_draws(space, plain(codes, rng(1).normal(size=8)), rng(), 3)
    assert all(np.array_equal(m.fitted.logs, models[0].fitted.logs) for m in models)


def test_distances_by_products_equal_direct_distances():
    a, b = rng(1).random((7, 3)) + 100.0, rng(2).random((5, 3)) + 100.0
    expected = ((a[:, None] - b[None]) ** 2).sum(-1)
    np.testing.assert_allclose(cross_squared_distances(a, b), expected, atol=1e-12)
    assert cross_squared_distances(a[:, :0], b[:, :0]).shape == (7, 5)


def test_a_matrix_that_is_barely_singular_gets_a_factor():
    singular = np.ones((4, 4))
    factor = safe_cholesky(singular)
    np.testing.assert_allclose(factor @ factor.T, singular, atol=1e-6)
    with pytest.raises(np.linalg.LinAlgError, match="diagonal"):
        safe_cholesky(-np.eye(3))


LINE = Space({"a": Integer(0, 500), "b": Ordinal([1, 2, 4, 8], log=True)})
VALUES = st.lists(
    st.one_of(st.floats(1e-300, 1e300), st.floats(-1e300, 1e300), st.just(1.0)),
    min_size=1,
    max_size=12,
)


@given(VALUES, st.randoms(use_true_random=False), st.booleans())
def test_any_values_give_a_finite_model(values, random, duplicates):
    y = np.array(values)
    z = fit_transform(y).forward(y)
    rows = 2 if duplicates else 501
    codes = np.array([[random.randrange(rows), random.randrange(4)] for _ in values], dtype=float)
    censored = np.array([random.random() < 0.2 for _ in values])
    variance = np.array([random.choice([0.0, 0.0, 1e-3, 1e6]) for _ in values])
    model = GaussianProcess().fit(LINE, Data(codes, z, variance, censored), rng())
    mean, variance = model.condition(codes[:2], z[:2]).predict(LINE.feasible.sample(50, rng(1)))
    assert np.all(np.isfinite(mean))
    assert np.all(np.isfinite(variance))
    assert np.all(variance >= 0.0)


def test_a_space_of_constants_has_a_model():
    space = Space({"a": [1], "b": ["x"]})
    codes = space.feasible.sample(3, rng())
    mean, variance = (
        GaussianProcess().fit(space, plain(codes, np.array([0.1, -0.1, 0.0])), rng()).predict(codes)
    )
    assert np.ptp(mean) == 0.0
    assert np.all(np.isfinite(variance))


SPACE = Space({"a": Integer(0, 30), "b": Integer(0, 30), "c": Ordinal([1, 2, 4, 8])})
H = Hyperparameters(np.array([0.4, 0.7, 1.5]), 1.3, 1e-3)


def observed(count, seed=0, censored=0.0):
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.unique(SPACE.feasible.sample(6 * count, rng), axis=0))[:count]
    y = np.sin(SPACE.features(codes) @ [5.0, 3.0, 1.0]) + 0.03 * rng.standard_normal(count)
    variance = np.where(rng.random(count) < 0.3, 0.02, 0.0)
    return Data(codes, y, variance, rng.random(count) < censored)


def fitted(data, mean):
    return fit_imputed(SPACE, MATERN52, SPACE.features(data.codes), data, H, mean)


def grown(data, first, mean):
    base = fitted(data.rows(np.arange(first)), mean)
    return add_rows(base, data.codes[first:], data.variance[first:], data.y, data.censored, mean)


@given(
    first=st.integers(1, 30), more=st.integers(0, 20), mean=st.sampled_from(["zero", "constant"])
)
@settings(max_examples=15)
def test_a_grown_model_is_the_model_of_all_rows(first, more, mean):
    data = observed(first + more, seed=first)
    model, expected = grown(data, first, mean), fitted(data, mean)
    codes = SPACE.feasible.sample(40, np.random.default_rng(1))
    for own, other in zip(model.predict(codes), expected.predict(codes), strict=True):
        np.testing.assert_allclose(own, other, atol=1e-8)
    np.testing.assert_allclose(model.leave_one_out(), expected.leave_one_out(), atol=1e-6)
    assert model.count == first + more


def test_censored_values_are_imputed_as_by_a_new_fit():
    data = observed(40, censored=0.3)
    data = replace(data, variance=np.zeros(40))
    model, expected = grown(data, 25, "zero"), fitted(data, "zero")
    np.testing.assert_allclose(model.residual, expected.residual, atol=1e-7)
    assert (model.residual[data.censored] >= data.y[data.censored] - 1e-12).all()
    assert (model.residual[data.censored] > data.y[data.censored] + 1e-3).any()


@pytest.mark.parametrize("more", [0, 12])
def test_the_posterior_at_candidates_is_the_model_s(more):
    data = observed(30 + more)
    base = fitted(data.rows(np.arange(30)), "constant")
    model = grown(data, 30, "constant")
    codes = SPACE.feasible.sample(60, np.random.default_rng(3))
    posterior = CandidatePosterior(CandidateTable.of(base, codes), model)
    mean, variance = model.predict(codes)
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-9)
    np.testing.assert_allclose(posterior.variance, variance, atol=1e-9)
    pending, picks = SPACE.feasible.sample(5, np.random.default_rng(4)), [7, 3, 20]
    np.testing.assert_allclose(posterior.believe(pending), model.predict(pending)[0], atol=1e-9)
    posterior.believe_candidates(np.array(picks[:2]))
    posterior.believe_candidates(np.array(picks[2:]))
    believed = condition_on_pending(model, np.concatenate([pending, codes[picks]]))
    mean, variance = believed.predict(codes)
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-7)
    np.testing.assert_allclose(posterior.variance, variance, atol=1e-8)
    posterior = posterior.subset(np.array([4, 9]))
    posterior.believe_candidates(np.array([1]))
    expected = condition_on_pending(believed, codes[[9]]).predict(codes[[4, 9]])[1]
    np.testing.assert_allclose(posterior.variance, expected, atol=1e-8)


def test_a_table_in_single_precision_is_close():
    data, codes = observed(50), SPACE.feasible.sample(30, np.random.default_rng(5))
    base, model = fitted(data.rows(np.arange(35)), "zero"), grown(data, 35, "zero")
    table = CandidateTable.of(base, codes, is_single=True)
    assert table.is_single
    assert table.solved.dtype == np.float32
    posterior = CandidatePosterior(table, model)
    assert posterior.mean.dtype == posterior.variance.dtype == np.float64
    mean, variance = model.predict(codes)
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-3)
    np.testing.assert_allclose(posterior.variance, variance, atol=1e-4)


@given(count=st.integers(0, 30_000), step=st.sampled_from([1, 2, 8, 64]))
def test_refits_follow_a_growing_schedule(count, step):
    last = last_refit(count, step)
    assert last <= count
    if step == 1:
        assert last_refit(last) == last
        assert last == count if count <= EVERY_COUNT else count - last < max(2, count / 20)
    assert count - last < max(step, MOST_NEW)


def test_informative_rows_hold_the_best_their_neighbours_and_others():
    rng = np.random.default_rng(0)
    scaled = rng.random((400, 2))
    y = ((scaled - 0.5) ** 2).sum(axis=1)
    rows = informative_rows(y, scaled, 100, rng)
    assert len(rows) == len(set(rows)) == 100
    assert set(np.argsort(y)[:50]) <= set(rows)
    near = np.argsort(y)[:75]  # here the neighbours of the best rows are the next best ones
    assert len(set(near) & set(rows)) >= 68
    assert y[rows].max() > 0.3
    np.testing.assert_array_equal(informative_rows(y, scaled, 400, rng), np.arange(400))


PRIORS = [Gamma(3.0, 6.0), Gamma(1.1, 0.05), LogNormal(0.5, 1.3)]
X = np.geomspace(1e-3, 30.0, 15)


@pytest.mark.parametrize(
    ("prior", "reference"),
    [
        (Gamma(3.0, 6.0), stats.gamma(3.0, scale=1 / 6.0)),
        (LogNormal(0.5, 1.3), stats.lognorm(1.3, scale=0.5)),
    ],
)
def test_density_equals_scipy(prior, reference):
    np.testing.assert_allclose(prior.log_density(X), reference.logpdf(X), rtol=1e-10)
    sample = prior.sample((2000,), np.random.default_rng(1))
    assert stats.kstest(sample, reference.cdf).pvalue > 0.01


@pytest.mark.parametrize("prior", PRIORS)
def test_gradient_equals_finite_differences_of_the_density(prior):
    step = 1e-6 * X
    difference = (prior.log_density(X + step) - prior.log_density(X - step)) / (2.0 * step)
    np.testing.assert_allclose(prior.gradient(X), difference, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("noise", [Gamma(1.1, 10.0), LogNormal(0.1, 1.0)])
def test_the_joint_prior_applies_each_prior_to_its_numbers(noise):
    priors = Priors(Gamma(3.0, 6.0), Gamma(2.0, 0.5), noise)
    joint, each = priors.joint(2), [priors.lengthscale] * 2 + [priors.outputscale, noise]
    x = np.abs(np.random.default_rng(2).normal(size=(5, 4))) + 0.01
    columns = [prior.log_density(x[:, i]) for i, prior in enumerate(each)]
    np.testing.assert_allclose(joint.log_density(x), np.transpose(columns), rtol=1e-12)
    slopes = [prior.gradient(x[0, i]) for i, prior in enumerate(each)]
    np.testing.assert_allclose(joint.gradient(x[0]), slopes, rtol=1e-12)
    drawn = joint.sample((4000, 4), np.random.default_rng(3))
    means = [drawn[:, i].mean() for i in range(3)]
    np.testing.assert_allclose(means, [0.5, 0.5, 4.0], rtol=0.1)


# ---- The closed form against GPyTorch, which defines the model, and against differences ----


KERNEL_PRIORS = Priors(Gamma(3.0, 6.0), Gamma(2.0, 0.5), Gamma(1.1, 10.0))


@pytest.fixture(scope="module")
def problem(mixed, make_data):
    variance = np.random.default_rng(3).random(40) * 0.1
    return mixed, make_data(mixed, 40, variance=variance)


def draw(groups, seed):
    rng = np.random.default_rng(seed)
    return Hyperparameters(
        rng.gamma(3.0, 0.3, groups) + 0.05, 0.4 + rng.random(), 0.01 + 0.1 * rng.random()
    )


def evidence_of(space, data, kernel=MATERN52, priors=KERNEL_PRIORS, mean="zero"):
    squares = squared_distances(space.features(data.codes), space.feature_owner, len(space.active))
    return Evidence(kernel, priors, DistanceTable(squares), data.y, data.variance, mean)


def gpytorch_of(space, data, kernel, h):
    """Return GPyTorch's model with these hyperparameters, and its log posterior."""
    scaled = gpytorch.kernels.ScaleKernel(
        GroupedKernel(space.feature_owner, len(space.active), kernel.name)
    )
    process = make_process(scaled, space.features(data.codes), data.y, data.variance, "cpu")
    scaled.outputscale = torch.tensor(h.outputscale, dtype=DTYPE)
    scaled.base_kernel.lengthscale = torch.tensor(h.lengthscales, dtype=DTYPE)
    process.likelihood.second_noise_covar.noise = torch.tensor(h.noise, dtype=DTYPE)
    return process, LogPosterior(process, KERNEL_PRIORS)


@pytest.mark.parametrize("mean", ["zero", "constant"])
def test_distances_from_features_equal_those_from_a_table(problem, mean):
    space, data = problem
    from_table = evidence_of(space, data, mean=mean)
    features = FeatureDistances(space.features(data.codes), space.feature_owner, len(space.active))
    from_features = replace(from_table, squares=features)
    h = draw(len(space.active), 0)
    value, gradient = from_table(h.logs)
    assert from_features(h.logs)[0] == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(from_features(h.logs)[1], gradient, rtol=1e-7, atol=1e-9)
    rows, thetas = np.arange(3, 30, 2), np.stack([h.logs, h.logs + 0.3])
    np.testing.assert_allclose(
        from_features.subset(rows).scores(thetas), from_table.subset(rows).scores(thetas), rtol=1e-9
    )


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("seed", range(3))
def test_value_and_gradient_equal_gpytorch(problem, kernel, seed):
    space, data = problem
    h = draw(len(space.active), seed)
    value, gradient = evidence_of(space, data, kernel)(h.logs)
    process, reference = gpytorch_of(space, data, kernel, h)
    total = reference()
    total.backward()
    assert value == pytest.approx(total.item(), abs=1e-6)
    # d/dlog x = x dx/draw^-1 d/draw, where x = softplus(raw) (+ a bound) has the slope sigmoid(raw).
    kernel_module = process.covar_module
    raws = [
        (kernel_module.base_kernel.raw_lengthscale, h.lengthscales),
        (kernel_module.raw_outputscale, h.outputscale),
        (process.likelihood.second_noise_covar.raw_noise, h.noise),
    ]
    parts = [(raw.grad / torch.sigmoid(raw)).detach().numpy().ravel() * x for raw, x in raws]
    np.testing.assert_allclose(gradient, np.concatenate(parts), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_posterior_equals_gpytorch(problem, kernel):
    space, data = problem
    h = draw(len(space.active), 7)
    process, _ = gpytorch_of(space, data, kernel, h)
    process.eval()
    candidates = space.feasible.sample(25, np.random.default_rng(9))
    with torch.no_grad():
        # A kernel's own covariance matrix of points at distance 0 is exact only in this path.
        expected = process(torch.as_tensor(space.features(candidates), dtype=DTYPE))
    fitted = fit_posterior(space, kernel, space.features(data.codes), data, h, "zero")
    mean, variance = fitted.predict(candidates)
    np.testing.assert_allclose(mean, expected.mean.numpy(), atol=1e-6)
    np.testing.assert_allclose(variance, expected.variance.numpy(), atol=1e-6)
    joint_mean, covariance = fitted.predict_joint(candidates)
    np.testing.assert_allclose(joint_mean, mean, atol=1e-12)
    np.testing.assert_allclose(covariance, expected.covariance_matrix.numpy(), atol=1e-6)


@pytest.mark.parametrize("mean", ["zero", "constant"])
@pytest.mark.parametrize("priors", [KERNEL_PRIORS, SMOOTH_PRIORS], ids=["gamma", "mixed"])
def test_gradient_equals_finite_differences(problem, mean, priors):
    space, data = problem
    evidence = evidence_of(space, data, priors=priors, mean=mean)
    theta = draw(len(space.active), 1).logs
    steps = 1e-6 * np.eye(len(theta))
    difference = [(evidence(theta + s)[0] - evidence(theta - s)[0]) / 2e-6 for s in steps]
    np.testing.assert_allclose(evidence(theta)[1], difference, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mean", ["zero", "constant"])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_batched_scores_equal_single_evaluations(problem, mean, kernel):
    space, data = problem
    evidence = evidence_of(space, data, kernel, mean=mean)
    thetas = np.array([draw(len(space.active), seed).logs for seed in range(5)])
    expected = [evidence(theta)[0] for theta in thetas]
    np.testing.assert_allclose(evidence.scores(thetas), expected, rtol=1e-9)


def test_a_constant_mean_maximises_the_density(problem):
    space, data = problem
    theta = draw(len(space.active), 2).logs
    shifted = [
        evidence_of(space, type(data)(data.codes, data.y - c, data.variance, data.censored))
        for c in np.linspace(-2.0, 2.0, 41)
    ]
    best = max(e(theta)[0] for e in shifted)
    assert evidence_of(space, data, mean="constant")(theta)[0] >= best


def test_a_subset_equals_the_evidence_of_its_rows(problem):
    space, data = problem
    rows = np.array([3, 5, 20, 21])
    part = type(data)(data.codes[rows], data.y[rows], data.variance[rows], data.censored[rows])
    theta = draw(len(space.active), 4).logs
    whole = evidence_of(space, data).subset(rows)
    assert whole(theta)[0] == pytest.approx(evidence_of(space, part)(theta)[0], rel=1e-12)


def test_a_matrix_that_cannot_be_factored_has_no_density(problem):
    space, data = problem
    broken = type(data)(data.codes, data.y, np.full(40, -1.0), data.censored)
    evidence = evidence_of(space, broken)
    good = evidence_of(space, data)
    thetas = np.array([draw(len(space.active), seed).logs for seed in range(3)])
    value, gradient = evidence(thetas[0])
    assert value == -np.inf
    np.testing.assert_array_equal(gradient, 0.0)
    assert np.all(evidence.scores(thetas) == -np.inf)
    assert np.all(np.isfinite(good.scores(thetas)))
