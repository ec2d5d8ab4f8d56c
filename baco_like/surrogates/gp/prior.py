"""Priors of the hyperparameters: densities on the positive numbers.

BaCO (section 3.2) uses gamma priors for the lengthscales: on discrete inputs the likelihood alone prefers lengthscales
near zero, with which the model predicts nothing between observations. The priors "cut out extreme hyperparameter
settings" and stay flexible. Features lie in [0, 1] and values are standardised, so one set of priors fits every space.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from baco_like._typing import Array, Rng


class Prior(Protocol):
    """A density on positive numbers."""

    def log_density(self, x: Array) -> Array:
        """Return the logarithm of the density, elementwise."""

    def gradient(self, x: Array) -> Array:
        """Return the derivative of `log_density` by ``x``, elementwise."""

    def sample(self, shape: tuple[int, ...], rng: Rng) -> Array:
        """Return independent draws, all positive."""


@dataclass(frozen=True)
class Gamma:
    """Density proportional to x^(concentration - 1) exp(-rate x).

    Attributes:
        concentration: Shape; above 1 the density vanishes at 0. An array has one entry for each number.
        rate: One over the scale; the mean is concentration / rate. An array has one entry for each number.
    """

    concentration: float | Array
    rate: float | Array

    @cached_property
    def _constant(self) -> float | Array:
        from scipy.special import gammaln

        return self.concentration * np.log(self.rate) - gammaln(self.concentration)

    def log_density(self, x: Array) -> Array:
        """Return the log density."""
        density = (self.concentration - 1.0) * np.log(x) - self.rate * x
        return np.asarray(density + self._constant)

    def gradient(self, x: Array) -> Array:
        """Return the derivative of the log density."""
        return np.asarray((self.concentration - 1.0) / x - self.rate)

    def sample(self, shape: tuple[int, ...], rng: Rng) -> Array:
        """Return draws; zeros, which a small concentration gives by underflow, are replaced by 1e-12."""
        drawn = rng.gamma(self.concentration, 1.0 / self.rate, size=shape)
        return np.maximum(drawn, 1e-12)


@dataclass(frozen=True)
class LogNormal:
    """The logarithm is normal.

    Attributes:
        median: Half of the probability lies below.
        spread: Standard deviation of the logarithm.
    """

    median: float
    spread: float

    def log_density(self, x: Array) -> Array:
        """Return the log density."""
        u = (np.log(x) - math.log(self.median)) / self.spread
        return np.asarray(
            -0.5 * u * u - np.log(x) - math.log(self.spread * math.sqrt(2.0 * math.pi))
        )

    def gradient(self, x: Array) -> Array:
        """Return the derivative of the log density."""
        u = (np.log(x) - math.log(self.median)) / self.spread
        return np.asarray(-(u / self.spread + 1.0) / x)

    def sample(self, shape: tuple[int, ...], rng: Rng) -> Array:
        """Return draws."""
        return np.asarray(rng.lognormal(math.log(self.median), self.spread, size=shape))


@dataclass(frozen=True)
class Priors:
    """Priors of a Gaussian process. Used by ``bayesian`` and ``baco``; ``auto`` has others in ``strategies/auto.py``.

    Features lie in [0, 1], and values are standardised.

    A parameter that has not varied gets the most probable lengthscale, 1.2: its values are assumed to be alike until
    observations show a difference. With a shorter one, every change of a flag that never changed before seems highly
    uncertain, and suggestions stay within small steps of the first successes. The numbers were chosen on recorded GPU
    kernels, loop orders, compiler flags and BaCO's rs_cot_1024 problem; nearby numbers perform alike
    (benchmarks/quality/log/priors.md).

    Attributes:
        lengthscale: Prior of every parameter's lengthscale.
        outputscale: Prior of the variance of the noise-free values.
        noise: Prior of the noise variance.
    """

    lengthscale: Prior = Gamma(2.2, 1.0)
    outputscale: Prior = Gamma(2.0, 1.0)
    noise: Prior = Gamma(1.1, 10.0)

    def joint(self, lengthscales: int) -> Prior:
        """Return the prior of the vector of lengthscales, outputscale and noise, ``(..., lengthscales + 2)``."""
        priors = [self.lengthscale] * lengthscales + [self.outputscale, self.noise]
        gammas = [prior for prior in priors if isinstance(prior, Gamma)]
        if len(gammas) < len(priors):
            return self
        # One gamma density with arrays of parameters needs a third of the calls; a fit evaluates it hundreds of times.
        return Gamma(
            np.array([g.concentration for g in gammas]), np.array([g.rate for g in gammas])
        )

    def log_density(self, x: Array) -> Array:
        """Return the log density of each number of vectors as in `joint`."""
        return np.concatenate([prior.log_density(part) for prior, part in self._parts(x)], axis=-1)

    def gradient(self, x: Array) -> Array:
        """Return the derivatives of the log densities of vectors as in `joint`."""
        return np.concatenate([prior.gradient(part) for prior, part in self._parts(x)], axis=-1)

    def sample(self, shape: tuple[int, ...], rng: Rng) -> Array:
        """Return draws of vectors as in `joint`."""
        parts = self._parts(np.empty(shape))
        return np.concatenate([prior.sample(part.shape, rng) for prior, part in parts], axis=-1)

    def _parts(self, x: Array) -> Iterator[tuple[Prior, Array]]:
        yield self.lengthscale, x[..., :-2]
        yield self.outputscale, x[..., -2:-1]
        yield self.noise, x[..., -1:]


SMOOTH_PRIORS = Priors(lengthscale=LogNormal(4.0, 1.0))
"""Priors of `auto`, chosen by measurement (benchmarks/quality/log/priors.md). The mode of the lengthscales, 1.5, is
near the mode of the default `Priors`, but long ones are more probable (half are above 4) and short ones less."""
