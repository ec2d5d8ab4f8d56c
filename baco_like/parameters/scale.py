"""The scale on which a number is laid out: linear, or logarithmic for what grows by factors (tile sizes).

The paper measures log parameters by the difference of their logarithms (Hellsten et al. 2023, section 4.1); here
sampling and priors follow the same scale.
"""

from __future__ import annotations

import math

import numpy as np

from baco_like._typing import Array


def forward(x: Array, log: bool) -> Array:
    """Return numbers on their scale: themselves, or their natural logarithm (they must be positive)."""
    return np.log(x) if log else np.asarray(x, dtype=np.float64)


def backward(t: Array, log: bool) -> Array:
    """Return the numbers at these places of the scale; the inverse of `forward` up to rounding."""
    return np.exp(t) if log else np.asarray(t, dtype=np.float64)


def ends(low: float, high: float, log: bool) -> tuple[float, float]:
    """Return the domain's ends on its scale."""
    return (math.log(low), math.log(high)) if log else (low, high)


def to_unit(x: Array, low: float, high: float, log: bool) -> Array:
    """Return places on [0, 1] of numbers in ``[low, high]``, ``low < high``, linear or logarithmic in between."""
    start, end = ends(low, high, log)
    share: Array = (forward(x, log) - start) / (end - start)
    return np.clip(share, 0.0, 1.0)


def from_unit(u: Array, low: float, high: float, log: bool) -> Array:
    """Return the numbers at places ``u`` of [0, 1]; never outside ``[low, high]``."""
    start, end = ends(low, high, log)
    return np.clip(backward(start * (1.0 - u) + end * u, log), low, high)
