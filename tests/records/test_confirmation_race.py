"""Noisy configurations are compared in rounds, and ratios of two times: error rates, power, numbers of SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from baco_like.records import Speedup
from baco_like.records.confirmation_race import Race, confidence_sequence, confidence_sequences
from baco_like.records.regression import (
    Loss,
    RegressionRule,
    _last_rank,
    compare_ratios,
    compare_with_default,
    spread,
)

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


# ---- The comparison of ratios of two times: its error rates, its power, and its numbers against SciPy's ----


RULE = RegressionRule()


def ratios(rng, n, spread, value=2.0):
    return value * np.exp(spread * rng.standard_normal(n))


def decide(before, now, alpha=0.01, candidates=1):
    return compare_ratios(before, now, alpha, candidates).verdict(1.01, 1.05)


def test_looks_are_spaced_by_a_ratio_until_the_last_round():
    assert RegressionRule(rounds=5).looks(20) == (5,)
    assert RegressionRule(rounds=50).looks(20) == (5, 7, 10, 14, 20, 28, 40, 50)
    assert RULE.looks(20) == (5, 7, 10, 14, 20, 28, 40, 56, 79, 111, 160)
    assert RegressionRule(rounds=10).looks(0) == (10,)


@pytest.mark.parametrize("before", [0, 2, 3, 5, 10, 20])
def test_the_first_look_is_the_first_with_an_interval(before):
    alpha = RULE.alpha / len(RegressionRule().looks(20))
    orders = [math.comb(before + n, n) if before else 2**n for n in RULE.looks(20)]
    able = [n for n, count in zip(RULE.looks(20), orders, strict=True) if count * alpha >= 1]
    assert RULE.looks(before) == tuple(able)


@pytest.mark.parametrize(
    "values",
    [
        {"slowdown": 0.01},
        {"tolerance": -0.1},
        {"alpha": 0.5},
        {"rounds": 4},
        {"slowdown": math.nan},
    ],
)
def test_rules_out_of_range_are_refused(values):
    with pytest.raises(ValueError, match="expected"):
        RegressionRule(**values)


def test_equal_values_are_fine_and_slower_ones_are_not():
    before = [2.0] * 5
    assert decide(before, [2.0] * 10) is False
    assert decide(before, [2.0 / 1.05] * 10) is True
    assert decide(before, [2.1] * 10) is False  # a larger speed-up is no regression
    assert decide(before[:2], [2.0] * 2) is None


def test_a_loss_that_is_shown_to_be_small_does_not_matter():
    assert Loss(1.02, 1.011, 1.03).verdict(1.01, 1.05) is False


@pytest.mark.parametrize(("m", "n"), [(3, 20), (12, 9), (20, 5), (60, 50), (0, 12), (0, 90)])
@pytest.mark.parametrize("alpha", [0.001, 0.01])
def test_the_ends_of_the_interval_are_those_of_the_rank_tests_of_scipy(m, n, alpha):
    def pvalue(statistic):
        if m:
            above, rest = divmod(statistic, n)
            values = [*np.full(above, n), *np.full(min(1, m - above), rest - 0.5), *np.full(m, -1)]
            values = np.array(values[:m]) + np.linspace(0, 0.1, m)
            method = "exact" if m * n <= 2500 else "asymptotic"
            return stats.mannwhitneyu(values, range(n), alternative="less", method=method).pvalue
        signs = np.full(n, -1.0)
        for rank in range(n, 0, -1):
            if rank <= statistic:
                signs[rank - 1], statistic = 1.0, statistic - rank
        return stats.wilcoxon(signs * np.arange(1, n + 1), alternative="less").pvalue

    last = _last_rank(m, n, alpha)
    assert last > 0
    assert pvalue(last - 1) <= alpha * 1.03  # beyond 2500 pairs both are approximations
    assert pvalue(last) > alpha * 0.97


def test_the_interval_covers_the_loss_and_is_as_long_as_the_t_interval():
    rng = np.random.default_rng(1)
    missed, lengths = 0, []
    for _ in range(300):
        before, now = ratios(rng, 20, 0.02), ratios(rng, 20, 0.02, 2.0 / 1.03)
        loss = compare_ratios(before, now, 0.025)
        missed += not loss.low <= 1.03 <= loss.high
        lengths.append(math.log(loss.high / loss.low))
    assert missed <= 32  # 15 expected at most: 4 standard deviations are 15
    t = 2 * stats.t.ppf(0.975, 38) * 0.02 * math.sqrt(2 / 20)
    assert np.median(lengths) == pytest.approx(t, rel=0.15)


def drifting_ratios(rng, n, noise, loss):
    """Ratios of rounds on a machine whose speed drifts and which other programs disturb.

    Both values of a round have the noise, a random walk that goes on from one measurement to the next one, and in one
    of 20 cases a disturbance that is exponentially distributed with a mean of 50 %.
    """
    logs = np.cumsum(rng.normal(0.0, noise / 4.0, 2 * n)) + rng.normal(0.0, noise, 2 * n)
    logs += (rng.random(2 * n) < 0.05) * rng.exponential(0.5, 2 * n)
    first, second = logs.reshape(n, 2).T
    return 2.0 / loss * np.exp((first - second) * rng.choice([-1.0, 1.0], n))


def check(rng, noise, loss, rounds=40, recorded=20):
    """Return the verdict of a check, and its number of rounds."""
    rule = RegressionRule(rounds=rounds)
    before = drifting_ratios(rng, recorded, noise, 1.0)
    now = drifting_ratios(rng, rounds, noise, loss)
    looks = rule.looks(recorded)
    for n in looks:
        loss = compare_ratios(before, now[:n], rule.alpha / len(looks))
        if (verdict := loss.verdict(1.01, 1.05)) is not None:
            break
    return verdict, n


@pytest.mark.parametrize("noise", [0.01, 0.05, 0.2])
@pytest.mark.parametrize(("loss", "wrong"), [(1.01, True), (1.05, False)])
def test_in_all_looks_together_wrong_verdicts_are_rarer_than_alpha(noise, loss, wrong):
    rng = np.random.default_rng(2)
    verdicts = [check(rng, noise, loss)[0] for _ in range(100)]
    assert verdicts.count(wrong) <= stats.binom.isf(1e-4, 100, RULE.alpha)  # 5


def test_an_unchanged_winner_and_a_large_slow_down_are_decided_soon():
    rng = np.random.default_rng(3)
    unchanged = [check(rng, 0.02, 1.0) for _ in range(60)]
    assert np.median([n for _, n in unchanged]) <= 20
    assert sum(verdict is False for verdict, _ in unchanged) > 40
    slower = [check(rng, 0.2, 1.56, rounds=160) for _ in range(40)]
    assert sum(verdict is True for verdict, _ in slower) >= 36


def test_the_case_of_a_slow_down_of_56_percent_is_decided():
    """The interval is far above the limit although single rounds vary by more than the slow-down to find."""
    rng = np.random.default_rng(5)
    before, now = ratios(rng, 160, 0.15), ratios(rng, 160, 0.15, 2.0 / 1.56)
    loss = compare_ratios(before, now, 0.01 / 11)
    assert 1.4 < loss.low < 1.56 < loss.high < 1.7
    assert loss.verdict(1.01, 1.05) is True


@pytest.mark.parametrize(("recorded", "now"), [(0.002, 0.2), (0.2, 0.002)])
def test_a_calm_and_a_noisy_time_are_comparable(recorded, now):
    """Ranks alone would call 4 % of unchanged winners regressed where 0.09 % are allowed."""
    rng = np.random.default_rng(6)
    sizes = (160, 20) if recorded < now else (20, 160)
    verdicts = [
        decide(ratios(rng, sizes[0], recorded), ratios(rng, sizes[1], now), 0.01 / 11)
        for _ in range(300)
    ]
    assert verdicts.count(True) <= stats.binom.isf(1e-4, 300, 0.01 / 11)  # 3


def test_rounds_that_depend_on_each_other_count_less():
    rng = np.random.default_rng(7)
    lengths = []
    for correlation in (0.0, 0.8):
        load = rng.normal(0.0, 0.02, 400)
        for i in range(1, 400):
            load[i] = correlation * load[i - 1] + math.sqrt(1 - correlation**2) * load[i]
        loss = compare_ratios(2.0 * np.exp(load[:200]), 2.0 * np.exp(load[200:]), 0.01)
        lengths.append(math.log(loss.high / loss.low))
    assert lengths[1] / lengths[0] == pytest.approx(3.0, rel=0.3)  # the root of 1.8 / 0.2


def test_a_disturbed_round_changes_little():
    rng = np.random.default_rng(3)
    before, now = ratios(rng, 20, 0.01), ratios(rng, 20, 0.01)
    now[3] *= 100.0
    assert decide(before, now) is False
    before[3] *= 100.0
    assert decide(before, now / 1.05) is True


def test_a_choice_of_many_candidates_needs_more_evidence_of_a_loss_only():
    rng = np.random.default_rng(4)
    before, now = ratios(rng, 10, 0.01), ratios(rng, 10, 0.01)
    one, many = compare_ratios(before, now, 0.01), compare_ratios(before, now, 0.01, 9)
    assert many.low < one.low
    assert many.high == one.high


def test_disturbed_rounds_count_in_the_spread_of_a_few():
    few, many = [2.0] * 9 + [4.0], [2.0] * 19 + [4.0]
    assert spread(few) > 0.2
    assert spread(many) == spread([2.0]) == spread([]) == 0.0


def test_without_earlier_ratios_only_the_order_is_decided():
    rng = np.random.default_rng(4)
    for value, verdict in ((1.5, False), (0.9, True)):
        loss = compare_with_default(ratios(rng, 20, 0.02, value), 0.01)
        assert loss.verdict(1.01, 1.0) is verdict
    assert compare_with_default([1.0] * 20, 0.01).verdict(1.01, 1.0) is None
