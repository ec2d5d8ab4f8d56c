"""Confirm the winner: measure the best few configurations again, alternately.

The best of many noisy measurements is partly the luckiest. The value that made a configuration a candidate says
nothing more about it, so only new measurements decide. `baco_like.records.race` has the statistics.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from baco_like._typing import Array
from baco_like.evaluators.protocol import Evaluator
from baco_like.evaluators.wrappers.cached import CachedEvaluator
from baco_like.exceptions import EvaluatorError
from baco_like.records import (
    Confirmation,
    ConfirmationPlan,
    Direction,
    Outcome,
    Status,
    Trial,
)
from baco_like.records.confirmation import (
    CandidateResults,
    ConfirmationState,
    check_settings,
    include_default,
)
from baco_like.records.trial import select_best

__all__ = ["Confirmation", "confirm"]

_MOST_LOST = 3
"""Number of times in a row that an evaluator may give up a measurement."""

MeasureCandidate = Callable[[int], Outcome]
"""Measures candidate k, records the outcome where it has to be recorded, and returns it."""


def confirm(
    trials: Sequence[Trial],
    evaluator: Evaluator,
    direction: Direction = "minimize",
    *,
    top: int = 3,
    rounds: int = 5,
    default: Trial | None = None,
    seed: int = 0,
    confidence: float = 0.95,
    tolerance: float = 0.01,
) -> Confirmation:
    """Measure the best trials again and return the best of them.

    `tune` and ``baco-like tune`` do the same and keep the measurements in the journal of the run.

    Args:
        trials: The observed trials.
        evaluator: Measures them. A cache around it is bypassed. It is not closed.
        direction: Whether smaller or larger values are better.
        top: Number of candidates besides the default.
        rounds: Largest number of rounds; fewer if the ranking is decided before.
        default: The trial of the default configuration; it takes part in all rounds. None: no speed-up.
        seed: Decides the order within each round.
        confidence: Joint probability of the intervals.
        tolerance: Relative difference that does not matter.

    Raises:
        EvaluatorError: ``top`` or ``rounds`` is below 1, or the evaluator is broken.
        ValueError: ``confidence`` is not between 0 and 1, or ``tolerance`` is negative.
    """
    if top < 1 or rounds < 1:
        raise EvaluatorError(f"top = {top}, rounds = {rounds}: expected 1 or more of each")
    check_settings(confidence, tolerance)
    candidates = select_best(trials, direction, top)
    at = include_default(candidates, default)
    configs = tuple(trial.config for trial in candidates)
    ids = tuple(trial.id for trial in candidates)
    plan = ConfirmationPlan(configs, ids, at, confidence, tolerance)
    results = tuple(map(CandidateResults, candidates))
    state = ConfirmationState(plan, results, direction, _count_changes(candidates, at))
    evaluator = bypass_caches(evaluator)

    new_ids = itertools.count(1 + max((trial.id for trial in trials), default=0))

    def measure(k: int) -> Outcome:
        # A new id, because a recording draws its values by the id.
        return measure_trial(evaluator, replace(candidates[k], id=next(new_ids)))

    state = run_rounds(state, measure, seed, len(candidates) * rounds, rounds)
    return state.to_confirmation()


def run_rounds(
    state: ConfirmationState,
    measure: MeasureCandidate,
    seed: int,
    budget: int,
    rounds: int | None = None,
    may_continue: Callable[[], bool] = lambda: True,
) -> ConfirmationState:
    """Measure candidates in rounds until the ranking is decided or the budget is spent.

    Args:
        state: The candidates with the results so far.
        measure: Measures a candidate.
        seed: Decides the order within each round.
        budget: Largest number of measurements.
        rounds: Largest number of rounds, or None.
        may_continue: Called before each measurement; False ends the rounds.
    """
    while candidates := state.race.next_candidates(seed, state.plan.start, budget, rounds):
        for k in candidates:
            if not may_continue():
                return state
            state = state.add(k, measure(k))
    return state


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


def _count_changes(trials: Sequence[Trial], default: int | None) -> Array:
    """Return the number of values of each trial that differ from the default, (n,); empty without a default."""
    if default is None:
        return np.empty(0)
    reference = trials[default].config
    # Parameters that only one of the two configurations has do not count: a change of another one switched them.
    both = [[name for name in reference if name in trial.config] for trial in trials]
    changes = [
        sum(trial.config[name] != reference[name] for name in names)
        for trial, names in zip(trials, both, strict=True)
    ]
    return np.array(changes, dtype=np.float64)
