"""Surrogates by name, for the setting ``surrogate``; checks of the models of other packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from baco_like._plugins import Plugin, Registry, check_floats, is_foreign, name_of
from baco_like._typing import Array, Codes, Mask, Rng
from baco_like.exceptions import PluginError
from baco_like.surrogates.effects import SparseEffects
from baco_like.surrogates.forest import RandomForest
from baco_like.surrogates.gp.gaussian_process import GaussianProcess
from baco_like.surrogates.protocol import (
    Data,
    FeasibilityModel,
    FeasibilitySurrogate,
    Featured,
    Model,
    Surrogate,
    UpdatableModel,
)

SURROGATES: Mapping[str, Callable[[GaussianProcess, str], Surrogate]] = {
    "gp": lambda closed_form, device: closed_form,
    "gpytorch": lambda closed_form, device: closed_form.to_gpytorch(device),
    "forest": lambda closed_form, device: RandomForest(),
    "effects": lambda closed_form, device: SparseEffects(),
}
"""The closed-form Gaussian process, the same model in GPyTorch, a random forest, the effects of many parameters."""

REGISTRY = Registry("baco_like.surrogates", "surrogate", SURROGATES, "gp")
"""`SURROGATES`, and the surrogates of plug-ins."""


def create_surrogate(name: str, closed_form: GaussianProcess, device: str = "auto") -> Surrogate:
    """Return the surrogate with this name.

    Args:
        name: A key of `SURROGATES`, or the name of a plug-in.
        closed_form: The strategy's Gaussian process: returned for "gp", translated for "gpytorch".
        device: Torch device of "gpytorch": "auto" (the GPU if there is one), "cpu", "cuda" or "cuda:N".

    Raises:
        ValueError: The name is unknown, or a device is given for a surrogate that runs on the CPU only.
        StrategyError: This machine has no such device.
        PluginError: The plug-in cannot be imported, or makes something else than a surrogate.
    """
    part = REGISTRY.find(name)
    if name != "gpytorch" and device not in ("auto", "cpu"):
        raise ValueError(
            f"device = {device!r} needs surrogate = 'gpytorch'; surrogate {name!r} runs on the CPU"
        )
    if not isinstance(part, Plugin):
        return part(closed_form, device)
    surrogate: Surrogate = part.create(("fit",))
    return surrogate


def fit_surrogate(
    surrogate: Surrogate,
    space: Featured,
    data: Data,
    rng: Rng,
    start: Mapping[str, Any] | None = None,
) -> Model:
    """Return the fitted model, see `Surrogate.fit`; the predictions of a foreign one are checked.

    Raises:
        PluginError: The surrogate returns no model.
    """
    model = surrogate.fit(space, data, rng, start)
    return _check_model(model, f"surrogate {name_of(surrogate)}") if is_foreign(model) else model


def fit_feasibility(
    surrogate: FeasibilitySurrogate, space: Featured, codes: Codes, feasible: Mask, seed: int
) -> FeasibilityModel:
    """Return the fitted model, see `FeasibilitySurrogate.fit`; the predictions of a foreign one are checked."""
    model = surrogate.fit(space, codes, feasible, seed)
    owner = f"feasibility surrogate {name_of(surrogate)}"
    return _CheckedFeasibility(model, owner) if is_foreign(model) else model


def _check_model(model: Any, owner: str) -> Model:
    if not callable(getattr(model, "predict", None)):
        raise PluginError(f"{owner}: fit returned {model!r:.60}, which has no method predict")
    if not isinstance(getattr(model, "hyperparameters", None), Mapping):
        raise PluginError(f"{owner}: its model needs a mapping as the attribute hyperparameters")
    kind = _CheckedUpdatableModel if isinstance(model, UpdatableModel) else _CheckedModel
    return kind(model, owner)


@dataclass(frozen=True)
class _CheckedModel:
    """A model whose predictions are checked; all its other attributes are passed on."""

    model: Any
    owner: str

    @property
    def hyperparameters(self) -> Mapping[str, Any]:
        hyperparameters: Mapping[str, Any] = self.model.hyperparameters
        return hyperparameters

    def predict(self, codes: Codes) -> tuple[Array, Array]:
        if not len(codes):
            return np.empty(0), np.empty(0)
        predicted = self.model.predict(codes)
        if not isinstance(predicted, tuple) or len(predicted) != 2:
            raise PluginError(
                f"{self.owner}: predict returned {type(predicted).__name__}, not mean and variance"
            )
        mean = _check_numbers(self.owner, "means", predicted[0], len(codes))
        variance = _check_numbers(self.owner, "variances", predicted[1], len(codes))
        if variance.min(initial=0.0) < 0.0:
            raise PluginError(
                f"{self.owner}: a predicted variance is negative: {variance.min()}; if that is a rounding error, "
                "return numpy.maximum(variance, 0.0)"
            )
        return mean, variance

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # `copy` and `pickle` ask before there is a model
            raise AttributeError(name)
        return getattr(self.model, name)


@dataclass(frozen=True)
class _CheckedUpdatableModel(_CheckedModel):
    """An updatable model whose predictions are checked."""

    def condition(self, codes: Codes, y: Array) -> UpdatableModel:
        updated = _check_model(self.model.condition(codes, y), self.owner)
        if not isinstance(updated, UpdatableModel):
            raise PluginError(f"{self.owner}: the model of condition cannot be conditioned again")
        return updated


@dataclass(frozen=True)
class _CheckedFeasibility:
    """A feasibility model whose predictions are checked."""

    model: FeasibilityModel
    owner: str

    def probability(self, codes: Codes) -> Array:
        if not len(codes):
            return np.empty(0)
        found = _check_numbers(
            self.owner, "probabilities of running", self.model.probability(codes), len(codes)
        )
        if found.min(initial=0.0) < 0.0 or found.max(initial=0.0) > 1.0:
            wrong = found[(found < 0.0) | (found > 1.0)][0]
            raise PluginError(f"{self.owner}: a probability of running is {wrong}, not in [0, 1]")
        return found


def _check_numbers(owner: str, what: str, values: Any, count: int) -> Array:
    """Return finite numbers of a foreign part, see `check_floats`.

    Raises:
        PluginError: They cannot be converted to floats, have another shape, or are not finite.
    """
    numbers = check_floats(owner, what, values, count)
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if len(wrong):
        raise PluginError(
            f"{owner}: the {what} of {len(wrong)} of {count} configurations are not finite numbers, the first is "
            f"{numbers[wrong[0]]}"
        )
    return numbers
