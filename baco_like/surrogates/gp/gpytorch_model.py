"""A Gaussian process in GPyTorch: any kernel, on any torch device.

`GroupedKernel` and `LogPosterior` are the definition of what `Evidence` and `GPModel` compute in closed form; tests
compare the two. Import this module only where it is used, because it loads torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import gpytorch
import numpy as np
import torch
from gpytorch.constraints import GreaterThan
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel as TorchKernel
from gpytorch.kernels import ScaleKernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from gpytorch.means import ConstantMean, ZeroMean
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from typing_extensions import override

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.surrogates.gp.devices import resolve_device
from baco_like.surrogates.gp.fit import NOISES, Hyperparameters, Mean, chosen_rows, from_json
from baco_like.surrogates.gp.model import safe_cholesky
from baco_like.surrogates.gp.prior import Prior, Priors
from baco_like.surrogates.protocol import Data, Featured, GaussianSurrogate

DTYPE = torch.float64


def to_tensor(array: Array | Ints | float, device: torch.device | str) -> Tensor:
    """Return an array in double precision on a device; one that cannot be written, as cached features, is copied."""
    writable = np.require(array, requirements="W")  # PyTorch warns of others
    return torch.as_tensor(writable, dtype=DTYPE, device=device)


_LEAST_NOISE = 1.01 * NOISES[0]
"""Floor of drawn and given hyperparameters: the constraint on the noise cannot be inverted at its bound."""

CORRELATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "matern-5/2": lambda r2: _matern(r2, 5.0, lambda s: 1.0 + s + s * s / 3.0),
    "matern-3/2": lambda r2: _matern(r2, 3.0, lambda s: 1.0 + s),
    "rbf": lambda r2: torch.exp(-0.5 * r2),
}
"""Correlations of the squared scaled distance, by name."""


def _matern(r2: Tensor, twice_nu: float, polynomial: Callable[[Tensor], Tensor]) -> Tensor:
    # The root has no gradient at 0; below the floor the distance is a rounding error anyway.
    s = torch.sqrt(twice_nu * r2.clamp_min(1e-30))
    return polynomial(s) * torch.exp(-s)


class GroupedKernel(TorchKernel):  # type: ignore[misc]
    """A stationary kernel over feature columns with one lengthscale per parameter (BaCO, Eqs. 1 and 2).

    Args:
        owner: The parameter that each column belongs to, ``(k,)``.
        groups: Number of parameters.
        correlation: One of `CORRELATIONS`.
    """

    has_lengthscale = True

    def __init__(self, owner: Ints, groups: int, correlation: str = "matern-5/2") -> None:
        super().__init__(ard_num_dims=groups)
        # A matrix product instead of indexing: the gradient of indexing adds up in random order on a GPU, and a
        # resumed run must give the same suggestions.
        one_hot = np.arange(groups)[:, None] == np.asarray(owner)
        self.register_buffer("one_hot", torch.as_tensor(one_hot, dtype=DTYPE))
        self.correlation = CORRELATIONS[correlation]

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """Return the correlations of features ``(m, k)`` and ``(n, k)``: ``(m, n)``, or ``(m,)`` with ``diag``."""
        scales = self.lengthscale @ self.one_hot
        a, b = x1 / scales, x2 / scales
        if diag:
            return self.correlation(((a - b) ** 2).sum(-1))
        if torch.is_grad_enabled():
            return self.correlation(((a.unsqueeze(-2) - b.unsqueeze(-3)) ** 2).sum(-1))
        # Column by column: the array of all differences, (m, n, k), does not fit into a GPU's memory.
        squared = a.new_zeros(a.shape[-2], b.shape[-2])
        for column in range(a.shape[-1]):
            squared += (a[..., :, column, None] - b[..., None, :, column]) ** 2
        return self.correlation(squared)


@dataclass(frozen=True)
class ScaledKernel:
    """Makes the closed form's kernel in GPyTorch: an outputscale times a `GroupedKernel`.

    Attributes:
        correlation: One of `CORRELATIONS`.
    """

    correlation: str = "matern-5/2"

    def __call__(self, owner: Ints, groups: int) -> TorchKernel:
        """Return a new kernel over feature columns that belong to ``groups`` parameters."""
        return ScaleKernel(GroupedKernel(owner, groups, self.correlation))


class Process(gpytorch.models.ExactGP):  # type: ignore[misc]
    """An exact Gaussian process; a constant mean is fitted with the hyperparameters."""

    def __init__(
        self, x: Tensor, y: Tensor, likelihood: Any, kernel: TorchKernel, mean: Mean
    ) -> None:
        super().__init__(x, y, likelihood)
        self.mean_module = ZeroMean() if mean == "zero" else ConstantMean()
        self.covar_module = kernel

    def forward(self, x: Tensor) -> MultivariateNormal:
        """Return the prior at some features."""
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


def make_process(
    kernel: TorchKernel,
    features: Array,
    y: Array,
    variance: Array,
    device: str,
    mean: Mean = "zero",
) -> Process:
    """Return the GPyTorch model of some rows, with the kernel's own initial hyperparameters.

    Args:
        kernel: Over feature columns.
        features: ``(n, k)``.
        y: Values, ``(n,)``.
        variance: Known variance of every value, ``(n,)``; a common noise is fitted in addition.
        device: A torch device.
        mean: The prior mean: zero, or a constant that is fitted.
    """
    # GPyTorch warns of a known variance of exactly 0; this floor is far below the fitted noise.
    known = to_tensor(variance, device).clamp_min(1e-14)
    with gpytorch.settings.min_fixed_noise(double_value=1e-14):
        likelihood = FixedNoiseGaussianLikelihood(known, learn_additional_noise=True)
    likelihood.second_noise_covar.register_constraint("raw_noise", GreaterThan(NOISES[0]))
    process = Process(to_tensor(features, device), to_tensor(y, device), likelihood, kernel, mean)
    process.to(device=device, dtype=DTYPE)
    return process


class LogPosterior:
    """Log likelihood plus log priors of a GPyTorch model, as a function of its raw parameters.

    Args:
        process: The model.
        priors: For the hyperparameters without a registered prior.
    """

    def __init__(self, process: Process, priors: Priors) -> None:
        self.process = process
        self.priors = priors
        self.likelihood = gpytorch.mlls.ExactMarginalLogLikelihood(process.likelihood, process)
        self.device = process.train_targets.device
        self.parameters = [p for p in process.parameters() if p.requires_grad]
        process.train()

    def noise(self) -> float:
        """Return the fitted variance of the noise."""
        return float(self.process.likelihood.second_noise_covar.noise.item())

    def __call__(self) -> Tensor:
        """Return the log posterior density at the model's present hyperparameters.

        GPyTorch divides its marginal log likelihood by the number of rows; this is undone here.
        """
        # By default GPyTorch replaces the Cholesky factorisation from 800 rows on by an iterative method with random
        # probes of torch's global generator. A resumed run would then have other hyperparameters.
        with gpytorch.settings.fast_computations(False, log_prob=False, solves=False):
            output = self.process(*self.process.train_inputs)
            targets = self.process.train_targets
            total = self.likelihood(output, targets) * len(targets)
        for prior, module, name in self._priors():
            total = total + _log_density(prior, getattr(module, name))
        return torch.as_tensor(total)

    def raw_parameters(self) -> Array:
        """Return the raw parameters as one vector."""
        return parameters_to_vector(self.parameters).detach().cpu().numpy()

    def set_raw_parameters(self, raw: Array) -> None:
        """Set the raw parameters from one vector."""
        with torch.no_grad():
            vector_to_parameters(to_tensor(raw, self.device), self.parameters)

    def set_hyperparameters(self, h: Hyperparameters) -> Array:
        """Set lengthscales, outputscale and noise of a `ScaledKernel`; return them as raw parameters."""
        values = {"lengthscale": h.lengthscales, "outputscale": h.outputscale, "noise": h.noise}
        return self._initialise(
            lambda prior, name, shape: np.broadcast_to(np.asarray(values[name]), shape)
        )

    def draw(self, rng: Rng) -> Array:
        """Set hyperparameters drawn from the priors; return them as raw parameters."""
        return self._initialise(lambda prior, name, shape: prior.sample(shape, rng))

    def _initialise(self, value_of: Callable[[Prior, str, tuple[int, ...]], Array]) -> Array:
        with torch.no_grad():
            for prior, module, name in self._priors():
                value = value_of(prior, name, tuple(getattr(module, name).shape))
                value = np.maximum(value, _LEAST_NOISE)
                module.initialize(**{name: to_tensor(value, self.device)})
        return self.raw_parameters()

    def maximise(self, starts: list[Array], steps: int) -> None:
        """Set the best hyperparameters that L-BFGS reaches from these raw parameters, within ``steps`` iterations."""
        from scipy.optimize import fmin_l_bfgs_b

        best, lowest = self.raw_parameters(), math.inf
        for start in starts:
            reached, value = start, self._loss(start)[0]
            if steps > 0:
                reached, value, _ = fmin_l_bfgs_b(self._loss, start, maxiter=steps, factr=1e7)
            if float(value) < lowest:
                best, lowest = np.asarray(reached), float(value)
        self.set_raw_parameters(best)

    def _loss(self, raw: Array) -> tuple[float, Array]:
        """Return minus the log posterior and its gradient; a large finite number where it cannot be computed."""
        self.set_raw_parameters(raw)
        self.process.zero_grad()
        try:
            loss = -self()
            loss.backward()  # type: ignore[no-untyped-call]
        except (RuntimeError, ValueError):  # not positive definite, or NaN
            return 1e25, np.zeros_like(raw)
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        gradient = parameters_to_vector(gradients).cpu().numpy()
        if not (math.isfinite(loss.item()) and np.all(np.isfinite(gradient))):
            return 1e25, np.zeros_like(raw)
        return loss.item(), gradient

    def _priors(self) -> Iterator[tuple[Prior, Any, str]]:
        """Yield each prior with the module and the name of the hyperparameter that it applies to."""
        for module in self.process.covar_module.modules():
            own = getattr(module, "_priors", {})
            if getattr(module, "has_lengthscale", False) and "lengthscale_prior" not in own:
                yield self.priors.lengthscale, module, "lengthscale"
            if isinstance(module, ScaleKernel) and "outputscale_prior" not in own:
                yield self.priors.outputscale, module, "outputscale"
        yield self.priors.noise, self.process.likelihood.second_noise_covar, "noise"


def _log_density(prior: Prior, value: Tensor) -> Tensor:
    """Return the sum of a prior's log density, with its gradient but computed by NumPy."""
    x = value.detach().cpu().numpy()
    slope = torch.as_tensor(prior.gradient(x)).to(value)
    return float(prior.log_density(x).sum()) + (slope * (value - value.detach())).sum()


