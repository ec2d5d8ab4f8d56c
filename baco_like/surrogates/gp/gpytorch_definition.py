"""The Gaussian process stated in GPyTorch: kernel, model and the log posterior of the hyperparameters.

This is the definition of what the closed form in `evidence` and `posterior` computes; tests hold
the two together. Import it only where it is used, as it loads torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gpytorch
import numpy as np
import torch
from gpytorch.constraints import GreaterThan
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel as TorchKernel
from gpytorch.kernels import ScaleKernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from gpytorch.means import ZeroMean
from torch import Tensor
from typing_extensions import override

from baco_like._typing import Array, Ints, Rng
from baco_like.surrogates.gp.fit import NOISES
from baco_like.surrogates.gp.prior import Prior, Priors

DTYPE = torch.float64

CORRELATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "matern-5/2": lambda r2: _matern(r2, 5.0, lambda s: 1.0 + s + s * s / 3.0),
    "matern-3/2": lambda r2: _matern(r2, 3.0, lambda s: 1.0 + s),
    "rbf": lambda r2: torch.exp(-0.5 * r2),
}
"""Correlations of the squared scaled distance, by name."""


def _matern(r2: Tensor, twice_nu: float, polynomial: Callable[[Tensor], Tensor]) -> Tensor:
    # The root has no gradient at 0; below the floor the distance is rounding anyway.
    s = torch.sqrt(twice_nu * r2.clamp_min(1e-30))
    return polynomial(s) * torch.exp(-s)


class GroupedKernel(TorchKernel):  # type: ignore[misc]
    """A stationary kernel over feature columns with one lengthscale per parameter (BaCO, Eqs. 1 and 2).

    Args:
        owner: Which parameter each column belongs to, ``(k,)``.
        groups: Number of parameters.
        correlation: One of `CORRELATIONS`.
    """

    has_lengthscale = True

    def __init__(self, owner: Ints, groups: int, correlation: str = "matern-5/2") -> None:
        super().__init__(ard_num_dims=groups)
        self.register_buffer("owner", torch.as_tensor(np.asarray(owner), dtype=torch.long))
        self.correlation = CORRELATIONS[correlation]

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """Return correlations of features, as GPyTorch asks for them."""
        scales = self.lengthscale[..., self.owner]
        a, b = x1 / scales, x2 / scales
        if diag:
            return self.correlation(((a - b) ** 2).sum(-1))
        return self.correlation(((a.unsqueeze(-2) - b.unsqueeze(-3)) ** 2).sum(-1))


class Process(gpytorch.models.ExactGP):  # type: ignore[misc]
    """An exact Gaussian process with mean zero."""

    def __init__(self, x: Tensor, y: Tensor, likelihood: Any, kernel: TorchKernel) -> None:
        super().__init__(x, y, likelihood)
        self.mean_module = ZeroMean()
        self.covar_module = kernel

    def forward(self, x: Tensor) -> MultivariateNormal:
        """Return the prior at some features."""
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


def make_process(
    kernel: TorchKernel, features: Array, y: Array, variance: Array, device: str
) -> Process:
    """Return the GPyTorch model of some rows, with the kernel's own initial hyperparameters.

    Args:
        kernel: Over feature columns.
        features: ``(n, k)``.
        y: Values, ``(n,)``.
        variance: Known variance of every value, ``(n,)``; a common noise is learnt besides.
        device: A torch device.
    """
    x = torch.as_tensor(features, dtype=DTYPE, device=device)
    target = torch.as_tensor(y, dtype=DTYPE, device=device)
    # A known variance of exactly 0 makes GPyTorch warn; beside a learnt noise this floor is
    # nothing.
    known = torch.as_tensor(variance, dtype=DTYPE, device=device).clamp_min(1e-14)
    with gpytorch.settings.min_fixed_noise(double_value=1e-14):
        likelihood = FixedNoiseGaussianLikelihood(known, learn_additional_noise=True)
    likelihood.second_noise_covar.register_constraint("raw_noise", GreaterThan(NOISES[0]))
    process = Process(x, target, likelihood, kernel)
    process.to(device=device, dtype=DTYPE)
    return process


class LogPosterior:
    """Log likelihood plus log priors of a GPyTorch model, as a function of its raw parameters.

    Args:
        process: The model.
        priors: For lengthscales, outputscales and noise.
    """

    def __init__(self, process: Process, priors: Priors) -> None:
        self.process = process
        self.priors = priors
        self.likelihood = gpytorch.mlls.ExactMarginalLogLikelihood(process.likelihood, process)
        self.count = len(process.train_targets)
        self.parameters = [p for p in process.parameters() if p.requires_grad]
        process.train()

    def noise(self) -> float:
        """Return the learnt variance of the noise."""
        return float(self.process.likelihood.second_noise_covar.noise.item())

    def __call__(self) -> Tensor:
        """Return the log posterior density at the model's present hyperparameters.

        GPyTorch divides its marginal log likelihood by the number of rows; that is undone here.
        """
        output = self.process(*self.process.train_inputs)
        total = self.likelihood(output, self.process.train_targets) * self.count
        for prior, value in self._penalised():
            total = total + _log_density(prior, value).sum()
        return torch.as_tensor(total)

    def flat(self) -> Array:
        """Return the raw parameters as one vector."""
        return np.concatenate([p.detach().cpu().numpy().ravel() for p in self.parameters])

    def assign(self, flat: Array) -> None:
        """Set the raw parameters."""
        at = 0
        with torch.no_grad():
            for p in self.parameters:
                part = flat[at : at + p.numel()].reshape(p.shape)
                p.copy_(torch.as_tensor(part, dtype=p.dtype, device=p.device))
                at += p.numel()

    def maximise(self, starts: int, steps: int, rng: Rng, earlier: Any) -> None:
        """Leave the model at the best hyperparameters that L-BFGS finds from several starts."""
        from scipy.optimize import fmin_l_bfgs_b

        best, lowest = self.flat(), math.inf
        for start in self._starts(starts, rng, earlier):
            found, value = start, self._loss(start)[0]
            if steps > 0:
                found, value, _ = fmin_l_bfgs_b(self._loss, start, maxiter=steps, factr=1e7)
            if float(value) < lowest:
                best, lowest = np.asarray(found), float(value)
        self.assign(best)

    def _starts(self, count: int, rng: Rng, earlier: Any) -> list[Array]:
        size = len(self.flat())
        starts = []
        if isinstance(earlier, list) and len(earlier) == size:
            starts.append(np.asarray(earlier, dtype=float))
        for _ in range(count):
            with torch.no_grad():
                for prior, (module, name, shape) in self._sampled():
                    drawn = torch.as_tensor(prior.sample(tuple(shape), rng), dtype=DTYPE)
                    lowest = NOISES[0] * 1.01
                    module.initialize(**{name: drawn.clamp_min(lowest)})
            starts.append(self.flat())
        return starts

    def _loss(self, flat: Array) -> tuple[float, Array]:
        self.assign(flat)
        self.process.zero_grad()
        try:
            loss = -self()
            loss.backward()  # type: ignore[no-untyped-call]
        except (RuntimeError, ValueError):  # not positive definite, or NaN
            return 1e25, np.zeros_like(flat)
        gradient = np.concatenate([_gradient(p) for p in self.parameters])
        if not (math.isfinite(loss.item()) and np.all(np.isfinite(gradient))):
            return 1e25, np.zeros_like(flat)
        return loss.item(), gradient

    def _sampled(self) -> list[tuple[Prior, tuple[Any, str, torch.Size]]]:
        found: list[tuple[Prior, tuple[Any, str, torch.Size]]] = []
        for module in self.process.covar_module.modules():
            names = {name for name, *_ in getattr(module, "_priors", {}).items()}
            if getattr(module, "has_lengthscale", False) and "lengthscale_prior" not in names:
                found.append(
                    (self.priors.lengthscale, (module, "lengthscale", module.lengthscale.shape))
                )
            if isinstance(module, ScaleKernel) and "outputscale_prior" not in names:
                found.append(
                    (self.priors.outputscale, (module, "outputscale", module.outputscale.shape))
                )
        noise = self.process.likelihood.second_noise_covar
        found.append((self.priors.noise, (noise, "noise", noise.noise.shape)))
        return found

    def _penalised(self) -> list[tuple[Prior, Tensor]]:
        return [(prior, getattr(module, name)) for prior, (module, name, _) in self._sampled()]


class _Density(torch.autograd.Function):
    """A prior's log density as a torch function, from its value and its gradient."""

    @staticmethod
    @override
    def forward(ctx: Any, value: Tensor, prior: Prior) -> Tensor:
        x = value.detach().cpu().numpy()
        ctx.save_for_backward(torch.as_tensor(prior.gradient(x)).to(value))
        return torch.as_tensor(prior.log_density(x)).to(value)

    @staticmethod
    @override
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (slope,) = ctx.saved_tensors
        return grads[0] * slope, None


def _log_density(prior: Prior, value: Tensor) -> Tensor:
    return _Density.apply(value, prior)  # type: ignore[no-any-return, no-untyped-call]


def _gradient(parameter: Tensor) -> Array:
    if parameter.grad is None:
        return np.zeros(parameter.numel())
    return parameter.grad.detach().cpu().numpy().astype(float).ravel()
