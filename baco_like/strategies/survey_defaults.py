"""Settings by budget: Table III of Schoonhoven et al. 2022, "Benchmarking optimization algorithms for auto-tuning".

Each row of the table maps a setting to its values for the seven budgets of `BUDGETS`, in their order. A strategy whose
settings are left open takes them from here when it starts, by the budget of its problem.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

BUDGETS = (25, 50, 100, 200, 400, 800, 1600)
"""The columns: evaluations in all."""

UNKNOWN_BUDGET = 200
"""The column that stands for a budget nobody told."""

Row = Mapping[str, tuple[Any, ...]]
"""From each setting to its seven values."""


def by_budget(row: Row, budget: int | None) -> dict[str, Any]:
    """Return the settings of a row for a budget: those of the nearest column on a logarithmic scale.

    Args:
        row: One of the rows below.
        budget: Evaluations in all, or None where it is not known. Of two columns equally near the smaller counts.

    Raises:
        ValueError: The budget is not positive.
    """
    known = UNKNOWN_BUDGET if budget is None else budget
    if known < 1:
        raise ValueError(f"budget {budget} is not positive; give the number of evaluations")
    distances = [abs(math.log(known / column)) for column in BUDGETS]
    nearest = distances.index(min(distances))
    return {setting: values[nearest] for setting, values in row.items()}


def resolved(row: Row, budget: int | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a row for a budget, save those that are given and not None."""
    chosen = {setting: value for setting, value in given.items() if value is not None}
    return {**by_budget(row, budget), **chosen}


BASIN_HOPPING: Row = {
    "method": ("powell", *("cobyla",) * 4, *("slsqp",) * 2),
    "temperature": (*(0.1,) * 5, *(1.0,) * 2),
}

DUAL_ANNEALING: Row = {"method": ("cobyla", *("powell",) * 6)}

PARTICLE_SWARM: Row = {
    "particles": (25, 25, 10, 20, 40, 80, 160),
    "neighbours": (5, 5, 5, 10, 20, 26, 32),
}

DIFFERENTIAL_EVOLUTION: Row = {
    "mutation_strategy": (*("best1bin",) * 4, "best2bin", *("best1exp",) * 2),
    "population_per_parameter": (1, 2, 2, 4, 8, 16, 32),
    "recombination": (0.5, *(0.7,) * 6),
    "dither": ((0.2, 0.7),) * 7,
}

SIMULATED_ANNEALING: Row = {
    "exploration": (*(1.0,) * 4, 0.7, *(0.1,) * 2),
    "hill_climber": ("none", *("random_first",) * 6),
    "neighbourhood": ("hamming",) * 7,
}

GENETIC_LOCAL_SEARCH: Row = {
    "population": (2, 2, 4, 16, 20, 40, 80),
    "crossover": (*("uniform",) * 2, *("two_point",) * 2, *("uniform",) * 3),
    "hill_climber": ("random_first",) * 7,
    "selection": ("restricted_tournament",) * 7,
    "neighbourhood": ("hamming",) * 7,
}

GENETIC_ALGORITHM: Row = {
    "mutation": (*(0.02,) * 3, *(0.05,) * 2, *(0.02,) * 2),
    "population": (8, 10, 20, 40, 80, 128, 320),
    "crossover": (*("one_point",) * 5, *("two_point",) * 2),
    "selection": ("tournament",) * 7,
    "tournament": (*(8,) * 5, *(4,) * 2),
}

FIRST_TABU: Row = {"tabu_size": (4, 4, *(2000,) * 5), "neighbourhood": ("hamming",) * 7}

BEST_TABU: Row = {"tabu_size": (2000,) * 7, "neighbourhood": ("hamming",) * 7}

FIRST_MULTI_START: Row = {
    "restart": (True, True, False, False, True, True, True),
    "neighbourhood": ("hamming",) * 7,
}

BEST_MULTI_START: Row = {"neighbourhood": (*("adjacent",) * 3, *("hamming",) * 4)}

FIRST_ITERATED: Row = {
    "perturbation": (*(1.0,) * 5, *(0.05,) * 2),
    "patience": (*(25,) * 5, *(10,) * 2),
    "neighbourhood": (*("hamming",) * 5, *("adjacent",) * 2),
    "restart": (*(False,) * 4, *(True,) * 3),
}

BEST_ITERATED: Row = {
    "perturbation": (*(1.0,) * 5, *(0.05,) * 2),
    "patience": (25,) * 7,
    "neighbourhood": (*("adjacent",) * 2, *("hamming",) * 3, *("adjacent",) * 2),
}

SMAC: Row = {"surrogate": ("gp",) * 7, "acquisition": ("lcb",) * 7}
"""The survey ran it up to 400 evaluations; the last two columns repeat that one."""

RACING: Row = {"first_test": (2,) * 7}
"""The survey ran irace from 200 evaluations on; the first three columns repeat that one."""
