import itertools
import math

import numpy as np
import pytest
from plain_climbing import Objective, climb_first, rugged
from population_runs import Run

from baco_like import Integer, Permutation, Space
from baco_like.spaces.neighbourhoods import hamming
from baco_like.strategies import create_strategy
from baco_like.strategies.local.genetic_local_search import (
    select_by_restricted_tournament,
    select_by_tournament,
)

RNG = np.random.default_rng
SPACE = Space({f"x{i}": Integer(0, 11) for i in range(4)}, ["x0 + x1 >= 4", "x2 != x3"])
FREE = Space({f"x{i}": Integer(0, 11) for i in range(4)})


def cost(code):
    found = rugged(code)
    return math.inf if found is None else found


def run_of(space=SPACE, objective=rugged, seed=0, **settings):
    return Run(create_strategy("genetic_local_search", settings), space, objective, seed)


def generations(run, n):
    """Return the memory of every generation that n more evaluations go through, as each begins."""
    found = [run.state.memory]
    for _ in range(n):
        run.go(1)
        if run.state.memory.rows is not found[-1].rows:
            found.append(run.state.memory)
    return found


def is_local_minimum(space, row):
    near, _ = hamming(space, row[None, :], RNG(0))
    return all(cost(other) >= cost(row) for other in near)


def test_the_first_member_is_climbed_before_the_second_as_in_the_plain_loop():
    run = run_of(population=2)
    first = run.state.scans[0].rows[0]
    rng = RNG()
    rng.bit_generator.state = run.rng.bit_generator.state
    f = Objective(rugged)
    climb_first(SPACE, f, first, rng, "hamming", True)
    plain = list(f.seen)
    rows, tags = run.go(len(plain) + 1)
    assert [tuple(row) for row in rows[:-1]] == plain
    assert tags[-1]["phase"] == "start"


@pytest.mark.parametrize("crossover", ["uniform", "two_point"])
def test_every_generation_is_made_of_local_minima_and_their_children(crossover):
    run = run_of(FREE, population=4, crossover=crossover)
    found = generations(run, 600)
    assert len(found) > 2
    assert not len(found[0].rows)
    for memory in found[1:]:
        assert memory.rows.shape == (4, 4)
        assert all(is_local_minimum(FREE, row) for row in memory.rows)
        assert memory.costs.tolist() == [cost(row) for row in memory.rows]
    for before, after in itertools.pairwise(found[1:]):
        assert (np.sort(after.costs) <= np.sort(before.costs)).all()


def test_children_have_the_genes_of_two_parents():
    run = run_of(FREE, population=2)
    while not len(run.state.memory.rows):
        run.go(1)
    mother, father = run.state.memory.rows
    children = run.state.memory.minima[np.isnan(run.state.memory.minima_costs)]
    assert len(children)
    for child in children:  # their minima are not known yet
        assert ((child == mother) | (child == father)).all()


def test_restricted_tournament_replaces_the_most_similar_if_better():
    space = Space({"a": Integer(0, 9), "p": Permutation(["x", "y", "z"]), "b": Integer(0, 9)})
    rows = np.array([[0, 0, 1, 2, 0], [5, 0, 1, 2, 5], [9, 2, 1, 0, 9]], dtype=float)
    costs = np.array([1.0, 2.0, 3.0])
    worse = np.array([[5, 0, 1, 2, 6], [9, 2, 0, 1, 9]], dtype=float)
    kept, values = select_by_restricted_tournament(
        space, rows, costs, worse, np.array([2.5, 2.9]), RNG(0)
    )
    assert kept.tolist() == [rows[0].tolist(), rows[1].tolist(), worse[1].tolist()]
    assert values.tolist() == [1.0, 2.0, 2.9]
    assert costs.tolist() == [1.0, 2.0, 3.0]
    kept, values = select_by_restricted_tournament(
        space, rows, costs, worse[:1], np.array([0.5]), RNG(0)
    )
    assert values.tolist() == [1.0, 0.5, 3.0]
    assert kept[1].tolist() == worse[0].tolist()


def test_a_tournament_is_held_between_old_and_young():
    rows, costs = np.arange(3.0)[:, None], np.array([3.0, 1.0, 2.0])
    kept, values = select_by_tournament(
        FREE, rows, costs, rows + 10, np.array([9.0, 9.0, 0.0]), RNG(0)
    )
    assert kept[:, 0].tolist() == [12.0] * 3  # eight of six take part
    assert values.tolist() == [0.0] * 3


def test_a_better_reported_configuration_joins_the_next_generation():
    run = run_of(population=4, seed=3)
    run.go(5)
    row = SPACE.feasible.sample(1, RNG(8))[0]
    run.report(row, -1e6)
    while not len(run.state.memory.rows):
        run.go(1)
    assert row.tolist() in run.state.memory.rows.tolist()
    assert run.state.memory.costs.min() == -1e6
    assert run.state.surprise is None


def test_a_population_without_new_configurations_is_drawn_again():
    space = Space({"a": Integer(0, 5), "b": Integer(0, 5), "c": Integer(0, 5)})

    def bowl(code):
        return float(((code - 2.0) ** 2).sum())

    run = run_of(space, bowl, population=2)
    found = generations(run, 150)
    assert sum(not len(memory.rows) for memory in found) > 1
    rows = np.array([code for code in run.history.codes])
    assert len(np.unique(rows, axis=0)) == 150