KernelFactory = Callable[[Ints, int], TorchKernel]
"""Makes a GPyTorch kernel from the feature columns' parameters ``(k,)`` and the number of parameters."""

_BLOCK = 2**24
"""Numbers in one working array of a prediction: 128 MiB."""


@dataclass(frozen=True)
class GPyTorchGP(GaussianSurrogate):
    """A Gaussian process with any GPyTorch kernel, on any torch device.

    Attributes:
        kernel: Makes the kernel; a kernel's own registered priors count too.
        priors: For lengthscales and outputscales without a registered prior, and for the noise.
        device: "auto" (the GPU if there is one), "cpu", "cuda" or "cuda:N".
        starts: Number of draws from the priors that are refined, besides the last fit's optimum.
        steps: Maximum number of L-BFGS iterations for each start; 0 keeps the best start.
        fresh_every: Draws are refined whenever the number of observations is a multiple of this; other fits only
            follow the last optimum, which one more observation moves little.
        follow_steps: Maximum number of iterations from the last optimum.
        fitted_rows: Maximum number of rows that the hyperparameters are fitted to.
        seen_rows: Maximum number of rows that the model uses; the factor of 10,000 rows takes 800 MB.
        fixed: Lengthscale, outputscale and noise variance to use unchanged; None fits them.
        mean: The prior mean: zero, or a constant that is estimated.

    Raises:
        StrategyError: This machine has no such device.
    """

    kernel: KernelFactory = field(default_factory=ScaledKernel)
    priors: Priors = field(default_factory=Priors)
    device: str = "auto"
    starts: int = 2
    steps: int = 50
    fresh_every: int = 5
    follow_steps: int = 10
    fitted_rows: int = 1000
    seen_rows: int = 10_000
    fixed: tuple[float, float, float] | None = None
    mean: Mean = "zero"

    def __post_init__(self) -> None:
        resolve_device(self.device)

    @override
    def fit(
        self, space: Featured, data: Data, rng: Rng, start: Mapping[str, Any] | None = None
    ) -> GPyTorchModel:
        """Return a model of ``data``; censored values count at their bounds."""
        count = len(data.y)
        data = data.rows(chosen_rows(data.y, self.seen_rows, rng))
        features = space.features(data.codes)
        rows = chosen_rows(data.y, self.fitted_rows, rng)
        device = resolve_device(self.device)
        kernel = self.kernel(np.asarray(space.feature_owner), len(space.active))
        process = make_process(
            kernel, features[rows], data.y[rows], data.variance[rows], device, self.mean
        )
        objective = LogPosterior(process, self.priors)
        if self.fixed is not None:
            lengthscale, outputscale, noise = self.fixed
            each = np.full(len(space.active), lengthscale)
            objective.set_hyperparameters(Hyperparameters(each, outputscale, noise))
        else:
            starts, steps = self._last_optimum(objective, start, len(space.active)), self.steps
            if starts and count % self.fresh_every:
                steps = min(self.follow_steps, steps)
            else:
                starts += [objective.draw(rng) for _ in range(self.starts)]
            objective.maximise(starts, steps)
        x, y, known = (to_tensor(array, device) for array in (features, data.y, data.variance))
        with torch.no_grad():
            factor = _cholesky(kernel(x).to_dense() + torch.diag(objective.noise() + known))
            level = 0.0 if self.mean == "zero" else _generalised_mean(factor, y)
        parameters = tuple(objective.raw_parameters().tolist())
        return GPyTorchModel(
            space, kernel, objective.noise(), x, factor, level, y - level, parameters
        )

    def _last_optimum(
        self, objective: LogPosterior, start: Mapping[str, Any] | None, groups: int
    ) -> list[Array]:
        """Return an earlier optimum as raw parameters, also one of the closed form; none if it does not fit."""
        raw = None if start is None else start.get("parameters")
        if isinstance(raw, list) and len(raw) == len(objective.raw_parameters()):
            return [np.asarray(raw, dtype=float)]
        closed_form = from_json(start, groups)
        if closed_form is None or not isinstance(self.kernel, ScaledKernel):
            return []
        return [objective.set_hyperparameters(closed_form)]


