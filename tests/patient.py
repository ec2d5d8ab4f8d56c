"""Evaluations with limits of a fraction of a second, on a machine that may pause for longer."""

from __future__ import annotations

from collections.abc import Callable

from baco_like.evaluators import Evaluator
from baco_like.records import Outcome, Trial

_ATTEMPTS = 10


def evaluate(
    evaluator: Evaluator, trial: Trial, is_expected: Callable[[Outcome], bool] | None = None
) -> Outcome:
    """Return the outcome of a trial; one that was over a limit is evaluated again, because of pauses of the machine.

    Args:
        evaluator: It has no other trial.
        trial: The trial.
        is_expected: Whether an outcome over a limit is the expected one; None if none is expected.
    """
    for _ in range(_ATTEMPTS):
        evaluator.submit(trial)
        (outcome,) = evaluator.wait()
        if outcome.failed != "timeout" or (is_expected is not None and is_expected(outcome)):
            break
    return outcome


def says(message: str) -> Callable[[Outcome], bool]:
    """Return whether an outcome has a text in its message; no outcome has an empty text."""
    return lambda outcome: message != "" and message in outcome.message
