import itertools

import numpy as np
import pytest

from baco_like import Integer, Optimizer, Ordinal, Permutation, Real, Space, TrialError
from baco_like.explanations import compute_dependence, fit_models
from baco_like.explanations.dependence import _two_way, compute_dependence_on, grid_codes


@pytest.fixture(scope="module")
def tables(optimizer):
    return {table.names: table for table in optimizer.partial_dependence()}


def test_every_parameter_has_a_table_and_so_do_two_pairs(tables):
    singles = {names for names in tables if len(names) == 1}
    assert singles == {("a",), ("b",), ("c",), *((f"order: position of {e}",) for e in "ijk")}
    assert len(tables) - len(singles) == 2


def test_the_values_follow_the_function(tables):
    points = tables["a",].points
    assert [point.values for point in points] == [(1,), (2,), (4,), (8,)]
    for before, after in itertools.pairwise(points):
        assert after.value / before.value == pytest.approx(np.exp(0.8), rel=0.25)
        assert before.low <= before.value <= before.high


def test_values_that_fail_are_marked(tables):
    runs = [point.runs for point in tables["b",].points]
    assert runs[2] < 0.75 < runs[0]


def test_it_prints_and_becomes_a_dataframe(tables):
    table = tables["a",]
    assert len(repr(table).splitlines()) == 5
    assert list(table.to_dataframe().columns) == ["a", "value", "low", "high", "runs"]


def test_all_tables_average_over_the_same_configurations(monkeypatch):
    space = Space({"x": [0, 1, 2], "y": [0, 1], "order": Permutation(["i", "j", "k"])})
    optimizer = Optimizer(space, strategy="random_search")
    for _ in range(12):
        trial = optimizer.suggest()
        optimizer.observe(trial, 1.0 + trial["x"] + trial["order"].index("k"))
    drawn = []
    feasible = type(space.feasible)
    sample = feasible.sample
    monkeypatch.setattr(feasible, "sample", lambda s, n, rng: drawn.append(n) or sample(s, n, rng))
    models, ranking = fit_models(optimizer.history, 0), optimizer.importance()
    drawn.clear()
    compute_dependence(optimizer.history, models=models, ranking=ranking)
    assert len(drawn) == 1


@pytest.fixture(scope="module")
def branches():
    """A run on a space in which one branch has 2 of 102 configurations."""
    space = Space(
        {"kind": ["a", "b"], "x": [1, 2], "m": Integer(1, 10), "n": Integer(1, 10)},
        when={"x": "kind == 'a'", "m": "kind == 'b'", "n": "kind == 'b'"},
    )
    optimizer = Optimizer(space, strategy="random_search")
    for _ in range(14):
        trial = optimizer.suggest()
        optimizer.observe(trial, 1.0 + trial.get("x", 4) + trial.get("m", 0))
    return optimizer


def test_parameters_of_different_branches_have_no_pair(branches):
    tables = {table.names: table for table in branches.partial_dependence(pairs=9)}
    assert {names for names in tables if len(names) == 1} == {("kind",), ("x",), ("m",), ("n",)}
    assert ("x", "m") not in tables
    assert len(tables["x",].points) == 2


def test_a_pair_that_never_meets_is_named(branches):
    with pytest.raises(TrialError, match="no random configuration has 'x' and 'm'"):
        compute_dependence_on(branches.history, ("x", "m"))
    assert len(compute_dependence_on(branches.history, ("x",)).points) == 2


def test_a_grid_is_even_on_the_scale_of_its_parameter():
    space = Space({"n": Integer(1, 200, log=True), "m": Integer(1, 31), "k": Ordinal([1, 2, 4])})
    first = space.parameters["n"].decode(grid_codes(space, "n", 6))
    assert list(first) == [1, 3, 8, 23, 67, 200]
    assert list(space.parameters["m"].decode(grid_codes(space, "m", 6))) == [1, 7, 13, 19, 25, 31]
    assert list(space.parameters["k"].decode(grid_codes(space, "k", 6))) == [1, 2, 4]


def test_reals_have_a_grid():
    optimizer = Optimizer(Space({"r": Real(0.5, 1.0)}), strategy="random_search")
    for _ in range(12):
        trial = optimizer.suggest()
        optimizer.observe(trial, trial["r"] ** 2)
    (table,) = optimizer.partial_dependence()
    assert table.points[0].values == (0.5,)
    assert table.points[-1].values == (1.0,)
    assert table.points[-1].value == pytest.approx(1.0, rel=0.1)


def test_the_two_way_fit_is_the_average_of_a_full_table():
    rng = np.random.default_rng(0)
    costs = rng.normal(size=(2, 5, 3))
    owner, cell = np.repeat(np.arange(5), 3), np.tile(np.arange(3), 5)
    means = _two_way(costs.reshape(2, 15), owner, cell, 4)
    assert means[:, :3] == pytest.approx(costs.mean(axis=1))
    assert np.isnan(means[:, 3]).all()


def test_the_two_way_fit_compares_the_same_configurations():
    # Owner 0 is 10 higher and is the only one with cell 1, whose effect is nothing.
    owner, cell = np.array([0, 0, 1, 2]), np.array([0, 1, 0, 0])
    means = _two_way(np.array([[10.0, 10.0, 0.0, 0.0]]), owner, cell, 2)
    assert means[0, 0] == pytest.approx(means[0, 1], abs=1e-2)
