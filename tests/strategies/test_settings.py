"""Settings: the declared intervals and names, and the defaults of the papers for a budget."""

import math
import re
from dataclasses import fields

import pytest

from baco_like.strategies import STRATEGIES, create_strategy, settings
from baco_like.strategies.moves import BetaRank, Tournament
from baco_like.strategies.portfolio import AreaUnderCurve
from baco_like.strategies.settings import BUDGETS, CheckedSettings, settings_for_budget

KINDS = {type(create_strategy(name)) for name in STRATEGIES} | {AreaUnderCurve}
DECLARED = [
    (kind, field.name, field.metadata)
    for kind in sorted(KINDS, key=lambda kind: kind.__name__)
    if issubclass(kind, CheckedSettings)
    for field in fields(kind)
]
INTERVALS = [(kind, name, each["within"]) for kind, name, each in DECLARED if each.get("within")]
CHOICES = [(kind, name, each["choices"]) for kind, name, each in DECLARED if each.get("choices")]


def test_most_settings_are_declared():
    assert len(INTERVALS) == 35
    assert len(CHOICES) == 25


@pytest.mark.parametrize(("kind", "name", "interval"), INTERVALS)
def test_a_number_outside_its_interval_is_refused(kind, name, interval):
    low, high = map(float, interval[1:-1].split(","))
    below = low if interval[0] == "(" else math.nextafter(low, -math.inf)
    above = high if interval[-1] == ")" else math.nextafter(high, math.inf)
    for value in (below, above, math.nan, math.inf, -math.inf, 10**400, "1"):
        text = f"{name} = {value!r:.60}: expected a "
        with pytest.raises(ValueError, match=re.escape(text)):
            kind(**{name: value})
    for end, bracket in ((low, interval[0]), (high, interval[-1])):
        if bracket in "[]":
            assert getattr(kind(**{name: end}), name) == end


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        ("(0, 1]", "a number above 0 and at most 1"),
        ("[2, inf)", "a number of at least 2"),
        ("(1, 3)", "a number above 1 and below 3"),
        ("(-inf, inf)", "a finite number"),
    ],
)
def test_the_message_has_the_interval_in_words(interval, words):
    kind, name = next((kind, name) for kind, name, own in INTERVALS if own == interval)
    with pytest.raises(ValueError, match=rf"{name} = nan: expected {words}$"):
        kind(**{name: math.nan})


@pytest.mark.parametrize(("kind", "name", "choices"), CHOICES)
def test_an_unknown_name_is_refused(kind, name, choices):
    text = f"{name} 'other' is unknown; choose from {', '.join(choices)}"
    with pytest.raises(ValueError, match=re.escape(text)):
        kind(**{name: "other"})


# Defaults by budget -----------------------------------------------------------------------------------------------

ROWS = {}
for _name, _table in vars(settings).items():
    if _name.isupper() and isinstance(_table, dict):
        ROWS |= _table if "first" in _table else {_name: _table}


def test_every_row_has_all_columns():
    for name, row in ROWS.items():
        assert {len(values) for values in row.values()} == {len(BUDGETS)}, name


@pytest.mark.parametrize(
    ("budget", "column"),
    [(1, 25), (35, 25), (36, 50), (200, 200), (282, 200), (283, 400), (None, 200), (10**6, 1600)],
)
def test_the_nearest_column_on_a_logarithmic_scale_counts(budget, column):
    assert settings_for_budget({"x": BUDGETS}, budget) == {"x": column}


def test_a_budget_of_zero_is_an_error():
    with pytest.raises(ValueError, match="budget 0 is not positive"):
        settings_for_budget({"x": BUDGETS}, 0)


PENALTY = {"constraints": "penalty"}
PAPERS = [  # name, settings, budget, and some of the settings of Schoonhoven et al. or Willemsen et al.
    ("basin_hopping", {}, 25, {"method": "powell", "temperature": 0.1}),
    ("basin_hopping", {}, 1600, {"method": "slsqp", "temperature": 1.0}),
    ("dual_annealing", {}, 25, {"method": "cobyla"}),
    ("dual_annealing", {}, 300, {"method": "powell"}),
    ("dual_annealing", {"method": "cg"}, 300, {"method": "cg"}),
    ("differential_evolution", {}, 25, {"method": "best1bin", "population_per_parameter": 16}),
    ("differential_evolution", {}, 1600, {"weight": (0.7, 0.7), "recombination": 0.6}),
    ("differential_evolution", PENALTY, 25, {"population_per_parameter": 1, "recombination": 0.5}),
    ("differential_evolution", PENALTY, 400, {"method": "best2bin", "weight": (0.2, 0.7)}),
    ("differential_evolution", PENALTY, 1600, {"method": "best1exp", "recombination": 0.7}),
    ("genetic_algorithm", {}, 25, {"population": 20, "crossover": "one_point"}),
    ("genetic_algorithm", {}, 1600, {"selection_rule": BetaRank(), "mutation_chance": 5}),
    ("genetic_algorithm", {"mutation": 0.5}, 200, {"mutation": 0.5, "mutation_chance": None}),
    ("genetic_algorithm", PENALTY, 25, {"population": 8, "selection_rule": Tournament(8)}),
    ("genetic_algorithm", PENALTY, 1600, {"mutation": 0.02, "selection_rule": Tournament(4)}),
    ("genetic_algorithm", PENALTY | {"selection": "beta_rank"}, 25, {"tournament": None}),
    ("particle_swarm", {}, 1600, {"particles": 30, "neighbours": None}),
    ("particle_swarm", PENALTY, 50, {"particles": 25, "neighbours": 5}),
    ("particle_swarm", PENALTY | {"social": 1.5}, 1600, {"particles": 160, "social": 1.5}),
    ("firefly", PENALTY, 25, {"population": 20, "is_aware": False}),
    ("genetic_local_search", {}, 25, {"population": 2, "crossover": "uniform"}),
    ("genetic_local_search", {}, 100, {"population": 4, "crossover": "two_point"}),
    ("genetic_local_search", {"population": 7}, 1600, {"population": 7}),
    ("simulated_annealing", {}, 25, {"hill_climber": "none", "exploration": 1.0}),
    ("simulated_annealing", {"exploration": 0.3}, 1600, {"exploration": 0.3}),
    ("simulated_annealing", {}, 400, {"hill_climber": "random_first", "exploration": 0.7}),
    ("iterated_local_search", {}, 1600, {"perturbation": 0.05, "patience": 10, "restart": True}),
    ("iterated_local_search", {"patience": 3}, 400, {"patience": 3, "perturbation": 1.0}),
    ("multi_start_local_search", {}, 200, {"restart": False, "neighbourhood": "hamming"}),
    ("multi_start_local_search", {"improvement": "best"}, 100, {"neighbourhood": "adjacent"}),
    ("tabu_search", {}, 50, {"tabu_size": 4}),
    ("racing", {}, None, {"first_test": 2}),
]


@pytest.mark.parametrize(("name", "given", "budget", "expected"), PAPERS)
def test_open_settings_are_those_of_the_papers(name, given, budget, expected):
    found = create_strategy(name, given).for_budget(budget)
    assert {key: getattr(found, key) for key in expected} == expected
