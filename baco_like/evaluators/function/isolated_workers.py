"""The evaluator that sends trials to several worker processes, each with limits of time and memory."""

from __future__ import annotations

import queue
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from typing_extensions import override

from baco_like._checks import whole_number
from baco_like.evaluators._processes.exchange import Reply
from baco_like.evaluators._processes.worker import Worker
from baco_like.evaluators.executors.futures import FuturesEvaluator, end_calls
from baco_like.exceptions import EvaluatorError
from baco_like.journal.events import observed_event, read_outcome
from baco_like.records.trial import Outcome, Trial


def to_answer(trial: Trial, outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as the JSON value that a handler sends to an `IsolatedEvaluator`."""
    row = observed_event([trial.with_outcome(outcome)])["outcomes"][0]
    return {"outcome": row, "problem": outcome.problem}


class IsolatedEvaluator(FuturesEvaluator):
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
        super().__init__(workers)
        self._name, self._timeout = name, timeout
        self._workers = [
            Worker(target, settings=dict(settings), memory=memory) for _ in range(workers)
        ]
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._pool: ThreadPoolExecutor | None = None

    def submit(self, trial: Trial) -> None:
        """Send a trial to the next idle worker."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(len(self._workers), thread_name_prefix="isolated")
            # A new queue: threads of a closed pool may still return workers to the former one.
            self._idle = queue.SimpleQueue()
            for worker in self._workers:
                self._idle.put(worker)
        self._pending[trial.id] = self._pool.submit(self._evaluate, trial)

    @override
    def close(self) -> None:
        """End running requests with their processes."""
        end_calls(self._pending.values(), self._kill_all)
        super().close()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        for worker in self._workers:
            worker.close()

    def _kill_all(self) -> None:
        for worker in self._workers:
            worker.kill()

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
