"""The contracts of surrogates (frozen recipes) and of the models that they return when fitted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from typing_extensions import override

from baco_like._typing import Array, Codes, Features, Ints, Mask, Rng


class Featured(Protocol):
    """What a surrogate needs of a space; `baco_like.spaces.space.Space` is one."""

    @property
    def active(self) -> tuple[str, ...]:
        """Names of the parameters that are not constant."""

    @property
    def feature_owner(self) -> Ints:
        """For each feature column, which of the active parameters it belongs to, ``(k,)``."""

    def features(self, codes: Codes) -> Features:
        """Return what a model sees, ``(n, w)`` -> ``(n, k)``."""


@dataclass(frozen=True)
class Data:
    """What a surrogate is fitted to; every array has n rows.

    Attributes:
        codes: Configurations, ``(n, w)``.
        y: Values on the model's scale (transformed and standardised, minimised), ``(n,)``.
        variance: Known variance of each value's mean on the same scale, 0 where unknown, ``(n,)``.
        censored: Where True, ``y`` is only a lower bound of the value, ``(n,)``.
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
        """What fitting found, as JSON values, maybe none; a later fit may start from it."""

    def predict(self, codes: Codes) -> tuple[Array, Array]:
        """Return mean and variance (non-negative, finite), ``(n, w)`` -> ``(n,)``, ``(n,)``."""


@runtime_checkable
class UpdatableModel(Model, Protocol):
    """A model that can be conditioned on further values without being fitted again."""

    def condition(self, codes: Codes, y: Array) -> UpdatableModel:
        """Return the model that has also seen these values, ``(m, w)``, ``(m,)``."""


class JointModel(Model, Protocol):
    """A model with a joint posterior."""

    def predict_joint(self, codes: Codes) -> tuple[Array, Array]:
        """Return mean ``(n,)`` and covariance ``(n, n)``."""


class SamplingModel(Model, Protocol):
    """A model from whose posterior functions can be drawn."""

    def draw(self, rng: Rng) -> Callable[[Codes], Array]:
        """Return one drawn function of the noise-free value, ``(n, w)`` -> ``(n,)``."""


class Surrogate(Protocol):
    """A recipe for models."""

    def fit(
        self, space: Featured, data: Data, rng: Rng, start: Mapping[str, Any] | None = None
    ) -> Model:
        """Return a model of ``data`` (at least one row).

        Args:
            space: Gives the features.
            data: The observations.
            rng: Chance; nothing else is random.
            start: An earlier model's `hyperparameters`, as one more start of the fit.
        """


class GaussianModel(UpdatableModel, JointModel, Protocol):
    """A fitted Gaussian process."""

    @property
    def count(self) -> int:
        """Number of observations that the model uses."""

    @override
    def condition(self, codes: Codes, y: Array) -> GaussianModel:
        """Return the model that also uses these values, ``(m, w)``, ``(m,)``."""

    def leave_one_out(self) -> tuple[Array, Array]:
        """Return mean and standard deviation at every observation given the others, ``(count,)`` each."""


class GaussianSurrogate(ABC):
    """A surrogate whose models are Gaussian processes; only these can use the results of related tasks."""

    @abstractmethod
    def fit(
        self, space: Featured, data: Data, rng: Rng, start: Mapping[str, Any] | None = None
    ) -> GaussianModel:
        """Return a model of ``data``; see `Surrogate.fit`."""


class FeasibilityModel(Protocol):
    """Predicts whether a configuration will run at all."""

    def probability(self, codes: Codes) -> Array:
        """Return the probability of feasibility in [0, 1], ``(n, w)`` -> ``(n,)``."""


class FeasibilitySurrogate(Protocol):
    """A recipe for feasibility models."""

    def fit(self, space: Featured, codes: Codes, feasible: Mask, seed: int) -> FeasibilityModel:
        """Return a model of which rows ran, ``(n, w)`` and ``(n,)`` in order of arrival.

        The result depends on these arguments alone, so that a resumed run has the same model. Rows
        of one class only give the constant model of that class.
        """
