"""The best few are measured again: luck does not win."""

from __future__ import annotations

from collections import deque

import numpy as np

from baco_like import Confirm, Optimizer, Ordinal, Space
from baco_like.evaluators import CachedEvaluator, ResultCache
from baco_like.records.trial import Outcome, Trial, select_best
from baco_like.running import confirm_winner


class Noisy:
    """Values are ``x`` and noise; negative ``x`` fail. It notes in which order it was asked."""

    capacity = 1

    def __init__(self, spread=0.1):
        self.rng, self.spread = np.random.default_rng(0), spread
        self.asked: list[float] = []
        self.queue: deque[Trial] = deque()

    def submit(self, trial):
        self.asked.append(trial["x"])
        self.queue.append(trial)

    def wait(self):
        trial = self.queue.popleft()
        if trial["x"] < 0:
            return [Outcome.failure(trial.id, "runtime", "no")]
        noise = self.rng.normal(0, self.spread, 2)
        return [Outcome.success(trial.id, tuple(float(trial["x"] + one) for one in noise))]

    def close(self):
        self.queue.clear()


def observed(number, x, value, **more):
    trial = Trial(number, {"x": x}, **more)
    return trial.with_outcome(
        Outcome.failure(number, "compile") if value is None else Outcome.success(number, (value,))
    )


def confirm(values, evaluator, *, direction="minimize", default=None, top=3, **settings):
    """Confirm the winner of a run that has observed these pairs of ``x`` and a value."""
    space = Space({"x": Ordinal(sorted(x for x, _ in values), default=default)})
    optimizer = Optimizer(space, direction, strategy="random_search")
    for x, value in values:
        optimizer.observe({"x": x}, value)
    return confirm_winner(optimizer, evaluator, Confirm(top, evaluations=500, **settings))


def test_the_clearly_worse_leave_and_the_others_take_turns():
    evaluator = Noisy(spread=0.01)
    confirm([(9.0, 1.0), (2.0, 2.0), (2.0001, 2.0)], evaluator, rounds=8, tolerance=0.0)
    assert sorted(evaluator.asked[:3]) == [2.0, 2.0001, 9.0]
    assert evaluator.asked.count(9.0) < 8
    assert evaluator.asked.count(2.0) == evaluator.asked.count(2.0001) == 8


def test_one_that_is_left_alone_ends_it():
    found = confirm([(1.0, 1.0), (9.0, 1.1)], Noisy(0.01), rounds=50)
    assert found.is_decided
    assert found.rounds == len(evaluations := found.candidates[0].repeats) < 10
    assert found.measurements == 2 * len(evaluations)


def test_those_that_fail_now_leave():
    found = confirm([(-1.0, 0.5), (2.0, 2.0)], Noisy())
    assert found.winner.id == 1
    assert (found.candidates[0].failure, found.candidates[0].extra["observed"]) == ("runtime", 0.5)
    nobody = confirm([(-1.0, 0.5)], Noisy())
    assert (nobody.winner, nobody.candidates[0].failure) == (None, "runtime")
    assert (nobody.is_decided, nobody.recommended, nobody.tied) == (False, None, ())
    assert confirm_winner(Optimizer({"x": [1.0]}), Noisy(), Confirm()) is None


def test_a_cache_is_passed_by(tmp_path):
    inner = Noisy()
    evaluator = CachedEvaluator(inner, ResultCache(tmp_path / "cache", {}))
    confirm([(1.0, 1.0), (1.0001, 1.0)], evaluator, rounds=3)
    assert len(inner.asked) == 6
    assert not (tmp_path / "cache").exists()


def test_the_best_with_different_configurations():
    trials = [
        observed(0, 1.0, 3.0),
        observed(1, 1.0, 2.0),
        observed(2, 2.0, 1.0),
        observed(3, 3.0, None),
        observed(4, 4.0, 0.1, origin="imported"),
        observed(5, 5.0, 9.0),
    ]
    assert [one.id for one in select_best(trials, "minimize", 3)] == [2, 1, 5]
    assert [one.id for one in select_best(trials, "maximize", 2)] == [5, 0]
