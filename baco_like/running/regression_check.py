"""Check a shipped winner: measure it and the default by turns, and compare their ratio with the earlier one."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from baco_like._output import in_percent
from baco_like._random import Purpose, generator
from baco_like.evaluators import Evaluator
from baco_like.records import Outcome, Trial
from baco_like.records.confirmation import CandidateResults
from baco_like.records.objective import Direction, sign_of
from baco_like.records.objective_values import without_bound
from baco_like.records.regression import (
    MANY_ROUNDS,
    Loss,
    RegressionRule,
    compare_ratios,
    compare_with_default,
    spread,
)
from baco_like.records.trial import CONFIRMATION
from baco_like.running.confirming import bypass_caches, measure_trial

_ATTEMPTS = 2
"""Failures in a row that count as one: a single one may be a disturbance of the machine."""

_PRECISION = 0.2
"""Half width of the interval of a recorded baseline, in slow-downs to find."""

Status = Literal["fine", "regressed", "unknown"]

_EXIT_CODES: Mapping[Status, int] = {"fine": 0, "regressed": 1, "unknown": 2}


@dataclass(frozen=True)
class CheckedPair:
    """What is compared.

    Attributes:
        winner: The shipped configuration.
        default: The default configuration, or None.
        before: The speed-up in each round when it was shipped; empty if it is unknown.
        candidates: Number of configurations from which these rounds chose the winner. Such a choice is lucky more
            often than not, so the error probability is divided by it.
        direction: Whether smaller or larger values are better.
        task: Descriptor of the task of a run with tasks, which is also a part of both configurations; else None.
        exact: Whether each measurement gives the same value, so that one round decides.
    """

    winner: Mapping[str, Any]
    default: Mapping[str, Any] | None
    before: Sequence[float] = ()
    candidates: int = 1
    direction: Direction = "minimize"
    task: Mapping[str, Any] | None = None
    exact: bool = False


@dataclass(frozen=True)
class CheckResult:
    """The result of a check.

    Attributes:
        status: ``fine``, ``regressed``, or ``unknown`` if the measurements cannot tell.
        reason: Why, in one sentence.
        winner: The values of the winner, in order.
        default: The values of the default configuration, in order.
        speedup: Speed-up, the geometric mean of the rounds as in a confirmation, or None.
        before: Speed-up when it was shipped, the mean of its rounds, or None.
        loss: By how much the speed-up has become smaller, or None.
        notes: What the user should know besides.
    """

    status: Status
    reason: str
    winner: tuple[float, ...] = ()
    default: tuple[float, ...] = ()
    speedup: float | None = None
    before: float | None = None
    loss: Loss | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def exit_code(self) -> int:
        """0 if it is fine, 1 if it has regressed, 2 if the measurements cannot tell."""
        return _EXIT_CODES[self.status]

    def describe(self) -> list[str]:
        """Return the result as lines of text."""
        lines = [f"{self.status}: {self.reason}"]
        if self.speedup is not None:
            earlier = "" if self.before is None else f"; when it was shipped {self.before:.4g}"
            rounds = "1 round" if len(self.winner) == 1 else f"{len(self.winner)} rounds"
            lines.append(f"speed-up over the default: {self.speedup:.4g} in {rounds}{earlier}")
        if self.loss is not None:
            reference = "the default" if self.before is None else "when it was shipped"
            lines.append(f"the winner against {reference}: {_describe_loss(self.loss)}")
        return lines + [f"note: {note}" for note in self.notes]

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values; an end of an interval that is not known is null."""
        loss = self.loss
        ends = [] if loss is None else [loss.value, loss.low, loss.high]
        return {
            "status": self.status,
            "exit_code": self.exit_code,
            "reason": self.reason,
            "rounds": min(len(self.winner), len(self.default)),
            "speedup": self.speedup,
            "speedup_before": self.before,
            "loss": [end if 0.0 < end < math.inf else None for end in ends] or None,
            "winner_values": list(self.winner),
            "default_values": list(self.default),
            "notes": list(self.notes),
        }


def _describe_loss(loss: Loss) -> str:
    def change(factor: float) -> str:
        if not 0.0 < factor < math.inf:
            return "unknown"
        word = "slower" if factor >= 1.0 else "faster"
        return f"{in_percent(abs(factor - 1.0), 1)} {word}"

    ends = [change(loss.low), change(loss.high)]
    interval = (
        "no interval is known" if ends == ["unknown"] * 2 else f"between {' and '.join(ends)}"
    )
    return f"{change(loss.value)} ({interval})"


