"""A Python function as an objective, called in processes of its own that it may crash, hang or fill with memory.

Other than `FunctionEvaluator`, which calls it here, this one needs the function by name: ``package.module:function``.
"""

from __future__ import annotations

import concurrent.futures
import importlib
import queue
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from baco_like.evaluators.failures import DEFAULT_FAILURES
from baco_like.evaluators.function import Call
from baco_like.evaluators.repeats import KEYS as REPEATS_KEYS
from baco_like.evaluators.repeats import Repeats
from baco_like.evaluators.table import Table
from baco_like.evaluators.worker import Reply, Worker
from baco_like.evaluators.worker_main import Report
from baco_like.evaluators.wrappers.repeated import RepeatedEvaluator
from baco_like.exceptions import EvaluatorError
from baco_like.records.journal import observed_event, plain, read_outcome
from baco_like.records.trial import Outcome, Trial
from baco_like.spaces.space import Space

KEYS = ("kind", "function", "metric", "timeout", "memory", "workers", *REPEATS_KEYS)

_SLICE = 0.5
"""Seconds of one wait: Ctrl-C that comes just before a wait is seen after it."""

_TARGET = f"{__name__}:serve"


def serve(settings: Mapping[str, Any]) -> Callable[[Any, Report], Any]:
    """Return the handler that calls the function with configurations; this runs in the worker."""
    sys.path[:0] = settings["path"]
    module, _, name = settings["function"].partition(":")
    function = getattr(importlib.import_module(module), name)
    # There is a limit of memory, and nobody else's is short.
    failures = (*DEFAULT_FAILURES, MemoryError)

    def handle(request: Any, report: Report) -> Any:
        def limited(trial: Trial) -> Any:
            report.stage("run", settings["timeout"])
            return function(trial)

        trial = Trial(request["id"], plain(request["config"]))
        outcome = Call(limited, settings["objective"], failures, settings["repeats"], 0)(trial)
        return {
            "outcome": observed_event([trial.completed(outcome)])["outcomes"][0],
            "problem": outcome.problem,
        }

    return handle


class IsolatedEvaluator:
    """Calls a function in worker processes, each with a limit of time and memory for every call.

    The function gets the trial, as with `FunctionEvaluator`, and what it returns or raises is read likewise: a failure
    of the configuration is an outcome, any other exception ends the run. A call that crashes its process is the failure
    ``runtime`` with the signal, one over its time ``timeout``.

    Args:
        function: ``package.module:function``.
        timeout: Seconds for one call.
        memory: Bytes of address space that a worker may have, what Python itself needs included; or None.
        workers: How many calls may run at once, each in a process of its own.
        repeats: Calls per trial; the median counts.
        objective: Which metric counts where the function returns a mapping.
        path: Folders to be searched for the module first.
    """

    def __init__(
        self,
        function: str,
        *,
        timeout: float,
        memory: int | None = None,
        workers: int = 1,
        repeats: int = 1,
        objective: str = "value",
        path: Sequence[str] = (),
    ) -> None:
        if workers < 1 or repeats < 1:
            raise EvaluatorError(f"workers = {workers}, repeats = {repeats}: expected 1 or more")
        if ":" not in function:
            raise EvaluatorError(f"function = {function!r}: expected 'package.module:function'")
        settings = {
            "function": function,
            "timeout": timeout,
            "repeats": repeats,
            "objective": objective,
            "path": list(path),
        }
        self._function, self._timeout = function, timeout
        self._workers = [Worker(_TARGET, settings=settings, memory=memory) for _ in range(workers)]
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._pool: ThreadPoolExecutor | None = None
        self._futures: dict[Future[Outcome], int] = {}

    @property
    def capacity(self) -> int:
        """The number of workers."""
        return len(self._workers)

    def submit(self, trial: Trial) -> None:
        """Start a call as soon as there is a worker for it."""
        self._futures[self._opened().submit(self._evaluated, trial)] = trial.id

    def wait(self) -> Sequence[Outcome]:
        """Block until at least one call is done.

        Raises:
            EvaluatorError: No trial was submitted, the function cannot be imported, or it raised what is no failure of
                the configuration.
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
        """End the calls that run, with their processes."""
        for future in self._futures:
            future.cancel()
        self._futures.clear()
        if self._pool is not None:
            for worker in self._workers:
                worker.kill()
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
            raise EvaluatorError(f"{self._function} raised {reply.error}")
        if not reply.ok:
            return reply.failure(trial.id)
        outcome = read_outcome({**reply.value["outcome"], "id": trial.id})
        return replace(outcome, problem=reply.value["problem"])


def from_table(
    table: Table, space: Space, unit: str, folder: Path
) -> IsolatedEvaluator | RepeatedEvaluator:
    """Make an evaluator from the ``[evaluator]`` table of a TOML file.

    Args:
        table: Keys as in `KEYS`.
        space: What the function is called with; not used.
        unit: The objective's unit; not used.
        folder: Searched first for the function's module.

    Raises:
        RunFileError: A key is unknown, missing or wrong.
    """
    table.only(KEYS)
    function = table.text("function")
    if ":" not in function:
        raise table.wrong("function", function, "'module:function'")
    repeats = Repeats.from_table(table, 1)
    fixed = repeats.relative_error is None and repeats.slow_ratio is None
    evaluator = IsolatedEvaluator(
        function,
        timeout=table.positive("timeout", 60.0),
        memory=table.bytes("memory") if table.has("memory") else None,
        workers=table.whole("workers", 1, low=1),
        repeats=repeats.least if fixed else 1,
        objective=table.text("metric", "value"),
        path=[str(folder)],
    )
    return evaluator if fixed else RepeatedEvaluator(evaluator, repeats)
