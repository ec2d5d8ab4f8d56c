"""A shipped winner is measured again: what a check decides, and what it does when something fails."""

import numpy as np
import pytest

from baco_like import EvaluatorError, Outcome
from baco_like.evaluators.wrappers import CachedEvaluator
from baco_like.records.regression import RegressionRule
from baco_like.records.trial import MEASURED_AGAIN
from baco_like.running.regression_check import CheckedPair, check_winner, record_baseline

WINNER, DEFAULT = {"tile": 32}, {"tile": 8}
BEFORE = tuple(np.exp(0.01 * np.random.default_rng(9).standard_normal(20)) * 2.0)


class Machine:
    """Measures with noise: the default takes 2, the winner ``winner`` milliseconds."""

    capacity = 1

    def __init__(self, winner=1.0, spread=0.01, failures=(), sign=1.0):
        self.times = {8: 2.0, 32: winner}
        self.spread, self.failures, self.sign = spread, dict(failures), sign
        self.rng, self.calls, self.closed, self.waiting = np.random.default_rng(0), [], False, []

    def submit(self, trial):
        self.waiting.append(trial)

    def wait(self):
        trial = self.waiting.pop()
        assert trial.origin in MEASURED_AGAIN  # no rule ends it early
        tile = trial["tile"]
        self.calls.append(tile)
        if self.failures.get(tile, 0) > 0:
            self.failures[tile] -= 1
            return [Outcome.failure(trial.id, "compile", "no such file\nmore")]
        value = self.times[tile] * float(np.exp(self.spread * self.rng.standard_normal()))
        return [Outcome.success(trial.id, (value**self.sign,))]

    def close(self):
        self.closed = True


def check(machine, before=BEFORE, rounds=40, **pair):
    given = CheckedPair(**{"winner": WINNER, "default": DEFAULT, "before": before, **pair})
    return check_winner(machine, given, RegressionRule(rounds=rounds))


@pytest.mark.parametrize(
    ("factor", "before", "status", "word"),
    [
        (1.0, (), "fine", "50.00 % better than the default"),
        (2.0, (), "fine", "as good as the default"),
        (2.5, (), "regressed", "25.00 % worse than the default"),
        (1.0, (2.0,), "fine", "as good as when it was shipped"),
        (1.002, (2.0,), "fine", "0.20 % worse than when it was shipped"),
        (1.5, (2.0,), "regressed", "50.00 % worse than when it was shipped"),
    ],
)
def test_one_round_decides_on_exact_values(factor, before, status, word):
    machine = Machine(factor, spread=0.0)
    result = check(machine, before, exact=True)
    assert (result.status, len(machine.calls)) == (status, 2)
    assert f"the winner is {word}" in result.reason
    text = "\n".join(result.describe())
    assert "between" not in text
    assert "faster" not in text
    recorded = record_baseline(
        Machine(factor, spread=0.0), CheckedPair(WINNER, DEFAULT, exact=True)
    )
    assert len(recorded.winner) == 1


@pytest.mark.parametrize(
    ("factor", "status", "code"), [(1.0, "fine", 0), (1.05, "regressed", 1), (0.9, "fine", 0)]
)
@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_a_check_finds_a_slow_down(factor, status, code, direction):
    machine = Machine(factor, sign=1.0 if direction == "minimize" else -1.0)
    result = check(machine, direction=direction)
    assert (result.status, result.exit_code) == (status, code)
    assert result.speedup == pytest.approx(2.0 / factor, rel=0.02)
    assert result.loss.value == pytest.approx(factor, rel=0.02)
    assert machine.closed
    assert len(result.winner) == len(result.default) == len(machine.calls) // 2 < 40
    assert machine.calls[:10].count(8) == 5  # by turns
    assert result.to_dict()["exit_code"] == code


def test_a_noisy_machine_cannot_tell():
    result = check(Machine(1.03, spread=0.5), before=np.power(BEFORE, 20.0) / 2.0**19, rounds=10)
    assert (result.status, result.exit_code) == ("unknown", 2)
    assert "10 rounds cannot tell" in result.reason


