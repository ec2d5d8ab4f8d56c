"""The Gaussian process surrogate in closed form, with fitted or with fixed hyperparameters."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from baco_like._threads import load_libraries
from baco_like._typing import Features, Ints, Rng
from baco_like.surrogates.gp.devices import has_gpu
from baco_like.surrogates.gp.fit import (
    Effort,
    Evidence,
    Hyperparameters,
    Mean,
    chosen_rows,
    draw_hyperparameters,
    kept_hyperparameters,
    maximise_evidence,
)
from baco_like.surrogates.gp.growing import informative_rows
from baco_like.surrogates.gp.kernel import MATERN52, Kernel, parameter_distances
from baco_like.surrogates.gp.model import GPModel, fit_imputed, fit_posterior
from baco_like.surrogates.gp.prior import Priors
from baco_like.surrogates.protocol import Data, Featured, GaussianModel, GaussianSurrogate

if TYPE_CHECKING:
    from baco_like.surrogates.gp.gpytorch_model import GPyTorchGP


@dataclass(frozen=True)
class GaussianProcess(GaussianSurrogate):
    """A Gaussian process with one lengthscale per parameter (BaCO section 3.2), fitted in closed form.

    Kernel and mean were measured: Matern-3/2 was worse on recorded GPU kernels (benchmarks/quality/log/surrogate.md).
    A constant mean was better on compilers and equal on GPU kernels (benchmarks/quality/log/adaptive_default.md).

    Attributes:
        kernel: The correlation.
        priors: Densities of the hyperparameters.
        mean: The prior mean: zero, or a constant that is estimated.
        effort: Effort of the fit.
        fixed: Lengthscale, outputscale and noise variance to use unchanged; None fits them.
    """

    kernel: Kernel = MATERN52
    priors: Priors = field(default_factory=Priors)
    mean: Mean = "zero"
    effort: Effort = field(default_factory=Effort)
    fixed: tuple[float, float, float] | None = None

    @override
    def fit(
        self, space: Featured, data: Data, rng: Rng, start: Mapping[str, Any] | None = None
    ) -> GaussianModel:
        """Return a model of ``data``; values should be of order one, as `transform.fit_transform` makes them.

        The hyperparameters are fitted to at most ``effort.fitted_rows`` rows with censored values at their bounds.
        Then the censored values are imputed, and the model uses all rows, up to ``effort.seen_rows``. With more rows,
        and if torch finds a GPU, the GPyTorch model takes over, which uses all of them.
        """
        count = len(data.y)
        if count > self.effort.seen_rows and has_gpu():
            return self.to_gpytorch().fit(space, data, rng, start)
        data = data.rows(chosen_rows(data.y, self.effort.seen_rows, rng))
        features = space.features(data.codes)
        fitted = self._fit_hyperparameters(space, features, data, rng, start, count)
        return fit_imputed(space, self.kernel, features, data, fitted, self.mean)

    @property
    def holding(self) -> GaussianProcess:
        """The same surrogate, which keeps the hyperparameters that a fit starts from, if there are any."""
        return replace(self, effort=replace(self.effort, follow_steps=0, fresh_every=sys.maxsize))

    def hold(
        self,
        space: Featured,
        data: Data,
        rng: Rng,
        start: Mapping[str, Any] | None = None,
        most: int = 1500,
    ) -> tuple[GPModel, Ints]:
        """Return a model to which `baco_like.surrogates.gp.growing.add_rows` adds rows, and the rows that it uses.

        Censored values count at their bounds until rows are added.

        Args:
            space: Gives the features.
            data: The observations.
            rng: Random generator.
            start: As for `fit`.
            most: Maximum number of rows that the model uses, see `informative_rows`.
        """
        known = data.rows(chosen_rows(data.y, self.effort.fitted_rows, rng))
        features = space.features(known.codes)
        fitted = self._fit_hyperparameters(space, features, known, rng, start, len(data.y))
        features = space.features(data.codes)
        scales = 1.0 / fitted.lengthscales[np.asarray(space.feature_owner)]
        rows = informative_rows(data.y, features * scales, most, rng)
        used = data.rows(rows)
        return fit_posterior(space, self.kernel, features[rows], used, fitted, self.mean), rows

    def fit_draws(self, space: Featured, data: Data, rng: Rng, count: int) -> list[GPModel]:
        """Return models of ``data`` with hyperparameters drawn from their posterior; see `draw_hyperparameters`.

        Args:
            space: Gives the features.
            data: The observations; the models use at most ``effort.fitted_rows`` of them.
            rng: Random generator.
            count: Number of models; some may be equal.
        """
        load_libraries("scipy.linalg", "scipy.optimize")
        data = data.rows(chosen_rows(data.y, self.effort.fitted_rows, rng))
        features = space.features(data.codes)
        evidence = self._evidence(space, features, data, rng)
        optimum = maximise_evidence(evidence, self.effort, rng)
        drawn = draw_hyperparameters(evidence, optimum, count, rng)
        return [fit_imputed(space, self.kernel, features, data, h, self.mean) for h in drawn]

    def _fit_hyperparameters(
        self,
        space: Featured,
        features: Features,
        data: Data,
        rng: Rng,
        start: Mapping[str, Any] | None,
        count: int,
    ) -> Hyperparameters:
        if self.fixed is not None:
            lengthscale, outputscale, noise = self.fixed
            return Hyperparameters(np.full(len(space.active), lengthscale), outputscale, noise)
        load_libraries("scipy.linalg", "scipy.optimize")
        kept = kept_hyperparameters(self.effort, start, len(space.active), count)
        if kept is not None:
            return kept
        evidence = self._evidence(space, features, data, rng)
        return maximise_evidence(evidence, self.effort, rng, start, count)

    def _evidence(self, space: Featured, features: Features, data: Data, rng: Rng) -> Evidence:
        """Return the log posterior of the hyperparameters given at most ``effort.fitted_rows`` rows."""
        rows = chosen_rows(data.y, self.effort.fitted_rows, rng)
        owner = np.asarray(space.feature_owner)
        squares = parameter_distances(features[rows], owner, len(space.active))
        return Evidence(
            self.kernel, self.priors, squares, data.y[rows], data.variance[rows], self.mean
        )

    def to_gpytorch(self, device: str = "auto") -> GPyTorchGP:
        """Return the surrogate in GPyTorch; only the effort is another one.

        Raises:
            StrategyError: This machine has no such device.
        """
        surrogate_class = load_gpytorch()
        from baco_like.surrogates.gp.gpytorch_model import ScaledKernel

        return surrogate_class(
            ScaledKernel(self.kernel.name),
            self.priors,
            device,
            fixed=self.fixed,
            mean=self.mean,
        )


def load_gpytorch() -> type[GPyTorchGP]:
    """Import torch and GPyTorch, which takes seconds, and return the surrogate class."""
    with warnings.catch_warnings():
        # linear_operator, which GPyTorch needs, compiles by torch.jit.script, which newer torch versions deprecate.
        warnings.simplefilter("ignore", DeprecationWarning)
        load_libraries("torch")
        from baco_like.surrogates.gp.gpytorch_model import GPyTorchGP
    return GPyTorchGP
