"""Minimisers of scipy on the unit box, with steps of the size of a value and a limit on their calls."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

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

_CALLS_PER_AXIS, _MOST_CALLS = 40, 400
"""Limits on the calls of one minimisation."""

_COBYLA_CALLS = 24
"""Calls of COBYLA, which is plain Python in scipy (0.6 ms a call) and needs k + 1 calls for its first simplex."""

_SMALLEST_STEP = 1e-3
"""Step on axes with more than 1,000 values."""

_TRUST = 0.25
"""First radius of COBYLA's trust region; scipy's default of 1 is the whole box."""


class Minimum(NamedTuple):
    """Result of a minimisation.

    Attributes:
        point: The minimum, ``(k,)``.
        cost: The objective there.
        success: Whether the minimiser finished and reports success.
    """

    point: Array
    cost: float
    success: bool


class _CallLimitReached(Exception):
    pass


@dataclass(frozen=True, eq=False)
class LocalMinimiser:
    """A minimiser of scipy on a box with a given number of values per axis.

    Differences are taken over the size of one value, and minimisation stops at steps of this size: points that are
    closer together represent the same configuration.

    Attributes:
        method: A key of `METHODS`.
        counts: Number of values on each axis, ``(k,)``.
    """

    method: str
    counts: Array

    @property
    def calls(self) -> int:
        """Limit on the calls of one minimisation."""
        axes = len(self.counts)
        if self.method == "cobyla":
            return max(axes + 9, _COBYLA_CALLS)
        return min(_CALLS_PER_AXIS * (axes + 1), _MOST_CALLS)

    @property
    def lookup_limit(self) -> int:
        """Number of consecutive known answers after which a search should start again elsewhere."""
        return _COBYLA_CALLS if self.method == "cobyla" else _MOST_CALLS

    def __call__(self, objective: Callable[[Array], float], start: Array) -> Minimum:
        """Return the minimum from a start in the box, ``(k,)``; at the limit of the calls, the best point so far."""
        from scipy.optimize import minimize

        best, remaining = Minimum(start, math.inf, success=False), self.calls

        def limited(point: Array) -> float:
            nonlocal best, remaining
            if not remaining:
                raise _CallLimitReached
            remaining -= 1
            inside = np.clip(point, 0.0, 1.0)
            cost = objective(inside)
            if cost < best.cost:
                best = Minimum(inside, cost, success=False)
            return cost

        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # SLSQP and CG warn about flat functions
            try:
                result = minimize(
                    limited, start, method=METHODS[self.method], **self.arguments(start)
                )
            except _CallLimitReached:
                return best
        return Minimum(np.clip(result.x, 0.0, 1.0), float(result.fun), bool(result.success))

    def arguments(self, start: Array) -> dict[str, Any]:
        """Return the arguments of `scipy.optimize.minimize` except the method."""
        step = np.maximum(1.0 / self.counts, _SMALLEST_STEP)
        finest = float(step.min()) / 2.0
        options: dict[str, dict[str, Any]] = {
            "powell": {"xtol": finest},
            "cobyla": {"rhobeg": _TRUST, "tol": finest},
            "slsqp": {"eps": step},
            "lbfgsb": {"eps": step},
            "nelder_mead": {
                "initial_simplex": right_angled_simplex(start, np.maximum(step, _TRUST)),
                "xatol": finest,
            },
            "cg": {"eps": step},
        }
        # CG accepts no bounds; the objective clips its points.
        bounds = {} if self.method == "cg" else {"bounds": [(0.0, 1.0)] * len(start)}
        return {"options": options[self.method], **bounds}


def right_angled_simplex(corner: Array, sides: Array) -> Array:
    """Return a simplex with sides of given lengths, ``(k,)``, that point inwards from a corner, ``(k + 1, k)``."""
    return np.concatenate(
        [corner[None, :], corner + np.diag(np.where(corner <= 0.5, sides, -sides))]
    )
