"""Where reals and integers stand between their bounds, on their own scale."""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array, Codes
from baco_like.parameters.integer import Integer
from baco_like.parameters.protocol import Parameter
from baco_like.parameters.real import Real
from baco_like.parameters.scale import from_unit, to_unit


def shares_of(parameter: Parameter, codes: Codes) -> Array:
    """Return where a real or an integer stands on its scale, ``(n, 1)`` codes -> ``(n,)`` in [0, 1]."""
    assert isinstance(parameter, Real | Integer)
    numbers = np.clip(parameter.column(codes).astype(np.float64), parameter.low, parameter.high)
    return to_unit(numbers, parameter.low, parameter.high, parameter.log)


def at_shares(parameter: Parameter, shares: Array) -> Codes:
    """Return the codes at these places of a real's or an integer's scale; undoes `shares_of` up to rounding."""
    assert isinstance(parameter, Real | Integer)
    numbers = from_unit(shares, parameter.low, parameter.high, parameter.log)
    if isinstance(parameter, Integer):
        numbers = np.rint(numbers) - parameter.low
    return numbers[:, None]
