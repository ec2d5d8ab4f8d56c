"""The Gaussian process in GPyTorch: kernel, model and the log posterior of the hyperparameters.

This is the definition of what `Evidence` and `GPModel` compute in closed form; tests compare the two. Import this
module only where it is used, because it loads torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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

from baco_like._typing import Array, Ints, Rng
from baco_like.surrogates.gp.fit import NOISES, Hyperparameters, Mean
from baco_like.surrogates.gp.prior import Prior, Priors

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
