import pytest

from baco_like.strategies import IteratedLocalSearch, settings
from baco_like.strategies.settings import (
    BUDGETS,
    GENETIC_ALGORITHM,
    ITERATED,
    PARTICLE_SWARM,
    settings_for_budget,
)

TABLES = {
    name: table
    for name, table in vars(settings).items()
    if name.isupper() and isinstance(table, dict)
}
ROWS = {name: table for name, table in TABLES.items() if "first" not in table} | {
    f"{name} {improvement}": row
    for name, table in TABLES.items()
    if "first" in table
    for improvement, row in table.items()
}


def test_every_row_has_all_columns():
    assert len(ROWS) == 15
    for name, row in ROWS.items():
        assert {len(values) for values in row.values()} == {len(BUDGETS)}, name


@pytest.mark.parametrize(
    ("budget", "column"),
    [(1, 25), (35, 25), (36, 50), (200, 200), (282, 200), (283, 400), (None, 200), (10**6, 1600)],
)
def test_the_nearest_column_on_a_logarithmic_scale_counts(budget, column):
    assert settings_for_budget({"x": BUDGETS}, budget) == {"x": column}


def test_rows_are_those_of_the_table():
    particles = [settings_for_budget(PARTICLE_SWARM, n)["particles"] for n in BUDGETS]
    assert particles == [25, 25, 10, 20, 40, 80, 160]
    iterated = settings_for_budget(ITERATED["first"], 400)
    assert list(iterated.values()) == [1.0, 25, "hamming", True]
    genetic = settings_for_budget(GENETIC_ALGORITHM, 800)
    assert list(genetic.values()) == [0.02, 128, "two_point", "tournament", 4]


def test_given_settings_replace_those_of_the_table():
    given = IteratedLocalSearch(patience=3)
    assert given.for_budget(400).patience == 3
    assert given.for_budget(400).perturbation == 1.0
    assert given.for_budget(1600).perturbation == 0.05


def test_a_budget_of_zero_is_an_error():
    with pytest.raises(ValueError, match="budget 0 is not positive"):
        settings_for_budget({"x": BUDGETS}, 0)
