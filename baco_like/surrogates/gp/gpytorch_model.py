"""A Gaussian process with a GPyTorch kernel of the user's choice, on any torch device.

Import it only where it is used, as it loads torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from gpytorch.kernels import Kernel as TorchKernel
from gpytorch.kernels import ScaleKernel
from torch import Tensor

from baco_like._typing import Array, Codes, Features, Ints, Rng
from baco_like.surrogates.gp.fit import chosen_rows
from baco_like.surrogates.gp.gpytorch_definition import (
    DTYPE,
    GroupedKernel,
    LogPosterior,
    make_process,
)
from baco_like.surrogates.gp.posterior import safe_cholesky
from baco_like.surrogates.gp.prior import Priors
from baco_like.surrogates.protocol import Data, Featured

KernelFactory = Callable[[Ints, int], TorchKernel]
"""Makes a GPyTorch kernel over feature columns from the columns' owners and the number of parameters."""


def default_kernel(owner: Ints, groups: int) -> TorchKernel:
    """Return the scaled Matern-5/2 kernel with one lengthscale per parameter."""
    return ScaleKernel(GroupedKernel(owner, groups))


@dataclass(frozen=True)
class GPyTorchGP:
    """A Gaussian process with any GPyTorch kernel, on any torch device.

    Attributes:
        kernel: Makes the kernel; a kernel's own registered priors count too.
        priors: For lengthscales and outputscales, wherever the kernel has them without a prior of
            their own, and for the noise.
        device: A torch device; "cuda" uses the GPU.
        starts: How many draws of the priors are refined, beside an earlier optimum.
        steps: Most iterations of L-BFGS for one start; 0 keeps the best start.
        fitted_rows: At most so many rows take part in finding the hyperparameters.
    """

    kernel: KernelFactory = default_kernel
    priors: Priors = field(default_factory=Priors)
    device: str = "cpu"
    starts: int = 2
    steps: int = 50
    fitted_rows: int = 1000

    def fit(
        self, space: Featured, data: Data, rng: Rng, start: Mapping[str, Any] | None = None
    ) -> GPyTorchModel:
        """Return a model of ``data``; censored values count at their bounds."""
        features = space.features(data.codes)
        rows = chosen_rows(data.y, self.fitted_rows, rng)
        kernel = self.kernel(np.asarray(space.feature_owner), len(space.active))
        process = make_process(
            kernel, features[rows], data.y[rows], data.variance[rows], self.device
        )
        objective = LogPosterior(process, self.priors)
        earlier = None if start is None else start.get("parameters")
        objective.maximise(self.starts, self.steps, rng, earlier)
        return _model(space, objective, features, data)


@dataclass(frozen=True, eq=False)
class GPyTorchModel:
    """A fitted Gaussian process with a GPyTorch kernel; it predicts the noise-free value.

    Attributes:
        space: Gives the features.
        kernel: The fitted kernel.
        noise: Variance of one more observation's noise.
        rows: Features of the observations, ``(n, k)``, on the device.
        factor: Lower Cholesky factor of the covariance of the observations.
        y: Their values.
        parameters: The raw hyperparameters, `LogPosterior.flat`.
    """

    space: Featured
    kernel: TorchKernel
    noise: float
    rows: Tensor
    factor: Tensor
    y: Tensor
    parameters: tuple[float, ...]

    @property
    def hyperparameters(self) -> Mapping[str, Any]:
        """GPyTorch's raw parameters as one list."""
        return {"parameters": list(self.parameters)}

    def predict(self, codes: Codes) -> tuple[Array, Array]:
        """Return mean and variance of the noise-free value, ``(n, w)`` -> ``(n,)``, ``(n,)``."""
        x = self._features(codes)
        with torch.no_grad():
            mean, solved = self._solved(x)
            variance = self.kernel(x, diag=True) - (solved**2).sum(0)
        return mean.cpu().numpy(), np.maximum(variance.cpu().numpy(), 0.0)

    def predict_joint(self, codes: Codes) -> tuple[Array, Array]:
        """Return mean ``(n,)`` and covariance ``(n, n)`` of the noise-free values."""
        x = self._features(codes)
        with torch.no_grad():
            mean, solved = self._solved(x)
            covariance = self.kernel(x).to_dense() - solved.T @ solved
        return mean.cpu().numpy(), covariance.cpu().numpy()

    def condition(self, codes: Codes, y: Array) -> GPyTorchModel:
        """Return the model that has also seen these values, with the same hyperparameters."""
        x = self._features(codes)
        with torch.no_grad():
            _, solved = self._solved(x)
            corner = self.kernel(x).to_dense() - solved.T @ solved
            corner = corner + self.noise * torch.eye(len(x), dtype=DTYPE, device=x.device)
        n, m = len(self.rows), len(x)
        factor = torch.zeros((n + m, n + m), dtype=DTYPE, device=x.device)
        factor[:n, :n], factor[n:, :n] = self.factor, solved.T
        factor[n:, n:] = _cholesky(corner)
        told = torch.as_tensor(y, dtype=DTYPE, device=x.device)
        return GPyTorchModel(
            self.space,
            self.kernel,
            self.noise,
            torch.cat([self.rows, x]),
            factor,
            torch.cat([self.y, told]),
            self.parameters,
        )

    def _features(self, codes: Codes) -> Tensor:
        return torch.as_tensor(self.space.features(codes)).to(self.rows)

    def _solved(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the posterior mean and the factor's solution for the covariance with ``x``."""
        cross = self.kernel(self.rows, x).to_dense()
        solved = torch.linalg.solve_triangular(self.factor, cross, upper=False)
        alpha = torch.cholesky_solve(self.y[:, None], self.factor)[:, 0]
        return cross.T @ alpha, solved


def _model(
    space: Featured, objective: LogPosterior, features: Features, data: Data
) -> GPyTorchModel:
    """Return the model of all rows of ``data`` with the hyperparameters that ``objective`` has."""
    kernel, noise = objective.process.covar_module, objective.noise()
    device = objective.process.train_targets.device
    rows = torch.as_tensor(features, dtype=DTYPE, device=device)
    known = torch.as_tensor(data.variance, dtype=DTYPE, device=device)
    with torch.no_grad():
        factor = _cholesky(kernel(rows).to_dense() + torch.diag(noise + known))
    y = torch.as_tensor(data.y, dtype=DTYPE, device=device)
    parameters = tuple(float(x) for x in objective.flat())
    return GPyTorchModel(space, kernel, noise, rows, factor, y, parameters)


def _cholesky(matrix: Tensor) -> Tensor:
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if not bool(failed.any()):
        return torch.as_tensor(factor)
    return torch.as_tensor(safe_cholesky(matrix.cpu().numpy())).to(matrix)
