"""Confirm the winner of a run: choose the candidates, measure them in rounds, and simplify the winner.

The best of many noisy measurements is partly the luckiest. The value that made a configuration a candidate says
nothing more about it, so only new measurements decide. `baco_like.records.confirmation_race` has the statistics.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from typing_extensions import override

from baco_like._checks import whole_number
from baco_like._output import warn_caller
from baco_like._tables import SHARE, Count, Positive, Shape, Share, whole
from baco_like.evaluators import Evaluator
from baco_like.evaluators.wrappers import CachedEvaluator
from baco_like.exceptions import BacoWarning, EvaluatorError, TrialError
from baco_like.optimizer import Optimizer
from baco_like.optimizer.simplifying import can_simplify, default_trial
from baco_like.records import (
    Confirmation,
    History,
    Outcome,
    Status,
    StopRule,
    Trial,
    read_confirmation,
)
from baco_like.records.confirmation import is_current, measurement_budget
from baco_like.records.drift import read_drift
from baco_like.records.objective import sign_of
from baco_like.records.objective_values import number_within, without_bound
from baco_like.records.plan import ConfirmationPlan
from baco_like.records.trial import CONFIRMATION, different_configs
from baco_like.running.progress import Display
from baco_like.running.sentences import format_result
from baco_like.running.stopping import AnyOf, MaxTime, StoppingRule, time_limit

_LEAST_ROUNDS = 5
"""Number of rounds that the budget must allow, or there are fewer candidates.

Intervals of three rounds are finite, but wide: 17 standard deviations of one difference on each side, 3.8 with five.
"""

_MOST_LOST = 3
"""Number of times in a row that an evaluator may give up a measurement."""

SIMPLIFY = 0.25
"""Share of the run's evaluations that the simplification of the winner may take by default."""


def _count_or_share(least: int) -> Shape:
    return Shape(title="a whole number, or a share below 1", anyOf=[whole(least), SHARE])


@dataclass(frozen=True)
class Confirm:
    """How the winner of a run is confirmed; with ``top=0``, for exact values, it is only simplified.

    Attributes:
        top: Candidates besides the default configuration; fewer if the budget is below five rounds of them.
        evaluations: Largest number of measurements, or a share of the run's evaluations, but then at least 15 (or as
            many as the run has evaluations).
        rounds: Largest number of rounds; None: no limit.
        confidence: Probability of the intervals and of the ranking.
        tolerance: Relative difference that does not matter.
        simplify: Largest number of measurements, or a share of the run's builds, to [set parameters of the winner back
            to their defaults](../flags.md#the-smallest-winner); 0: none.

    Raises:
        ValueError: A value is out of range.
    """

    top: Count = 3
    evaluations: Annotated[float, _count_or_share(1)] = 0.1
    rounds: Count | None = None
    confidence: Share = 0.95
    tolerance: Positive = 0.01
    simplify: Annotated[float, _count_or_share(0)] = SIMPLIFY

    def __post_init__(self) -> None:
        whole_number("top", self.top, 0)
        number_within("confidence", self.confidence, "(0, 1)")
        number_within("tolerance", self.tolerance, "[0, inf)")
        measurement_budget(self.evaluations, 1)
        if self.simplify:
            measurement_budget(self.simplify, 1)

    def time_share(self, history: History) -> float:
        """Return the share of a limited time that is left to the confirmation and the simplification."""
        share = 0.1 if isinstance(self.evaluations, int) else self.evaluations
        simplifies = self.simplify and can_simplify(history)
        return (share if self.top else 0.0) + (0.1 if simplifies else 0.0)


@dataclass(frozen=True)
class _SearchTime(StoppingRule):
    """End the search before the time limit, so that time is left to confirm the winner."""

    seconds: float
    limit: float

    @override
    def reason(self, history: History, seconds: float) -> str | None:
        if seconds < self.seconds:
            return None
        return f"{self.seconds:g} of {self.limit:g} seconds; the rest is for the confirmation"


