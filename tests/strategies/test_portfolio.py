"""A portfolio shares the turns out; every arm sees the run as if it were alone in it."""

import json
import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest

from baco_like import Ordinal, Search, Space
from baco_like.journal import MemoryJournal
from baco_like.optimizer import Optimizer
from baco_like.records.trial import Proposal
from baco_like.spaces.design import uniform
from baco_like.strategies import create_strategy
from baco_like.strategies.portfolio import (
    AreaUnderCurve,
    ArmUses,
    Portfolio,
    RoundRobin,
    area_under_curve,
    select_arm,
)
from baco_like.strategies.protocol import Problem

SPACE = Space({name: Ordinal(list(range(20))) for name in "ab"})


@dataclass(frozen=True)
class Listener:
    """Proposes random rows, at most `most` a call, and keeps all observations and histories that it receives."""

    name: str
    most: int = 9

    def init(self, problem, rng):
        return ((), problem.budget)

    def ask(self, problem, history, state, n, rng):
        pending = [trial.tag for trial in history.pending.values()]
        last = None if history.last is None else history.last.tag
        rows = uniform(
            problem.space, min(n, self.most), rng, lambda codes: problem.is_excluded(history, codes)
        )
        seen = {"own": self.name, "pending": pending, "last": last}
        return [Proposal(row, {**seen, "place": i}) for i, row in enumerate(rows)]

    def tell(self, problem, state, observation, rng):
        return ((*state[0], (observation.id, observation.tag)), state[1])


def arms(**most):
    return {name: Listener(name, count) for name, count in most.items()}


# The rules.


def test_the_area_under_the_curve_by_hand():
    assert area_under_curve([]) == 0.0
    assert area_under_curve([True]) == 1.0
    assert area_under_curve([False, True, False, True]) == pytest.approx(2 / (4 * 5) * (2 + 4))
    assert area_under_curve([True] * 7) == 1.0


def test_the_scores_of_the_bandit_by_hand():
    log = [(0, True), (1, False), (0, False), (1, True), (1, True)]
    scores = AreaUnderCurve(500, 0.5).scores(ArmUses((2, 3, 0), (0, 0, 0), log))
    spread = 2 * math.log2(5)
    assert scores[0] == pytest.approx(2 / 6 * 1 + 0.5 * math.sqrt(spread / 2))
    assert scores[1] == pytest.approx(2 / 12 * 5 + 0.5 * math.sqrt(spread / 3))
    assert scores[2] == math.inf


def test_the_bandit_forgets_uses_older_than_its_window_and_counts_pending_ones():
    log = [(0, True)] * 3 + [(0, False), (1, True)]
    old, new = (AreaUnderCurve(w, 0.0).scores(ArmUses((4, 1), (0, 0), log)) for w in (5, 2))
    assert old[0] > 0
    assert new.tolist() == [0.0, 1.0]
    pending = AreaUnderCurve(2, 1.0).scores(ArmUses((4, 4), (0, 3), log))
    assert pending[1] == pytest.approx(1.0 + math.sqrt(2 * math.log2(5) / 4))


def test_an_arm_that_finds_improvements_has_more_turns():
    rule, rng, log = AreaUnderCurve(), np.random.default_rng(0), []
    for _ in range(300):
        arm = select_arm(rule.scores(ArmUses((1, 1, 1), (0, 0, 0), log)), rng)
        log.append((arm, bool(rng.random() < (0.05, 0.3, 0.05)[arm])))
    counts = Counter(arm for arm, _ in log)
    assert counts[1] > 2 * max(counts[0], counts[2])
    assert min(counts.values()) >= 3


def test_round_robin_takes_the_arm_that_was_used_least_and_the_first_of_equals():
    scores = RoundRobin().scores(ArmUses((3, 2, 2), (0, 0, 0), ()))
    assert select_arm(scores, np.random.default_rng(0)) == 1


# The portfolio.


def test_tags_come_back_to_their_arm_and_every_arm_observes_all_trials():
    optimizer = Optimizer(SPACE, strategy=Portfolio(arms(x=9, y=9), RoundRobin()), seed=0)
    for _ in range(6):
        trial = optimizer.suggest()
        assert trial.tag["arm"] == ("x", "y")[trial.id % 2]
        optimizer.observe(trial, 1.0)
    optimizer.observe({"a": 3, "b": 3}, 1.0)
    for place, (told, _) in enumerate(optimizer.state.strategy_state.arms):
        assert [number for number, _ in told] == list(range(7))
        for number, tag in told:
            mine = number < 6 and number % 2 == place
            assert (tag is not None) == mine
            assert not mine or tag["own"] == "xy"[place]


