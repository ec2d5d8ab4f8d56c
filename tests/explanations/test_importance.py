import math

import numpy as np
import pytest
from known_run import cost, run

from baco_like import Optimizer, Real, Space, TrialError
from baco_like.explanations import compute_importance, fit_models
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
