"""The comparison of ratios of two times: its error rates, its power, and its numbers against SciPy's."""

import math

import numpy as np
import pytest
from scipy import stats

from baco_like.records.regression import (
    Loss,
    RegressionRule,
    compare_ratios,
    compare_with_default,
    spread,
)

RULE = RegressionRule()


def ratios(rng, n, spread, value=2.0):
    return value * np.exp(spread * rng.standard_normal(n))


def decide(before, now, alpha=0.01):
    return compare_ratios(before, now, RULE, alpha).verdict(alpha)


def test_looks_double_until_the_last_round():
    assert RegressionRule(rounds=5).looks(20) == (5,)
    assert RegressionRule(rounds=50).looks(20) == (5, 10, 20, 40, 50)
    assert RULE.looks(20) == (5, 10, 20, 40, 80, 160)
    assert RULE.looks(19) == (20, 40, 80, 160)
    assert RegressionRule(rounds=10).looks(0) == (10,)


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
    assert Loss(1.02, 1.01, 1.03, regressed=1e-6, fine=1e-6).verdict(0.01) is False


def test_the_p_values_are_those_of_the_tests():
    rng = np.random.default_rng(0)
    before, now = ratios(rng, 12, 0.02), ratios(rng, 9, 0.02, 1.95)
    loss = compare_ratios(before, now, RULE, 0.01)
    exact = stats.mannwhitneyu(1.01 * now, before, alternative="less", method="exact").pvalue
    assert loss.regressed == pytest.approx(exact, rel=1e-9)
    differences = np.log(before)[:, None] - np.log(now)[None]
    assert loss.value == pytest.approx(math.exp(np.median(differences)))
    alone = compare_with_default(now / 1.95, RULE, 0.01)
    exact = stats.wilcoxon(np.log(1.01 * now / 1.95), alternative="less").pvalue
    assert alone.regressed == pytest.approx(exact, rel=1e-9)


def test_the_interval_covers_the_loss_and_is_as_long_as_the_t_interval():
    rng = np.random.default_rng(1)
    missed, lengths = 0, []
    for _ in range(300):
        before, now = ratios(rng, 20, 0.02), ratios(rng, 20, 0.02, 2.0 / 1.03)
        loss = compare_ratios(before, now, RULE, 0.025)
        missed += not loss.low <= 1.03 <= loss.high
        lengths.append(math.log(loss.high / loss.low))
    assert 3 <= missed <= 32  # 15 expected: 4 standard deviations are 15
    t = 2 * stats.t.ppf(0.975, 38) * 0.02 * math.sqrt(2 / 20)
    assert np.mean(lengths) == pytest.approx(t, rel=0.1)


@pytest.mark.parametrize(("slowdown", "wrong"), [(0.05, False), (0.01, True)])
def test_wrong_decisions_are_rare(slowdown, wrong):
    """At the limits of both hypotheses, the error probability is alpha."""
    rng = np.random.default_rng(2)
    found = [
        decide(ratios(rng, 10, 0.02), ratios(rng, 10, 0.02, 2.0 / (1 + slowdown)), 0.05)
        for _ in range(300)
    ]
    assert found.count(wrong) <= 30  # 15 expected


def test_a_disturbed_round_changes_little():
    rng = np.random.default_rng(3)
    before, now = ratios(rng, 20, 0.01), ratios(rng, 20, 0.01)
    now[3] *= 100.0
    assert decide(before, now) is False
    before[3] *= 100.0
    assert decide(before, now / 1.05) is True


def test_the_load_of_an_unstable_machine_is_no_regression():
    """Two sessions of different load: rounds within a session vary by 10 %, sessions by 30 %."""
    rng = np.random.default_rng(5)
    before, now = ratios(rng, 40, 0.1), ratios(rng, 40, 0.1, 2.0 / 1.3)
    assert decide(before, now) is None
    assert decide(before, 2.0 * now) is None
    assert decide(before, now / 2.0) is True  # more than the load explains
    assert decide(before, np.full(40, 2.0)) is None


def test_disturbed_rounds_count_in_the_spread_of_a_few():
    few, many = [2.0] * 9 + [4.0], [2.0] * 19 + [4.0]
    assert spread(few) > 0.2
    assert spread(many) == spread([2.0]) == spread([]) == 0.0


def test_without_earlier_ratios_only_the_order_is_decided():
    rng = np.random.default_rng(4)
    assert compare_with_default(ratios(rng, 20, 0.02, 1.5), RULE, 0.01).verdict(0.01) is False
    assert compare_with_default(ratios(rng, 20, 0.02, 0.9), RULE, 0.01).verdict(0.01) is True
    assert compare_with_default([1.0] * 20, RULE, 0.01).verdict(0.01) is None
