"""A Gaussian process in GPyTorch: any kernel, on any torch device.

Import this module only where it is used, because it loads torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from gpytorch.kernels import Kernel as TorchKernel
from torch import Tensor
from typing_extensions import override

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.surrogates.gp.devices import resolve_device
from baco_like.surrogates.gp.fit import Hyperparameters, Mean, chosen_rows, from_json
from baco_like.surrogates.gp.gpytorch_definition import (
    DTYPE,
    LogPosterior,
    ScaledKernel,
    make_process,
    to_tensor,
)
from baco_like.surrogates.gp.model import safe_cholesky
from baco_like.surrogates.gp.prior import Priors
from baco_like.surrogates.protocol import Data, Featured, GaussianSurrogate

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
