"""Trials evaluated in worker processes, several at once, each with limits of time and memory."""

from __future__ import annotations

import concurrent.futures
import queue
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from baco_like.evaluators._processes.worker import Reply, Worker
from baco_like.exceptions import EvaluatorError
from baco_like.journal.events import observed_event, read_outcome
from baco_like.records.trial import Outcome, Trial

_SLICE = 0.5
"""Seconds of one wait: Ctrl-C that comes just before a wait is seen after it."""

_MOMENT = 0.02
"""Seconds between two kills of what has to end."""


def answer(trial: Trial, outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as a handler answers it to a `WorkersEvaluator`."""
    row = observed_event([trial.with_outcome(outcome)])["outcomes"][0]
    return {"outcome": row, "problem": outcome.problem}


class WorkersEvaluator:
    """Sends trials to workers; each request is ``{"id": ..., "config": ...}`` and its answer that of `answer`.

    A trial that crashes its process is the failure ``runtime`` with the signal, one over its time ``timeout``; what the
    handler raises ends the run.

    Args:
        target: As for `Worker`.
        settings: As for `Worker`.
        name: What messages call it.
        timeout: Seconds for a request, until its handler enters a stage with a limit of its own.
        memory: Bytes of address space that a worker may have, what Python itself needs included; or None.
        workers: How many requests may run at once, each in a process of its own.
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
        if workers < 1:
            raise EvaluatorError(f"workers = {workers}: expected 1 or more")
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
        """Send a trial as soon as there is a worker for it."""
        self._futures[self._opened().submit(self._evaluated, trial)] = trial.id

    def wait(self) -> Sequence[Outcome]:
        """Block until at least one trial is done.

        Raises:
            EvaluatorError: No trial was submitted, a worker does not start, or its handler has raised.
        """
        if not self._futures:
            raise EvaluatorError("wait() without a submitted trial")
        done: set[Future[Outcome]] = set()
        while not done:
            done, _ = concurrent.futures.wait(
                self._futures, _SLICE, return_when=concurrent.futures.FIRST_COMPLETED
            )
        failed = [future for future in done if future.exception() is not None]
        outcomes = [self._taken(future) for future in done if future not in failed]
        return outcomes or [self._taken(future) for future in failed]

    def collect(self, timeout: float | None) -> Sequence[Outcome]:
        """Take back what has not started, and return what comes within the time."""
        self._futures = {f: i for f, i in self._futures.items() if not f.cancel()}
        done, _ = concurrent.futures.wait(self._futures, timeout)
        fine = [future for future in done if future.exception() is None]
        return [self._taken(future) for future in fine]

    def close(self) -> None:
        """End what runs, with its processes."""
        for future in self._futures:
            future.cancel()
        while not all(future.done() for future in self._futures):
            for worker in self._workers:
                worker.kill()  # again: a request may have begun just after
            concurrent.futures.wait(self._futures, _MOMENT)
        self._futures.clear()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        for worker in self._workers:
            worker.close()

    def _opened(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(len(self._workers), thread_name_prefix="isolated")
            self._idle = queue.SimpleQueue()
            for worker in self._workers:
                self._idle.put(worker)
        return self._pool

    def _taken(self, future: Future[Outcome]) -> Outcome:
        del self._futures[future]
        return future.result()

    def _evaluated(self, trial: Trial) -> Outcome:
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
