"""Proposals in store: computed in the background, checked when they are suggested, and repeatable from the journal."""

import json
import os
import signal
import threading
from dataclasses import dataclass, field

import numpy as np
import pytest
from idle import Idle

from baco_like import MaxEvals, Optimizer, Real, Sharing, Space, SpaceExhausted, Workers, tune
from baco_like._threads import thread_limit
from baco_like.evaluators import FunctionEvaluator
from baco_like.optimizer.suggesting import ask_strategy
from baco_like.records import Proposal
from baco_like.running import run

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

SPACE = Space({"a": [1, 2, 4, 8], "b": list(range(8)), "c": Real(0, 1)})
GRID = Space({"x": list(range(40))})


def cost(trial):
    return (trial["a"] - 4) ** 2 + abs(trial["b"] - 3) + trial["c"]


@dataclass(frozen=True)
class InOrder(Idle):
    """Proposes the free values in order, once it has the permission; it notes how many results it knew."""

    permission: threading.Event = field(default_factory=threading.Event, repr=False)
    entered: threading.Event = field(default_factory=threading.Event, repr=False)

    def ask(self, problem, history, state, n, rng):
        self.entered.set()
        assert self.permission.wait(60)
        rows = np.arange(40.0)[:, None]
        rows = rows[~problem.is_excluded(history, rows)][:n]
        return [Proposal(row, {"results": len(history)}) for row in rows]


@pytest.fixture
def strategy():
    strategy = InOrder()
    strategy.permission.set()
    yield strategy
    strategy.permission.set()


def wait_for_store(optimizer, size):
    while optimizer.in_store < size:
        threading.Event().wait(0.001)


def test_the_store_is_filled_while_trials_are_evaluated(strategy):
    optimizer = Optimizer(GRID, strategy=strategy, sharing=Sharing(ahead=3))
    assert optimizer.in_store == 0
    first = optimizer.suggest()
    wait_for_store(optimizer, 3)
    strategy.permission.clear()  # from now on, no proposal is computed
    others = [optimizer.suggest() for _ in range(3)]
    assert [t["x"] for t in (first, *others)] == [0, 1, 2, 3]
    assert [t.id for t in optimizer.pending] == [0, 1, 2, 3]  # those in store do not count


def test_results_are_recorded_while_proposals_are_computed(strategy):
    optimizer = Optimizer(GRID, strategy=strategy, sharing=Sharing(ahead=2))
    trials = optimizer.suggest(2)
    wait_for_store(optimizer, 2)
    strategy.permission.clear()
    trials += optimizer.suggest(2)
    strategy.entered.clear()
    assert strategy.entered.wait(60)
    optimizer.observe(trials, [1.0] * 4)
    strategy.permission.set()
    following = optimizer.suggest(4)
    # The first of them were begun before these results.
    assert [t.tag["results"] for t in following] == [0, 0, 4, 4]


def test_a_configuration_that_was_observed_meanwhile_leaves_the_store(strategy):
    optimizer = Optimizer(GRID, strategy=strategy, sharing=Sharing(ahead=3))
    optimizer.suggest()
    wait_for_store(optimizer, 3)
    optimizer.observe({"x": 1}, 1.0)
    optimizer.enqueue({"x": 2})
    assert [t["x"] for t in optimizer.suggest(4)] == [2, 3, 4, 5]


def test_without_patience_the_fallback_is_marked(strategy):
    optimizer = Optimizer(GRID, strategy=strategy, sharing=Sharing(ahead=2, patience=0.0))
    strategy.permission.clear()
    first = optimizer.suggest()
    assert (first.origin, first.tag) == ("fill", {"phase": "fallback"})
    optimizer.observe(first, 1.0)
    more = optimizer.suggest(6)
    assert {t.tag["phase"] for t in more} == {"fallback"}
    assert len({t["x"] for t in (first, *more)}) == 7
    strategy.permission.set()
    wait_for_store(optimizer, 2)
    assert optimizer.suggest().origin == "strategy"


def test_a_space_is_exhausted_without_waiting_for_ever(strategy):
    optimizer = Optimizer(GRID, strategy=strategy, sharing=Sharing(ahead=4))
    assert len(optimizer.suggest(60)) == 40
    with pytest.raises(SpaceExhausted):
        optimizer.suggest()
    optimizer.abandon(optimizer.pending[7])
    assert optimizer.suggest()["x"] == 7


def test_an_error_of_the_strategy_is_raised_by_suggest():
    class Broken(InOrder):
        def ask(self, *args):
            raise ArithmeticError("on purpose")

    optimizer = Optimizer(GRID, strategy=Broken(), sharing=Sharing(ahead=2))
    for _ in range(2):
        with pytest.raises(ArithmeticError, match="on purpose"):
            optimizer.suggest()


def test_a_callback_may_suggest(strategy):
    suggested = []

    def callback(optimizer, trial):
        if len(suggested) < 3:
            suggested.extend(optimizer.suggest(2))

    optimizer = Optimizer(GRID, strategy=strategy, sharing=Sharing(ahead=1), callbacks=[callback])
    optimizer.observe(optimizer.suggest(), 1.0)
    assert [t["x"] for t in suggested] == [1, 2]


