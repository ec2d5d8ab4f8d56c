"""An evaluator whose trials are evaluated by the workers of an executor."""

from __future__ import annotations

import queue
import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, replace
from typing import Any

from baco_like.evaluators.executors.calls import evaluate, release
from baco_like.evaluators.executors.lost import is_lost
from baco_like.evaluators.executors.protocol import SubmitsCalls, workers_of
from baco_like.evaluators.protocol import Evaluator
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import Outcome, Status, Trial

_SLICE = 0.5
"""Seconds of one wait: Ctrl-C that comes just before a wait is seen after it."""


@dataclass(frozen=True)
class _Flight:
    """A trial that is with a worker, for the ``attempt``-th time."""

    trial: Trial
    attempt: int
    future: Any
    deadline: float


class ExecutorEvaluator:
    """Evaluates trials with the workers of an executor, each of which has an evaluator of its own.

    Trials are handed out one by one, as there is room, and come back as they are done. One whose worker is lost, or
    that has not come back when its lease ends, is handed out again; whichever answer comes first counts, others are
    dropped. After ``attempts`` losses it is given up: its outcome has the status ``ABANDONED``, and the configuration
    may be suggested again. If then it is lost once more it is a failure (``runtime``): a configuration that ends its
    workers must not go round for ever.

    Args:
        make: Makes a worker's evaluator; called in the worker, once per thread. It travels there, so for processes and
            machines it is a function of a module, or a `functools.partial` of one.
        executor: Of `concurrent.futures`, Dask (``client.get_executor()``), mpi4py (``MPIPoolExecutor``), ours
            (`ProcessLanes`, `RayExecutor`). It is the caller's: it is not shut down.
        capacity: How many trials are in flight; by default the number of workers.
        lease: Seconds until a trial counts as lost, longer than any evaluation and the wait for a worker; None: only
            an executor that tells of a loss has it known.
        attempts: How often a trial is handed out at most.
    """

    def __init__(
        self,
        make: Callable[[], Evaluator],
        executor: SubmitsCalls,
        *,
        capacity: int | None = None,
        lease: float | None = None,
        attempts: int = 3,
    ) -> None:
        if attempts < 1:
            raise EvaluatorError(f"attempts = {attempts}: expected 1 or more")
        if lease is not None and not lease > 0:
            raise EvaluatorError(f"lease = {lease}: expected seconds above 0, or None")
        if capacity is not None and capacity < 1:
            raise EvaluatorError(f"capacity = {capacity}: expected 1 or more")
        self._make, self._executor = make, executor
        self._capacity = workers_of(executor) if capacity is None else capacity
        self._lease, self._attempts = lease, attempts
        self._token = secrets.token_hex(8)
        self._flying: dict[int, _Flight] = {}
        self._news: queue.SimpleQueue[tuple[int, int, Any]] = queue.SimpleQueue()
        self._given_up: list[dict[str, Any]] = []
        self._error: BaseException | None = None

    @property
    def capacity(self) -> int:
        """How many trials may be in flight at once."""
        return self._capacity

    def submit(self, trial: Trial) -> None:
        """Hand a trial out.

        Raises:
            EvaluatorError: The executor takes no more calls.
            BaseException: What the next `wait` would raise; nothing is started then.
        """
        self._raise_kept()
        shipped = replace(trial, config=dict(trial.config), tag=None, outcome=None)
        self._hand_out(shipped, 1)

    def wait(self) -> Sequence[Outcome]:
        """Block until at least one trial is done; outcomes come in the order of trial numbers.

        Raises:
            EvaluatorError: Nothing was submitted, the executor takes no more calls, or a worker's evaluator is broken.
            BaseException: What a worker's evaluator has raised. Where other trials are done at the same moment, their
                outcomes are returned and the next call raises.
        """
        self._raise_kept()
        if not self._flying:
            raise EvaluatorError("wait() without a submitted trial")
        outcomes: list[Outcome] = []
        while not outcomes:
            outcomes = self._arrivals(_SLICE)
            if not outcomes:
                self._raise_kept()
        return sorted(outcomes, key=lambda outcome: outcome.trial_id)

    def collect(self, timeout: float | None) -> Sequence[Outcome]:
        """Take back what has not started, and return what comes within the time."""
        for trial_id, flight in list(self._flying.items()):
            if flight.future.cancel():
                del self._flying[trial_id]
        deadline = None if timeout is None else time.monotonic() + timeout
        outcomes = self._arrivals(0.0)
        while self._flying and (deadline is None or time.monotonic() < deadline):
            outcomes += self._arrivals(_SLICE if deadline is None else 0.05)
        return outcomes

    def close(self) -> None:
        """Take back what has not started, and close the evaluators of this process; the executor stays open."""
        for flight in self._flying.values():
            flight.future.cancel()
        self._flying.clear()
        self._news = queue.SimpleQueue()
        self._error = None
        release(self._token)

    def _hand_out(self, trial: Trial, attempt: int) -> None:
        try:
            future = self._executor.submit(evaluate, self._token, self._make, trial)
        except (BrokenExecutor, RuntimeError) as error:
            raise EvaluatorError(
                f"the executor takes no more calls ({error}); ProcessLanes survives the death of a worker"
            ) from error
        deadline = float("inf") if self._lease is None else time.monotonic() + self._lease
        self._flying[trial.id] = _Flight(trial, attempt, future, deadline)
        news = self._news
        future.add_done_callback(lambda done: news.put((trial.id, attempt, done)))

    def _arrivals(self, patience: float) -> list[Outcome]:
        """Return the outcomes that are there, after waiting for news for a while at most."""
        now = time.monotonic()
        first = min((flight.deadline for flight in self._flying.values()), default=now)
        outcomes: list[Outcome | None] = []
        try:
            news = self._news.get(timeout=max(0.0, min(patience, first - now)))
            outcomes.append(self._read(*news))
            while True:
                outcomes.append(self._read(*self._news.get_nowait()))
        except queue.Empty:
            pass
        late = [one for one in self._flying.values() if one.deadline <= time.monotonic()]
        outcomes += [self._lost(one, f"no answer within {self._lease:g} s") for one in late]
        return [outcome for outcome in outcomes if outcome is not None]

    def _read(self, trial_id: int, attempt: int, future: Any) -> Outcome | None:
        """Take what a worker has answered, or what became of it."""
        flight = self._flying.get(trial_id)
        if flight is None:
            return None  # another attempt was faster, or it was taken back
        try:
            outcome: Outcome = future.result()
        except BaseException as error:  # Ctrl-C in a worker too ends the run, but not before
            return self._failed(flight, attempt, error)
        del self._flying[trial_id]
        if flight.future is not future:
            flight.future.cancel()
        return outcome

    def _failed(self, flight: _Flight, attempt: int, error: BaseException) -> Outcome | None:
        if flight.attempt != attempt:
            return None  # it was handed out again meanwhile
        if is_lost(error):
            return self._lost(flight, f"its worker is lost ({type(error).__name__}: {error})")
        del self._flying[flight.trial.id]
        self._error = self._error or error
        return None

    def _lost(self, flight: _Flight, why: str) -> Outcome | None:
        """Hand a trial out again, or return that it is given up."""
        flight.future.cancel()
        config = dict(flight.trial.config)
        known = config in self._given_up
        if flight.attempt < self._attempts and not known:
            try:
                self._hand_out(flight.trial, flight.attempt + 1)
            except EvaluatorError as error:
                del self._flying[flight.trial.id]
                self._error = self._error or error
            return None
        del self._flying[flight.trial.id]
        message = f"handed out {flight.attempt} times: {why}"
        if known:
            return Outcome.failure(flight.trial.id, "runtime", message)
        self._given_up.append(config)
        return Outcome(flight.trial.id, Status.ABANDONED, message=message)

    def _raise_kept(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error
