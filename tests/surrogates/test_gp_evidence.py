"""The closed form against GPyTorch, which defines the model, and against differences."""

from dataclasses import replace

import gpytorch
import numpy as np
import pytest
import torch

from baco_like.surrogates.gp.fit import Evidence, Hyperparameters
from baco_like.surrogates.gp.gpytorch_model import DTYPE, GroupedKernel, LogPosterior, make_process
from baco_like.surrogates.gp.kernel import (
    KERNELS,
    MATERN52,
    DistanceTable,
    FeatureDistances,
    squared_distances,
)
from baco_like.surrogates.gp.model import fit_posterior
from baco_like.surrogates.gp.prior import FLAT_PRIORS, Gamma, Priors

PRIORS = Priors(Gamma(3.0, 6.0), Gamma(2.0, 0.5), Gamma(1.1, 10.0))


@pytest.fixture(scope="module")
def problem(mixed, make_data):
    variance = np.random.default_rng(3).random(40) * 0.1
    return mixed, make_data(mixed, 40, variance=variance)


def draw(groups, seed):
    rng = np.random.default_rng(seed)
    return Hyperparameters(
        rng.gamma(3.0, 0.3, groups) + 0.05, 0.4 + rng.random(), 0.01 + 0.1 * rng.random()
    )


def evidence_of(space, data, kernel=MATERN52, priors=PRIORS, mean="zero"):
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
    return process, LogPosterior(process, PRIORS)


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
@pytest.mark.parametrize("priors", [PRIORS, FLAT_PRIORS], ids=["gamma", "flat"])
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
