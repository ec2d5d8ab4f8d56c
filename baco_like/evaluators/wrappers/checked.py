"""Successes that are checked before they count."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from baco_like.evaluators.protocol import Evaluator, collected
from baco_like.records.trial import Outcome, Status, Trial

Check = Callable[[Trial, Outcome], str | None]
"""Returns what is wrong with a result, in one line, or None."""


class CheckedEvaluator:
    """Turns successes whose result is wrong into the failure ``correctness``.

    Args:
        inner: Evaluates.
        check: Called with each trial that has succeeded and its outcome, in the thread that waits. What it raises ends
            the run.
    """

    def __init__(self, inner: Evaluator, check: Check) -> None:
        self.inner = inner
        self._check = check
        self._flying: dict[int, Trial] = {}

    @property
    def capacity(self) -> int:
        """That of the inner evaluator."""
        return self.inner.capacity

    def submit(self, trial: Trial) -> None:
        """Hand a trial on."""
        self.inner.submit(trial)
        self._flying[trial.id] = trial

    def wait(self) -> Sequence[Outcome]:
        """Return outcomes, checked."""
        return [self._judged(outcome) for outcome in self.inner.wait()]

    def collect(self, timeout: float | None) -> Sequence[Outcome]:
        """Return what the inner evaluator has left, checked."""
        return [self._judged(outcome) for outcome in collected(self.inner, timeout)]

    def close(self) -> None:
        """Close the inner evaluator."""
        self._flying.clear()
        self.inner.close()

    def _judged(self, outcome: Outcome) -> Outcome:
        trial = self._flying.pop(outcome.trial_id)
        if outcome.status is not Status.OK:
            return outcome
        started = time.perf_counter()
        problem = self._check(trial, outcome)
        if problem is None:
            return outcome
        extra: Mapping[str, Any] = {
            **outcome.extra,
            "seconds": _with(outcome, time.perf_counter() - started),
            "repeats": list(outcome.repeats),
        }
        return Outcome.failure(outcome.trial_id, "correctness", f"check: {problem}", extra=extra)


def _with(outcome: Outcome, seconds: float) -> dict[str, float]:
    stages = dict(outcome.extra.get("seconds", {}))
    return {**stages, "check": stages.get("check", 0.0) + seconds}
