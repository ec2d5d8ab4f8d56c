"""Surrogates: models of the values and of feasibility, fitted to observations.

A surrogate is a frozen recipe; `Surrogate.fit` returns a `Model`. `GaussianProcess` is the default in closed form,
`GPyTorchGP` the same model in GPyTorch, for other kernels and for GPUs.
"""

from typing import TYPE_CHECKING, Any

from baco_like.surrogates.effects import SparseEffects
from baco_like.surrogates.forest import RandomForest
from baco_like.surrogates.gp.gaussian_process import GaussianProcess, load_gpytorch
from baco_like.surrogates.gp.kernel import MATERN32, MATERN52, RBF
from baco_like.surrogates.gp.prior import Gamma, LogNormal, Priors
from baco_like.surrogates.protocol import (
    Data,
    FeasibilityModel,
    FeasibilitySurrogate,
    GaussianSurrogate,
    Model,
    Surrogate,
    UpdatableModel,
)
from baco_like.surrogates.transform import standardise

if TYPE_CHECKING:
    from baco_like.surrogates.gp.gpytorch_model import GPyTorchGP

__all__ = [
    "MATERN32",
    "MATERN52",
    "RBF",
    "Data",
    "FeasibilityModel",
    "FeasibilitySurrogate",
    "GPyTorchGP",
    "Gamma",
    "GaussianProcess",
    "GaussianSurrogate",
    "LogNormal",
    "Model",
    "Priors",
    "RandomForest",
    "SparseEffects",
    "Surrogate",
    "UpdatableModel",
    "standardise",
]


def __getattr__(name: str) -> Any:
    """Import `GPyTorchGP` when it is first used, because it loads torch."""
    if name == "GPyTorchGP":
        return load_gpytorch()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
