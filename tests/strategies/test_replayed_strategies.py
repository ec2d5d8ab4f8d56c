"""Replayed strategies propose the configurations that the algorithm would evaluate if it called the function itself."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like import Categorical, Integer, Ordinal, Outcome, Permutation, Real, Space, Trial
from baco_like.optimizer import Optimizer
from baco_like.records.history import History, row_keys
from baco_like.strategies.direct.base import ReplayedStrategy
from baco_like.strategies.geometry import RepairedBox
from baco_like.strategies.observed_costs import ObservedCosts
from baco_like.strategies.protocol import Problem

GRID = Space({"a": Ordinal(list(range(40))), "b": Ordinal(list(range(40)))})
BENT = Space(
    {"x": Real(1e-3, 1.0, log=True), "n": Integer(1, 40), "p": Permutation(["i", "j", "k"])},
    constraints=["n % 3 == 0 or x < 0.1"],
)


@dataclass(frozen=True)
class Walk(ReplayedStrategy):
    """A random walk that stays where it is better: three visits a stage."""

    phase = "walk"

    def lookup_limit(self, box):
        return 50

    def begin(self, box, start, cost, previous):
        return (start, cost, 0 if previous is None else previous[2] + 1)

    def stage(self, box, at, objective, rng):
        point, cost, turn = at
        for _ in range(3):
            other = np.clip(point + rng.uniform(-0.2, 0.2, len(point)), 0, 1)
            found = objective(other)
            if found < cost:
                point, cost = other, found
        return (point, cost, turn)


def cost(config):
    return 2.0 + (config["a"] - 11) ** 2 + (config["b"] - 29) ** 2


def plain(space, wanted):
    """Run the walk directly; return the distinct rows that it evaluates, in order."""
    strategy = Walk()
    problem = Problem(space)
    state = strategy.init(problem, np.random.default_rng(5))
    box = RepairedBox(space)
    rng = np.random.Generator(np.random.PCG64(0))
    rng.bit_generator.state = state.rng_state
    (start, *_) = box.starts(16, rng)
    rows = {row_keys(start[None, :])[0]: start}
    unit = abs(cost(space.decode(start[None, :])[0]))

    def objective(point):
        key, row = box.row(point)
        rows[key] = row
        return cost(space.decode(row[None, :])[0]) / unit

    at = (box.point(start), 1.0, 0)
    while len(rows) < wanted:
        at = Walk().stage(box, at, objective, rng)
    return list(rows)[:wanted]


def drive(strategy, problem, evaluate, n):
    """Observe every proposal of a strategy, in order; return the keys and the last state and history."""
    state = strategy.init(problem, np.random.default_rng(5))
    history, keys = History.start(problem.space), []
    for number in range(n):
        (proposal,) = strategy.ask(problem, history, state, 1, np.random.default_rng(number))
        keys += row_keys(proposal.code[None, :])
        history, state = observe(
            strategy, problem, history, state, proposal.code, evaluate, proposal.tag
        )
    return keys, state, history


def observe(strategy, problem, history, state, code, evaluate, tag=None, origin="strategy"):
    from baco_like.records.trial import Outcome, Trial

    (config,) = problem.space.decode(code[None, :])
    value = evaluate(config)
    number = history.next_id
    outcome = (
        Outcome.failure(number, "runtime") if value is None else Outcome.success(number, (value,))
    )
    trial = Trial(number, config, tag, origin)
    history, (observed,) = history.complete([outcome], {number: (trial, code)})
    state = strategy.tell(problem, state, observed, np.random.default_rng(number))
    return history, state


def test_the_proposals_are_the_configurations_that_the_algorithm_evaluates():
    keys, _, _ = drive(Walk(), Problem(GRID), cost, 60)
    assert keys == plain(GRID, 60)


def test_ask_changes_nothing_and_a_state_can_be_continued_twice():
    strategy, problem = Walk(), Problem(GRID)
    _, state, history = drive(strategy, problem, cost, 20)
    asked = [
        strategy.ask(problem, history, state, n, np.random.default_rng(n))[0].code
        for n in (1, 3, 1)
    ]
    assert (asked[0] == asked[1]).all()
    assert (asked[0] == asked[2]).all()
    ends = []
    for value in (0.5, 1e9):  # two futures of one state do not know of each other
        _, after = observe(strategy, problem, history, state, asked[0], lambda _, v=value: v)
        ends.append(after.observed.cost(row_keys(asked[0][None, :])[0]))
    assert ends == [0.5, 1e9]
    again = strategy.ask(problem, history, state, 1, np.random.default_rng(0))[0]
    assert (again.code == asked[0]).all()


def test_a_batch_starts_with_the_request_and_continues_as_if_it_were_bad():
    strategy, problem = Walk(), Problem(GRID)
    _, state, history = drive(strategy, problem, cost, 10)
    batch = strategy.ask(problem, history, state, 4, np.random.default_rng(0))
    assert [p.tag["ahead"] for p in batch] == [0, 1, 2, 3]
    for proposal in batch:  # all are worse than everything before, just as was assumed
        history, state = observe(strategy, problem, history, state, proposal.code, lambda _: 9e9)
    keys, *_ = zip(*[row_keys(p.code[None, :]) for p in batch], strict=True)
    assert len(set(keys)) == 4
    (one,) = strategy.ask(problem, history, state, 1, np.random.default_rng(0))
    assert row_keys(one.code[None, :])[0] not in keys


def test_a_trial_that_never_returns_is_skipped_after_a_while():
    optimizer = Optimizer(GRID, strategy=Walk(), seed=3)
    for _ in range(5):
        trial = optimizer.suggest()
        optimizer.observe(trial, cost(trial))
    lost = optimizer.suggest()
    ahead = []
    for _ in range(25):
        trial = optimizer.suggest()
        ahead.append(trial.tag["ahead"])
        optimizer.observe(trial, cost(trial))
    assert ahead[0] == 1
    assert 0 in ahead  # it wants something else by now
    assert optimizer.pending == [lost]


def test_a_start_that_fails_is_followed_by_another():
    failures = iter([None, None, 7.0])
    keys, state, _ = drive(Walk(), Problem(GRID), lambda _: next(failures), 3)
    assert len(set(keys)) == 3
    assert state.unit == 7.0
    assert state.checkpoint[1] == 1.0


def test_a_failure_costs_the_worst_success_and_the_spread_on_top():
    values = iter([4.0, 2.0, 8.0, 5.0, None])
    _, state, _ = drive(Walk(), Problem(GRID), lambda _: next(values), 5)
    assert state.scale_cost(math.inf) == (8.0 + (8.0 - 2.0)) / 4.0
    assert state.scale_cost(5.0) == 1.25


def test_a_reported_point_is_the_start_if_it_arrives_first():
    optimizer = Optimizer(GRID, strategy=Walk(), seed=1)
    best = {"a": 12, "b": 30}
    for config in ({"a": 39, "b": 0}, best, {"a": 0, "b": 0}):
        optimizer.observe(config, cost(config))
    state = optimizer.state.strategy_state
    assert np.allclose(state.checkpoint[0], state.box.point(GRID.encode([best])[0]))


def test_it_restarts_in_a_known_region_and_proposes_nothing_when_all_is_known():
    space = Space({"a": Ordinal([1, 2, 3]), "b": Ordinal([1, 2, 3])})
    optimizer = Optimizer(space, strategy=Walk(), seed=2)
    origins = []
    for _ in range(9):
        trial = optimizer.suggest()
        origins.append(trial.origin)
        optimizer.observe(trial, 1.0 + trial["a"] * trial["b"])
    assert origins == ["strategy"] * 9
    assert optimizer.state.strategy_state.checkpoint[2] > 0
    assert not Walk().ask(
        Problem(space),
        optimizer.history,
        optimizer.state.strategy_state,
        1,
        np.random.default_rng(0),
    )


def test_a_space_of_one_configuration_is_evaluated():
    optimizer = Optimizer(Space({"a": [3]}), strategy=Walk(), seed=2)
    trial = optimizer.suggest()
    optimizer.observe(trial, 1.0)
    assert trial.origin == "strategy"


@pytest.mark.parametrize("value", [-1e308, 1e308, 0.0, 5e-324])
def test_extreme_values_stay_finite(value):
    values = iter([value, -value, value / 3, None, 1.0])
    _, state, _ = drive(Walk(), Problem(GRID), lambda _: next(values), 5)
    assert math.isfinite(state.scale_cost(math.inf))
    assert all(math.isfinite(answer) for answer in state.answers)


LISTED = Space(
    {"a": Integer(0, 12), "c": Categorical(["p", "q", "r"]), "b": Integer(0, 9)},
    constraints=["a % 4 == b % 3", "c != 'p' or a > 5"],
)


@pytest.mark.parametrize("space", [BENT, LISTED], ids=["bent", "listed"])
@given(seed=st.integers(0, 10**6))
def test_every_point_stands_for_a_feasible_row_and_a_row_for_itself(space, seed):
    rng = np.random.default_rng(seed)
    box = RepairedBox(space)
    for row in box.starts(4, rng):
        assert (box.row(box.point(row))[1] == row).all()
    point = rng.random(box.unit.axes)
    key, row = box.row(point)
    assert space.feasible.contains(row[None, :])[0]
    assert (key, row.tolist()) == (box.row(point)[0], RepairedBox(space).row(point)[1].tolist())
    inside = box.unit.from_unit(point[None, :])
    if space.feasible.contains(inside)[0]:
        assert np.allclose(row, inside[0], rtol=1e-9)


@given(seed=st.integers(0, 10**6))
def test_no_feasible_row_is_nearer_than_the_one_that_a_point_stands_for(seed):
    box = RepairedBox(LISTED)
    point = np.random.default_rng(seed).random(box.unit.axes)
    inside = box.unit.from_unit(point[None, :])
    rows = np.concatenate([box.row(point)[1][None, :], LISTED.feasible.listed])
    apart = np.abs(rows - inside)
    apart[:, 1] = apart[:, 1] > 0  # the categorical one
    assert apart[0].sum() == apart.sum(axis=1).min()


def test_steps_are_whole_values_and_pass_the_keys_of_a_permutation():
    box = RepairedBox(BENT)
    assert np.allclose(box.steps(1e-9), [1 / 1024, 1 / 40, 0.5, 0.5, 0.5])
    assert np.allclose(box.steps(0.25), [0.25, 0.25, 0.5, 0.5, 0.5])


# ----  ----


SPACE = Space({"a": Ordinal([1, 2, 4])}, constraints=["a < 4"])


def trial(number, value, origin="told", a=1, direction="minimize"):
    outcome = (
        Outcome.failure(number, "compile") if value is None else Outcome.success(number, (value,))
    )
    config = {"a": a}
    code = SPACE.encode([config])[0] if SPACE.contains(config) else None
    unsuggested = {number: (Trial(number, config, None, origin), code)}
    _, (observation,) = History.start(SPACE, direction).complete([outcome], unsuggested)
    return observation


def add(costs, observation):
    (key,) = row_keys(observation.code[None, :])
    return costs.add(key, observation.cost)


def test_an_older_version_keeps_its_contents():
    first = add(ObservedCosts(), trial(0, 5.0))
    left = add(first, trial(1, 7.0, a=2))
    right = add(first, trial(1, 9.0, a=2))
    codes = np.array([[0.0], [1.0]])
    assert (len(first), len(left), len(right)) == (1, 2, 2)
    np.testing.assert_array_equal(first.costs(row_keys(codes)), [5.0, np.nan])
    np.testing.assert_array_equal(left.costs(row_keys(codes)), [5.0, 7.0])
    np.testing.assert_array_equal(right.costs(row_keys(codes)), [5.0, 9.0])


@pytest.mark.parametrize(
    ("values", "cost"),
    [((2.0, 4.0), 3.0), ((None, 4.0), 4.0), ((None,), math.inf), ((1e308, 1e308), 1e308)],
)
def test_the_successes_among_repeats_are_averaged(values, cost):
    costs = ObservedCosts()
    for number, value in enumerate(values):
        costs = add(costs, trial(number, value))
    assert costs.costs(row_keys(np.array([[0.0]]))) == [cost]


def test_maximised_values_become_negative_costs():
    costs = add(ObservedCosts(), trial(0, 5.0, direction="maximize"))
    assert costs.costs(row_keys(np.array([[0.0]]))) == [-5.0]


def test_a_configuration_outside_the_space_has_no_code():
    assert trial(0, 5.0, "imported", a=4).code is None
