"""The comparison of ratios of two times: its error rates, its power, and its numbers against SciPy's."""

import math

import numpy as np
import pytest
from scipy import stats

from baco_like.records.regression import (
    Loss,
    RegressionRule,
    _last_rank,
    compare_ratios,
    compare_with_default,
    spread,
)

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
