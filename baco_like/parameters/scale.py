"""The unit scale [0, 1] of numbers, linear or logarithmic, and of listed values.

The paper measures log parameters by the difference of their logarithms (Hellsten et al. 2023, section 4.1); here
sampling and priors follow the same scale.
"""

from __future__ import annotations

import math

import numpy as np

from baco_like._typing import Array, Codes, Ints


def forward(x: Array, log: bool) -> Array:
    """Return numbers on their scale: unchanged, or their natural logarithm (they must be positive)."""
    return np.log(x) if log else np.asarray(x, dtype=np.float64)


def backward(t: Array, log: bool) -> Array:
    """Return the numbers at these positions of the scale; the inverse of `forward` up to rounding."""
    return np.exp(t) if log else np.asarray(t, dtype=np.float64)


def ends(low: float, high: float, log: bool) -> tuple[float, float]:
    """Return the domain's ends on its scale."""
    return (math.log(low), math.log(high)) if log else (low, high)


def to_unit(x: Array, low: float, high: float, log: bool) -> Array:
    """Return positions in [0, 1] of numbers in ``[low, high]``, ``low < high``, linear or logarithmic in between."""
    start, end = ends(low, high, log)
    share: Array = (forward(x, log) - start) / (end - start)
    return np.clip(share, 0.0, 1.0)


def from_unit(u: Array, low: float, high: float, log: bool) -> Array:
    """Return the numbers at positions ``u`` of [0, 1]; never outside ``[low, high]``."""
    start, end = ends(low, high, log)
    return np.clip(backward(start * (1.0 - u) + end * u, log), low, high)


def interval_middles(codes: Codes, count: int | float) -> Array:
    """Return the middles of the intervals that ``count`` codes have on [0, 1], all of the same length."""
    return np.asarray((codes + 0.5) / count)


def interval_codes(points: Array, count: int | float) -> Codes:
    """Return the codes whose intervals contain the points of [0, 1]; the inverse of `interval_middles`."""
    return np.asarray(np.minimum(np.floor(points * count), count - 1.0))


def adjacent_codes(codes: Codes, count: int | float) -> tuple[Codes, Ints]:
    """Return the codes one below and one above that are in ``range(count)``, ``(m, 1)``, and their rows, ``(m,)``."""
    owner = np.repeat(np.arange(len(codes)), 2)
    rows = codes[owner] + np.tile([-1.0, 1.0], len(codes))[:, None]
    kept = (rows[:, 0] >= 0) & (rows[:, 0] < count)
    return rows[kept], owner[kept]
