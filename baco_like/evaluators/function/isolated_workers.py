"""The evaluator that sends trials to several worker processes, each with limits of time and memory."""

from __future__ import annotations

import concurrent.futures
import queue
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from baco_like._checks import whole_number
from baco_like.evaluators._processes.worker import Reply, Worker
from baco_like.exceptions import EvaluatorError
from baco_like.journal.events import observed_event, read_outcome
from baco_like.records.trial import Outcome, Trial

_WAIT_SLICE = 0.5
"""Seconds of one wait. Python handles a Ctrl-C that arrives just before a wait only after it."""

_KILL_INTERVAL = 0.02
"""Seconds between two kills while requests are still running."""


def to_answer(trial: Trial, outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as the JSON value that a handler sends to an `IsolatedEvaluator`."""
    row = observed_event([trial.with_outcome(outcome)])["outcomes"][0]
    return {"outcome": row, "problem": outcome.problem}


class IsolatedEvaluator:
    """Evaluates trials in worker processes.

    A request is ``{"id": ..., "config": ...}``, and its answer is made by `to_answer`. A trial that crashes its process
    is the failure ``runtime`` with the signal; a trial over its limit is ``timeout``. An exception of the handler ends
    the run.

    Args:
        target: As for `Worker`.
        settings: As for `Worker`.
        name: Name of the function, for messages.
        timeout: Seconds for a request, until its handler enters a stage with its own limit.
        memory: Limit of the address space of a worker in bytes, including Python's own memory; or None.
        workers: Number of processes, each of which handles one request at a time.
    """

    def __init__(
        self,
        target: str,
        settings: Mapping[str, Any],
        *,
        name: str,
        timeout: float,
        memory: int | None = None,
        workers: int = 1,
    ) -> None:
        workers = whole_number("workers", workers, 1, EvaluatorError)
        if not timeout > 0:
            raise EvaluatorError(f"timeout = {timeout}: expected seconds above 0")
        self._name, self._timeout = name, timeout
        self._workers = [
            Worker(target, settings=dict(settings), memory=memory) for _ in range(workers)
        ]
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._pool: ThreadPoolExecutor | None = None
        self._futures: dict[Future[Outcome], int] = {}

    @property
    def capacity(self) -> int:
        """The number of workers."""
        return len(self._workers)

    def submit(self, trial: Trial) -> None:
        """Send a trial to the next idle worker."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(len(self._workers), thread_name_prefix="isolated")
            # A new queue: threads of a closed pool may still return workers to the former one.
            self._idle = queue.SimpleQueue()
            for worker in self._workers:
                self._idle.put(worker)
        self._futures[self._pool.submit(self._evaluate, trial)] = trial.id

    def wait(self) -> Sequence[Outcome]:
        """Block until at least one trial is done.

        Raises:
            EvaluatorError: No trial was submitted, a worker does not start, or its handler has raised. The outcomes
                of other finished trials are returned first.
        """
        if not self._futures:
            raise EvaluatorError("wait() without a submitted trial")
        done: set[Future[Outcome]] = set()
        while not done:
            done, _ = concurrent.futures.wait(
                self._futures, _WAIT_SLICE, return_when=concurrent.futures.FIRST_COMPLETED
            )
        failed = [future for future in done if future.exception() is not None]
        outcomes = [self._take(future) for future in done if future not in failed]
        return outcomes or [self._take(future) for future in failed]

    def collect(self, timeout: float | None) -> Sequence[Outcome]:
        """Cancel trials that have not started, and return the outcomes that come within the time."""
        self._futures = {f: i for f, i in self._futures.items() if not f.cancel()}
        done, _ = concurrent.futures.wait(self._futures, timeout)
        return [self._take(future) for future in done if future.exception() is None]

    def close(self) -> None:
        """End running requests with their processes."""
        for future in self._futures:
            future.cancel()
        while not all(future.done() for future in self._futures):
            # A request may start a process just after the kill; so kill again until all requests have ended.
            for worker in self._workers:
                worker.kill()
            concurrent.futures.wait(self._futures, _KILL_INTERVAL)
        self._futures.clear()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        for worker in self._workers:
            worker.close()

    def _take(self, future: Future[Outcome]) -> Outcome:
        del self._futures[future]
        return future.result()

    def _evaluate(self, trial: Trial) -> Outcome:
        idle, worker = self._idle, self._idle.get()
        try:
            request = {"id": trial.id, "config": dict(trial.config)}
            return self._read(trial, worker.request(request, timeout=self._timeout))
        finally:
            idle.put(worker)

    def _read(self, trial: Trial, reply: Reply) -> Outcome:
        if reply.error is not None:
            raise EvaluatorError(
                f"{self._name} raised {reply.error} at {reply.place}, for {dict(trial.config)!r:.200}; where a "
                "configuration cannot run, raise baco_like.Infeasible"
            )
        if not reply.ok:
            return reply.failure(trial.id)
        outcome = read_outcome({**reply.value["outcome"], "id": trial.id})
        return replace(outcome, problem=reply.value["problem"])
