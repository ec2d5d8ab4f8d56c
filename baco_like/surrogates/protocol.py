"""The contracts of surrogates (frozen recipes) and of the models that they return when fitted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from typing_extensions import override

from baco_like._typing import Array, Codes, Features, Ints, Mask, Rng


class Featured(Protocol):
    """The part of a space that surrogates use; `baco_like.Space` implements it."""

    @property
    def active(self) -> tuple[str, ...]:
        """Names of the parameters that are not constant."""

    @property
    def feature_owner(self) -> Ints:
        """For each feature column, the index of its parameter in `active`, ``(k,)``."""

    def features(self, codes: Codes) -> Features:
        """Return the features of configurations, ``(n, w)`` -> ``(n, k)``."""


@dataclass(frozen=True)
class Data:
    """Observations that a surrogate is fitted to; every array has n rows.

    Attributes:
        codes: Configurations, ``(n, w)``.
        y: Values on the model's scale (transformed and standardised, minimised), ``(n,)``.
        variance: Known variance of each value's mean on the same scale, 0 if unknown, ``(n,)``.
        censored: True where ``y`` is only a lower bound of the value, ``(n,)``.
    """

    codes: Codes
    y: Array
    variance: Array
    censored: Mask

    def rows(self, rows: Ints) -> Data:
        """Return some of the rows."""
        return Data(self.codes[rows], self.y[rows], self.variance[rows], self.censored[rows])


class Model(Protocol):
    """A fitted surrogate; it predicts the noise-free value, on the scale of ``Data.y``."""

    @property
    def hyperparameters(self) -> Mapping[str, Any]:
        """The fitted hyperparameters as JSON values, possibly empty; a later fit may start from them."""

    def predict(self, codes: Codes) -> tuple[Array, Array]:
        """Return mean and variance (non-negative, finite), ``(n, w)`` -> ``(n,)``, ``(n,)``; n is 1 or more."""


@runtime_checkable
class UpdatableModel(Model, Protocol):
    """A model that can be conditioned on additional values without another fit."""

    def condition(self, codes: Codes, y: Array) -> UpdatableModel:
        """Return the model that also uses these values, ``(m, w)``, ``(m,)``."""


class SamplingModel(Model, Protocol):
    """A model with a posterior over functions."""

    def draw(self, rng: Rng) -> Callable[[Codes], Array]:
        """Return one function drawn from the posterior of the noise-free value, ``(n, w)`` -> ``(n,)``."""


class GaussianModel(UpdatableModel, Protocol):
    """A fitted Gaussian process."""

    @property
    def count(self) -> int:
        """Number of observations that the model uses."""

    @override
    def condition(self, codes: Codes, y: Array) -> GaussianModel:
        """Return the model that also uses these values, ``(m, w)``, ``(m,)``."""

    def predict_joint(self, codes: Codes) -> tuple[Array, Array]:
        """Return mean ``(n,)`` and covariance ``(n, n)``."""

    def leave_one_out(self) -> tuple[Array, Array]:
        """Return mean and standard deviation at every observation given the others, ``(count,)`` each."""


class Surrogate(Protocol):
    """A frozen recipe for models; fitting returns a new model and changes no state."""

    def fit(
        self, space: Featured, data: Data, rng: Rng, start: Mapping[str, Any] | None = None
    ) -> Model:
        """Return a model of ``data`` (at least one row).

        Args:
            space: Gives the features.
            data: The observations.
            rng: Random generator; the only source of randomness.
            start: The `hyperparameters` of an earlier model, possibly from another surrogate; a start of the fit.
        """


class GaussianSurrogate(ABC):
    """A surrogate whose models are Gaussian processes; only these can use the results of related tasks."""

    @abstractmethod
    def fit(
        self, space: Featured, data: Data, rng: Rng, start: Mapping[str, Any] | None = None
    ) -> GaussianModel:
        """Return a model of ``data``; see `Surrogate.fit`."""


class FeasibilityModel(Protocol):
    """Predicts whether feasible configurations run, that is, whether they meet the hidden constraints."""

    def probability(self, codes: Codes) -> Array:
        """Return the probability that each configuration runs, in [0, 1], ``(n, w)`` -> ``(n,)``."""


class FeasibilitySurrogate(Protocol):
    """A frozen recipe for feasibility models."""

    def fit(self, space: Featured, codes: Codes, feasible: Mask, seed: int) -> FeasibilityModel:
        """Return a model of which rows ran.

        The result depends on these arguments alone, so that a resumed run has the same model. If all rows have the same
        label, it is the constant model with probability 0 or 1.

        Args:
            space: Gives the features.
            codes: Observed rows that satisfy the known constraints, in order of arrival, ``(n, w)``.
            feasible: Whether each row ran, ``(n,)``; "feasible" here means the hidden constraints.
            seed: Seed of the random numbers.
        """
