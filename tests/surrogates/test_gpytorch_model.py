import json
from dataclasses import replace

import gpytorch
import numpy as np
import pytest
import torch

from baco_like.exceptions import StrategyError
from baco_like.surrogates import MATERN32
from baco_like.surrogates.gp.devices import resolve_device
from baco_like.surrogates.gp.fit import Effort, Evidence, Hyperparameters
from baco_like.surrogates.gp.gaussian_process import GaussianProcess
from baco_like.surrogates.gp.gpytorch_model import (
    GPyTorchGP,
    GPyTorchModel,
    GroupedKernel,
    LogPosterior,
    ScaledKernel,
    make_process,
)
from baco_like.surrogates.gp.kernel import KERNELS, MATERN52, DistanceTable, squared_distances
from baco_like.surrogates.gp.model import fit_posterior
from baco_like.surrogates.gp.prior import Gamma, Priors
from baco_like.surrogates.protocol import Data

PRIORS = Priors(Gamma(3.0, 3.0), Gamma(2.0, 1.0), Gamma(1.1, 10.0))


@pytest.fixture(scope="module")
def problem(mixed, make_data):
    return mixed, make_data(mixed, 25, variance=np.full(25, 0.01))


@pytest.fixture(scope="module")
def fitted(problem):
    return GPyTorchGP(priors=PRIORS, device="cpu").fit(*problem, np.random.default_rng(1))


def test_both_fits_find_the_same_model(problem, fitted):
    space, data = problem
    closed = GaussianProcess(priors=PRIORS).fit(space, data, np.random.default_rng(2))
    candidates = space.feasible.sample(40, np.random.default_rng(3))
    for one, other in zip(fitted.predict(candidates), closed.predict(candidates), strict=True):
        np.testing.assert_allclose(one, other, atol=0.02)


def test_conditioning_equals_a_fit_with_the_same_hyperparameters(problem, fitted):
    space, data = problem
    more = space.feasible.sample(3, np.random.default_rng(5))
    y = np.array([0.1, -0.2, 0.3])
    frozen = GPyTorchGP(priors=PRIORS, device="cpu", starts=0, steps=0)
    both = Data(
        np.concatenate([data.codes, more]),
        np.concatenate([data.y, y]),
        np.concatenate([data.variance, np.zeros(3)]),
        np.zeros(28, dtype=bool),
    )
    whole = frozen.fit(space, both, np.random.default_rng(1), fitted.hyperparameters)
    candidates = space.feasible.sample(10, np.random.default_rng(6))
    for one, other in zip(
        fitted.condition(more, y).predict(candidates), whole.predict(candidates), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-8)


def test_hyperparameters_survive_json_and_start_a_fit(problem, fitted):
    space, data = problem
    found = json.loads(json.dumps(fitted.hyperparameters))
    frozen = GPyTorchGP(priors=PRIORS, device="cpu", starts=0, steps=0)
    again = frozen.fit(space, data, np.random.default_rng(9), found)
    assert again.hyperparameters == found
    candidates = space.feasible.sample(5, np.random.default_rng(3))
    np.testing.assert_allclose(again.predict(candidates), fitted.predict(candidates), atol=1e-12)


def test_a_users_kernel_and_its_priors_are_used(problem):
    space, data = problem

    def kernel(owner, groups):
        periodic = gpytorch.kernels.RQKernel()
        periodic.register_prior(
            "lengthscale_prior", gpytorch.priors.GammaPrior(200.0, 1000.0), "lengthscale"
        )
        return gpytorch.kernels.ScaleKernel(periodic)

    model = GPyTorchGP(kernel, priors=PRIORS).fit(space, data, np.random.default_rng(1))
    # The prior allows only lengthscales near 0.2.
    assert model.kernel.base_kernel.lengthscale.item() == pytest.approx(0.2, abs=0.02)
    assert np.all(np.isfinite(model.predict(data.codes)))


def test_a_covariance_that_cannot_be_factored_gives_a_large_loss(problem):
    space, data = problem
    kernel = gpytorch.kernels.ScaleKernel(GroupedKernel(space.feature_owner, len(space.active)))
    objective = LogPosterior(
        make_process(kernel, space.features(data.codes), data.y, data.variance, "cpu"), PRIORS
    )
    value, gradient = objective._loss(np.full(len(objective.raw_parameters()), np.nan))
    assert value == 1e25
    np.testing.assert_array_equal(gradient, 0.0)


def closed_form_like(fitted, space, data):
    kernel = fitted.kernel
    h = Hyperparameters(
        kernel.base_kernel.lengthscale.detach().numpy().ravel(),
        kernel.outputscale.item(),
        fitted.noise,
    )
    return fit_posterior(space, MATERN52, space.features(data.codes), data, h, "zero")


def test_equal_hyperparameters_give_the_closed_forms_posterior(problem, fitted):
    space, data = problem
    closed = closed_form_like(fitted, space, data)
    candidates = space.feasible.sample(30, np.random.default_rng(4))
    expected = closed.predict(candidates)
    np.testing.assert_allclose(fitted.predict(candidates), expected, atol=1e-8)
    np.testing.assert_allclose(fitted.leave_one_out(), closed.leave_one_out(), atol=1e-8)


