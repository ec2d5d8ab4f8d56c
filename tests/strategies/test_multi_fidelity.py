"""Cheap proxies: levels, pairs, the acquisition over levels, and successive halving."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from baco_like import (
    MaxEvals,
    MaxTime,
    NoImprovement,
    Optimizer,
    Ordinal,
    Space,
    SpaceError,
    Target,
    TrialError,
    tune,
)
from baco_like.exceptions import StrategyError
from baco_like.records import History, Outcome, Trial
from baco_like.running import Proposer
from baco_like.spaces.fidelity import Fidelity
from baco_like.strategies.fidelity import adjusted, judge_level, level_costs, posterior_correlation
from baco_like.strategies.per_second import fit_seconds, stage_seconds, total_seconds
from baco_like.strategies.protocol import Problem
from baco_like.surrogates import GaussianProcess
from baco_like.surrogates.protocol import Data

PARAMETERS = {
    "tile": Ordinal(list(range(30))),
    "unroll": Ordinal(list(range(10))),
    "z": [1, 2, 4, 8],
}
SPACE = Space(PARAMETERS, fidelity={"size": [128, 1024]})


def target_value(trial: Any) -> float:
    distance = (trial["tile"] - 20) ** 2 / 100 + (trial["unroll"] - 4) ** 2 / 10
    return 1.0 + distance + abs(trial["z"] - 4) / 4


def value_of(trial: Any, *, misleading: bool = False) -> float:
    """A smaller size takes a fraction of the time, with the optimum beside the target's; or anything."""
    if trial["size"] == 1024:
        return target_value(trial)
    if misleading:
        seed = [trial["tile"], trial["unroll"], trial["z"]]
        return float(1.0 + np.random.default_rng(seed).random()) * trial["size"] / 1024
    return target_value({**trial, "tile": min(trial["tile"] + 1, 29)}) * trial["size"] / 1024


def cost_of_optimum(seed: int, space: Space = SPACE, *, misleading: bool = False) -> float:
    """Return the time until the optimum is found at the target, in evaluations of the target."""
    optimizer, cost = Optimizer(space, seed=seed), 0.0
    while optimizer.best_value != 1.0:
        trial = optimizer.suggest()
        size = trial.config.get("size", 1024)
        value = value_of({**trial, "size": size}, misleading=misleading)
        optimizer.observe(trial, value, seconds=10.0 * size / 1024)
        cost += size / 1024
    return cost


def test_a_good_proxy_saves_time_and_a_misleading_one_costs_little() -> None:
    seeds = range(2)
    alone = sum(cost_of_optimum(seed, Space(PARAMETERS)) for seed in seeds)
    assert sum(cost_of_optimum(seed) for seed in seeds) < 0.7 * alone
    assert sum(cost_of_optimum(seed, misleading=True) for seed in seeds) < 1.15 * alone


def proceed(optimizer: Optimizer, count: int) -> list[dict[str, Any]]:
    for _ in range(count):
        trial = optimizer.suggest()
        optimizer.observe(trial, value_of(trial))
    return [dict(trial.config) for trial in optimizer.trials]


def test_lower_levels_take_no_more_than_one_evaluation_of_the_target_in_a_row() -> None:
    sizes = [config["size"] for config in proceed(Optimizer(SPACE, seed=1), 40)]
    in_a_row = [len(run) for run in "".join("x" if size < 1024 else " " for size in sizes).split()]
    assert max(in_a_row) == 1024 // 128


def test_only_the_target_counts() -> None:
    optimizer = Optimizer(SPACE)
    small = {"tile": 20, "unroll": 4, "z": 4, "size": 128}
    optimizer.observe(small, 0.1)
    assert optimizer.best is None
    assert Target(1.0).reason(optimizer.history, 0.0) is None
    optimizer.observe({**small, "tile": 3, "size": 1024}, 4.0)
    for tile in range(4):
        optimizer.observe({**small, "tile": tile}, 0.2 - tile / 100)
    assert optimizer.best_value == 4.0
    assert [t["size"] for t in optimizer.history.target_trials] == [1024]
    assert NoImprovement(4).reason(optimizer.history, 0.0) == "no improvement in 4 evaluations"


