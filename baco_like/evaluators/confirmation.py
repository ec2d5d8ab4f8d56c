"""The best few are measured again before one of them is called the winner.

The best of many noisy measurements is the luckiest as much as the fastest one, so the value that chose a candidate says
nothing about it any more: only new measurements decide. Candidates take turns, so that a machine that warms up or slows
down does so for all of them, and one that is clearly worse than the best leaves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from baco_like.evaluators.protocol import Evaluator
from baco_like.evaluators.wrappers.cached import CachedEvaluator
from baco_like.exceptions import EvaluatorError
from baco_like.records.direction import Direction, sign_of
from baco_like.records.trial import Outcome, Status, Trial, median, standard_error

_CLEARLY = 3.0
"""Standard errors of the difference by which a candidate has to be worse to leave."""


@dataclass(frozen=True)
class Confirmation:
    """What came of it.

    Attributes:
        winner: The best candidate, with its new measurements as its outcome; None where all have failed.
        candidates: All of them, the best as it was observed first, each with its new outcome.
        rounds: How many turns there were.
    """

    winner: Trial | None
    candidates: tuple[Trial, ...]
    rounds: int


@dataclass
class _Candidate:
    trial: Trial
    values: list[float] = field(default_factory=list)
    failure: Outcome | None = None

    @property
    def repeats(self) -> tuple[float, ...]:
        return tuple(self.values)

    def ended(self) -> Trial:
        extra = {"observed": self.trial.value}
        if self.failure is not None:
            extra = {**self.failure.extra, **extra}
            return self.trial.with_outcome(replace(self.failure, extra=extra))
        return self.trial.with_outcome(Outcome.success(self.trial.id, self.repeats, extra=extra))


def confirm(
    trials: Sequence[Trial],
    evaluator: Evaluator,
    direction: Direction = "minimize",
    *,
    top: int = 3,
    rounds: int = 5,
) -> Confirmation:
    """Measure the best trials again and return which of them is the best.

    Args:
        trials: What was observed.
        evaluator: Measures; a cache around it is passed by. It is not closed.
        direction: Which values are better.
        top: How many candidates.
        rounds: Turns at most; fewer where one candidate alone is left.

    Raises:
        EvaluatorError: ``top`` or ``rounds`` is below 1, or the evaluator is broken.
    """
    if top < 1 or rounds < 1:
        raise EvaluatorError(f"top = {top}, rounds = {rounds}: expected 1 or more of each")
    while isinstance(evaluator, CachedEvaluator):
        evaluator = evaluator.inner
    candidates = [_Candidate(trial) for trial in best_of(trials, direction, top)]
    left, turn = candidates, 0
    while left and turn < rounds and (turn == 0 or len(left) > 1):
        _turn(left[turn % len(left) :] + left[: turn % len(left)], evaluator)
        left = _remaining(left, direction)
        turn += 1
    winner = min(left, key=lambda one: _cost(one, direction), default=None)
    ended = tuple(candidate.ended() for candidate in candidates)
    return Confirmation(None if winner is None else winner.ended(), ended, turn)


def best_of(trials: Sequence[Trial], direction: Direction, top: int) -> list[Trial]:
    """Return the best trials with different configurations; those told of another space are left out."""
    sign = sign_of(direction)
    known = [t for t in trials if t.value is not None and t.origin != "imported"]
    found: list[Trial] = []
    for trial in sorted(known, key=lambda t: sign * (t.value or 0.0)):
        if len(found) < top and all(dict(trial.config) != dict(one.config) for one in found):
            found.append(trial)
    return found


def _turn(candidates: Sequence[_Candidate], evaluator: Evaluator) -> None:
    """Measure each once more, one at a time."""
    for candidate in candidates:
        evaluator.submit(candidate.trial)
        for outcome in evaluator.wait():
            if outcome.status is Status.OK:
                candidate.values += outcome.repeats
            else:
                candidate.failure = outcome


def _remaining(candidates: Sequence[_Candidate], direction: Direction) -> list[_Candidate]:
    """Return those that have not failed and may still be the best."""
    fine = [one for one in candidates if one.failure is None]
    if not fine:
        return []
    best = min(fine, key=lambda one: _cost(one, direction))
    return [one for one in fine if one is best or not _clearly_worse(one, best, direction)]


def _clearly_worse(one: _Candidate, best: _Candidate, direction: Direction) -> bool:
    error, other = standard_error(one.repeats), standard_error(best.repeats)
    if error is None or other is None:
        return False
    return _cost(one, direction) - _cost(best, direction) > _CLEARLY * math.hypot(error, other)


def _cost(candidate: _Candidate, direction: Direction) -> float:
    return median(candidate.repeats) * sign_of(direction)