def test_few_earlier_rounds_that_chose_the_winner_need_more_evidence():
    assert len(check(Machine(1.05, spread=0.001)).winner) == 5
    rounds = [
        (one.status, len(one.winner), len(several.winner))
        for k in (8, 6, 5)
        for one, several in [
            [
                check(Machine(1.05, spread=0.001), before=BEFORE[:k], rounds=160, candidates=c)
                for c in (1, 9)
            ]
        ]
    ]
    assert rounds == [("regressed", 5, 10), ("regressed", 7, 28), ("regressed", 14, 56)]


def test_a_change_far_above_the_noise_is_decided_and_the_noise_is_noted():
    before = np.exp(0.15 * np.random.default_rng(2).standard_normal(40)) * 2.0
    result = check(Machine(1.56, spread=0.1), before=tuple(before), rounds=160)
    assert (result.status, result.exit_code) == ("regressed", 1)
    assert result.loss.low > 1.01
    assert "vary by 1" in result.describe()[-1]


def test_without_earlier_rounds_the_order_is_checked():
    fine = check(Machine(1.0), before=())
    assert (fine.status, fine.before) == ("fine", None)
    assert "--record" in fine.describe()[-1]
    assert check(Machine(2.2), before=()).status == "regressed"


def test_a_winner_that_fails_has_regressed_and_a_default_that_fails_says_nothing():
    failed = check(Machine(failures={32: 2}))
    assert (failed.status, failed.reason) == (
        "regressed",
        "the winner fails (compile: no such file)",
    )
    assert check(Machine(failures={32: 1})).status == "fine"  # once is a disturbance
    assert check(Machine(failures={8: 2})).exit_code == 2


def test_outcomes_beyond_a_limit_are_failures():
    pair = CheckedPair(WINNER, DEFAULT, BEFORE)
    result = check_winner(
        Machine(), pair, judge=lambda outcome: Outcome.failure(outcome.trial_id, "limit", "size")
    )
    assert "fails (limit: size)" in result.reason


def test_a_default_that_was_shipped_only_has_to_run():
    assert check(Machine(), winner=DEFAULT).status == "fine"
    assert check(Machine(failures={8: 2}), winner=DEFAULT).status == "regressed"
    assert check(Machine(), default=None).exit_code == 2


def test_values_that_are_not_positive_have_no_ratio():
    result = check(Machine(winner=-1.0))
    assert result.exit_code == 2
    assert "ratios need positive values" in result.reason


def test_a_cache_is_bypassed(tmp_path):
    machine = Machine()
    assert check(CachedEvaluator(machine, tmp_path / "cache.jsonl")).status == "fine"
    assert len(machine.calls) >= 10


def test_the_evaluator_is_closed_after_an_error():
    class Broken(Machine):
        def wait(self):
            raise EvaluatorError("no compiler")

    machine = Broken()
    with pytest.raises(EvaluatorError, match="no compiler"):
        check(machine)
    assert machine.closed


def test_a_baseline_has_more_rounds_on_a_noisy_machine():
    pair = CheckedPair(WINNER, DEFAULT)
    quiet = record_baseline(Machine(), pair, RegressionRule())
    noisy = record_baseline(Machine(spread=0.05), pair, RegressionRule())
    assert (quiet.status, len(quiet.winner)) == ("fine", 20)
    assert 40 < len(noisy.winner) <= 160
    assert record_baseline(Machine(failures={32: 2}), pair).status == "regressed"
    assert record_baseline(Machine(), CheckedPair(WINNER, None)).status == "unknown"


def test_the_order_within_rounds_depends_on_the_seed_alone():
    calls = []
    for seed in (1, 1, 2):
        machine = Machine()
        check_winner(machine, CheckedPair(WINNER, DEFAULT, BEFORE), seed=seed)
        calls.append(machine.calls[:10])
    assert calls[0] == calls[1] != calls[2]
