"""The Gaussian process over configurations and tasks against a dense closed form and GPyTorch."""

import math

import numpy as np
import pytest

from baco_like import Space
from baco_like.surrogates.gp.kernel import MATERN52, parameter_distances
from baco_like.surrogates.gp.multi_task import MultiTaskGP, families_of
from baco_like.surrogates.gp.prior import Gamma, LogNormal
from baco_like.surrogates.gp.task_kernels import (
    LEVEL,
    Coregionalisation,
    DescriptorKernel,
    TaskData,
    TaskEvidence,
)

SPACE = Space({"a": list(range(8)), "b": [1, 2, 4, 8, 16], "c": ["x", "y", "z"]})
TASKS = Space({"a": [1]}, tasks=[{"n": 1, "d": "A"}, {"n": 8, "d": "A"}, {"n": 64, "d": "B"}]).tasks
FAMILIES = [*families_of(*TASKS.features(), 8), Coregionalisation(3, has_own=False)]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    codes = SPACE.feasible.sample(30, rng)
    tasks = rng.integers(0, 3, 30)
    return TaskData(codes, tasks, rng.standard_normal(30), rng.uniform(0.0, 0.1, 30))


@pytest.fixture(scope="module", params=[True, False], ids=["own parts", "one kernel"])
def model(data, request):
    surrogate = MultiTaskGP(draws=2, steps=5)
    families = [Coregionalisation(3, has_own=request.param)]
    return surrogate.fit(SPACE, data, families, np.random.default_rng(1))


def matern(left, right, lengthscales):
    scales = 1.0 / np.array(lengthscales)[np.asarray(SPACE.feature_owner)]
    a, b = SPACE.features(left) * scales, SPACE.features(right) * scales
    d = np.sqrt(5.0) * np.sqrt(((a[:, None] - b[None]) ** 2).sum(axis=2))
    return (1.0 + d + d**2 / 3.0) * np.exp(-d)


def test_the_posterior_is_that_of_the_dense_closed_form(model, data):
    codes = SPACE.feasible.sample(4, np.random.default_rng(2))
    notes = model.hyperparameters
    weights, own = np.array(notes["task"][:3]), np.exp(notes["task"][3:])
    separate = notes["task_lengthscales"] or [notes["lengthscales"]] * 3

    def between(left, left_tasks, right, right_tasks):
        shared = np.outer(weights[left_tasks], weights[right_tasks])
        total = shared * matern(left, right, notes["lengthscales"])
        for t in range(3):
            same = np.outer(left_tasks == t, right_tasks == t)
            total += same * own[t] * matern(left, right, separate[t])
        return total

    covariance = between(data.codes, data.tasks, data.codes, data.tasks)
    covariance += np.diag(notes["noise"] + data.variance)
    same = np.equal(data.tasks[:, None], data.tasks)
    levels = np.array(
        [
            LEVEL * (data.tasks == t) @ np.linalg.solve(covariance + LEVEL * same, data.y)
            for t in range(3)
        ]
    )
    inverse, every = np.linalg.inv(covariance), np.arange(3)
    mean, joint = model.predict_joint(codes, every)
    for i, row in enumerate(codes):
        rows = np.repeat(row[None], 3, axis=0)
        cross = between(rows, every, data.codes, data.tasks)
        expected = levels + cross @ inverse @ (data.y - levels[data.tasks])
        np.testing.assert_allclose(mean[i], expected, atol=1e-9)
        prior = between(rows, every, rows, every)
        np.testing.assert_allclose(joint[i], prior - cross @ inverse @ cross.T, atol=1e-9)


def test_a_weighted_sum_is_that_of_the_joint_prediction(model):
    codes, weights = SPACE.feasible.sample(6, np.random.default_rng(3)), np.array([0.2, -0.3, 0.5])
    mean, covariance = model.predict_joint(codes, np.arange(3))
    centre, variance = model.predict_weighted(codes, weights)
    np.testing.assert_allclose(centre, mean @ weights, atol=1e-10)
    np.testing.assert_allclose(
        variance, np.einsum("s,mst,t->m", weights, covariance, weights), atol=1e-10
    )


def test_one_task_is_predicted_like_all_together(model):
    codes, tasks = SPACE.feasible.sample(6, np.random.default_rng(4)), np.array([0, 1, 2, 0, 1, 2])
    mean, covariance = model.predict_joint(codes, np.arange(3))
    centre, variance = model.predict(codes, tasks)
    rows = np.arange(6)
    np.testing.assert_allclose(centre, mean[rows, tasks], atol=1e-10)
    np.testing.assert_allclose(variance, covariance[rows, tasks, tasks], atol=1e-10)


