"""Functions and evaluators in isolated worker processes, which may crash, hang or run out of memory.

`FunctionEvaluator` calls a function object in this process. Here the function is given by its name,
``package.module:function``, and imported in the worker.
"""

from __future__ import annotations

import queue
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Annotated, Any

from typing_extensions import override

from baco_like._checks import whole_number
from baco_like._tables import Bytes, Count, Given, Group, Positive, Shape, Table
from baco_like.evaluators._processes.worker import Worker
from baco_like.evaluators.executors.futures import FuturesEvaluator, end_calls
from baco_like.evaluators.protocol import KIND, RunArguments
from baco_like.evaluators.repeats import ONCE, Repeats
from baco_like.evaluators.wrappers import RepeatedEvaluator
from baco_like.exceptions import EvaluatorError
from baco_like.journal.events import read_outcome
from baco_like.journal.fields import check_outcomes
from baco_like.records.trial import Outcome, Trial

_NAME = Shape(title="'module:function'", type="string", pattern=":")

_SERVING = "baco_like.evaluators.function.call"


class IsolatedEvaluator(FuturesEvaluator):
    """Evaluates trials in worker processes.

    A trial that crashes its process is the failure ``runtime`` with the signal; a trial over its limit is ``timeout``.
    An exception of the handler ends the run.

    Args:
        serve: Name of the function of `baco_like.evaluators.function.call` that serves in the workers.
        name: ``package.module:function``, imported in the workers.
        settings: Further settings of ``serve``, as JSON values.
        timeout: Seconds for a request, until its handler enters a stage with its own limit.
        memory: Limit of the address space of a worker in bytes, including Python's own memory; or None.
        workers: Number of processes, each of which handles one request at a time.
        environment: Environment variables of the workers, such as those of a device slot; or None.
    """

    def __init__(
        self,
        serve: str,
        name: str,
        settings: Mapping[str, Any],
        timeout: float,
        memory: int | None,
        workers: int,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise EvaluatorError(
                f"{name!r:.80}: expected a name such as 'package.module:function', which the worker processes import; "
                "write the function into a module, or evaluate the object by FunctionEvaluator"
            )
        if ":" not in name:
            raise EvaluatorError(f"{name!r}: expected 'package.module:function'")
        if not timeout > 0:
            raise EvaluatorError(f"timeout = {timeout}: expected seconds above 0")
        super().__init__(whole_number("workers", workers, 1, EvaluatorError))
        self._name, self._timeout = name, timeout
        served = {"name": name, **settings}
        self._workers = [
            Worker(f"{_SERVING}:{serve}", settings=served, memory=memory, environment=environment)
            for _ in range(workers)
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
            request: dict[str, Any] = {"id": trial.id, "config": dict(trial.config)}
            request |= {} if trial.task is None else {"task": dict(trial.task)}
            reply = worker.request(
                request,
                timeout=self._timeout,
                check=lambda reply: reply.ok and _read_answer(trial, reply.value),
            )
        finally:
            idle.put(worker)
        if reply.error is not None:
            raise EvaluatorError(
                f"{self._name} raised {reply.error} at {reply.place}, for {dict(trial.config)!r:.200}; where a "
                "configuration cannot run, raise baco_like.Infeasible"
            )
        if not reply.ok:
            return reply.failure(trial.id)
        return _read_answer(trial, reply.value)


def _read_answer(trial: Trial, answer: Any) -> Outcome:
    """Return the outcome in a worker's answer; the function may have written it past its handler.

    Raises:
        LookupError, TypeError, ValueError: The answer holds no outcome of an evaluation.
    """
    row = {**answer["outcome"], "id": trial.id, "config": dict(trial.config)}
    check_outcomes([row], "outcome")
    if not isinstance(answer["problem"], str):
        raise ValueError(f"the problem is {answer['problem']!r:.80}")
    return replace(read_outcome(row), problem=answer["problem"])


def isolated_function(
    function: Annotated[str, _NAME],
    *,
    metric: str = "value",
    timeout: Positive = 60.0,
    repeats: Group[Repeats] = ONCE,
    workers: Count = 1,
    memory: Bytes | None = None,
    path: Given[Sequence[str]] = (),
    environment: Given[Mapping[str, str] | None] = None,
) -> IsolatedEvaluator | RepeatedEvaluator:
    """Return an evaluator that calls a function in worker processes.

    The function gets the trial, and its results and exceptions are read as by `FunctionEvaluator`.

    Args:
        function: The function; the folder of the run file is searched first for its module.
        metric: The number to tune, if the function returns several by name.
        timeout: Limit of one call, in seconds.
        repeats: How often each configuration is measured.
        workers: Worker processes, each with one call at a time.
        memory: Limit of the memory of a worker process, with Python's own; a number is in bytes; None: no limit.
        path: Folders that are searched first for the module.
        environment: Environment variables of the workers, such as those of a device slot; or None.

    Raises:
        EvaluatorError: An argument has a wrong value.
    """
    least = 1 if repeats.is_adaptive else repeats.repeats
    settings = {"timeout": timeout, "repeats": least, "objective": metric, "path": list(path)}
    evaluator = IsolatedEvaluator(
        "serve_function", function, settings, timeout, memory, workers, environment
    )
    return RepeatedEvaluator(evaluator, repeats) if repeats.is_adaptive else evaluator


def isolated_evaluator(
    make: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    timeout: float,
    memory: int | None = None,
    workers: int = 1,
    path: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> IsolatedEvaluator:
    """Return an evaluator that runs another evaluator in worker processes, with limits of time and memory.

    Args:
        make: ``package.module:function`` that returns the evaluator; called once per process.
        arguments: Keyword arguments of this function, as JSON values.
        timeout: Limit of one trial in seconds.
        memory: Limit of the address space of a worker in bytes, including Python's own memory; or None.
        workers: Number of processes, each of which evaluates one trial at a time.
        path: Folders that are searched first for the module.
        environment: Environment variables of the workers, such as those of a device slot; or None.

    Raises:
        EvaluatorError: An argument has a wrong value.
    """
    settings = {"arguments": dict(arguments or {}), "path": list(path)}
    return IsolatedEvaluator(
        "serve_evaluator", make, settings, timeout, memory, workers, environment
    )


def from_table(table: Table, run: RunArguments) -> IsolatedEvaluator | RepeatedEvaluator:
    """Return the evaluator that the ``[evaluator]`` table of a run file describes.

    Args:
        table: Keys as the arguments of `isolated_function`.
        run: Its folder is searched first for the function's module. Space and unit are not used: a function accepts any
            parameters, and returns values in any unit.

    Raises:
        RunFileError: A key is unknown, missing or wrong.
    """
    return table.create(
        isolated_function, KIND, path=[str(run.folder)], environment=run.environment
    )
