"""Noisy configurations are compared in rounds, by intervals that may be looked at after every round."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like.records import Speedup
from baco_like.records.race import Race, confidence_sequence, confidence_sequences

VALUES = st.lists(st.floats(-100, 100), min_size=2, max_size=12).map(np.array)


def race(values, default=None, sign=1.0):
    return Race.of(values, [False] * len(values), default, sign, 0.95, 0.01)


@given(VALUES, st.sampled_from([0.05, 0.01]))
def test_the_ends_of_the_interval_are_where_the_likelihood_ratio_is_one_over_alpha(values, alpha):
    mean, half = confidence_sequence(values, alpha)
    n, g = len(values), 30.0
    if not 1e-6 < half < math.inf:
        return
    t2 = n * half**2 / np.var(values, ddof=1)
    ratio = (1 + n * g) ** -0.5 * ((1 + t2 / (n - 1)) / (1 + t2 / ((n - 1) * (1 + n * g)))) ** (
        n / 2
    )
    assert ratio == pytest.approx(1 / alpha, rel=1e-6)
    assert mean == pytest.approx(values.mean())


def test_all_intervals_together_cover_where_repeated_t_intervals_do_not():
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(300):
        values = rng.normal(0.3, 1.0, 40)
        intervals = (confidence_sequence(values[:n], 0.05) for n in range(2, 41))
        missed += any(abs(mean - 0.3) > half for mean, half in intervals)
    assert missed <= 0.05 * 300


def test_few_and_equal_values():
    assert confidence_sequence(np.empty(0), 0.05) == (0.0, math.inf)
    assert confidence_sequence(np.array([2.0]), 0.05) == (2.0, math.inf)
    assert confidence_sequence(np.array([2.0, 2.0]), 0.05) == (2.0, math.inf)
    assert confidence_sequence(np.array([2.0, 2.0, 2.0]), 0.05) == (2.0, 0.0)


def test_drift_that_all_candidates_share_does_not_matter():
    """The machine slows down by half, but the ratio within each round is 1.2 within 0.1 %."""
    speed = np.linspace(1.0, 2.0, 8)
    noise = 1.0 + 1e-3 * np.random.default_rng(0).normal(size=(2, 8))
    alternately = race([tuple(1.2 * speed * noise[0]), tuple(speed * noise[1])], default=0)
    assert alternately.standing.winner == 1
    assert alternately.standing.remaining == (1,)
    speedup = alternately.speedup(1)
    assert 1.19 < speedup.low < 1.2 < speedup.high < 1.21


def test_a_disturbed_value_does_not_decide():
    """Another program slows down one of five runs of the better candidate by a half."""
    values = [
        (1.0, 1.01, 1.5, 1.0, 1.01),
        (1.03, 1.04, 1.03, 1.03, 1.04),
        (3.0, 3.3, 2.7, 3.1, 2.9),
    ]
    disturbed = race(values, default=2)
    assert np.mean(values[0]) > np.mean(values[1])
    assert disturbed.standing.winner == 0
    assert disturbed.loss(1) == pytest.approx(math.log(1.034 / 1.005), abs=1e-3)
    assert disturbed.loss(2) == pytest.approx(math.log(3.0 / 1.005), abs=0.01), "not cut"
    assert disturbed.speedup(0).high > 5, "the interval has all values"


def test_a_default_is_left_for_what_is_better_and_seldom_for_what_is_equal():
    """Five rounds of values that vary by 1 %: the interval shows differences of 5 %, the test at the end of 3 %."""
    rng = np.random.default_rng(0)
    left = {1.0: 0, 1.03: 0}
    for ratio in left:
        for _ in range(200):
            values = rng.lognormal(0.0, 0.01, (4, 5)) * [[1.0], [1.0], [1.0], [ratio]]
            each = race([tuple(row) for row in values], default=3)
            winner = each.standing.winner
            left[ratio] += winner != 3 and not each.is_tied_with_default(winner)
    assert left[1.0] <= 0.05 * 200
    assert left[1.03] >= 0.8 * 200


@given(VALUES, st.sampled_from([0.05, 0.01]))
def test_the_sequence_has_the_interval_after_each_value(values, alpha):
    means, halves = confidence_sequences(values, alpha)
    for n in range(1, len(values) + 1):
        mean, half = confidence_sequence(values[:n], alpha)
        assert means[n - 1] == pytest.approx(mean, abs=1e-9)
        assert halves[n - 1] == pytest.approx(half, abs=1e-5)


def test_maximising():
    best = race([(5.0, 5.1, 5.0, 5.1), (9.0, 9.1, 9.1, 9.0)], default=0, sign=-1.0)
    assert best.standing.winner == 1
    assert best.speedup(1).value == pytest.approx(1.79, abs=0.02)


def test_a_configuration_is_not_faster_than_itself():
    assert race([(3.0, 4.0), (3.5, 2.0)], default=0).speedup(0) == Speedup(1.0, 1.0, 1.0)


def test_values_that_are_not_positive_are_compared_by_differences():
    signed = race([(-1.0, -1.1, -1.0, -1.05), (3.0, 3.1, 3.0, 3.1)], default=1)
    assert signed.standing.remaining == (0,)
    assert signed.speedup(0) is None


def test_candidates_within_the_tolerance_end_the_race_together():
    close = race([(1.0, 1.001, 1.0, 1.001), (1.002, 1.0, 1.001, 1.002), (2.0, 2.001, 2.0, 2.001)])
    assert close.standing.remaining == (0, 1)
    assert close.standing.is_decided
    assert close.next_candidates(0, 0, 100, None) == []


@given(st.integers(0, 1000), st.integers(3, 25), st.integers(2, 5))
def test_rounds_are_complete_and_within_the_budget(seed, budget, count):
    rng = np.random.default_rng(seed)
    values: list[tuple[float, ...]] = [()] * count
    while candidates := race(values, default=0).next_candidates(seed, 0, budget, None):
        k = candidates[0]
        values[k] += (float(rng.lognormal(0.1 * k, 0.3)),)
    assert race(values).measurements <= budget
    rounds = race(values, default=0).standing.rounds
    assert all(len(row) <= len(values[0]) for row in values)
    assert rounds == min(len(values[k]) for k in race(values, default=0).standing.remaining)


def test_a_failed_candidate_leaves_and_counts():
    broken = Race.of([(1.0,), ()], [False, True], None, 1.0, 0.95, 0.01)
    assert broken.measurements == 2
    assert broken.standing.remaining == (0,)
    assert Race.of([()], [True], None, 1.0, 0.95, 0.01).next_candidates(0, 0, 9, None) == []