def leave_time(stop: StopRule, settings: Confirm, history: History) -> StopRule:
    """Return the rule that ends the search before the rule's time limit, if it has one."""
    limit, share = time_limit(stop), settings.time_share(history)
    if limit is None or not share:
        return stop
    return AnyOf((stop, _SearchTime(limit * (1.0 - share), limit)))


def confirm_winner(
    optimizer: Optimizer,
    evaluator: Evaluator,
    settings: Confirm,
    seconds: float | None = None,
    display: Display | None = None,
    announce: Callable[[str], None] = lambda text: None,
) -> Confirmation | None:
    """Measure the best trials and the default configuration of a run again, and simplify the winner; then close.

    Exact values are not measured again.

    An interrupted confirmation continues where it stopped. A finished one is not repeated, unless the run
    has new evaluations.

    Args:
        optimizer: The optimizer of the run; it observes the measurements.
        evaluator: Measures, and is closed. A cache around it is bypassed.
        settings: Number of candidates and budgets.
        seconds: Time limit of the run, as in `MaxTime`; a measurement that would exceed it is not started.
        display: Shows the measurements, or None.
        announce: Called with a sentence before the first measurement of each part.

    Returns:
        The result, or None without a successful trial.

    Raises:
        ValueError: The run has several objectives.
    """
    if optimizer.history.objectives:
        raise ValueError("a confirmation compares one objective, and this run has several")
    if optimizer.options.aim.is_exact:
        settings = replace(settings, top=0)
    inner, longest, announced = bypass_caches(evaluator), 0.0, set[str]()

    def measure(trial: Trial, part: str, name: str) -> Outcome:
        """Measure a trial once, record the outcome, and show it."""
        nonlocal longest
        if part not in announced:
            announced.add(part)
            announce(part)
        started = time.monotonic()
        outcome = without_bound(measure_trial(inner, trial), optimizer.options.aim.first.direction)
        optimizer.complete([outcome])
        longest = max(longest, time.monotonic() - started)
        outcome = optimizer.options.aim.judge(outcome)
        if display is not None:
            done = optimizer.history.evaluations - optimizer.history.builds
            display.show(done, f"{name} {format_result(Trial(0, {}, outcome=outcome))}")
        return outcome

    def has_time(count: int = 1) -> bool:
        """Return whether so many measurements fit into the time limit, by the longest one so far."""
        left = None if seconds is None else MaxTime(max(seconds - count * longest, 1e-9))
        return left is None or optimizer.should_stop(left) is None

    with contextlib.closing(evaluator):
        if settings.top:
            _measure_rounds(optimizer, settings, measure, has_time)
        # If a requested confirmation could not be made, there is too little to compare with.
        is_ready = not settings.top or is_current(optimizer.history)
        if settings.simplify and is_ready and optimizer.best and can_simplify(optimizer.history):
            part = (
                "simplifying the winner: parameters return to their defaults where that is as good"
            )
            given = settings.simplify, settings.evaluations
            for trial in optimizer.simplify(*given, tolerance=settings.tolerance, fits=has_time):
                measure(trial, part, f"simplified: trial {trial.id}")
    return read_confirmation(optimizer.history)


