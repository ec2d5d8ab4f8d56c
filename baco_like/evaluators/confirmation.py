"""Confirm the winner: measure the best few configurations again.

The best of many noisy measurements is partly the luckiest. The value that made a configuration a candidate says
nothing more about it, so only new measurements decide. The candidates are measured alternately: a machine that warms
up or slows down affects all of them. A candidate that is clearly worse than the best drops out early.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from baco_like.evaluators.protocol import Evaluator
from baco_like.evaluators.wrappers.cached import CachedEvaluator
from baco_like.exceptions import EvaluatorError
from baco_like.records import Direction, Outcome, Status, Trial, sign_of
from baco_like.records.trial import median, standard_error

_CLEARLY_WORSE = 3.0
"""Standard errors of the difference by which a candidate has to be worse than the best to drop out."""


@dataclass(frozen=True)
class Confirmation:
    """The result of a confirmation.

    Attributes:
        winner: The best candidate, with its new measurements as its outcome; None if all candidates have failed.
        candidates: All candidates with their new outcomes, in the order of their first values.
        rounds: Number of rounds.
    """

    winner: Trial | None
    candidates: tuple[Trial, ...]
    rounds: int


@dataclass
class _Candidate:
    trial: Trial
    sign: float
    values: list[float] = field(default_factory=list)
    failure: Outcome | None = None

    @property
    def cost(self) -> float:
        return self.sign * median(tuple(self.values))

    def is_clearly_worse(self, best: _Candidate) -> bool:
        error, other = standard_error(tuple(self.values)), standard_error(tuple(best.values))
        if error is None or other is None:
            return False
        return self.cost - best.cost > _CLEARLY_WORSE * math.hypot(error, other)

    def to_trial(self) -> Trial:
        """Return the trial with its new outcome."""
        outcome = self.failure or Outcome.success(self.trial.id, tuple(self.values))
        extra = {**outcome.extra, "observed": self.trial.value}
        return self.trial.with_outcome(replace(outcome, extra=extra))


def confirm(
    trials: Sequence[Trial],
    evaluator: Evaluator,
    direction: Direction = "minimize",
    *,
    top: int = 3,
    rounds: int = 5,
) -> Confirmation:
    """Measure the best trials again and return the best of them.

    Args:
        trials: The observed trials.
        evaluator: Measures them. A cache around it is bypassed. It is not closed.
        direction: Whether smaller or larger values are better.
        top: Number of candidates.
        rounds: Largest number of rounds; fewer if only one candidate is left.

    Raises:
        EvaluatorError: ``top`` or ``rounds`` is below 1, or the evaluator is broken.
    """
    if top < 1 or rounds < 1:
        raise EvaluatorError(f"top = {top}, rounds = {rounds}: expected 1 or more of each")
    while isinstance(evaluator, CachedEvaluator):
        evaluator = evaluator.inner
    sign, count = sign_of(direction), 0
    candidates = [_Candidate(trial, sign) for trial in select_best(trials, direction, top)]
    remaining, winner = candidates, None
    while remaining and count < rounds and (count == 0 or len(remaining) > 1):
        # Each round begins with another candidate, so that none is always measured on the coolest machine.
        first = count % len(remaining)
        for candidate in remaining[first:] + remaining[:first]:
            evaluator.submit(candidate.trial)
            for outcome in evaluator.wait():
                if outcome.status is Status.OK:
                    candidate.values += outcome.repeats
                else:
                    candidate.failure = outcome
        remaining = [candidate for candidate in remaining if candidate.failure is None]
        winner = min(remaining, key=lambda candidate: candidate.cost, default=None)
        remaining = [each for each in remaining if winner and not each.is_clearly_worse(winner)]
        count += 1
    measured = tuple(candidate.to_trial() for candidate in candidates)
    return Confirmation(None if winner is None else winner.to_trial(), measured, count)


def select_best(trials: Sequence[Trial], direction: Direction, top: int) -> list[Trial]:
    """Return the best trials with different configurations, without trials imported from another space."""
    sign = sign_of(direction)
    valued = [t for t in trials if t.value is not None and t.origin != "imported"]
    best: list[Trial] = []
    for trial in sorted(valued, key=lambda t: sign * (t.value or 0.0)):
        if len(best) < top and all(dict(trial.config) != dict(other.config) for other in best):
            best.append(trial)
    return best
