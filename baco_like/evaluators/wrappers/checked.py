"""Check the results of successful trials."""

from __future__ import annotations

import time
from collections.abc import Callable

from typing_extensions import override

from baco_like.evaluators.protocol import Evaluator, WrappingEvaluator
from baco_like.records.trial import Outcome, Status, Trial

Check = Callable[[Trial, Outcome], str | None]
"""Returns one line that describes the error of a result, or None."""


class CheckedEvaluator(WrappingEvaluator):
    """Turns successes with a wrong result into the failure ``correctness``.

    Args:
        inner: Evaluates.
        check: Called with each successful trial and its outcome, in the thread that waits. Its exceptions end the
            run.
    """

    def __init__(self, inner: Evaluator, check: Check) -> None:
        super().__init__(inner)
        self._check = check

    @override
    def _convert_outcome(self, trial: Trial, outcome: Outcome) -> Outcome:
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
