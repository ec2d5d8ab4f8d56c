"""The claims of the papers: the runs that each one needs, and the conclusion from these runs."""

from collections.abc import Mapping

from claims.bayesian import BAYESIAN, PACKAGES, RIVALS, report_bayesian
from claims.constraints import AWARE, HALF_AS_MANY, PYATF, UNAWARE, report_constraints, report_pyatf
from claims.difficulty import report_difficulty
from claims.evidence import EXPLAINED, LOW, MEDIUM, Entry, Evidence, Part
from claims.stochastic import ALL_NOISY, STOCHASTIC, STOCHASTIC_BUDGETS, report_stochastic
from claims.survey import ALL_SURVEYED, SMAC, report_survey, surveyed

__all__ = ["BUDGETS", "EXPLAINED", "PARTS", "Entry", "Evidence", "Part"]

BUDGETS = (*LOW, *MEDIUM)
"""Those of the 2022 survey, which the option for the largest budget limits."""

PARTS: Mapping[str, Part] = {
    "constraints": Part(
        "Constraint-aware against unaware (2025, section V-B)",
        [*AWARE.values(), *UNAWARE.values(), HALF_AS_MANY],
        100,
        report_constraints,
    ),
    "pyatf": Part(
        "Against pyATF (2025, section V-C)", [*AWARE.values(), *PYATF], 100, report_pyatf
    ),
    "survey": Part("Sixteen algorithms (2022, section VI-B)", ALL_SURVEYED, 50, report_survey),
    "stochastic": Part(
        "Chance in the values (2022, section VI-B2)",
        [*ALL_NOISY, *SMAC, *(surveyed(n, b) for b in STOCHASTIC_BUDGETS for n in STOCHASTIC)],
        20,
        report_stochastic,
    ),
    "bayesian": Part(
        "Bayesian optimization (2021, section IV)",
        [*BAYESIAN.values(), *RIVALS, *PACKAGES],
        35,
        report_bayesian,
    ),
    "difficulty": Part(
        "Difficulty of a space (2022, section VII)",
        [surveyed(n, b) for b in (*LOW, *MEDIUM) for n in ("dual annealing", "first ILS")],
        50,
        report_difficulty,
    ),
}