def check_winner(
    evaluator: Evaluator,
    pair: CheckedPair,
    rule: RegressionRule | None = None,
    *,
    seed: int = 0,
    judge: Callable[[Outcome], Outcome] = lambda outcome: outcome,
    show: Callable[[int], None] = lambda rounds: None,
) -> CheckResult:
    """Measure the winner and the default by turns until their ratio is compared, and close the evaluator.

    Args:
        evaluator: Measures. A cache around it is bypassed.
        pair: What is compared.
        rule: What counts as regressed.
        seed: Decides the order within each round.
        judge: Turns outcomes beyond a limit into failures.
        show: Called with the number of finished rounds.

    Raises:
        EvaluatorError: The evaluator is broken.
    """
    rule = RegressionRule() if rule is None else rule
    meter = _Meter(bypass_caches(evaluator), pair, seed, judge)
    with contextlib.closing(evaluator):
        try:
            if not meter.has_pair:
                return _check_alone(meter, pair)
            if pair.exact:
                return _check_exactly(meter, pair, rule)
            looks = rule.looks(len(pair.before) if len(pair.before) > 1 else 0)
            for rounds in range(1, looks[-1] + 1):
                meter.measure_round()
                show(rounds)
                if rounds in looks:
                    result = _decide(meter, pair, rule, rule.alpha / len(looks))
                    if result.status != "unknown":
                        break
            return result
        except _CandidateFailed as failed:
            return failed.result


def record_baseline(
    evaluator: Evaluator,
    pair: CheckedPair,
    rule: RegressionRule | None = None,
    *,
    seed: int = 0,
    judge: Callable[[Outcome], Outcome] = lambda outcome: outcome,
    show: Callable[[int], None] = lambda rounds: None,
) -> CheckResult:
    """Measure the winner and the default until their ratio is known well enough to find a slow-down later.

    The rounds end when the interval of the speed-up is short against the slow-down to find, and at ``rule.rounds`` at
    the latest. The arguments are those of `check_winner`.

    Returns:
        The values, with the status ``fine``; or another status if the winner or the default has failed.

    Raises:
        EvaluatorError: The evaluator is broken.
    """
    rule = RegressionRule() if rule is None else rule
    meter = _Meter(bypass_caches(evaluator), pair, seed, judge)
    with contextlib.closing(evaluator):
        if not meter.has_pair:
            return CheckResult("unknown", "there is no other default configuration to compare with")
        try:
            for rounds in range(1, (1 if pair.exact else rule.rounds) + 1):
                meter.measure_round()
                show(rounds)
                if rounds >= min(MANY_ROUNDS, rule.rounds):
                    loss = compare_with_default(meter.ratios, rule.alpha)
                    if loss.high <= loss.low * (1.0 + rule.slowdown) ** (2.0 * _PRECISION):
                        break
        except _CandidateFailed as failed:
            return failed.result
        speedup = _mean_ratio(meter.ratios)
        return meter.result("fine", f"recorded {len(meter.ratios)} rounds", speedup=speedup)


def _check_alone(meter: _Meter, pair: CheckedPair) -> CheckResult:
    """Return the result where there is nothing to compare with: only whether the winner still runs."""
    meter.measure("winner")
    if pair.default is None:
        return meter.result(
            "unknown", "the winner runs, but there is no default configuration to compare it with"
        )
    return meter.result("fine", "the shipped configuration is the default, and it runs")


def _check_exactly(meter: _Meter, pair: CheckedPair, rule: RegressionRule) -> CheckResult:
    """Return the result of one round, whose values are the same each time."""
    meter.measure_round()
    (ratio,), before = meter.ratios, next(iter(pair.before), None)
    loss = (before or 1.0) / ratio
    word = f"{in_percent(abs(loss - 1.0), 2)} {'better' if loss < 1.0 else 'worse'} than"
    word = "as good as" if math.isclose(loss, 1.0) else word
    reference = "the default configuration" if before is None else "when it was shipped"
    status: Status = "regressed" if loss > 1.0 + rule.tolerance else "fine"
    reason = f"the winner is {word} {reference}"
    return meter.result(status, reason, speedup=ratio, before=before)


