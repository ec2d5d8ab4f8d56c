"""Default settings by budget, from Table III of a survey.

Schoonhoven, van Werkhoven and Batenburg 2022, "Benchmarking optimization algorithms for auto-tuning GPU kernels".

Each row maps a setting to its values for the seven budgets in `BUDGETS`. A strategy takes the settings that the user
left open from its row when a run starts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

BUDGETS = (25, 50, 100, 200, 400, 800, 1600)
"""The columns of the table: numbers of evaluations."""

UNKNOWN_BUDGET = 200
"""The column for a run whose budget is unknown."""

SurveyRow = Mapping[str, tuple[Any, ...]]
"""Maps each setting to its seven values."""


def settings_for_budget(row: SurveyRow, budget: int | None) -> dict[str, Any]:
    """Return the settings of the column that is nearest to a budget on a logarithmic scale.

    Args:
        row: A row of the table.
        budget: Number of evaluations, or None if unknown. Of two equally near columns the smaller is taken.

    Raises:
        ValueError: The budget is not positive.
    """
    known = UNKNOWN_BUDGET if budget is None else budget
    if known < 1:
        raise ValueError(f"budget {budget} is not positive; give the number of evaluations")
    distances = [abs(math.log(known / column)) for column in BUDGETS]
    nearest = distances.index(min(distances))
    return {setting: values[nearest] for setting, values in row.items()}


BASIN_HOPPING: SurveyRow = {
    "method": ("powell", *("cobyla",) * 4, *("slsqp",) * 2),
    "temperature": (*(0.1,) * 5, *(1.0,) * 2),
}

DUAL_ANNEALING: SurveyRow = {"method": ("cobyla", *("powell",) * 6)}

PARTICLE_SWARM: SurveyRow = {
    "particles": (25, 25, 10, 20, 40, 80, 160),
    "neighbours": (5, 5, 5, 10, 20, 26, 32),
}

DIFFERENTIAL_EVOLUTION: SurveyRow = {
    "method": (*("best1bin",) * 4, "best2bin", *("best1exp",) * 2),
    "population_per_parameter": (1, 2, 2, 4, 8, 16, 32),
    "recombination": (0.5, *(0.7,) * 6),
    "weight": ((0.2, 0.7),) * 7,
}

SIMULATED_ANNEALING: SurveyRow = {
    "exploration": (*(1.0,) * 4, 0.7, *(0.1,) * 2),
    "hill_climber": ("none", *("random_first",) * 6),
    "neighbourhood": ("hamming",) * 7,
}

GENETIC_LOCAL_SEARCH: SurveyRow = {
    "population": (2, 2, 4, 16, 20, 40, 80),
    "crossover": (*("uniform",) * 2, *("two_point",) * 2, *("uniform",) * 3),
    "hill_climber": ("random_first",) * 7,
    "selection": ("restricted_tournament",) * 7,
    "neighbourhood": ("hamming",) * 7,
}

GENETIC_ALGORITHM: SurveyRow = {
    "mutation": (*(0.02,) * 3, *(0.05,) * 2, *(0.02,) * 2),
    "population": (8, 10, 20, 40, 80, 128, 320),
    "crossover": (*("one_point",) * 5, *("two_point",) * 2),
    "selection": ("tournament",) * 7,
    "tournament": (*(8,) * 5, *(4,) * 2),
}

TABU: Mapping[str, SurveyRow] = {
    "first": {"tabu_size": (4, 4, *(2000,) * 5), "neighbourhood": ("hamming",) * 7},
    "best": {"tabu_size": (2000,) * 7, "neighbourhood": ("hamming",) * 7},
}
"""By the setting ``improvement``."""

MULTI_START: Mapping[str, SurveyRow] = {
    "first": {
        "restart": (True, True, False, False, True, True, True),
        "neighbourhood": ("hamming",) * 7,
    },
    "best": {"neighbourhood": (*("adjacent",) * 3, *("hamming",) * 4)},
}
"""By the setting ``improvement``."""

ITERATED: Mapping[str, SurveyRow] = {
    "first": {
        "perturbation": (*(1.0,) * 5, *(0.05,) * 2),
        "patience": (*(25,) * 5, *(10,) * 2),
        "neighbourhood": (*("hamming",) * 5, *("adjacent",) * 2),
        "restart": (*(False,) * 4, *(True,) * 3),
    },
    "best": {
        "perturbation": (*(1.0,) * 5, *(0.05,) * 2),
        "patience": (25,) * 7,
        "neighbourhood": (*("adjacent",) * 2, *("hamming",) * 3, *("adjacent",) * 2),
    },
}
"""By the setting ``improvement``."""

SMAC: SurveyRow = {"surrogate": ("gp",) * 7, "acquisition": ("lcb",) * 7}
"""The survey stopped at 400 evaluations; the last two columns repeat that column."""

RACING: SurveyRow = {"first_test": (2,) * 7}
"""The survey started irace at 200 evaluations; the first three columns repeat that column."""
