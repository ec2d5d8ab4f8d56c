"""The best few are measured again: luck does not win."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from baco_like import Confirm, MaxEvals, Measuring, Optimizer, Ordinal, Space, tune
from baco_like.evaluators import CachedEvaluator, Evaluator, ResultCache
from baco_like.records import Confirmation, Direction
from baco_like.records.trial import Outcome, Trial, select_best
from baco_like.running import confirm_winner


class Noisy:
    """Values are ``x`` and noise; negative ``x`` fail. It notes in which order it was asked."""

    capacity = 1

    def __init__(self, spread: float = 0.1) -> None:
        self.rng, self.spread = np.random.default_rng(0), spread
        self.asked: list[float] = []
        self.queue: deque[Trial] = deque()

    def submit(self, trial: Trial) -> None:
        self.asked.append(trial["x"])
        self.queue.append(trial)

    def wait(self) -> Sequence[Outcome]:
        trial = self.queue.popleft()
        if trial["x"] < 0:
            return [Outcome.failure(trial.id, "runtime", "no")]
        noise = self.rng.normal(0, self.spread, 2)
        return [Outcome.success(trial.id, tuple(float(trial["x"] + one) for one in noise))]

    def close(self) -> None:
        self.queue.clear()


def observed(number: int, x: float, value: float | None, **more: Any) -> Trial:
    trial = Trial(number, {"x": x}, **more)
    return trial.with_outcome(
        Outcome.failure(number, "compile") if value is None else Outcome.success(number, (value,))
    )


def confirm(
    values: Sequence[tuple[float, float]],
    evaluator: Evaluator,
    *,
    direction: Direction = "minimize",
    default: float | None = None,
    top: int = 3,
    **settings: Any,
) -> Confirmation | None:
    """Confirm the winner of a run that has observed these pairs of ``x`` and a value."""
    space = Space({"x": Ordinal(sorted(x for x, _ in values), default=default)})
    optimizer = Optimizer(space, direction, strategy="random_search")
    for x, value in values:
        optimizer.observe({"x": x}, value)
    return confirm_winner(optimizer, evaluator, Confirm(top, evaluations=500, **settings))


def test_the_lucky_one_does_not_win() -> None:
    found = confirm([(5.0, 1.0), (2.0, 2.0), (2.5, 2.4)], Noisy())
    assert found is not None
    assert found.winner is not None
    assert found.winner.id == 1
    assert found.winner.value == pytest.approx(2.0, abs=0.2)
    assert found.winner.extra["observed"] == 2.0
    assert [one.id for one in found.candidates] == [0, 1, 2]
    assert found.candidates[0].value == pytest.approx(5.0, abs=0.2)


def test_the_clearly_worse_leave_and_the_others_take_turns() -> None:
    evaluator = Noisy(spread=0.01)
    confirm([(9.0, 1.0), (2.0, 2.0), (2.0001, 2.0)], evaluator, rounds=8, tolerance=0.0)
    assert sorted(evaluator.asked[:3]) == [2.0, 2.0001, 9.0]
    assert evaluator.asked.count(9.0) < 8
    assert evaluator.asked.count(2.0) == evaluator.asked.count(2.0001) == 8


def test_one_that_is_left_alone_ends_it() -> None:
    found = confirm([(1.0, 1.0), (9.0, 1.1)], Noisy(0.01), rounds=50)
    assert found is not None
    assert found.is_decided
    assert found.rounds == len(evaluations := found.candidates[0].repeats) < 10
    assert found.measurements == 2 * len(evaluations)


def test_the_default_takes_part_and_the_speedup_has_an_interval() -> None:
    values = [(2.0, 1.0), (2.001, 1.1), (4.0, 3.0)]
    found = confirm(values, Noisy(0.02), top=2, rounds=12, default=4.0)
    assert found is not None
    assert found.default is found.candidates[2]
    assert found.speedup is not None
    assert found.speedup.low < 2.0 < found.speedup.high
    assert found.speedup.low > 1.8
    assert len(found.default.repeats) == found.rounds
    assert {one.id for one in found.tied} == {0, 1}
    assert found.speedups[2] is not None
    assert found.speedups[2].value == 1.0


def test_maximising() -> None:
    found = confirm([(1.0, 9.0), (5.0, 8.0)], Noisy(), direction="maximize")
    assert found is not None
    assert found.winner is not None
    assert found.winner.id == 1


def test_those_that_fail_now_leave() -> None:
    found = confirm([(-1.0, 0.5), (2.0, 2.0)], Noisy())
    assert found is not None
    assert found.winner is not None
    assert found.winner.id == 1
    assert (found.candidates[0].failure, found.candidates[0].extra["observed"]) == ("runtime", 0.5)
    nobody = confirm([(-1.0, 0.5)], Noisy())
    assert nobody is not None
    assert (nobody.winner, nobody.candidates[0].failure) == (None, "runtime")
    assert (nobody.is_decided, nobody.recommended, nobody.tied) == (False, None, ())
    assert confirm_winner(Optimizer({"x": [1.0]}), Noisy(), Confirm()) is None


def test_a_cache_is_passed_by(tmp_path: Path) -> None:
    inner = Noisy()
    evaluator = CachedEvaluator(inner, ResultCache(tmp_path / "cache", {}))
    confirm([(1.0, 1.0), (1.0001, 1.0)], evaluator, rounds=3)
    assert len(inner.asked) == 6
    assert not (tmp_path / "cache").exists()


def test_the_best_with_different_configurations() -> None:
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


def test_tune_with_confirmation() -> None:
    """The first call of one configuration is a lucky outlier, and never again."""
    calls: list[int] = []

    def fn(trial: Trial) -> float:
        calls.append(trial["x"])
        return 0.0 if trial["x"] == 7 and calls.count(7) == 1 else 1.0 + trial["x"]

    arguments: dict[str, Any] = {"strategy": "exhaustive", "progress": False}
    result = tune(
        fn,
        {"x": list(range(10))},
        stop=MaxEvals(10),
        measuring=Measuring(confirm=Confirm(3, 15)),
        **arguments,
    )
    assert result.best_config == {"x": 7}
    assert result.winner is not None
    assert result.winner.config == {"x": 0}
    assert result.confirmation is not None
    assert {one["x"] for one in result.confirmation.candidates} == {7, 0, 1}
    assert result.recommended == result.winner
    plain = tune(fn, {"x": [1, 2]}, stop=MaxEvals(2), **arguments)
    assert (plain.confirmation, plain.winner) == (None, plain.best)
    with pytest.raises(ValueError, match="top = -1"):
        tune(
            fn,
            {"x": [1, 2]},
            stop=MaxEvals(2),
            measuring=Measuring(confirm=Confirm(-1)),
            **arguments,
        )
