"""The intervals and the names of settings: those declared here, and nothing outside of them is accepted."""

import math
import re
from dataclasses import fields

import pytest

from baco_like.strategies import STRATEGIES, create_strategy
from baco_like.strategies.portfolio import AreaUnderCurve
from baco_like.strategies.settings import CheckedSettings

POSITIVE, AT_LEAST_2, FACTOR, SHARE = "[1, inf)", "[2, inf)", "(-inf, inf)", "(0, 1]"
INTERVALS = {
    "AreaUnderCurve": {"window": POSITIVE, "exploration": "[0, inf)"},
    "BasinHopping": {"temperature": "[0, inf)", "step": SHARE},
    "DifferentialEvolution": {"population_per_parameter": POSITIVE, "recombination": "[0, 1]"},
    "DualAnnealing": {
        "temperature": "(0.01, 50000]",
        "visiting": "(1, 3)",
        "acceptance": "(-10000, -5]",
        "restart": "(0, 1)",
    },
    "Firefly": {"population": POSITIVE}
    | dict.fromkeys(["attraction", "absorption", "noise"], "[0, inf)"),
    "GeneticAlgorithm": {
        "population": AT_LEAST_2,
        "tournament": POSITIVE,
        "mutation_chance": POSITIVE,
        "mutation": "[0, 1]",
    },
    "GeneticLocalSearch": {"population": AT_LEAST_2},
    "IteratedLocalSearch": {"perturbation": SHARE, "patience": POSITIVE},
    "MultiStartLocalSearch": {},
    "NSGA2": {"population": AT_LEAST_2, "mutation": "[0, 1]"},
    "ParticleSwarm": {"particles": POSITIVE, "neighbours": POSITIVE}
    | dict.fromkeys(["inertia", "cognitive", "social"], FACTOR),
    "PatternSearch": {"step": SHARE},
    "Racing": {"first_test": AT_LEAST_2, "confidence": "[0.5, 1)", "effort": POSITIVE},
    "SimulatedAnnealing": {"exploration": SHARE},
    "TabuSearch": {"tabu_size": POSITIVE},
    "Torczon": {"side": "(0, 0.5]"},
}
CONSTRAINTS, NEIGHBOURHOODS = "aware, penalty", "hamming, adjacent"
CROSSOVERS = "one_point, two_point, uniform, disruptive_uniform"
METHODS = "powell, cobyla, slsqp, lbfgsb, nelder_mead, cg"
CLIMBING = {"neighbourhood": NEIGHBOURHOODS, "improvement": "first, best"}
NAMES = {
    "BasinHopping": {"method": METHODS},
    "DifferentialEvolution": {
        "constraints": CONSTRAINTS,
        "method": ", ".join(
            f"{base}{number}{crossing}"
            for base, number in (
                *(("best", 1), ("best", 2), ("rand", 1), ("rand", 2)),
                *(("currenttobest", 1), ("randtobest", 1)),
            )
            for crossing in ("bin", "exp")
        ),
    },
    "DualAnnealing": {"method": METHODS},
    "Firefly": {"constraints": CONSTRAINTS},
    "GeneticAlgorithm": {
        "constraints": CONSTRAINTS,
        "crossover": CROSSOVERS,
        "selection": "beta_rank, tournament",
    },
    "GeneticLocalSearch": {
        "neighbourhood": NEIGHBOURHOODS,
        "crossover": CROSSOVERS,
        "selection": "restricted_tournament, tournament",
        "hill_climber": "random_first, best",
    },
    "IteratedLocalSearch": {**CLIMBING, "order": "mixed, by_parameter"},
    "MultiStartLocalSearch": {**CLIMBING, "order": "mixed, by_parameter"},
    "NSGA2": {"constraints": CONSTRAINTS, "crossover": CROSSOVERS},
    "ParticleSwarm": {"constraints": CONSTRAINTS},
    "SimulatedAnnealing": {
        "neighbourhood": NEIGHBOURHOODS,
        "hill_climber": "none, random_first, best",
    },
    "TabuSearch": CLIMBING,
}
KINDS = {type(create_strategy(name)) for name in STRATEGIES} | {AreaUnderCurve}
CHECKED = {kind.__name__: kind for kind in KINDS if issubclass(kind, CheckedSettings)}
PAIRS = [(kind, name) for kind, settings in INTERVALS.items() for name in settings]


def ends(interval):
    return tuple(map(float, interval[1:-1].split(",")))


def outside(interval):
    """Return numbers next to an interval, and values that are no finite number."""
    low, high = ends(interval)
    below = low if interval[0] == "(" else math.nextafter(low, -math.inf)
    above = high if interval[-1] == ")" else math.nextafter(high, math.inf)
    return [below, above, math.nan, math.inf, -math.inf, 10**400, "1"]


def test_these_are_the_declared_ones():
    assert set(CHECKED) == set(INTERVALS)
    for name, kind in CHECKED.items():
        declared = {field.name: field.metadata for field in fields(kind)}
        within = {n: m["within"] for n, m in declared.items() if m.get("within")}
        assert within == INTERVALS[name]
        choices = {n: ", ".join(m["choices"]) for n, m in declared.items() if m.get("choices")}
        assert choices == NAMES.get(name, {})


@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_a_number_outside_its_interval_is_refused(kind, name):
    interval = INTERVALS[kind][name]
    for value in outside(interval):
        text = f"{name} = {value!r:.60}: expected a "
        with pytest.raises(ValueError, match=re.escape(text)):
            CHECKED[kind](**{name: value})
    for end, bracket in zip(ends(interval), (interval[0], interval[-1]), strict=True):
        if bracket in "[]":
            assert getattr(CHECKED[kind](**{name: end}), name) == end


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        (SHARE, "a number above 0 and at most 1"),
        (AT_LEAST_2, "a number of at least 2"),
        ("(1, 3)", "a number above 1 and below 3"),
        (FACTOR, "a finite number"),
    ],
)
def test_the_message_has_the_interval_in_words(interval, words):
    kind, name = next((kind, name) for kind, name in PAIRS if INTERVALS[kind][name] == interval)
    with pytest.raises(ValueError, match=rf"{name} = nan: expected {words}$"):
        CHECKED[kind](**{name: math.nan})


@pytest.mark.parametrize(("kind", "name"), [(k, name) for k, own in NAMES.items() for name in own])
def test_an_unknown_name_is_refused(kind, name):
    text = f"{name} 'other' is unknown; choose from {NAMES[kind][name]}"
    with pytest.raises(ValueError, match=re.escape(text)):
        CHECKED[kind](**{name: "other"})