def _measure_rounds(
    optimizer: Optimizer,
    settings: Confirm,
    measure: Callable[[Trial, str, str], Outcome],
    has_time: Callable[[], bool],
) -> None:
    """Measure the candidates until the ranking is decided or the budget is spent."""
    history = optimizer.history
    budget = measurement_budget(settings.evaluations, history.searched)
    if not is_current(history):
        plan = _make_plan(optimizer, settings, budget)
        if plan is None:
            return
        if budget < len(plan.configs):
            warn_caller(
                f"the winner is not confirmed: {budget} measurements are too few for one round of "
                f"{len(plan.configs)} configurations; allow more by Confirm(evaluations=...), or in a file by "
                "[confirmation] evaluations = ...",
                BacoWarning,
            )
            return
        optimizer.start_confirmation(plan)
    confirmation = read_confirmation(optimizer.history)
    assert confirmation is not None
    plan = confirmation.plan
    part = "confirming the winner: the best and the default are measured in rounds"

    def measure_candidate(k: int) -> Outcome:
        wanted = (CONFIRMATION, plan.configs[k])
        pending = (t for t in optimizer.pending if (t.origin, dict(t.config)) == wanted)
        trial = next(pending, None) or optimizer.measure_again(plan.configs[k], CONFIRMATION)
        name = "default" if k == plan.default else f"trial {plan.observed[k]}"
        return measure(trial, part, f"measured again: {name}")

    given = optimizer.options.seed, plan.start, budget, settings.rounds
    while candidates := confirmation.race.next_candidates(*given):
        for k in candidates:
            if not has_time():
                return
            confirmation = confirmation.add(k, measure_candidate(k))


def measure_trial(evaluator: Evaluator, trial: Trial) -> Outcome:
    """Return the outcome of one trial.

    Raises:
        EvaluatorError: The evaluator is broken, or gives the trial up several times.
    """
    for _ in range(_MOST_LOST):
        evaluator.submit(trial)
        outcome = _wait_for(evaluator, trial.id)
        if outcome.status is not Status.ABANDONED:
            return outcome
    raise EvaluatorError(
        f"the measurement of trial {trial.id} was given up {_MOST_LOST} times: {outcome.message}"
    )


def _wait_for(evaluator: Evaluator, trial_id: int) -> Outcome:
    while True:
        for outcome in evaluator.wait():
            if outcome.trial_id == trial_id:
                return outcome


def bypass_caches(evaluator: Evaluator) -> Evaluator:
    """Return the evaluator inside the caches around it: a confirmation needs new measurements."""
    while isinstance(evaluator, CachedEvaluator):
        evaluator = evaluator.inner
    return evaluator


def _make_plan(optimizer: Optimizer, settings: Confirm, budget: int) -> ConfirmationPlan | None:
    """Return the plan with the best candidates and the default configuration, or None without a success."""
    default = default_trial(optimizer.history)
    rest = 0 if default is None else 1
    top = min(settings.top, max(2, budget // _LEAST_ROUNDS) - rest)
    candidates = rank_candidates(optimizer, top)
    if not candidates:
        return None
    configs, default_at = [dict(trial.config) for trial in candidates], None
    if default is not None:
        if dict(default.config) not in configs:
            candidates.append(default)
            configs.append(dict(default.config))
        default_at = configs.index(dict(default.config))
    observed = tuple(trial.id if trial.id >= 0 else None for trial in candidates)
    return ConfirmationPlan(
        tuple(configs), observed, default_at, settings.confidence, settings.tolerance
    )


def rank_candidates(optimizer: Optimizer, top: int) -> list[Trial]:
    """Return the best trials, by turns the best by observed and by predicted value, with different configurations."""
    history = optimizer.history
    observed = _by_value(history)
    predicted = _by_prediction(optimizer, observed)
    turns = itertools.zip_longest(observed, predicted)
    return different_configs([t for pair in turns for t in pair if t is not None], top)


def _by_value(history: History) -> list[Trial]:
    """Return the successful trials, the best first; after drift, their values are divided by the level of their time.

    Otherwise no configuration that was measured after the machine became slower would be a candidate.
    """
    levels = read_drift(history).levels(len(history))
    costs = (history.costs / levels ** sign_of(history.direction))[history.is_success]
    trials = history.successes
    order = np.argsort(costs, kind="stable")
    return different_configs([trials[i] for i in order], len(history))


def _by_prediction(optimizer: Optimizer, trials: list[Trial]) -> list[Trial]:
    """Return trials in the order of their predicted values; none if the strategy cannot predict."""
    try:
        mean, _, _ = optimizer.predict([trial.config for trial in trials])
    except TrialError:
        return []
    order = (sign_of(optimizer.options.aim.first.direction) * mean).argsort(kind="stable")
    return [trials[i] for i in order]