def _decide(meter: _Meter, pair: CheckedPair, rule: RegressionRule, alpha: float) -> CheckResult:
    ratios = meter.ratios
    if len(pair.before) > 1:
        loss = compare_ratios(pair.before, ratios, alpha, pair.candidates)
        before, below = _mean_ratio(pair.before), 1.0 + rule.slowdown
    else:
        loss, before, below = compare_with_default(ratios, alpha), None, 1.0
    verdict = loss.verdict(1.0 + rule.tolerance, below)
    varied = max(spread(ratios), spread(pair.before))
    notes = [] if before is not None else [_NO_BASELINE]
    if varied > rule.slowdown:
        notes.append(_UNSTABLE.format(in_percent(varied)))
    slowdown = in_percent(rule.slowdown, 1)
    reference = "the default configuration" if before is None else "when it was shipped"
    if verdict:
        status: Status = "regressed"
        reason = f"the winner is slower than {reference}, compared with the default in each round"
        if before is None:
            reason = f"the winner is slower than {reference}"
    elif verdict is None:
        status = "unknown"
        reason = f"{len(ratios)} rounds cannot tell; allow more by --rounds, or measure on a quieter machine"
        if varied <= rule.slowdown and len(pair.before) < MANY_ROUNDS:
            reason += "; the table has few rounds to compare with: add some by --record"
    else:
        status = "fine"
        reason = f"a slow-down of {slowdown} is excluded"
        if before is None:
            reason = "the winner is faster than the default configuration"
    return meter.result(
        status,
        reason,
        speedup=_mean_ratio(ratios),
        before=before,
        loss=loss,
        notes=tuple(notes),
    )


def _mean_ratio(ratios: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(ratios))))


_NO_BASELINE = (
    "there are no earlier rounds to compare with, so only the order of the winner and the default was checked; "
    "record some on this machine by --record"
)

_UNSTABLE = (
    "the ratios of single rounds vary by {}, more than the slow-down to find; a load that lasts longer than the check "
    "would change the result"
)


class _CandidateFailed(Exception):
    """The winner or the default has failed, which decides the check."""

    def __init__(self, result: CheckResult) -> None:
        super().__init__(result.reason)
        self.result = result


class _Meter:
    """Measures the two configurations, and keeps their values and the speed-up in each round."""

    def __init__(
        self,
        evaluator: Evaluator,
        pair: CheckedPair,
        seed: int,
        judge: Callable[[Outcome], Outcome],
    ) -> None:
        self._evaluator, self._pair, self._seed, self._judge = evaluator, pair, seed, judge
        self._configs = {"winner": pair.winner, "default": pair.default or {}}
        # A recording draws its values by the number of the trial.
        self._numbers = itertools.count(1_000_000 * (1 + seed % 1_000_000))
        self._values: dict[str, list[float]] = {"winner": [], "default": []}
        self.ratios: list[float] = []

    @property
    def has_pair(self) -> bool:
        """Whether there is a default configuration, and it is another one than the winner."""
        return self._pair.default is not None and dict(self._pair.default) != dict(
            self._pair.winner
        )

    def result(self, status: Status, reason: str, **known: Any) -> CheckResult:
        """Return a result with the values so far."""
        winner, default = (tuple(values) for values in self._values.values())
        return CheckResult(status, reason, winner, default, **known)

    def measure_round(self) -> None:
        """Measure both in random order."""
        rng = generator(self._seed, Purpose.CONFIRM, len(self.ratios))
        for k in rng.permutation(2):
            self.measure(("winner", "default")[int(k)])
        ratio = self._values["default"][-1] / self._values["winner"][-1]
        self.ratios.append(float(ratio ** sign_of(self._pair.direction)))

    def measure(self, which: str) -> None:
        """Measure one configuration.

        Raises:
            _CandidateFailed: It has failed several times, or its value is not positive.
        """
        for _ in range(_ATTEMPTS):
            config, task = self._configs[which], self._pair.task
            trial = Trial(next(self._numbers), config, task=task, origin=CONFIRMATION)
            outcome = without_bound(measure_trial(self._evaluator, trial), self._pair.direction)
            results = CandidateResults(trial).add(self._judge(outcome))
            if results.values:
                break
        else:
            raise _CandidateFailed(self._describe_failure(which, results.failure))
        (value,) = results.values
        if value <= 0.0:
            reason = f"the {which} has the value {value:.6g}; ratios need positive values"
            raise _CandidateFailed(CheckResult("unknown", reason))
        self._values[which].append(value)

    def _describe_failure(self, which: str, outcome: Outcome | None) -> CheckResult:
        word = "unknown" if outcome is None else f"{outcome.failed}"
        message = "" if outcome is None else str(outcome.message or "").strip().partition("\n")[0]
        reason = f"the {which} fails ({word}{f': {message:.200}' if message else ''})"
        return self.result("regressed" if which == "winner" else "unknown", reason)