def test_the_recommendation_is_a_trial_at_the_target() -> None:
    optimizer = Optimizer(SPACE)
    for z in (1, 2, 4, 8):
        for size in (128, 1024):
            config = {"tile": 20, "unroll": 4, "z": z, "size": size}
            optimizer.observe(config, [value_of(config) * noise for noise in (0.99, 1.0, 1.01)])
    assert optimizer.recommend() == optimizer.best
    assert "<td>128</td>" not in optimizer._repr_html_()
    requests = Proposer("unused")._describe(optimizer)
    assert {trial["config"]["size"] for trial in requests["best"]} == {1024}


def test_the_journal_of_another_fidelity_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    proceed(Optimizer(SPACE, storage=path), 2)
    with pytest.raises(Exception, match="size"):
        Optimizer(PARAMETERS, storage=path)
    assert len(Optimizer(SPACE, storage=path).trials) == 2


def test_batches_and_pending_trials() -> None:
    optimizer = Optimizer(SPACE, seed=2)
    proceed(optimizer, 14)
    trials = optimizer.suggest(6)
    assert len({tuple(t.config.values()) for t in trials}) == 6
    assert optimizer.suggest().id == 20


def test_other_strategies_see_the_target_only() -> None:
    optimizer = Optimizer(SPACE, strategy="genetic_algorithm", seed=3)
    assert {config["size"] for config in proceed(optimizer, 12)} == {1024}


def test_maximised_values_and_failures() -> None:
    optimizer = Optimizer(SPACE, "maximize", seed=4)
    for i in range(18):
        trial = optimizer.suggest()
        if i % 6 == 5:
            optimizer.observe(trial, failed="compile")
        else:
            optimizer.observe(trial, 1.0 / value_of(trial))
    assert optimizer.best_value is not None
    mean, *_ = optimizer.predict([{"tile": 20, "unroll": 4, "z": 4, "size": 1024}])
    assert mean[0] > 0.0


def test_levels_are_judged_by_pairs() -> None:
    fidelity = SPACE.fidelity
    assert fidelity == Fidelity("size", (128, 1024), 3)
    history = History.start(SPACE)
    rows = [(1, 8.0, 1.0), (2, 16.0, 2.0), (3, 24.0, 3.5), (4, 20.0, 4.0)]
    for tile, low, high in rows:
        for size, value in ((128, low), (1024, high)):
            config = {"tile": tile, "unroll": 0, "z": 1, "size": size}
            trial = Trial(history.next_id, config)
            history = history.add_pending([trial], SPACE.encode([config]))
            extra = {"seconds": {"run": 1.0 if size == 128 else 9.0}}
            outcome = Outcome.success(trial.id, (value, value), extra=extra)
            history, _ = history.complete([outcome])
    judged = judge_level(fidelity, history, 0)
    assert judged.pairs == 4
    assert judged.discordant == pytest.approx(1 / 6)
    assert judged.is_used
    assert judged.ratio == pytest.approx(np.median([8.0, 8.0, 24 / 3.5, 5.0]))
    shown = adjusted(Problem(SPACE), history, {0: 8.0})
    assert shown.costs.tolist() == [1.0, 1.0, 2.0, 2.0, 3.0, 3.5, 2.5, 4.0]
    assert level_costs(fidelity, history, {0, 1}) == {0: 1.0, 1: 9.0}
    assert level_costs(fidelity, History.start(SPACE), {0, 1}) == {0: 128.0, 1: 1024.0}