@dataclass(frozen=True, eq=False)
class GPyTorchModel:
    """A fitted Gaussian process with a GPyTorch kernel; it predicts the noise-free value.

    Attributes:
        space: Gives the features.
        kernel: The fitted kernel.
        noise: Variance of the noise of one more observation.
        rows: Features of the observations, ``(n, k)``, on the device.
        factor: Lower Cholesky factor of the covariance of the observations, ``(n, n)``.
        mean: Prior mean.
        residual: Their values minus the prior mean, ``(n,)``.
        parameters: The raw hyperparameters, `LogPosterior.raw_parameters`.
    """

    space: Featured
    kernel: TorchKernel
    noise: float
    rows: Tensor
    factor: Tensor
    mean: float
    residual: Tensor
    parameters: tuple[float, ...]

    @property
    def hyperparameters(self) -> Mapping[str, Any]:
        """GPyTorch's raw parameters as one list."""
        return {"parameters": list(self.parameters)}

    @property
    def count(self) -> int:
        """Number of observations that the model uses."""
        return len(self.rows)

    def predict(self, codes: Codes) -> tuple[Array, Array]:
        """Return mean and variance of the noise-free value, ``(n, w)`` -> ``(n,)``, ``(n,)``."""
        mean, variance = np.empty(len(codes)), np.empty(len(codes))
        size = max(1, _BLOCK // self.count)
        for at in range(0, len(codes), size):
            block = slice(at, at + size)
            with torch.no_grad():
                x, block_mean, solved = self._solve(codes[block])
                block_variance = self.kernel(x, diag=True) - (solved**2).sum(0)
            mean[block] = block_mean.cpu().numpy()
            variance[block] = block_variance.cpu().numpy()
        return mean, np.maximum(variance, 0.0)

    def predict_joint(self, codes: Codes) -> tuple[Array, Array]:
        """Return mean ``(n,)`` and covariance ``(n, n)`` of the noise-free values."""
        with torch.no_grad():
            x, mean, solved = self._solve(codes)
            covariance = self.kernel(x).to_dense() - solved.T @ solved
        return mean.cpu().numpy(), covariance.cpu().numpy()

    def condition(self, codes: Codes, y: Array) -> GPyTorchModel:
        """Return the model that also uses these values, with the same hyperparameters."""
        with torch.no_grad():
            x, _, solved = self._solve(codes)
            corner = self.kernel(x).to_dense() - solved.T @ solved
            corner = corner + self.noise * torch.eye(len(x), dtype=DTYPE, device=x.device)
        n, m = len(self.rows), len(x)
        factor = torch.zeros((n + m, n + m), dtype=DTYPE, device=x.device)
        factor[:n, :n], factor[n:, :n] = self.factor, solved.T
        factor[n:, n:] = _cholesky(corner)
        residual = torch.cat([self.residual, to_tensor(y - self.mean, x.device)])
        return replace(self, rows=torch.cat([self.rows, x]), factor=factor, residual=residual)

    def leave_one_out(self) -> tuple[Array, Array]:
        """Return mean and standard deviation at every observation given the others; see `GPModel.leave_one_out`."""
        inverse = torch.cholesky_inverse(self.factor)
        precision = torch.diagonal(inverse)
        mean = self.residual + self.mean - inverse @ self.residual / precision
        deviation = (1.0 / precision - self.noise).clamp_min(0.0).sqrt()
        return mean.cpu().numpy(), deviation.cpu().numpy()

    def _solve(self, codes: Codes) -> tuple[Tensor, Tensor, Tensor]:
        """Return features, posterior mean and L^-1 times the covariance (Rasmussen and Williams, Alg. 2.1)."""
        x = to_tensor(self.space.features(codes), "cpu").to(self.rows)
        cross = self.kernel(self.rows, x).to_dense()
        solved = torch.linalg.solve_triangular(self.factor, cross, upper=False)
        alpha = torch.cholesky_solve(self.residual[:, None], self.factor)[:, 0]
        return x, cross.T @ alpha + self.mean, solved


def _generalised_mean(factor: Tensor, y: Tensor) -> float:
    """Return the generalised least squares estimate 1'K^-1 y / 1'K^-1 1 of a constant mean."""
    solved = torch.cholesky_solve(torch.stack([y, torch.ones_like(y)], dim=1), factor)
    level, total = solved.sum(dim=0)
    return float(level / total)


def _cholesky(matrix: Tensor) -> Tensor:
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if not bool(failed.any()):
        return torch.as_tensor(factor)
    return torch.as_tensor(safe_cholesky(matrix.cpu().numpy())).to(matrix)
