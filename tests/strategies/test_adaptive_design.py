"""The initial design that compares the middle of the space with spread points."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from baco_like import Integer, Optimizer, Permutation, Space
from baco_like.strategies.bayesian.bayesian import Bayesian
from baco_like.strategies.initial_phase import AdaptiveDesign

POWERS = [2**i for i in range(9)]
TILES = Space({"x": POWERS, "y": POWERS, "z": POWERS})

Cost = Callable[[Mapping[str, Any]], float | None]


def distance(config: Mapping[str, Any]) -> float:
    """Return how many doublings a configuration is away from the middle of the scales."""
    return sum(abs(math.log2(config[name]) - 4) for name in "xyz")


def designs(cost: Cost, trials: int = 12, seed: int = 1, space: Space = TILES) -> list[str | None]:
    """Return the design of each trial of a run, None for a trial of the model."""
    optimizer = Optimizer(space, seed=seed)
    for _ in range(trials):
        trial = optimizer.suggest()
        value = cost(trial.config)
        if value is None:
            optimizer.observe(trial, failed="runtime")
        else:
            optimizer.observe(trial, value)
    return [(trial.tag or {}).get("design") for trial in optimizer.trials]


OPENING = ["middle", "middle", "latin_hypercube"]


@pytest.mark.parametrize("seed", range(5))
def test_the_model_begins_after_three_trials_if_the_middle_wins(seed: int) -> None:
    assert designs(lambda c: 1.0 + distance(c), seed=seed) == [*OPENING, *[None] * 9]


@pytest.mark.parametrize("seed", range(3))
def test_more_middle_points_with_other_orders_precede_the_model(seed: int) -> None:
    loops = Permutation(["i", "j", "k", "l", "m"])
    space = Space({"x": POWERS, "y": POWERS, "z": POWERS, "loops": loops})
    optimizer = Optimizer(space, seed=seed)
    for _ in range(7):
        trial = optimizer.suggest()
        optimizer.observe(trial, 1.0 + distance(trial.config))
    chosen = [(trial.tag or {}).get("design") for trial in optimizer.trials]
    assert chosen == [*OPENING, *["middle"] * 3, None]
    orders = {trial["loops"] for trial in optimizer.trials if trial.tag.get("design") == "middle"}
    assert len(orders) >= 4


@pytest.mark.parametrize("seed", range(5))
def test_spread_points_follow_if_the_middle_loses(seed: int) -> None:
    chosen = designs(lambda c: 20.0 - distance(c), seed=seed)
    assert chosen == [*OPENING, *["latin_hypercube"] * 5, *[None] * 4]


def test_the_trial_says_why_more_points_follow() -> None:
    optimizer = Optimizer(TILES, seed=1)
    for _ in range(3):
        trial = optimizer.suggest()
        optimizer.observe(trial, 20.0 - distance(trial.config))
    assert optimizer.suggest().tag["note"] == "the middle did not win against spread points"


def test_a_failing_middle_loses() -> None:
    chosen = designs(lambda c: None if distance(c) < 4 else 1.0)
    assert chosen[:8] == [*OPENING, *["latin_hypercube"] * 5]


def test_equal_costs_are_no_win() -> None:
    assert designs(lambda c: 1.0)[7] == "latin_hypercube"


def test_the_comparison_is_repeated_after_each_point() -> None:
    optimizer = Optimizer(TILES, seed=1)
    costs = {"middle": iter([2.0, 3.0]), "latin_hypercube": iter([1.0, 4.0, 5.0])}
    for _ in range(5):
        trial = optimizer.suggest()
        optimizer.observe(trial, next(costs[trial.tag["design"]]))
    # After 1.0 the middle has lost, after 4.0 it is even, after 5.0 it has won four of six comparisons.
    assert [trial.tag["design"] for trial in optimizer.trials] == [
        *OPENING,
        *["latin_hypercube"] * 2,
    ]
    assert optimizer.suggest().tag["phase"] == "model"


def test_spaces_without_a_middle_get_spread_points_only() -> None:
    flags = Space(
        {**{f"flag_{i}": Integer(0, 1) for i in range(8)}, "order": Permutation(list("abcd"))}
    )
    chosen = designs(lambda c: 1.0 + c["flag_0"], space=flags)
    assert chosen == [*["latin_hypercube"] * 8, *[None] * 4]


def test_single_calls_spread_the_points_as_one_call_does() -> None:
    space = Space({f"flag_{i}": Integer(0, 7) for i in range(3)})
    strategy = AdaptiveDesign(Bayesian(), middles=1, most=8)

    def rows(batch: int) -> list[tuple[Any, ...]]:
        optimizer = Optimizer(space, seed=3, strategy=strategy)
        trials: list[Any] = []
        while len(trials) < 8:
            new = optimizer.suggest(batch)
            for trial in new:
                optimizer.observe(trial, 2.0 if trial.tag["design"] == "middle" else 1.0)
            trials += new
        return [tuple(t.config.values()) for t in trials if t.tag["design"] == "latin_hypercube"]

    single = rows(1)
    assert len(single) == 7
    for column in np.array(single).T:
        assert (
            len(set(column.tolist())) == 7
        )  # 7 of the 8 values: one row of the hypercube is missing
    assert set(rows(8)) == set(single)


def test_a_batch_waits_for_the_comparison_with_spread_points() -> None:
    optimizer = Optimizer(TILES, seed=1)
    batch = optimizer.suggest(6)
    assert [t.tag["design"] for t in batch] == [*OPENING, *["latin_hypercube"] * 3]
    optimizer.observe(batch, [1.0 + distance(t.config) for t in batch])
    assert optimizer.suggest().tag["phase"] == "model"


def test_trials_of_the_user_take_the_place_of_the_comparison() -> None:
    optimizer = Optimizer(TILES, seed=1)
    for x in (1, 2, 4, 8):
        optimizer.enqueue({"x": x, "y": 2, "z": 2})
    for _ in range(4):
        trial = optimizer.suggest()
        optimizer.observe(trial, 1.0 + distance(trial.config))
    assert optimizer.suggest().tag["phase"] == "model"


@pytest.mark.parametrize("wrong", [0, 8])
def test_the_middle_has_one_trial_or_more_and_leaves_room(wrong: int) -> None:
    with pytest.raises(ValueError, match="middles"):
        AdaptiveDesign(Bayesian(), middles=wrong)
