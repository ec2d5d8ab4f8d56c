"""Check the results of successful trials."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from baco_like.evaluators.protocol import Evaluator, collect_rest
from baco_like.records.trial import Outcome, Status, Trial

Check = Callable[[Trial, Outcome], str | None]
"""Returns one line that describes the error of a result, or None."""


class CheckedEvaluator:
    """Turns successes with a wrong result into the failure ``correctness``.

    Args:
        inner: Evaluates.
        check: Called with each successful trial and its outcome, in the thread that waits. Its exceptions end the
            run.
    """

    def __init__(self, inner: Evaluator, check: Check) -> None:
        self.inner = inner
        self._check = check
        self._pending: dict[int, Trial] = {}

    @property
    def capacity(self) -> int:
        """Capacity of the inner evaluator."""
        return self.inner.capacity

    def submit(self, trial: Trial) -> None:
        """Pass a trial to the inner evaluator."""
        self.inner.submit(trial)
        self._pending[trial.id] = trial

    def wait(self) -> Sequence[Outcome]:
        """Return checked outcomes."""
        return [self._apply_check(outcome) for outcome in self.inner.wait()]

    def collect(self, timeout: float | None) -> Sequence[Outcome]:
        """Return what the inner evaluator has left, checked."""
        return [self._apply_check(outcome) for outcome in collect_rest(self.inner, timeout)]

    def close(self) -> None:
        """Close the inner evaluator."""
        self._pending.clear()
        self.inner.close()

    def _apply_check(self, outcome: Outcome) -> Outcome:
        trial = self._pending.pop(outcome.trial_id)
        if outcome.status is not Status.OK:
            return outcome
        started = time.perf_counter()
        problem = self._check(trial, outcome)
        if problem is None:
            return outcome
        seconds = dict(outcome.extra.get("seconds", {}))
        seconds["check"] = seconds.get("check", 0.0) + time.perf_counter() - started
        extra = {**outcome.extra, "seconds": seconds, "repeats": list(outcome.repeats)}
        return Outcome.failure(outcome.trial_id, "correctness", f"check: {problem}", extra=extra)
