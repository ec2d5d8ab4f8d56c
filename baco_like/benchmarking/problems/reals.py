"""Branin's and Hartmann's functions, and variants of them with an order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from baco_like._typing import Array
from baco_like.benchmarking.problems.problem import FunctionProblem
from baco_like.parameters import Permutation, Real
from baco_like.spaces.space import Space

BRANIN_OPTIMUM = 0.397887357729738
"""Value of Branin's function at its three minima, such as (pi, 2.275)."""

_ALPHA = np.array([1.0, 1.2, 3.0, 3.2])
_A3 = np.array([[3.0, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
_P3 = 1e-4 * np.array(
    [[3689.0, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]
)
_A6 = np.array(
    [
        [10.0, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
_P6 = 1e-4 * np.array(
    [
        [1312.0, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)
_LEVELS = (0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573)
"""The minimum of Hartmann's function of six numbers."""


def branin(x: float, y: float) -> float:
    """Return Branin's function of ``-5 <= x <= 10`` and ``0 <= y <= 15`` (Dixon and Szegoe 1978)."""
    curve = y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6
    return curve**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


def hartmann(point: Array) -> float:
    """Return Hartmann's function of three or six numbers in [0, 1], ``(3,)`` or ``(6,)`` (Dixon and Szegoe 1978)."""
    a, p = (_A3, _P3) if len(point) == 3 else (_A6, _P6)
    return float(-_ALPHA @ np.exp(-(a * (point - p) ** 2).sum(axis=1)))


def branin_problem() -> FunctionProblem:
    """Branin's function."""
    space = Space({"x": Real(-5.0, 10.0), "y": Real(0.0, 15.0)})
    return FunctionProblem(
        "branin",
        space,
        lambda config: branin(config["x"], config["y"]),
        optimum=BRANIN_OPTIMUM,
        origin="branin",
    )


def hartmann_problem(size: int) -> FunctionProblem:
    """Hartmann's function of three or six numbers."""
    name = f"hartmann_{size}"
    space = Space({f"x{i}": Real(0.0, 1.0) for i in range(size)})
    return FunctionProblem(
        name,
        space,
        lambda config: hartmann(np.array([config[f"x{i}"] for i in range(size)])),
        optimum=-3.86277978733266 if size == 3 else -3.32236801141551,
        origin=name,
    )


def branin_order(size: int = 5) -> FunctionProblem:
    """Branin's function plus the weights of inversions against a hidden order; the first element shifts ``x``."""
    rng = np.random.default_rng(500 + size)
    hidden = rng.permutation(size)
    place = np.argsort(hidden)
    weights = rng.exponential(4.0, (size, size))
    space = Space({"x": Real(-5.0, 10.0), "y": Real(0.0, 15.0), "order": Permutation(range(size))})

    def evaluate(config: Mapping[str, Any]) -> float:
        ranks = [int(place[element]) for element in config["order"]]
        inversions = sum(weights[a, b] for a, b in itertools.combinations(ranks, 2) if a > b)
        return branin(config["x"] - 0.2 * ranks[0], config["y"]) + float(inversions)

    name = "branin_order"
    return FunctionProblem(name, space, evaluate, optimum=BRANIN_OPTIMUM, origin=name)


def hartmann_order() -> FunctionProblem:
    """Hartmann's function of six fixed numbers, of which the order says which coordinate is which."""
    levels = np.sort(_LEVELS)
    space = Space({"order": Permutation(range(6))})

    def evaluate(config: Mapping[str, Any]) -> float:
        return hartmann(levels[list(config["order"])])

    def find_optimum() -> float:
        return min(evaluate({"order": order}) for order in itertools.permutations(range(6)))

    name = "hartmann_order"
    return FunctionProblem(name, space, evaluate, optimum=find_optimum, origin=name)
