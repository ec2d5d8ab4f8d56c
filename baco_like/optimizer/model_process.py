"""A process that computes proposals, so that a server keeps its own interpreter for the requests.

It follows the journals of the runs as a reader, and keeps nothing that is not in them. When it has ended, such as
for want of memory, a thread of the server computes until it is started again. It ends with the server.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from concurrent.futures import CancelledError, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from baco_like._forks import end_with_parent
from baco_like._typing import Codes
from baco_like.exceptions import JournalError
from baco_like.journal import JsonlJournal
from baco_like.journal.events import START
from baco_like.optimizer.ahead import Stored, propose
from baco_like.optimizer.arguments import read_header, read_space, restore_strategy
from baco_like.optimizer.state import OptimizerState, apply_events, initial_state

_KEPT = 8
"""Number of runs whose state the process keeps; it reads the journals of others again."""

_PAUSE = 10.0
"""Seconds after the end of the process before it is started again."""


class ModelProcess:
    """Computes proposals for the runs of this process, for one after the other."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._starting, self._restart = threading.Lock(), 0.0

    def propose(
        self, path: Path, codes: Codes, n: int, threads: int, stream: int | None
    ) -> list[Stored] | None:
        """Return what `baco_like.optimizer.ahead.propose` returns for the run of a journal.

        Returns:
            None if the process has ended, or cannot be started.

        Raises:
            Exception: An error of the strategy.
        """
        pool = None
        try:
            with self._starting:
                if self._pool is None and time.monotonic() >= self._restart:
                    # A fork would copy the locks of other threads.
                    self._pool = ProcessPoolExecutor(1, get_context("spawn"), end_with_parent)
                pool = self._pool
            if pool is not None:
                return pool.submit(_propose, path, codes, n, threads, stream).result()
        except (BrokenProcessPool, CancelledError, OSError):  # OSError: it cannot be started here
            with self._starting:
                self._restart = time.monotonic() + _PAUSE
                if self._pool is pool:
                    self._pool = None
        return None

    def close(self) -> None:
        """End the process."""
        with self._starting:
            if self._pool is not None:
                self._pool.shutdown(wait=False, cancel_futures=True)


_states: OrderedDict[Path, OptimizerState] = OrderedDict()
"""The states of the runs, the latest one last."""


def _propose(path: Path, codes: Codes, n: int, threads: int, stream: int | None) -> list[Stored]:
    known = _states.pop(path, None)
    try:
        state = _begin(path) if known is None else _follow(known, path)
    except JournalError:  # the disk has refused events, which were withdrawn
        state = _begin(path)
    _states[path] = state
    if len(_states) > _KEPT:
        _states.popitem(last=False)
    # A proposal in store may have been suggested meanwhile.
    is_new = ~state.problem.is_excluded(state.history, codes) if len(codes) else slice(None)
    return propose(state, codes[is_new], n, threads, stream)


def _begin(path: Path) -> OptimizerState:
    journal, name = JsonlJournal(path), str(path)
    header = read_header(journal)
    strategy = restore_strategy(header.options.strategy, None, name)
    state = initial_state(header, read_space(header, name), strategy)
    return _follow(replace(state, mark=next(journal.peek(START))[1]), path)


def _follow(state: OptimizerState, path: Path) -> OptimizerState:
    return apply_events(state, JsonlJournal(path).peek(state.mark), str(path))[0]
