"""Budgets in time: the model of the seconds, and the acquisition per second."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from baco_like import MaxTime, Optimizer, Ordinal, Space, TrialError, tune
from baco_like.records import History, Outcome, Trial
from baco_like.strategies.per_second import fit_seconds, stage_seconds, total_seconds
from baco_like.strategies.protocol import Problem
from baco_like.surrogates import GaussianProcess

SPACE = Space({"tile": Ordinal(list(range(30))), "unroll": Ordinal(list(range(10)))})


def value_of(trial: Any) -> float:
    return 1.0 + (trial["tile"] - 20) ** 2 / 100 + (trial["unroll"] - 4) ** 2 / 10


def seconds_of(trial: Any) -> dict[str, float]:
    """Builds take a hundred times longer with much unrolling."""
    return {"compile": 10.0 ** (trial["unroll"] / 4.5), "run": 0.1}


def proceed(optimizer: Optimizer, count: int) -> list[dict[str, Any]]:
    for _ in range(count):
        trial = optimizer.suggest()
        optimizer.observe(trial, value_of(trial), seconds=seconds_of(trial))
    return [dict(trial.config) for trial in optimizer.trials]


def seconds_to_optimum(seed: int, **options: Any) -> float:
    optimizer = Optimizer(SPACE, seed=seed, **options)
    while optimizer.best_value != 1.0:
        proceed(optimizer, 1)
    return total_seconds(optimizer.trials)


def test_a_budget_in_seconds_finds_the_optimum_sooner() -> None:
    plain = sum(seconds_to_optimum(seed) for seed in range(5))
    aware = sum(seconds_to_optimum(seed, seconds=1000.0) for seed in range(5))
    assert aware < 0.9 * plain


def test_tags_say_the_expected_seconds() -> None:
    optimizer = Optimizer(SPACE, seed=3, seconds=3000.0)
    proceed(optimizer, 25)
    models = [trial for trial in optimizer.trials if "expected_seconds" in (trial.tag or {})]
    assert len(models) > 10
    for trial in models[-5:]:
        assert trial.tag["expected_seconds"] == pytest.approx(sum(trial.seconds.values()), rel=0.3)
    assert len(models[-1].tag["seconds_models"]) == 2


def test_without_seconds_nothing_changes() -> None:
    """Neither by the recorded times without a budget, nor by a budget without different times."""
    plain = Optimizer(SPACE, seed=5)
    for optimizer in (Optimizer(SPACE, seed=5), Optimizer(SPACE, seed=5, seconds=100.0)):
        known = optimizer.options.seconds is not None
        for _ in range(15):
            trial, other = optimizer.suggest(), plain.suggest() if known else None
            optimizer.observe(trial, value_of(trial), seconds={"compile": 2.0, "run": 0.1})
            if other is not None:
                assert dict(other.config) == dict(trial.config)
                plain.observe(other, value_of(other))


def test_the_exponent_falls_with_the_used_time() -> None:
    history = History.start(SPACE)
    exponents = []
    for i in range(12):
        config = {"tile": i, "unroll": i % 10}
        tag = {"phase": "model"} if i >= 4 else {"phase": "design"}
        history = history.add_pending([Trial(i, config, tag)], SPACE.encode([config]))
        extra = {"seconds": {"compile": 1.0 + i % 2, "run": 0.5}}
        history, _ = history.complete([Outcome.success(i, (1.0 + i,), extra=extra)])
        if i >= 3:
            problem = Problem(SPACE, seconds=20.0)
            rng = np.random.default_rng(0)
            model = fit_seconds(problem, history, GaussianProcess(), SPACE, rng)
            assert model is not None
            exponents.append(model.exponent)
    used = np.cumsum([1.5 + i % 2 for i in range(12)])[3:]
    expected = 0.5 * np.clip((20.0 - used) / (20.0 - used[0]), 0.0, 1.0)
    assert exponents == pytest.approx(expected.tolist())
    assert exponents[-1] == 0.0
    build = model.expect(SPACE.encode([{"tile": 3, "unroll": 3}]))[0]
    assert build == pytest.approx(2.5, rel=0.3)


def test_the_time_of_one_measurement_is_modelled() -> None:
    """More repeats of a promising configuration do not make it look expensive."""
    outcomes = [
        Outcome.success(0, (2.0,) * 3, extra={"seconds": {"compile": 4.0, "run": 6.0}}),
        Outcome.success(1, (2.0,) * 30, extra={"seconds": {"compile": 5.0, "run": 60.0}}),
        Outcome.failure(2, "compile", extra={"seconds": {"compile": 1.0}}),
        Outcome.censored(3, 9.0, extra={"seconds": {"run": 18.0}, "repeats": [9.0, 9.0]}),
        Outcome.success(4, (1.0,), extra={"seconds": {"compile": "no number", "run": -1.0}}),
        Outcome.success(5, (1.0,)),
    ]
    known = stage_seconds([Trial(o.trial_id, {}, outcome=o) for o in outcomes])
    nan = np.nan
    np.testing.assert_array_equal(known.build, [4.0, 5.0, 1.0, nan, nan, nan])
    np.testing.assert_array_equal(known.run, [2.0, 2.0, nan, 9.0, nan, nan])
    assert known.repeats == 3.0


def test_tune_has_a_budget_in_time_without_a_limit_of_evaluations() -> None:
    result = tune(value_of, SPACE, stop=MaxTime(0.05), progress=False)
    assert result.optimizer.options.seconds == 0.05


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seconds": -1.0}, "seconds of 'run' = -1.0"),
        ({"seconds": {"compile": float("nan")}}, "seconds of 'compile' = nan"),
        ({"seconds": 1.0, "extra": {"seconds": {}}}, "both given"),
    ],
)
def test_wrong_seconds(arguments: dict[str, Any], message: str) -> None:
    optimizer = Optimizer(SPACE)
    with pytest.raises(TrialError, match=message):
        optimizer.observe(optimizer.suggest(), 1.0, **arguments)
    with pytest.raises(TrialError, match="one trial at a time"):
        optimizer.observe(optimizer.suggest(2), [1.0, 2.0], seconds=1.0)


@pytest.mark.parametrize("seconds", [0.0, -3, float("inf"), "60"])
def test_wrong_budgets(seconds: Any) -> None:
    with pytest.raises(ValueError, match=r"seconds = .*: expected a number above 0"):
        Optimizer(SPACE, seconds=seconds)
