"""An evaluator from a bench: builds ahead in a pool, measurements one at a time."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from baco_like.evaluators.bench import Bench, Built, StageFailure
from baco_like.evaluators.repeats import Repeats
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import Outcome, Trial

_SLICE = 0.5
"""Seconds of one wait for a build: Ctrl-C that comes just before a wait is seen after it."""

_MOMENT = 0.02
"""Seconds between two words to builds that they end."""


@dataclass(frozen=True)
class _Job:
    trial: Trial
    seconds: dict[str, float] = field(default_factory=dict)


class StagedEvaluator:
    """Builds and measures configurations as a rule of repeats says.

    A configuration that is clearly slower than the best (`Repeats.slow_ratio`) is a censored value: at least the
    smallest that was measured, or the limit at which a run was stopped. The best is that of this evaluator's own
    measurements.

    Args:
        bench: Builds and measures.
        repeats: How often.
        ahead: How many configurations are built while another is measured; 0 builds in `wait`, while nothing is.
    """

    def __init__(self, bench: Bench, repeats: Repeats, ahead: int = 0) -> None:
        if ahead < 0:
            raise EvaluatorError(f"ahead = {ahead}: expected 0 or more builds")
        self._bench, self._repeats, self._ahead = bench, repeats, ahead
        self._queue: deque[_Job] = deque()
        self._building: dict[Future[Built], _Job] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._best: float | None = None

    @property
    def capacity(self) -> int:
        """One that is measured, and those that are built ahead."""
        return 1 + self._ahead

    def submit(self, trial: Trial) -> None:
        """Queue a trial; its build begins at once where builds are made ahead."""
        job = _Job(trial)
        if not self._ahead:
            self._queue.append(job)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._ahead, thread_name_prefix="build")
        self._building[self._pool.submit(self._bench.build, trial, job.seconds)] = job

    def wait(self) -> Sequence[Outcome]:
        """Measure the trial that was submitted first among those that are built, in the calling thread.

        Raises:
            EvaluatorError: No trial was submitted, or nothing can be built at all.
        """
        if self._queue:
            job = self._queue.popleft()
            return [self._judged(job, lambda: self._bench.build(job.trial, job.seconds))]
        if not self._building:
            raise EvaluatorError("wait() without a submitted trial")
        future = self._first_built()
        return [self._judged(self._building.pop(future), future.result)]

    def close(self) -> None:
        """Forget what is queued, end builds that are running, and remove what was made."""
        self._queue.clear()
        for future in self._building:
            future.cancel()
        while not all(future.done() for future in self._building):
            self._bench.close()  # again: a build may have begun just after
            concurrent.futures.wait(self._building, _MOMENT)
        for future in self._building:
            with contextlib.suppress(BaseException):
                future.result().discard()
        self._building.clear()
        if self._pool is not None:
            self._pool.shutdown()
        self._pool = None
        self._bench.close()

    def _first_built(self) -> Future[Built]:
        while True:
            for future in self._building:
                if future.done():
                    return future
            concurrent.futures.wait(
                self._building, _SLICE, return_when=concurrent.futures.FIRST_COMPLETED
            )

    def _judged(self, job: _Job, build: Any) -> Outcome:
        values: list[float] = []
        try:
            built = build()
            try:
                self._measure(built, values)
            finally:
                built.discard()
        except StageFailure as failure:
            return failure.outcome(job.trial.id, _extra(job, [*values, *failure.repeats]))
        return self._measured(job, tuple(values))

    def _measure(self, built: Built, values: list[float]) -> None:
        limit = self._repeats.limit(self._best)
        while (count := self._repeats.missing(values, self._best)) > 0:
            values += built.measure(count, limit)

    def _measured(self, job: _Job, values: tuple[float, ...]) -> Outcome:
        if self._repeats.hopeless(values, self._best) and len(values) < self._repeats.most:
            message = (
                f"run: stopped after {len(values)} of {self._repeats.most} repeats: more than "
                f"{self._repeats.slow_ratio:g} times the best, {self._best:.6g}"
            )
            extra = _extra(job, values)
            return Outcome.censored(job.trial.id, min(values), message=message, extra=extra)
        outcome = Outcome.success(job.trial.id, values, extra=_extra(job, ()))
        assert outcome.value is not None
        self._best = outcome.value if self._best is None else min(self._best, outcome.value)
        return outcome


def _extra(job: _Job, values: Sequence[float]) -> dict[str, Any]:
    """Return what is kept of a trial besides its value: the timings, and what was measured where there is no value."""
    return {"seconds": dict(job.seconds), **({"repeats": list(values)} if values else {})}