def test_the_posterior_correlation_is_that_of_the_joint_prediction() -> None:
    rng = np.random.default_rng(0)
    codes = SPACE.feasible.sample(12, rng)
    zeros = np.zeros(12)
    model: Any = GaussianProcess().fit(
        SPACE, Data(codes, rng.standard_normal(12), zeros, zeros > 0), rng
    )
    a, b = SPACE.feasible.sample(5, rng), SPACE.feasible.sample(5, rng)
    _, joint = model.predict_joint(np.concatenate([a, b]))
    scale = np.sqrt(np.diag(joint))
    expected = np.diag(joint[:5, 5:]) / scale[:5] / scale[5:]
    np.testing.assert_allclose(
        posterior_correlation(model, a, b), np.clip(expected, 0, 1), atol=1e-6
    )


def test_constraints_may_read_the_fidelity() -> None:
    space = Space({"tile": [1, 2, 4, 8]}, ["tile * 2 <= size"], fidelity={"size": [4, 16]})
    assert [space.at_level(i).feasible_size for i in (0, 1)] == [2, 4]
    optimizer = Optimizer(space, seed=0)
    for _ in range(6):
        trial = optimizer.suggest()
        optimizer.observe(trial, trial["tile"] + trial["size"])
    assert {tuple(t.config.values()) for t in optimizer.trials} == {
        (1, 4), (2, 4), (1, 16), (2, 16), (4, 16), (8, 16)
    }  # fmt: skip


def test_tune_passes_the_fidelity_to_the_function() -> None:
    seen = []

    def measure(trial: Trial) -> float:
        seen.append(trial["size"])
        return value_of(trial)

    result = tune(measure, SPACE, stop=MaxEvals(16), progress=False)
    assert set(seen) == {128, 1024}
    assert result.best_config is not None
    assert result.best_config["size"] == 1024


