"""Importance and dependence against exact values."""

import itertools
import math

import numpy as np
import pytest
from known_run import cost, run

from baco_like import Integer, Optimizer, Ordinal, Permutation, Real, Space, TrialError
from baco_like.explanations import compute_dependence, compute_importance, fit_models
from baco_like.explanations.dependence import _two_way, compute_dependence_on, grid_codes
from baco_like.explanations.importance import _effect, variance_between, variance_within, vary
from baco_like.explanations.models import FITTED_ROWS, GROWN_ROWS


@pytest.fixture(scope="module")
def table(optimizer):
    return optimizer.importance()


def exact_totals(space):
    """Return E[Var(y | others)] / Var(y) of every parameter over all feasible configurations, uncut."""
    configs = list(space)
    y = np.array([math.log(cost(config)) for config in configs])
    totals = {}
    for name in space.active:
        others = [tuple(v for n, v in config.items() if n != name) for config in configs]
        keys = sorted(set(others))
        parts = [y[[o == key for o in others]] for key in keys]
        totals[name] = sum(len(part) * part.var() for part in parts) / len(y) / y.var()
    return totals


def test_the_intervals_cover_the_exact_shares(optimizer):
    table = optimizer.importance(quantile=1.0)
    for name, share in exact_totals(optimizer.space).items():
        assert table[name].low <= share <= table[name].high
        assert abs(table[name].share - share) < 0.1


def test_parameters_are_ordered_by_their_share(table):
    assert [effect.name for effect in table][:2] == ["a", "b"]
    assert table["c"].share < 0.05 < table["b"].share


def test_both_kinds_of_models_count_the_same():
    total = np.concatenate([np.linspace(0.5, 0.6, 64), np.full(32, 0.1)])
    few = _effect("flag", total, total, np.full(1, np.nan), forests=32)
    assert few.share == few.alone == pytest.approx(0.3)  # between the kinds; 0.53 among all draws
    assert few.low <= few.share <= few.high
    none = _effect("flag", total[:64], total[:64], np.full(1, np.nan), forests=0)
    assert none.share == pytest.approx(0.55)


def test_failures_have_their_own_shares(table):
    assert table.failed > 0
    assert min(table["b"].failing, table["c"].failing) > 0.4 > table["a"].failing


def test_without_failures_their_shares_are_missing():
    table = run(evaluations=20, failing=False).importance()
    assert math.isnan(table["a"].failing)
    assert "failures" not in repr(table)


def test_orders_are_explained_by_positions_and_pairs(table):
    positions = {e.name: e.share for e in table.features if "position" in e.name}
    assert max(positions, key=positions.get) == "order: position of k"
    assert {e.name for e in table.features} >= {"order: i before j", "order: i before k"}


def test_a_loaded_journal_gives_the_same_table(optimizer, table):
    loaded = Optimizer.load(optimizer.journal.path)
    assert loaded.importance() == table


def test_the_table_prints_and_becomes_a_dataframe(table):
    lines = repr(table).splitlines()
    assert (
        " ".join(lines[0].split())
        == "parameter total effect 90 % interval alone of failures 90 % interval"
    )
    assert lines[1].startswith("a ")
    assert len(lines) == 1 + len(table) + len(table.features)
    frame = table.to_dataframe()
    assert list(frame["name"])[:2] == ["a", "b"]
    assert (frame["low"] <= frame["share"]).all()


def test_a_parameter_that_no_constraint_lets_change_alone_has_its_effect_alone():
    space = Space({"x": [0, 1], "y": [0, 1], "z": [0, 1, 2, 3]}, constraints=["x + y == 1"])
    optimizer = Optimizer(space, strategy="random_search")
    for _ in range(8):
        trial = optimizer.suggest()
        optimizer.observe(trial, 1.0 + 3.0 * trial["x"] + 0.1 * trial["z"])
    table = optimizer.importance(quantile=1.0)
    assert table["x"].share == 0.0
    assert table["x"].alone > 0.5


def test_reals_and_constants():
    optimizer = Optimizer(
        Space({"r": Real(0.0, 1.0), "s": Real(0.0, 1.0), "k": [3]}), strategy="random_search"
    )
    for _ in range(25):
        trial = optimizer.suggest()
        optimizer.observe(trial, math.exp(3.0 * trial["r"]))
    table = optimizer.importance()
    assert [effect.name for effect in table] == ["r", "s"]
    assert table["r"].share > 0.8 > 0.2 > table["s"].share


def test_too_few_successes_are_refused(optimizer):
    fresh = Optimizer(optimizer.space)
    with pytest.raises(TrialError, match="needs 5 successful trials, there are 0"):
        fresh.importance()


def test_a_wrong_quantile_is_refused(optimizer):
    with pytest.raises(ValueError, match="quantile = 0"):
        compute_importance(optimizer.history, quantile=0)


def test_variances_without_constraints_add_up():
    space = Space({"x": [0, 1, 2], "y": [0, 1, 2, 3]})
    rows = space.feasible.listed
    y = (3.0 * rows[:, 0] + rows[:, 1])[None, :]
    parts = []
    for i, name in enumerate(space.names):
        variation = vary(space, name, rows, np.random.default_rng(0))
        codes = variation.codes
        parts.append(variance_within((3.0 * codes[:, 0] + codes[:, 1])[None, :], variation)[0])
        assert variance_between(y, rows[:, i].astype(int))[0] <= parts[-1]
    assert sum(parts) == pytest.approx(y.var())


def test_forests_of_a_long_run_see_a_part_of_it():
    optimizer = Optimizer({f"x{i}": list(range(9)) for i in range(4)}, strategy="random_search")
    trials = optimizer.suggest(700)
    for trial in trials[:50]:
        optimizer.observe(trial, failed="runtime")
    optimizer.observe(trials[50:], [1.0 + trial["x0"] for trial in trials[50:]])
    models = fit_models(optimizer.history, 0)
    for forest in (*models.forests, *models.failures):
        assert {tree.weighted_n_node_samples[0] for tree in forest} == {GROWN_ROWS}
    assert len(models.data.y) == FITTED_ROWS
    assert compute_importance(optimizer.history, models=models).effects[0].name == "x0"


# ----  ----


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