def test_a_forked_child_fills_its_own_store(strategy):
    optimizer = Optimizer(GRID, strategy=strategy, sharing=Sharing(ahead=2))
    optimizer.suggest()
    wait_for_store(optimizer, 2)
    strategy.permission.clear()
    strategy.entered.clear()
    optimizer.suggest()
    assert strategy.entered.wait(60)
    child = os.fork()
    if not child:
        signal.alarm(60)
        strategy.permission.set()
        os._exit(len(optimizer.suggest(5)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5


def test_each_suggestion_can_be_computed_again_from_the_journal(tmp_path):
    path = tmp_path / "run.jsonl"
    optimizer = Optimizer(SPACE, seed=3, storage=path, sharing=Sharing(ahead=3))
    for _ in range(4):
        trials = optimizer.suggest(3)
        wait_for_store(optimizer, 3)
        optimizer.observe(trials, [cost(trial) for trial in trials])
    lines = path.read_text().splitlines(keepends=True)
    rows = [row for line in lines for row in json.loads(line).get("trials", [])]
    fills = {}
    for row in rows:
        fills.setdefault((row["known"], row["ahead"]), []).append(row)
    again = tmp_path / "again.jsonl"
    for (known, ahead), members in fills.items():
        again.write_text("".join(lines[:known]))
        state = Optimizer.load(again).state
        first = rows.index(members[0])
        stored = [row["config"] for row in rows[first - ahead : first]]
        if stored:
            assumed = state.history.assume_pending(SPACE.encode(stored))
            state = type(state)(
                state.options, state.problem, state.strategy, assumed, state.strategy_state
            )
        with thread_limit(1):  # as in an optimizer
            again_trials = ask_strategy(state, 3 if not ahead else 3 - ahead)
        expected = [(row["config"], row["tag"]) for row in members]
        computed = [(dict(t), json.loads(json.dumps(t.tag))) for t in again_trials]
        assert computed[: len(expected)] == expected
    assert len(fills) > 2


def test_a_resumed_run_has_the_same_state_and_a_new_store(tmp_path):
    optimizer = Optimizer(SPACE, seed=3, storage=tmp_path / "run.jsonl", sharing=Sharing(ahead=3))
    for _ in range(6):
        trial = optimizer.suggest()
        optimizer.observe(trial, cost(trial))
    wait_for_store(optimizer, 3)
    optimizer.suggest()
    resumed = Optimizer.load(tmp_path / "run.jsonl", sharing=Sharing(ahead=3, patience=30))
    for ours, theirs in ((optimizer.trials, resumed.trials), (optimizer.pending, resumed.pending)):
        assert [(t.id, dict(t), t.tag) for t in ours] == [(t.id, dict(t), t.tag) for t in theirs]
    assert resumed.state.strategy_state == optimizer.state.strategy_state
    assert resumed.suggest().id == optimizer.history.next_id


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ahead": -1}, "ahead"),
        ({"ahead": 2, "patience": -1.0}, "patience"),
        ({"patience": 1.0}, "add ahead=8"),
        ({"worker": ""}, "worker"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Sharing(**arguments)


def test_tune_evaluates_proposals_from_the_store(tmp_path):
    workers = Workers(ahead=2, patience=0.0)
    settings = {"progress": False, "storage": tmp_path / "run.jsonl", "workers": workers}
    result = tune(cost, SPACE, stop=MaxEvals(15), **settings)
    assert (result.reason, len(result.trials)) == ("15 evaluations", 15)


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, [5, 5]), ({"ahead": 2}, [1, 2]), ({"ahead": 2, "patience": 0.1}, [5, 2])],
)
def test_no_free_worker_waits_for_the_proposals_of_the_others(strategy, options, expected):
    optimizer = Optimizer(GRID, strategy=strategy, sharing=Sharing(**options))
    sizes = [optimizer.size_of_next(5)]
    optimizer.suggest()
    if options:
        wait_for_store(optimizer, 2)
    assert [*sizes, optimizer.size_of_next(5)] == expected


def test_a_run_submits_what_is_in_store_before_it_waits_for_more(strategy):
    optimizer = Optimizer(GRID, strategy=strategy, sharing=Sharing(ahead=2))
    optimizer.observe(optimizer.suggest(), 1.0)
    wait_for_store(optimizer, 2)
    strategy.permission.clear()

    class FiveAtOnce(FunctionEvaluator):
        capacity = 5

        def submit(self, trial):
            if trial.id == 2:  # the second from the store; the third needs a new fill
                strategy.permission.set()
            super().submit(trial)

    evaluator = FiveAtOnce(lambda trial: float(trial["x"]))
    assert run(optimizer, evaluator, MaxEvals(9)) == "9 evaluations"


def test_many_draws_without_a_model_are_feasible_and_new(strategy):
    values = list(range(12))
    space = Space({"x": values, "y": values, "z": values}, constraints=["(x + y + z) % 3 == 0"])
    optimizer = Optimizer(space, strategy=strategy, sharing=Sharing(ahead=1, patience=0.0))
    strategy.permission.clear()
    configs = []
    for _ in range(6):
        trials = optimizer.suggest(40)
        optimizer.observe(trials, [float(t["x"] + t["y"]) for t in trials])
        configs += [tuple(dict(t).values()) for t in trials]
    assert all(sum(config) % 3 == 0 for config in configs)
    assert len(set(configs)) == 240