def test_predictions_do_not_depend_on_the_size_of_the_blocks(problem, fitted, monkeypatch):
    candidates = problem[0].feasible.sample(30, np.random.default_rng(4))
    whole = fitted.predict(candidates)
    monkeypatch.setattr("baco_like.surrogates.gp.gpytorch_model._BLOCK", 7 * fitted.count)
    np.testing.assert_allclose(fitted.predict(candidates), whole, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_fixed_hyperparameters_give_the_fixed_closed_form(problem, kernel):
    space, data = problem
    closed = GaussianProcess(kernel, fixed=(0.7, 2.0, 0.01))
    models = [
        surrogate.fit(space, data, np.random.default_rng(0))
        for surrogate in (closed, closed.to_gpytorch("cpu"))
    ]
    candidates = space.feasible.sample(20, np.random.default_rng(4))
    expected, found = (model.predict(candidates) for model in models)
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_a_fit_starts_from_the_optimum_of_the_closed_form(problem):
    space, data = problem
    closed = GaussianProcess(priors=PRIORS).fit(space, data, np.random.default_rng(2))
    start = json.loads(json.dumps(closed.hyperparameters))
    frozen = GPyTorchGP(priors=PRIORS, device="cpu", starts=0, steps=0)
    model = frozen.fit(space, data, np.random.default_rng(1), start)
    candidates = space.feasible.sample(20, np.random.default_rng(3))
    np.testing.assert_allclose(model.predict(candidates), closed.predict(candidates), atol=1e-6)


def test_large_histories_use_a_gpu_if_there_is_one(problem, monkeypatch):
    space, data = problem
    surrogate = GaussianProcess(effort=Effort(seen_rows=20))
    assert surrogate.fit(space, data, np.random.default_rng(0)).count == 20
    monkeypatch.setattr("baco_like.surrogates.gp.gaussian_process.has_gpu", lambda: True)
    model = surrogate.fit(space, data, np.random.default_rng(0))
    assert isinstance(model, GPyTorchModel)
    assert model.count == 25


@pytest.mark.parametrize(
    "surrogate",
    [
        GaussianProcess(priors=PRIORS, mean="constant"),
        GaussianProcess(MATERN32, fixed=(1.5, 1.0, 1e-6), mean="constant"),
    ],
)
def test_a_constant_mean_is_that_of_the_closed_form(problem, surrogate):
    space, data = problem
    data = replace(data, y=data.y + 3.0)  # far from zero, so that a mean of zero would differ
    candidates = space.feasible.sample(40, np.random.default_rng(3))
    models = [
        each.fit(space, data, np.random.default_rng(2))
        for each in (surrogate, surrogate.to_gpytorch("cpu"))
    ]
    more = space.feasible.sample(2, np.random.default_rng(4))
    models += [model.condition(more, np.array([2.5, 3.5])) for model in models]
    for closed, torch_model in (models[:2], models[2:]):
        for one, other in zip(
            closed.predict(candidates), torch_model.predict(candidates), strict=True
        ):
            np.testing.assert_allclose(one, other, atol=0.02)
        np.testing.assert_allclose(
            closed.leave_one_out(), torch_model.leave_one_out(), rtol=0.05, atol=0.05
        )


def test_the_log_posterior_of_many_rows_is_exact(mixed, make_data):
    data = make_data(mixed, 850)
    features, owner, groups = mixed.features(data.codes), mixed.feature_owner, len(mixed.active)
    process = make_process(ScaledKernel()(owner, groups), features, data.y, data.variance, "cpu")
    objective = LogPosterior(process, PRIORS)
    h = Hyperparameters(np.full(groups, 0.8), 1.5, 0.02)
    objective.set_hyperparameters(h)
    squares = squared_distances(features, np.asarray(owner), groups)
    evidence = Evidence(MATERN52, PRIORS, DistanceTable(squares), data.y, data.variance)
    assert objective().item() == pytest.approx(evidence(h.logs)[0], rel=1e-9)
    assert objective().item() == objective().item()


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "mps"])
def test_unknown_devices_are_refused(device):
    with pytest.raises(StrategyError, match=f"device = '{device}' is unknown; choose 'auto'"):
        GPyTorchGP(device=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_missing_gpu_is_an_error(device):
    with pytest.raises(StrategyError, match="torch finds 0 CUDA devices on this machine; choose"):
        GPyTorchGP(device=device)
    assert resolve_device("auto") == "cpu"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_fits_on_a_gpu_are_reproducible(problem):
    space, data = problem
    surrogate = GPyTorchGP(priors=PRIORS, device="cuda")
    first, second = (surrogate.fit(space, data, np.random.default_rng(1)) for _ in range(2))
    assert first.hyperparameters == second.hyperparameters


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_the_same_predictions(problem, fitted):
    space, data = problem
    frozen = GPyTorchGP(priors=PRIORS, starts=0, steps=0, device="cuda")
    model = frozen.fit(space, data, np.random.default_rng(1), fitted.hyperparameters)
    candidates = space.feasible.sample(20, np.random.default_rng(3))
    np.testing.assert_allclose(model.predict(candidates), fitted.predict(candidates), atol=1e-6)
