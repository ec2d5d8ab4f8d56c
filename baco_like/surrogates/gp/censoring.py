"""Imputation of censored values, of which only a lower bound is known."""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array, Features, Ints
from baco_like.surrogates.gp.evidence import Hyperparameters, Mean
from baco_like.surrogates.gp.kernel import Kernel
from baco_like.surrogates.gp.posterior import posterior
from baco_like.surrogates.protocol import Data


def impute(
    kernel: Kernel, features: Features, owner: Ints, data: Data, h: Hyperparameters, mean: Mean
) -> Array:
    """Return the values ``(n,)`` with every censored one replaced by its expectation above its bound.

    The first pass predicts the censored rows from the uncensored ones. The second pass predicts each from all others,
    imputed ones included (leave-one-out prediction: Rasmussen and Williams 2006, Eq. 5.12). The expectation is
    the mean of a normal distribution truncated at the bound, so it is at least the bound.
    """
    y, censored = data.y.copy(), data.censored
    if censored.all():
        return y
    bound = data.y[censored]
    uncensored = posterior(
        kernel, features[~censored], owner, y[~censored], data.variance[~censored], h, mean
    )
    centre, variance = uncensored.predict(features[censored])
    y[censored] = truncated_mean(centre, variance + h.noise, bound)
    imputed = posterior(kernel, features, owner, y, data.variance, h, mean)
    precision = (imputed.inverse_factor**2).sum(axis=0)[censored]
    centre = y[censored] - imputed.alpha[censored] / precision
    y[censored] = truncated_mean(centre, 1.0 / precision, bound)
    return y


def truncated_mean(mean: Array, variance: Array, bound: Array) -> Array:
    """Return the means of normal variables that are truncated below at their bounds, elementwise."""
    from scipy.special import erfcx

    spread = np.sqrt(np.maximum(variance, 1e-300))
    a = (bound - mean) / spread
    # phi(a) / (1 - Phi(a)) = sqrt(2/pi) / erfcx(a / sqrt(2)), which does not underflow or overflow above the mean.
    hazard = np.sqrt(2.0 / np.pi) / erfcx(np.maximum(a, -20.0) / np.sqrt(2.0))
    return np.asarray(np.maximum(bound, mean + spread * hazard))
