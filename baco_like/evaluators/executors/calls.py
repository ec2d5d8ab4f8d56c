"""The worker's side of an `ExecutorEvaluator`: make an evaluator once, and evaluate one trial after another."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing.util
import os
import threading
from collections.abc import Callable

from baco_like.evaluators.protocol import Evaluator
from baco_like.records.trial import Outcome, Trial

_lock = threading.Lock()
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