def test_arms_see_their_own_tags_in_the_history():
    optimizer = Optimizer(SPACE, strategy=Portfolio(arms(x=9, y=9), RoundRobin()), seed=0)
    first = optimizer.suggest(2)
    second = optimizer.suggest(2)
    for trial in second:
        own = trial.tag["tag"]["pending"]
        names = [None if tag is None else tag["own"] for tag in own]
        mine = trial.tag["arm"]
        assert names[:2] == [mine if t.tag["arm"] == mine else None for t in first]
    optimizer.observe(second[0], 1.0)
    third, fourth = optimizer.suggest(2)
    shown = {t.tag["arm"]: t.tag["tag"]["last"] for t in (third, fourth)}
    mine, other = second[0].tag["arm"], second[1].tag["arm"]
    assert shown[mine]["own"] == mine
    assert shown[other] is None


def test_portfolios_can_be_nested():
    inner = Portfolio(arms(p=9, q=9), RoundRobin())
    optimizer = Optimizer(
        SPACE, strategy=Portfolio({"x": Listener("x"), "in": inner}, RoundRobin())
    )
    for _ in range(8):
        optimizer.observe(optimizer.suggest(), 1.0)
    names = [t.tag["tag"].get("arm", t.tag["arm"]) for t in optimizer.trials]
    assert names == ["x", "p", "x", "q", "x", "p", "x", "q"]
    batch = optimizer.suggest(4)
    assert sorted(t.tag["tag"].get("arm", t.tag["arm"]) for t in batch) == ["p", "q", "x", "x"]


def test_an_arm_with_nothing_to_propose_leaves_its_turns_to_the_others():
    optimizer = Optimizer(SPACE, strategy=Portfolio(arms(x=0, y=1, z=9), RoundRobin()))
    assert Counter(t.tag["arm"] for t in optimizer.suggest(6)) == {"y": 1, "z": 5}
    silent = Optimizer(SPACE, strategy=Portfolio(arms(x=0, y=0)))
    assert [t.origin for t in silent.suggest(3)] == ["fill"] * 3


def test_arms_count_on_their_share_of_the_budget():
    strategy = Portfolio(arms(x=9, y=9, z=9))
    states = strategy.init(Problem(SPACE, 100), np.random.default_rng(0)).arms
    assert [budget for _, budget in states] == [34, 34, 34]


def test_only_a_new_best_value_counts_as_an_improvement():
    optimizer = Optimizer(SPACE, "maximize", strategy=Portfolio(arms(x=9)))
    for value in (1.0, 3.0, 3.0, None, 2.0, 4.0):
        trial = optimizer.suggest()
        optimizer.observe(trial, value, failed=None if value else "runtime")
    assert [won for _, won in optimizer.state.strategy_state.log] == [
        True,
        True,
        False,
        False,
        False,
        True,
    ]


def test_model_based_arms_get_their_hyperparameters_back():
    settings = {"arms": "bayesian, random_search", "rule": "round_robin"}
    journal = MemoryJournal()
    optimizer = Optimizer(SPACE, strategy=Search("portfolio", settings), storage=journal)
    for _ in range(14):
        trial = optimizer.suggest()
        optimizer.observe(trial, 1.0 + trial["a"] + (trial["b"] - 4) ** 2)
    notes = [t.tag["tag"] for t in optimizer.trials if t.tag["arm"] == "bayesian"]
    assert notes[-1]["phase"] == "model"
    written = MemoryJournal(json.loads(json.dumps(journal.events)))
    again = Optimizer(SPACE, strategy=Search("portfolio", settings), storage=written)
    assert dict(again.suggest().config) == dict(optimizer.suggest().config)


def test_names_settings_and_repeated_strategies():
    mixed = create_strategy(
        "portfolio",
        {"arms": {"coarse": {"strategy": "torczon", "side": 0.5}, "torczon": {}}, "window": 7},
    )
    assert list(mixed.arms) == ["coarse", "torczon"]
    assert mixed.arms["coarse"] == create_strategy("torczon", {"side": 0.5})
    assert mixed.rule == AreaUnderCurve(7)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rule": "ucb"}, "rule 'ucb' is unknown; choose from auc, round_robin"),
        ({"arms": "torczn"}, "strategy 'torczn' is unknown; did you mean 'torczon'"),
        ({"arms": []}, "a portfolio needs at least one strategy"),
        ({"arms": {"torczon": {"size": 1}}}, "strategy 'torczon' has no setting 'size'"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        create_strategy("portfolio", settings)
