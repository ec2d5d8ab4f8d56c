"""Values that are known only to be at least a bound."""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array, Features, Ints
from baco_like.surrogates.gp.evidence import Hyperparameters, Mean
from baco_like.surrogates.gp.kernel import Kernel
from baco_like.surrogates.gp.posterior import posterior
from baco_like.surrogates.protocol import Data

IMPUTATIONS = 2
"""How often the censored values are imputed: from the others, then from each other too."""


def impute(
    kernel: Kernel, features: Features, owner: Ints, data: Data, h: Hyperparameters, mean: Mean
) -> Array:
    """Return the values with every censored one replaced by its expectation above its bound.

    A first pass predicts the censored rows from the uncensored ones, a second from all others as
    imputed (the leave-one-out prediction, Rasmussen and Williams 2006, Eq. 5.12); the expectation
    is that of a normal distribution truncated at the bound, so it is at least the bound.
    """
    y, censored = data.y.copy(), data.censored
    if censored.all():
        return y
    seen = posterior(
        kernel, features[~censored], owner, y[~censored], data.variance[~censored], h, mean
    )
    centre, spread = seen.predict(features[censored])
    bound = data.y[censored]
    y[censored] = truncated_mean(centre, spread + h.noise, bound)
    for _ in range(IMPUTATIONS - 1):
        everything = posterior(kernel, features, owner, y, data.variance, h, mean)
        precision = (everything.inverse_factor**2).sum(axis=0)[censored]
        centre = y[censored] - everything.alpha[censored] / precision
        y[censored] = truncated_mean(centre, 1.0 / precision, bound)
    return y


def truncated_mean(mean: Array, variance: Array, bound: Array) -> Array:
    """Return the mean of normal variables given that each is at least its bound, elementwise."""
    from scipy.special import erfcx

    spread = np.sqrt(np.maximum(variance, 1e-300))
    a = (bound - mean) / spread
    # phi(a) / (1 - Phi(a)) = sqrt(2/pi) / erfcx(a / sqrt(2)), which neither under- nor overflows
    # above the mean.
    hazard = np.sqrt(2.0 / np.pi) / erfcx(np.maximum(a, -20.0) / np.sqrt(2.0))
    return np.asarray(np.maximum(bound, mean + spread * hazard))
