"""Minimisers of scipy on the unit box, with steps of the size of a value and a bound on their calls."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from baco_like._typing import Array

METHODS: Mapping[str, Any] = {
    "powell": "Powell",
    "cobyla": "COBYLA",
    "slsqp": "SLSQP",
    "lbfgsb": "L-BFGS-B",
    "nelder_mead": "Nelder-Mead",
    "cg": "CG",
}
"""Scipy's names of the minimisers of Schoonhoven et al. 2022 (section III-C2)."""

_CALLS_AN_AXIS, _MOST_CALLS = 40, 400
"""Calls that one minimisation may make."""

_SLOW = 24
"""Calls of COBYLA, which is plain Python in scipy (0.6 ms a call) and needs k + 1 for its first simplex."""

_STEP_OF_REALS = 1e-3
"""An axis with more steps than the inverse is searched in steps of this size."""

_TRUST = 0.25
"""First radius of the trust region of COBYLA, which is 1 in scipy: the whole box."""


@dataclass(frozen=True)
class Minimum:
    """What a minimiser has found.

    Attributes:
        point: Where, ``(k,)``.
        cost: The objective there.
        success: Whether the minimiser came to its end and calls it one.
    """

    point: Array
    cost: float
    success: bool


class _Spent(Exception):
    """The calls are used up."""


@final
@dataclass(frozen=True, eq=False)
class LocalMinimiser:
    """A minimiser of scipy with settings for a box of so many values an axis.

    Differences are taken over, and steps end at, the size of a value: closer together, all points stand for the same
    configuration.

    Attributes:
        method: One of `METHODS`.
        counts: Number of values on each axis, ``(k,)``.
    """

    method: str
    counts: Array

    @property
    def calls(self) -> int:
        """The most calls that one minimisation may make."""
        axes = len(self.counts)
        if self.method == "cobyla":
            return max(axes + 9, _SLOW)
        return min(_CALLS_AN_AXIS * (axes + 1), _MOST_CALLS)

    @property
    def lookups(self) -> int:
        """How many answers in a row may be known before the search is better begun elsewhere."""
        return _SLOW if self.method == "cobyla" else _MOST_CALLS

    def __call__(self, objective: Callable[[Array], float], start: Array) -> Minimum:
        """Return what the minimiser finds from a start in the box, ``(k,)``; the best seen if its calls are used up."""
        from scipy.optimize import minimize

        counted = _Counted(objective, self.calls)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # of SLSQP and CG, on flat functions
            try:
                found = minimize(
                    counted, start, method=METHODS[self.method], **self.arguments(start)
                )
            except _Spent:
                return Minimum(counted.point, counted.cost, success=False)
        return Minimum(np.clip(found.x, 0.0, 1.0), float(found.fun), bool(found.success))

    def arguments(self, start: Array) -> dict[str, Any]:
        """Return what `scipy.optimize.minimize` is given beside the method."""
        step = np.maximum(1.0 / self.counts, _STEP_OF_REALS)
        finest = float(step.min()) / 2.0
        options: dict[str, dict[str, Any]] = {
            "powell": {"xtol": finest},
            "cobyla": {"rhobeg": _TRUST, "tol": finest},
            "slsqp": {"eps": step},
            "lbfgsb": {"eps": step},
            "nelder_mead": {"initial_simplex": _simplex(start, step), "xatol": finest},
            "cg": {"eps": step},
        }
        free = {"cg"}
        bounds = {} if self.method in free else {"bounds": [(0.0, 1.0)] * len(start)}
        return {"options": options[self.method], **bounds}


def check_method(name: str) -> None:
    """Do nothing where there is such a minimiser.

    Raises:
        ValueError: There is none.
    """
    if name not in METHODS:
        raise ValueError(f"method {name!r} is unknown; choose from {', '.join(METHODS)}")


def _simplex(start: Array, step: Array) -> Array:
    """Return a simplex around a start: along every axis a quarter of the box, or a step of one value."""
    length = np.maximum(step, _TRUST)
    return np.concatenate(
        [start[None, :], start + np.diag(np.where(start <= 0.5, length, -length))]
    )


@final
class _Counted:
    """An objective that counts its calls and keeps the best."""

    def __init__(self, objective: Callable[[Array], float], calls: int) -> None:
        self.point: Array = np.empty(0)
        self.cost = math.inf
        self._objective = objective
        self._left = calls

    def __call__(self, point: Array) -> float:
        if not self._left:
            raise _Spent
        self._left -= 1
        inside = np.clip(point, 0.0, 1.0)
        cost = self._objective(inside)
        if cost < self.cost:
            self.point, self.cost = inside, cost
        return cost