@pytest.mark.parametrize(
    ("fidelity", "message"),
    [
        ({"size": [1024, 128]}, "not in increasing order"),
        ({"size": [128]}, "two values or more"),
        ({"size": [1, 2], "n": [1, 2]}, "expected one parameter"),
        ({"tile": [1, 2]}, "has a parameter 'tile' already"),
        ("tiles", "'tiles' is not a parameter"),
        ({"size": [True, False]}, "numbers or strings"),
    ],
)
def test_wrong_fidelities(fidelity: Any, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        Space(PARAMETERS, fidelity=fidelity)
    with pytest.raises(SpaceError, match="has the fidelity 'size' already"):
        SPACE.with_fidelity({"n": [1, 2]})


def test_several_objectives_are_refused() -> None:
    with pytest.raises(StrategyError, match="one objective"):
        Optimizer(SPACE, {"time": "minimize", "size_of_file": "minimize"}, strategy="ehvi")


def test_an_ordinal_parameter_may_be_the_fidelity() -> None:
    space = Space({"a": [1, 2, 3], "size": ["small", "large"]}, fidelity=None)
    assert space.fidelity is None
    named = Space({"a": [1, 2, 3], "size": Ordinal(["small", "large"])}, fidelity="size")
    assert named.fidelity is not None
    assert named.fidelity.levels == ("small", "large")
    assert Space.from_dict(named.to_dict()) == named
    assert named != Space({"a": [1, 2, 3], "size": Ordinal(["small", "large"])})


# ---- Budgets in time: the model of the seconds, and the acquisition per second ----


TILES = Space({"tile": Ordinal(list(range(30))), "unroll": Ordinal(list(range(10)))})


def value_of_tile(trial: Any) -> float:
    return 1.0 + (trial["tile"] - 20) ** 2 / 100 + (trial["unroll"] - 4) ** 2 / 10


def seconds_of(trial: Any) -> dict[str, float]:
    """Builds take a hundred times longer with much unrolling."""
    return {"compile": 10.0 ** (trial["unroll"] / 4.5), "run": 0.1}


def proceed_in_time(optimizer: Optimizer, count: int) -> list[dict[str, Any]]:
    for _ in range(count):
        trial = optimizer.suggest()
        optimizer.observe(trial, value_of_tile(trial), seconds=seconds_of(trial))
    return [dict(trial.config) for trial in optimizer.trials]


def seconds_to_optimum(seed: int, **options: Any) -> float:
    optimizer = Optimizer(TILES, seed=seed, **options)
    while optimizer.best_value != 1.0:
        proceed_in_time(optimizer, 1)
    return total_seconds(optimizer.trials)


def test_a_budget_in_seconds_finds_the_optimum_sooner() -> None:
    plain = sum(seconds_to_optimum(seed) for seed in range(5))
    aware = sum(seconds_to_optimum(seed, seconds=1000.0) for seed in range(5))
    assert aware < 0.9 * plain


def test_tags_say_the_expected_seconds() -> None:
    optimizer = Optimizer(TILES, seed=3, seconds=3000.0)
    proceed_in_time(optimizer, 25)
    models = [trial for trial in optimizer.trials if "expected_seconds" in (trial.tag or {})]
    assert len(models) > 10
    for trial in models[-5:]:
        assert trial.tag["expected_seconds"] == pytest.approx(sum(trial.seconds.values()), rel=0.3)
    assert len(models[-1].tag["seconds_models"]) == 2


def test_without_seconds_nothing_changes() -> None:
    """Neither by the recorded times without a budget, nor by a budget without different times."""
    plain = Optimizer(TILES, seed=5)
    for optimizer in (Optimizer(TILES, seed=5), Optimizer(TILES, seed=5, seconds=100.0)):
        known = optimizer.options.seconds is not None
        for _ in range(15):
            trial, other = optimizer.suggest(), plain.suggest() if known else None
            optimizer.observe(trial, value_of_tile(trial), seconds={"compile": 2.0, "run": 0.1})
            if other is not None:
                assert dict(other.config) == dict(trial.config)
                plain.observe(other, value_of_tile(other))


def test_the_exponent_falls_with_the_used_time() -> None:
    history = History.start(TILES)
    exponents = []
    for i in range(12):
        config = {"tile": i, "unroll": i % 10}
        tag = {"phase": "model"} if i >= 4 else {"phase": "design"}
        history = history.add_pending([Trial(i, config, tag)], TILES.encode([config]))
        extra = {"seconds": {"compile": 1.0 + i % 2, "run": 0.5}}
        history, _ = history.complete([Outcome.success(i, (1.0 + i,), extra=extra)])
        if i >= 3:
            problem = Problem(TILES, seconds=20.0)
            rng = np.random.default_rng(0)
            model = fit_seconds(problem, history, GaussianProcess(), TILES, rng)
            assert model is not None
            exponents.append(model.exponent)
    used = np.cumsum([1.5 + i % 2 for i in range(12)])[3:]
    expected = 0.5 * np.clip((20.0 - used) / (20.0 - used[0]), 0.0, 1.0)
    assert exponents == pytest.approx(expected.tolist())
    assert exponents[-1] == 0.0
    build = model.expect(TILES.encode([{"tile": 3, "unroll": 3}]))[0]
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
    result = tune(value_of_tile, TILES, stop=MaxTime(0.05), progress=False)
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
    optimizer = Optimizer(TILES)
    with pytest.raises(TrialError, match=message):
        optimizer.observe(optimizer.suggest(), 1.0, **arguments)
    with pytest.raises(TrialError, match="one trial at a time"):
        optimizer.observe(optimizer.suggest(2), [1.0, 2.0], seconds=1.0)


@pytest.mark.parametrize("seconds", [0.0, -3, float("inf"), "60"])
def test_wrong_budgets(seconds: Any) -> None:
    with pytest.raises(ValueError, match=r"seconds = .*: expected a number above 0"):
        Optimizer(TILES, seconds=seconds)
