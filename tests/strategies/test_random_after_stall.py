"""The uniform draw after suggestions that did not bring the gain that their model expected."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import pytest

from baco_like import Optimizer, Ordinal, Space
from baco_like.records import Proposal
from baco_like.strategies import RandomAfterStall
from baco_like.strategies.baselines import RandomSearch

SPACE = Space({name: Ordinal(list(range(20))) for name in "ab"})


@dataclass(frozen=True)
class Promising(RandomSearch):
    """Draws uniformly, and always expects half a gain."""

    p_gain: float = 0.5

    def ask(self, problem, history, state, n, rng) -> Sequence[Proposal]:
        drawn = super().ask(problem, history, state, n, rng)
        return [Proposal(p.code, {"phase": "model", "p_gain": self.p_gain}) for p in drawn]


def phases(values, p_gain=0.5, direction="minimize"):
    """Return the phase of each trial of a run; None is a failure."""
    strategy = RandomAfterStall(Promising(p_gain), expected=2.0)
    optimizer = Optimizer(SPACE, direction, strategy=strategy, seed=2)
    for value in values:
        trial = optimizer.suggest()
        if value is None:
            optimizer.observe(trial, failed="runtime")
        else:
            optimizer.observe(trial, value)
    return [trial.tag["phase"] for trial in optimizer.trials]


def test_a_draw_follows_when_the_expected_gains_do_not_come() -> None:
    # The first value is the last gain. Then four suggestions expect two gains, and a draw follows, again and again.
    found = phases([1.0] * 15)
    assert found == ["model"] * 5 + ["restart"] + ["model"] * 4 + ["restart"] + ["model"] * 4


def test_a_gain_starts_the_count_again() -> None:
    assert phases([1.0] * 4 + [0.9] * 6) == ["model"] * 9 + ["restart"]


def test_failures_count() -> None:
    assert phases([1.0, None, None, None, None, None]) == ["model"] * 5 + ["restart"]


def test_without_a_success_there_is_no_draw() -> None:
    assert set(phases([None] * 8)) == {"model"}


def test_the_best_is_the_largest_value_where_values_are_maximised() -> None:
    rising = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    assert set(phases(rising, direction="maximize")) == {"model"}
    assert "restart" in phases(rising)


def test_a_batch_holds_one_draw_and_a_pending_draw_is_not_repeated() -> None:
    strategy = RandomAfterStall(Promising(), expected=2.0)
    optimizer = Optimizer(SPACE, strategy=strategy, seed=2)
    optimizer.observe(list(optimizer.suggest(5)), [1.0] * 5)
    batch = optimizer.suggest(3)
    assert [trial.tag["phase"] for trial in batch] == ["restart", "model", "model"]
    assert optimizer.suggest().tag["phase"] == "model"
    assert "expected 2.0 gains" in batch[0].tag["note"]


def test_a_model_says_in_its_tags_how_probable_a_gain_is() -> None:
    """Values are modelled by their logarithm, so the prediction is a lognormal distribution with known moments."""
    optimizer = Optimizer(SPACE, seed=1)
    compared = 0
    for _ in range(25):
        trial = optimizer.suggest()
        if trial.tag["phase"] == "model":
            variance = math.log1p((trial.tag["std"] / trial.tag["mean"]) ** 2)
            centre = math.log(trial.tag["mean"]) - variance / 2
            z = (math.log(optimizer.best.value) - centre) / math.sqrt(variance)
            assert trial.tag["p_gain"] == pytest.approx(NormalDist().cdf(z), abs=1e-6)
            compared += 1
        optimizer.observe(trial, math.exp(0.1 * ((trial["a"] - 13) ** 2 + trial["b"]) ** 0.5))
    assert compared > 10


def test_a_number_of_gains_that_is_not_positive_is_refused() -> None:
    with pytest.raises(ValueError, match="expected = 0"):
        RandomAfterStall(Promising(), expected=0.0)
