"""Proposals in store: computed in the background, so that a free worker need not wait for the model.

A *fill* computes proposals from the state of the run at one moment, without the lock of the optimizer. The results that
arrive meanwhile are recorded at once; the next fill knows them. Proposals in store are not in the journal. They enter
it when they are suggested, after a check that the same configuration was neither observed nor suggested meanwhile. The
optimizer may therefore end at any moment without losing or blocking a configuration.

Several optimizers that share one journal use the same way: each computes its proposals without the journal's lock, from
the events that it knows, and its own random stream.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from baco_like._random import Purpose
from baco_like._threads import thread_limit
from baco_like._typing import Array, Codes
from baco_like.exceptions import SpaceExhausted
from baco_like.journal import JsonlJournal
from baco_like.optimizer.arguments import Sharing
from baco_like.optimizer.state import Draft, JournaledState, OptimizerState
from baco_like.optimizer.suggesting import (
    ask_strategy,
    build_suggestion,
    draw_uniform,
    step_from_best,
)
from baco_like.records import Status, Trial
from baco_like.records.leases import read_clocks
from baco_like.records.sources import next_proposals

_ATTEMPTS = 3
"""Number of fills whose proposals other writers take away before the fallback is used."""

FALLBACK = "fallback"
"""The phase in the tag of a trial that was drawn without a model, because no proposal was in store."""


@dataclass(frozen=True, eq=False)
class Stored:
    """A proposal in store.

    Attributes:
        trial: The proposal, without its final number.
        code: Its row of codes, (w,).
        basis: ``known``, the number of events of the journal that the strategy knew, and ``ahead``, the number of
            proposals in store that it knew; the journal keeps them with the trial.
    """

    trial: Trial
    code: Array
    basis: Mapping[str, int] = field(default_factory=dict)


MakeDraft = Callable[[OptimizerState], Draft]
"""Makes an event from the present state."""


def propose(
    state: OptimizerState, codes: Codes, n: int, threads: int, stream: int | None
) -> list[Stored]:
    """Return at most n proposals of the strategy.

    Args:
        state: The state of the run.
        codes: The proposals in store that are not in the state, (m, w).
        n: Number of proposals.
        threads: Largest number of threads of the numerical libraries.
        stream: The random stream, see `Sharing`.
    """
    space, history = state.problem.space, state.history
    basis = {"known": state.mark.number, "ahead": len(codes)}
    assumed = replace(state, history=history.assume_pending(codes))
    with thread_limit(threads, wait=True):
        trials = ask_strategy(assumed, n, stream)
        rows = space.encode([trial.config for trial in trials])
    return [Stored(trial, row, basis) for trial, row in zip(trials, rows, strict=True)]


class Proposes(Protocol):
    """A process that computes proposals from the journal of a run, see `propose`."""

    def propose(
        self, path: Path, codes: Codes, n: int, threads: int, stream: int | None
    ) -> list[Stored] | None:
        """Return at most n proposals; None if this process has to compute them."""


class _Outdated(Exception):
    """Other writers have taken all stored proposals."""


class ProposalStore:
    """Keeps proposals in store.

    Args:
        run: The state of the run.
        sharing: Number of proposals to keep, patience, and lease and worker of the trials.
        threads: Largest number of threads of the numerical libraries during a fill.
        process: Computes the proposals of a run with a journal file; None: this process.
    """

    def __init__(
        self,
        run: JournaledState,
        sharing: Sharing,
        threads: int,
        process: Proposes | None = None,
    ) -> None:
        self._run, self.size, self.patience = run, sharing.ahead, sharing.patience
        self._sharing, self._threads, self._process = sharing, threads, process
        self._stored: list[Stored] = []
        self._start_process()

    def _start_process(self) -> None:
        self._owner, self._changed = os.getpid(), threading.Condition()
        self._filler: threading.Thread | None = None
        self._error: BaseException | None = None
        self._demand, self._is_exhausted = 0, False

    def __len__(self) -> int:
        return len(self._stored)

    def suggest(self, n: int, commit: Callable[[MakeDraft], Draft]) -> list[int]:
        """Record the next n trials and return their numbers; fewer if the space has no more.

        Args:
            n: Number of trials.
            commit: Records an event.

        Raises:
            SpaceExhausted: No trial is left.
            Exception: An error of the strategy in the background.
        """
        if self._owner != os.getpid():  # a forked child has no filling thread
            self._start_process()
        ids: list[int] = []
        attempts = 0
        while len(ids) < n:
            missing = n - len(ids)
            is_hasty = not self._prepare(missing) or attempts >= _ATTEMPTS
            taken: list[Stored] = []
            make = self._make_draft(missing, is_hasty, taken)
            try:
                ids += commit(make).ids
            except _Outdated:
                attempts += 1
                continue
            except SpaceExhausted:
                if ids:
                    break
                raise
            finally:
                self._remove(taken)
        if self.size:
            self.refill()
        return ids

    def refill(self) -> None:
        """Start the thread that fills the store, if proposals are missing and it does not run."""
        with self._changed:
            if self._filler is None and len(self._stored) < max(self.size, self._demand):
                self._is_exhausted = False
                # Not a daemon: an interpreter that ends within a numerical library may crash.
                self._filler = threading.Thread(
                    target=self._fill_in_background, name="baco-like-ahead"
                )
                self._filler.start()

    def fill(self, size: int) -> None:
        """Add the proposals that are missing to a size."""
        self.add(*self.compute(size))

    def compute(self, size: int) -> tuple[list[Stored], bool]:
        """Return the proposals that are missing to a size, all from the present state, and whether no more exist."""
        # A callback that suggests holds the lock and waits for this thread: then the newest events of other processes
        # are left for the next fill.
        if self._run.lock.acquire(blocking=False):
            try:
                self._run.replay_new_events()
            finally:
                self._run.lock.release()
        state = self._run.state
        with self._changed:
            stored = list(self._stored)
        if len(stored) >= size:
            return [], False
        codes = np.array([each.code for each in stored]).reshape(-1, state.problem.space.width)
        request = codes, size - len(stored), self._threads, self._sharing.stream
        new, journal = None, self._run.journal
        if self._process is not None and isinstance(journal, JsonlJournal):
            new = self._process.propose(journal.path, *request)
        if new is None:
            new = propose(state, *request)
        return new, len(stored) + len(new) < size

    def add(self, proposals: Sequence[Stored], is_exhausted: bool = False) -> None:
        """Put proposals into the store."""
        with self._changed:
            self._is_exhausted = is_exhausted
            self._stored += proposals
            self._changed.notify_all()

    def _fill_in_background(self) -> None:
        try:
            while True:
                with self._changed:
                    size = max(self.size, self._demand)
                    is_full = self._is_exhausted or len(self._stored) >= size
                    if is_full or not threading.main_thread().is_alive():
                        self._filler = None
                        self._changed.notify_all()
                        return
                self.fill(size)
        except BaseException as error:  # the next call of `suggest` raises it
            with self._changed:
                self._error, self._filler = error, None
                self._changed.notify_all()

    def _prepare(self, n: int) -> bool:
        """Wait until n proposals are in store, or no more exist; return False if the patience has ended before.

        Enqueued configurations, those of other sources and expired trials do not come from the store.
        """
        if len(self._stored) >= n:
            return True
        history = self._run.state.history
        n -= len(history.queue)
        n -= len(next_proposals(history, list(history.open_proposals), n))
        if self._sharing.lease is not None:
            n -= len(history.find_expired(read_clocks()))
        if n <= 0:
            return True
        if not self.size:
            self.fill(n)
            return True
        deadline = None if self.patience is None else time.monotonic() + self.patience
        with self._changed:
            self._demand += n
            self._is_exhausted = False
            try:
                while len(self._stored) < n and not self._is_exhausted:
                    self._raise_error()
                    self.refill()
                    left = None if deadline is None else deadline - time.monotonic()
                    if (left is not None and left <= 0) or not self._changed.wait(left):
                        return len(self._stored) >= n
                return True
            finally:
                self._demand -= n

    def _raise_error(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _make_draft(self, n: int, is_hasty: bool, taken: list[Stored]) -> MakeDraft:
        """Return the function that makes the event of n trials.

        Args:
            n: Number of trials.
            is_hasty: Whether the fallback replaces missing proposals.
            taken: Receives the proposals that leave the store with the event.
        """
        bases: dict[int, Mapping[str, int]] = {}

        def ask(state: OptimizerState, missing: int) -> Sequence[Trial]:
            """Return trials from the store, and note the basis of each."""
            with self._changed:
                stored = list(self._stored)
            taken[:], chosen = _choose(state, stored, missing)
            if is_hasty:
                chosen += _draw_fallback(state, chosen, missing - len(chosen), self._sharing.stream)
            elif not chosen and not self._is_exhausted:
                raise _Outdated
            number = state.history.next_id
            bases.clear()
            bases.update({number + i: each.basis for i, each in enumerate(chosen)})
            return [replace(each.trial, id=number + i) for i, each in enumerate(chosen)]

        def make(state: OptimizerState) -> Draft:
            """Return the event, with the basis of each trial from the store."""
            draft = build_suggestion(state, n, read_clocks(), self._sharing, ask)
            rows = [{**row, **bases.get(row["id"], {})} for row in draft.event["trials"]]
            return draft._replace(event={**draft.event, "trials": rows})

        return make

    def _remove(self, taken: Sequence[Stored]) -> None:
        with self._changed:
            for each in taken:
                with suppress(ValueError):  # another thread has taken it, too
                    self._stored.remove(each)


def _choose(
    state: OptimizerState, stored: Sequence[Stored], n: int
) -> tuple[list[Stored], list[Stored]]:
    """Return the proposals that leave the store, and those of them, at most n, that may still be suggested."""
    taken: list[Stored] = []
    chosen: list[Stored] = []
    while part := stored[len(taken) : len(taken) + n - len(chosen)]:  # most of a large store stays
        codes = np.array([each.code for each in part])
        excluded = state.problem.is_excluded(state.history, codes)
        taken += part
        chosen += [each for each, is_gone in zip(part, excluded, strict=True) if not is_gone]
    return taken, chosen


def _draw_fallback(
    state: OptimizerState, chosen: Sequence[Stored], n: int, stream: int | None
) -> list[Stored]:
    """Return n proposals without a model; fewer if the space has no more.

    Half of them differ by one or two random steps from one of the best configurations, the others are uniform draws.
    """
    space, history = state.problem.space, state.history
    codes = np.array([each.code for each in chosen]).reshape(-1, space.width)
    rng = state.generator(Purpose.FALLBACK, history.next_id + len(chosen), stream)
    ok = np.flatnonzero(history.where(Status.OK))
    near = (n + int(rng.integers(2))) // 2 if len(ok) else 0
    for number, source in ((near, step_from_best), (n, draw_uniform)):
        missing = min(number, n + len(chosen) - len(codes))
        assumed = history.assume_pending(codes)
        if missing > 0:
            codes = np.concatenate([codes, source(state.problem, assumed, missing, rng)])
    rows = codes[len(chosen) :]
    return [
        Stored(Trial(0, config, {"phase": FALLBACK}, "fill"), row)
        for config, row in zip(space.decode(rows), rows, strict=True)
    ]
