"""What a worker does: it makes an evaluator once, and hands it one trial after the other."""

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
_made: dict[tuple[int, str, int], Evaluator] = {}
"""By process, by who asked, by thread: an evaluator is for one thread, and does not survive a fork."""


def evaluate(token: str, make: Callable[[], Evaluator], trial: Trial) -> Outcome:
    """Evaluate a trial with this thread's own evaluator, made at its first call.

    Args:
        token: Of whom asks: another has another evaluator.
        make: Makes the evaluator.
        trial: What is evaluated.
    """
    evaluator = _mine(token, make)
    evaluator.submit(trial)
    (outcome,) = evaluator.wait()
    return outcome


def release(token: str) -> None:
    """Close the evaluators that this process has made for somebody."""
    with _lock:
        keys = [key for key in _made if key[:2] == (os.getpid(), token)]
        evaluators = [_made.pop(key) for key in keys]
    for evaluator in evaluators:
        evaluator.close()


def _mine(token: str, make: Callable[[], Evaluator]) -> Evaluator:
    key = (os.getpid(), token, threading.get_ident())
    evaluator = _made.get(key)
    if evaluator is None:
        evaluator = make()
        with _lock:
            if not any(pid == os.getpid() for pid, _, _ in _made):
                _close_at_exit()
            _made[key] = evaluator
    return evaluator


def _close_at_exit() -> None:
    """Close everything when this process ends, also a child of `multiprocessing`, which knows no ``atexit``."""
    if multiprocessing.parent_process() is None:
        atexit.register(_close_all)
    else:
        multiprocessing.util.Finalize(None, _close_all, exitpriority=1)


def _close_all() -> None:
    for token in {token for pid, token, _ in list(_made) if pid == os.getpid()}:
        with contextlib.suppress(Exception):
            release(token)
