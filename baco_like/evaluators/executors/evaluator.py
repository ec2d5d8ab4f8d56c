"""An evaluator whose trials are evaluated by the workers of an executor."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing.util
import os
import queue
import secrets
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from baco_like._checks import whole_number
from baco_like._forks import renew_lock_in_child
from baco_like.evaluators.executors.base import (
    FuturesEvaluator,
    SubmitsCalls,
    WorkerCount,
    answer,
    call_in_worker,
    check_outcome,
    is_lost_worker,
    lost_worker,
    submit_call,
    without_tag,
)
from baco_like.evaluators.executors.executors import adapt_executor
from baco_like.evaluators.protocol import Evaluator
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import Outcome, Status, Trial

_GATHER = 0.05
"""Seconds after an outcome in which more outcomes are gathered, if workers have other trials meanwhile. One event and
one wait for the disk serve all of them."""

_LONGEST_LOSING = 10.0
"""Seconds in which a cluster may lose calls before it counts as gone; Ray notices a dead node after some seconds."""

_PAUSE = 0.5
"""Seconds between two calls that do nothing."""


@dataclass
class _Attempt:
    """A trial that a worker evaluates, for the ``number``-th time, or the call that returns the outcome ``last``."""

    trial: Trial
    number: int
    future: Any
    deadline: float
    last: Outcome | None = None

    def cancel(self) -> bool:
        return bool(self.future.cancel())


class ExecutorEvaluator(FuturesEvaluator):
    """Evaluates trials with the workers of an executor; each worker has its own evaluator.

    Each trial is sent separately, and returns when it is done. A trial whose worker is lost, or whose lease ends, is
    sent again, and the first answer counts. After ``attempts`` losses the trial is given up: its outcome has the status
    ``ABANDONED``, and its configuration may be suggested again. If such a configuration is lost once more it is a
    failure (``runtime``), so that a configuration that ends its workers is not tried forever. Answers that come after
    that, or after another answer, are kept for `take_late`. A trial of a lost worker is given up only if another call,
    which does nothing, has an answer; otherwise `wait` raises an error, and the trial stays pending.

    Workers may come and go: the number of pending trials follows the number of workers, unless ``capacity`` is given.

    Args:
        make: Makes a worker's evaluator; called in the worker, once per thread. It is sent there, so for processes
            and other machines it must be a function of a module, or a `functools.partial` of one.
        executor: An executor of `concurrent.futures`, Dask (``client.get_executor()``) or mpi4py
            (``MPIPoolExecutor``), a `ProcessLanes` or a `RayExecutor`. It is not shut down.
        capacity: Largest number of pending trials; by default the number of workers, plus ``waiting``.
        lease: Seconds until a trial counts as lost, longer than any evaluation with the wait for a worker. None: it is
            lost only if the executor reports it.
        attempts: Largest number of times that a trial is sent.
        waiting: Number of trials that wait beside those that are evaluated, so that a worker that is done need not wait
            for the next suggestion. Suggestions then know fewer results.
    """

    def __init__(
        self,
        make: Callable[[], Evaluator],
        executor: SubmitsCalls,
        *,
        capacity: int | None = None,
        lease: float | None = None,
        attempts: int = 3,
        waiting: int = 0,
    ) -> None:
        if lease is not None and not lease > 0:
            raise EvaluatorError(f"lease = {lease}: expected seconds above 0, or None")
        waiting = whole_number("waiting", waiting, 0, EvaluatorError)
        if capacity is not None:
            capacity = whole_number("capacity", capacity, 1, EvaluatorError)
            if waiting:
                raise EvaluatorError(
                    f"capacity = {capacity} and waiting = {waiting}: give only one of them"
                )
        super().__init__(WorkerCount(executor, waiting, capacity))
        self._make, self._executor, self._waiting = make, adapt_executor(executor), waiting
        self._lease = lease
        self._max_attempts = whole_number("attempts", attempts, 1, EvaluatorError)
        self._token = secrets.token_hex(8)
        # Finished calls: trial number, attempt, future. The executor's threads only put; all else is done by the
        # thread that calls `wait`, so that no other attribute needs a lock.
        self._finished: queue.SimpleQueue[tuple[int, int, Any]] = queue.SimpleQueue()
        self._given_up: list[dict[str, Any]] = []
        self._losing_since: float | None = None
        self._sent_again: dict[int, Trial] = {}  # more than one answer may come
        self._late: list[Trial] = []

    def submit(self, trial: Trial) -> None:
        """Send a trial to a worker.

        Raises:
            EvaluatorError: The executor accepts no more calls.
            BaseException: An exception of an earlier trial; this trial is not started then.
        """
        self._raise_pending_error()
        self._send(without_tag(trial), 1)

    @override
    def close(self) -> None:
        """Cancel trials that have not started, and close the evaluators of this process; the executor stays open."""
        super().close()
        # Running calls still put their results into the former queue.
        self._finished = queue.SimpleQueue()
        self._sent_again.clear()
        self._late.clear()
        release(self._token)

    def take_late(self) -> list[Trial]:
        """Return trials with outcomes that came after the trial was given up or another answer had come, once."""
        late, self._late = self._late, []
        return late

    def _send(self, trial: Trial, number: int, last: Outcome | None = None) -> None:
        call: tuple[Any, ...] = (answer, last)
        if last is None:
            of_worker = (evaluate, self._token, self._make, trial)
            call = (call_in_worker, os.getpid(), self._token, *of_worker)
        try:
            future = submit_call(self._executor, *call)
        except (BrokenExecutor, RuntimeError) as error:
            raise EvaluatorError(
                f"the executor accepts no more calls ({error}); ProcessLanes survives the death of a worker"
            ) from error
        deadline = float("inf") if self._lease is None else time.monotonic() + self._lease
        self._pending[trial.id] = _Attempt(trial, number, future, deadline, last)
        finished = self._finished
        future.add_done_callback(lambda done: finished.put((trial.id, number, done)))

    @override
    def _receive(self, timeout: float) -> list[Outcome]:
        """Return the available outcomes, after waiting at most ``timeout`` seconds for the first."""
        now = time.monotonic()
        next_deadline = min((each.deadline for each in self._pending.values()), default=now)
        outcomes: list[Outcome | None] = []
        try:
            finished = self._finished.get(timeout=max(0.0, min(timeout, next_deadline - now)))
            outcomes.append(self._read(*finished))
            until = time.monotonic() + min(timeout, _GATHER)
            while True:
                has_spare = len(outcomes) < self._waiting // 2
                left = until - time.monotonic() if has_spare else 0.0
                outcomes.append(self._read(*self._finished.get(timeout=max(0.0, left))))
        except queue.Empty:
            pass
        expired = [each for each in self._pending.values() if each.deadline <= time.monotonic()]
        outcomes += [self._handle_end_of_lease(each) for each in expired]
        return [outcome for outcome in outcomes if outcome is not None]

    def _read(self, trial_id: int, number: int, future: Any) -> Outcome | None:
        """Return the outcome of a finished call, or None if the trial has none (yet).

        Args:
            trial_id: Number of the trial.
            number: Number of the attempt.
            future: The finished future of this attempt.
        """
        attempt = self._pending.get(trial_id)
        if attempt is None:  # another attempt was faster, or the trial was given up or cancelled
            self._keep_late(trial_id, future)
            return None
        try:
            outcome = check_outcome(trial_id, future.result())
        except BaseException as error:  # also a KeyboardInterrupt in a worker
            if attempt.number != number:
                return None  # the trial was sent again meanwhile
            if is_lost_worker(error):
                reason = f"its worker is lost ({type(error).__name__}: {error})"
                return self._handle_loss(attempt, reason, error)
            del self._pending[trial_id]
            self._error = self._error or error
            return None
        del self._pending[trial_id]
        self._losing_since = None
        if attempt.number == number and attempt.last is not None:
            self._given_up.append(dict(attempt.trial.config))
        if attempt.future is not future:
            attempt.cancel()  # a late answer of an earlier attempt counts, too
        return outcome

    def _keep_late(self, trial_id: int, future: Any) -> None:
        """Keep the answer of a call whose trial is not pending any more, unless it is an error."""
        trial = self._sent_again.get(trial_id)
        if trial is None or future.cancelled() or future.exception() is not None:
            return
        self._late.append(trial.with_outcome(check_outcome(trial_id, future.result())))

    def _handle_end_of_lease(self, attempt: _Attempt) -> Outcome | None:
        assert self._lease is not None
        # On a cluster, `cancel` would also drop the result of a call that is running, which may still come.
        if not getattr(self._executor, "cancels_running", False):
            attempt.cancel()
        if attempt.last is not None:
            return self._give_up(attempt.trial, attempt.last)
        return self._handle_loss(attempt, f"no answer within {self._lease:g} s")

    def _handle_loss(
        self, attempt: _Attempt, reason: str, lost: BaseException | None = None
    ) -> Outcome | None:
        """Send a trial again, or return the outcome of a trial that is given up.

        Args:
            attempt: The attempt.
            reason: For the message of the outcome.
            lost: The error by which the executor reports the loss; None at the end of a lease.
        """
        trial, last = attempt.trial, attempt.last
        self._sent_again[trial.id] = trial
        was_given_up = dict(trial.config) in self._given_up
        if last is not None:
            now = time.monotonic()
            self._losing_since = self._losing_since or now
            if lost is not None and now - self._losing_since >= _LONGEST_LOSING:
                del self._pending[trial.id]
                self._error = self._error or lost_worker(lost)
                return None
            time.sleep(_PAUSE)
        elif attempt.number == self._max_attempts or was_given_up:
            message = f"handed out {attempt.number} times: {reason}"
            last = Outcome(trial.id, Status.ABANDONED, message=message)
            if was_given_up:
                last = Outcome.failure(trial.id, "runtime", message)
            if lost is None:
                return self._give_up(trial, last)
        try:
            self._send(trial, attempt.number + 1, last)
        except Exception as error:  # raised later, so that other outcomes are returned first
            del self._pending[trial.id]
            self._error = self._error or error
        return None

    def _give_up(self, trial: Trial, outcome: Outcome) -> Outcome:
        del self._pending[trial.id]
        self._given_up.append(dict(trial.config))
        return outcome


# The worker's side: it makes an evaluator once, and evaluates one trial after another.

_lock = threading.RLock()
renew_lock_in_child(sys.modules[__name__], "_lock")

_evaluators: dict[tuple[int, str, int], Evaluator] = {}
"""By process, owner and thread. An evaluator is used by one thread. After a fork the child inherits the entries of its
parent; the process number keeps it from using evaluators whose threads and pipes belong to the parent."""


def evaluate(token: str, make: Callable[[], Evaluator], trial: Trial) -> Outcome:
    """Evaluate a trial with this thread's evaluator, which the first call makes.

    Args:
        token: Identifies the owner, an `ExecutorEvaluator`; each owner has its own evaluators.
        make: Makes the evaluator.
        trial: The trial.
    """
    key = (os.getpid(), token, threading.get_ident())
    if key not in _evaluators:
        made = make()
        with _lock:
            if not any(pid == os.getpid() for pid, _, _ in _evaluators):
                _close_at_exit()
            _evaluators[key] = made
    evaluator = _evaluators[key]
    evaluator.submit(trial)
    (outcome,) = evaluator.wait()
    return outcome


def release(token: str) -> None:
    """Close the evaluators that this process has made for an owner."""
    with _lock:
        keys = [key for key in _evaluators if key[:2] == (os.getpid(), token)]
        evaluators = [_evaluators.pop(key) for key in keys]
    for evaluator in evaluators:
        evaluator.close()


def _close_at_exit() -> None:
    """Close everything when this process ends; children of `multiprocessing` do not call ``atexit`` functions."""
    if multiprocessing.parent_process() is None:
        atexit.register(_close_all)
    else:
        multiprocessing.util.Finalize(None, _close_all, exitpriority=1)


def _close_all() -> None:
    for token in {token for pid, token, _ in list(_evaluators) if pid == os.getpid()}:
        with contextlib.suppress(Exception):
            release(token)
