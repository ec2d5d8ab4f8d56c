"""Settings of strategies: their checks, and below these the survey's defaults by budget (from `BASIN_HOPPING` on).

The defaults are Table III of a survey: Schoonhoven, van Werkhoven and Batenburg 2022, "Benchmarking
optimization algorithms for auto-tuning GPU kernels". Each row maps a setting to its values for the seven budgets in
`BUDGETS`. A strategy takes the settings that the user left open from its row when a run starts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, TypeVar

from typing_extensions import Self, override

from baco_like.records.objective_values import number_within

T = TypeVar("T")

BY_BUDGET: Any = None
"""Default of a setting that is chosen by the budget when a run starts."""

BUDGETS = (25, 50, 100, 200, 400, 800, 1600)
"""The columns of the table: numbers of evaluations."""

UNKNOWN_BUDGET = 200
"""The column for a run whose budget is unknown."""

SurveyRow = Mapping[str, tuple[Any, ...]]
"""Maps each setting to its seven values."""


def setting(
    default: Any, *, within: str | None = None, choices: Mapping[str, Any] | None = None
) -> Any:
    """Declare a setting that `CheckedSettings` checks, as a field of a dataclass.

    Args:
        default: The default; None and `BY_BUDGET` are not checked.
        within: The interval of a number, such as ``"(0, 1]"``: a bracket includes the end, a parenthesis does not.
        choices: The names that a string may be.
    """
    return field(default=default, metadata={"within": within, "choices": choices})


def choose(name: str, choice: str | T, choices: Mapping[str, T]) -> T:
    """Return the object that a setting names; an object that is neither a name nor a number is returned unchanged.

    Raises:
        ValueError: The choice is unknown; the message lists the choices.
    """
    if isinstance(choice, str) and choice in choices:
        return choices[choice]
    if isinstance(choice, str | int | float):
        raise ValueError(f"{name} {choice!r} is unknown; choose from {', '.join(choices)}")
    return choice


@dataclass(frozen=True)
class CheckedSettings:
    """Base of dataclasses whose fields are declared by `setting`."""

    def __post_init__(self) -> None:
        self.check_settings()

    def check_settings(self) -> None:
        """Check every setting; subclasses add the checks that need several settings.

        Raises:
            ValueError: A setting has an invalid value.
        """
        for declared in fields(self):
            value, metadata = getattr(self, declared.name), declared.metadata
            if value is None:
                continue
            if metadata.get("choices") is not None:
                choose(declared.name, value, metadata["choices"])
            if metadata.get("within") is not None:
                number_within(declared.name, value, metadata["within"])


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


@dataclass(frozen=True)
class BudgetedSettings(CheckedSettings):
    """Base of strategies in which open settings (None) get their values from the budget when a run starts."""

    survey: ClassVar[SurveyRow] = {}
    """The values of open settings, a row of Table III."""

    @override
    def __post_init__(self) -> None:
        # Open settings get their values for an unknown budget here, so that all errors are raised at once.
        if self.for_budget(None) is self:
            self.check_settings()

    def default_settings(self, budget: int | None) -> Mapping[str, Any]:
        """Return the values of open settings for a budget of evaluations, or for an unknown budget (None)."""
        return settings_for_budget(self.survey, budget)

    def for_budget(self, budget: int | None) -> Self:
        """Return the strategy with values for all open settings."""
        values = {
            name: value
            for name, value in self.default_settings(budget).items()
            if value is not None and getattr(self, name) is None
        }
        return replace(self, **values) if values else self


_HAMMING = ("hamming",) * len(BUDGETS)

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
    "neighbourhood": _HAMMING,
}

GENETIC_LOCAL_SEARCH: SurveyRow = {
    "population": (2, 2, 4, 16, 20, 40, 80),
    "crossover": (*("uniform",) * 2, *("two_point",) * 2, *("uniform",) * 3),
    "hill_climber": ("random_first",) * 7,
    "selection": ("restricted_tournament",) * 7,
    "neighbourhood": _HAMMING,
}

GENETIC_ALGORITHM: SurveyRow = {
    "mutation": (*(0.02,) * 3, *(0.05,) * 2, *(0.02,) * 2),
    "population": (8, 10, 20, 40, 80, 128, 320),
    "crossover": (*("one_point",) * 5, *("two_point",) * 2),
    "selection": ("tournament",) * 7,
    "tournament": (*(8,) * 5, *(4,) * 2),
}

TABU: Mapping[str, SurveyRow] = {
    "first": {"tabu_size": (4, 4, *(2000,) * 5), "neighbourhood": _HAMMING},
    "best": {"tabu_size": (2000,) * 7, "neighbourhood": _HAMMING},
}
"""By the setting ``improvement``."""

MULTI_START: Mapping[str, SurveyRow] = {
    "first": {"restart": (True, True, False, False, True, True, True), "neighbourhood": _HAMMING},
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

RACING: SurveyRow = {"first_test": (2,) * 7}
"""The survey started irace at 200 evaluations; the first three columns repeat that column."""