def test_conditioning_on_the_mean_keeps_all_means_and_lowers_the_variance(model):
    codes, tasks = SPACE.feasible.sample(3, np.random.default_rng(5)), np.array([0, 1, 2])
    other = model.condition(codes, tasks, model.predict(codes, tasks)[0])
    every = SPACE.feasible.sample(9, np.random.default_rng(6))
    for task in range(3):
        before, after = model.predict(every, task), other.predict(every, task)
        np.testing.assert_allclose(after[0], before[0], atol=1e-8)
        assert (after[1] <= before[1] + 1e-9).all()
    assert other.predict(codes, tasks)[1].max() < model.predict(codes, tasks)[1].max()


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_gradient_is_the_slope_of_the_density(family, data):
    squares = parameter_distances(SPACE.features(data.codes), np.asarray(SPACE.feature_owner), 3)
    evidence = TaskEvidence(
        MATERN52,
        family,
        squares,
        data.tasks,
        data.y,
        data.variance,
        LogNormal(4, 1),
        Gamma(1.1, 10.0),
    )
    rng = np.random.default_rng(7)
    own = family.prior[0] + 0.1 * rng.standard_normal(len(family.prior[0]))
    lengthscales = rng.uniform(0.5, 2.0, 3 * evidence.sets)
    theta = np.concatenate([np.log(lengthscales), [-3.0], own])
    _, gradient = evidence(theta)
    for i, step in enumerate(1e-5 * np.eye(len(theta))):
        slope = (evidence(theta + step)[0] - evidence(theta - step)[0]) / 2e-5
        assert gradient[i] == pytest.approx(slope, rel=1e-4, abs=1e-4)


def test_the_likelihood_is_that_of_gpytorch(data):
    import torch
    from gpytorch.distributions import MultivariateNormal
    from gpytorch.kernels import MaternKernel

    lengthscales, noise = [1.0, 0.5, 2.0], 0.05
    family = Coregionalisation(3, has_own=False)
    phi = np.array([0.9, -0.4, 0.6, math.log(0.2), math.log(0.5), math.log(0.1)])
    squares = parameter_distances(SPACE.features(data.codes), np.asarray(SPACE.feature_owner), 3)
    flat = Gamma(1.0, 1e-300)  # a constant density up to rounding
    evidence = TaskEvidence(
        MATERN52, family, squares, data.tasks, data.y, data.variance, flat, flat
    )
    theta = np.concatenate([np.log(lengthscales), [math.log(noise)], phi])
    z = (phi - family.prior[0]) / family.prior[1]
    constant = 4 * math.log(1e-300)
    ours = evidence(theta)[0] + 0.5 * z @ z - constant
    kernel = MaternKernel(nu=2.5, ard_num_dims=SPACE.features(data.codes).shape[1]).double()
    kernel.lengthscale = torch.tensor(np.array(lengthscales)[np.asarray(SPACE.feature_owner)])
    with torch.no_grad():
        correlation = kernel(torch.tensor(SPACE.features(data.codes))).to_dense().numpy()
    between = family.matrix(phi)[data.tasks[:, None], data.tasks]
    covariance = between * correlation + LEVEL * np.equal(data.tasks[:, None], data.tasks)
    covariance += np.diag(noise + data.variance)
    normal = MultivariateNormal(torch.zeros(30).double(), torch.tensor(covariance))
    assert ours == pytest.approx(float(normal.log_prob(torch.tensor(data.y))), abs=1e-6)


def test_reversed_values_give_a_negative_correlation_and_unrelated_ones_almost_none():
    rng = np.random.default_rng(8)
    codes = np.unique(SPACE.feasible.sample(40, rng), axis=0)[:24]
    smooth = SPACE.features(codes) @ np.array([2.0, 1.0, *rng.standard_normal(3)])
    smooth = (smooth - smooth.mean()) / smooth.std()
    for other, check in (
        (-smooth, lambda c: c < -0.6),
        (rng.permutation(smooth), lambda c: abs(c) < 0.6),
    ):
        y = np.concatenate([smooth, other])
        tasks = np.repeat([0, 1], len(codes))
        both = TaskData(np.concatenate([codes, codes]), tasks, y, np.zeros(len(y)))
        fitted = MultiTaskGP(draws=4).fit(SPACE, both, [Coregionalisation(2)], rng)
        b = fitted.covariance_of_tasks
        assert check(b[0, 1] / math.sqrt(b[0, 0] * b[1, 1]))


def test_tasks_without_a_common_part_are_modelled_as_if_each_were_alone(data):
    """With the weight 0 the likelihood is the product of those of the tasks with lengthscales of their own."""
    lengthscales = np.random.default_rng(9).uniform(0.3, 3.0, (4, 3))
    flat = Gamma(1.0, 1e-300)  # a constant density up to rounding

    def likelihood(tasks):
        rows, count = data.rows(np.flatnonzero(np.isin(data.tasks, tasks))), len(tasks)
        family = Coregionalisation(count)
        squares = parameter_distances(
            SPACE.features(rows.codes), np.asarray(SPACE.feature_owner), 3
        )
        numbers = np.searchsorted(tasks, rows.tasks)
        evidence = TaskEvidence(
            MATERN52, family, squares, numbers, rows.y, rows.variance, flat, flat
        )
        phi = np.concatenate([np.zeros(count), np.log([0.2, 0.5, 0.8])[tasks]])
        used = np.log(lengthscales[[0, *(1 + t for t in tasks)]]).ravel()
        z = (phi - family.prior[0]) / family.prior[1]
        constant = (len(used) + 1) * math.log(1e-300)
        return evidence(np.concatenate([used, [-3.0], phi]))[0] + 0.5 * z @ z - constant

    assert likelihood([0, 1, 2]) == pytest.approx(sum(likelihood([t]) for t in range(3)))


def test_tasks_with_near_descriptors_are_alike():
    family = DescriptorKernel.of(*TASKS.features())
    matrix = family.matrix(family.prior[0])
    assert matrix[0, 1] > matrix[0, 2] > 0
    assert (np.linalg.eigvalsh(matrix) > 0).all()
