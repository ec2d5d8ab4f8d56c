"""The methods of the optimizer for workers: their trials, signs of life, and late results."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from baco_like._output import warn_caller
from baco_like.exceptions import BacoError, BacoWarning
from baco_like.journal.events import renewed_event, suggested_event
from baco_like.optimizer.ahead import ProposalStore
from baco_like.optimizer.arguments import Sharing
from baco_like.optimizer.observing import build_late_results
from baco_like.optimizer.setup import resolve_task
from baco_like.optimizer.state import Draft, JournaledState, OptimizerState
from baco_like.optimizer.suggesting import is_of_task
from baco_like.optimizer.view import RunView
from baco_like.records import Trial
from baco_like.records.leases import Lease, Moment

_BEATS = 3
"""Signs of life within one lease: two may fail before the lease ends."""


class _NothingPending(Exception):
    """No trial of a call is pending, so there is no event to write."""


class Leasing(RunView):
    """Extends leases, and records results that come after them."""

    _run: JournaledState
    _sharing: Sharing
    _store: ProposalStore | None
    _reported_skew = 0.0

    @property
    def worker(self) -> str | None:
        """Name of this optimizer among several that share a run, or None."""
        return self._sharing.worker

    @property
    def in_store(self) -> int | None:
        """Number of proposals in store, or None without ``ahead``."""
        return len(self._store) if self._store is not None and self._store.size else None

    def size_of_next(self, n: int) -> int:
        """Return the number of trials to suggest now for n free workers, so that none waits for proposals of others.

        Proposals in store come first. If the store is empty: n if ``patience`` limits the wait of `suggest`, else 1.
        """
        if self._store is None or not self._store.size:
            return n
        return min(n, len(self._store)) or (1 if self._store.patience is None else n)

    @property
    def own_pending(self) -> list[Trial]:
        """Pending trials of its task that a run evaluates first: those with its `worker` name, all if it has none.

        Those that no process evaluates are among them, if this process is alone.
        """
        worker, lost = self.worker, self._run.lost
        task = resolve_task(self._sharing.task, self.space)
        own = [t for t in self.pending if worker in (None, t.worker) or t.id in lost]
        return [trial for trial in own if self._is_of_task(trial, task)]

    def _is_of_task(self, trial: Trial | None, task: int | None) -> bool:
        return trial is not None and (task is None or is_of_task(self.history, trial.config, task))

    @property
    def lease(self) -> float | None:
        """Seconds after which a trial without a result or a sign of life is suggested again, or None."""
        return self._sharing.lease

    def renew(self, trials: Trial | Iterable[Trial]) -> list[Trial]:
        """Extend the leases of pending trials: from now on they last the full time of ``lease`` again.

        Call it while an evaluation takes long, or use `heartbeat`.

        Returns:
            The trials that are still pending, with their new leases. Another worker has finished the others, or they
            were abandoned; their results may be reported all the same.

        Raises:
            ValueError: The optimizer has no ``lease``.
            JournalError: The leases could not be recorded; they are unchanged.
        """
        ids = [t.id for t in ([trials] if isinstance(trials, Trial) else trials)]
        seconds = self._require_lease()

        def draft(state: OptimizerState) -> Draft:
            pending = [i for i in ids if state.history.is_pending(i)]
            if not pending:
                raise _NothingPending
            return Draft(renewed_event(pending, Lease(seconds, self._now())))

        with contextlib.suppress(_NothingPending):
            return self._find_trials(self._commit(draft, announce=False).event["ids"])
        return []

    def take_part(self) -> None:
        """Look for pending trials that no process evaluates; `own_pending` has them after it. For a `sole_runner`.

        Raises:
            JournalError: The journal cannot be read.
        """
        with self._run.taking_part():
            pass

    def reclaim(self, trials: Iterable[Trial]) -> list[Trial]:
        """Begin pending trials of a worker that has ended again, with a new lease if the optimizer has leases.

        Returns:
            The trials that no other worker has finished or begun meanwhile.

        Raises:
            JournalError: It could not be recorded; the run is unchanged.
        """
        wanted = {trial.id: (trial.worker, trial.started) for trial in trials}

        def draft(state: OptimizerState) -> Draft:
            known = state.history.pending
            begun = {i: (known[i].worker, known[i].started) for i in wanted if i in known}
            again = [i for i in begun if begun[i] == wanted[i]]
            if not again:
                raise _NothingPending
            lease = self._sharing.start_lease(self._now())
            return Draft(suggested_event([], 0, again, lease, self.worker))

        with contextlib.suppress(_NothingPending), self._run.taking_part():
            return self._find_trials(self._commit(draft, announce=False).ids)
        return []

    def _find_trials(self, ids: Iterable[int]) -> list[Trial]:
        found = (self.history.find(i) for i in ids)
        return [trial for trial in found if trial is not None]

    @contextmanager
    def heartbeat(self, trials: Trial | Callable[[], Iterable[Trial]]) -> Iterator[None]:
        """Extend the lease of a trial from another thread, three times per lease, while the block runs.

        So a lease may be shorter than an evaluation. When this process dies, the leases end.

        Args:
            trials: The trial, or a function that returns the trials that are being evaluated.

        Raises:
            ValueError: The optimizer has no ``lease``.
        """
        interval, ended = self._require_lease() / _BEATS, threading.Event()

        def renew() -> None:
            while not ended.wait(interval):
                # A full disk may have space again at the next sign of life.
                with contextlib.suppress(BacoError, OSError):
                    self.renew(trials() if callable(trials) else trials)

        thread = threading.Thread(target=renew, name="heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def complete_late(self, results: Sequence[Trial]) -> None:
        """Record results of trials that need not be pending any more, so that no measurement is lost.

        The result of a pending trial completes it, as in `complete`. Any other result becomes a further measurement of
        its configuration: a trial with a new number and the origin ``late``; ``extra["late"]`` is the number of the
        trial that it belongs to.

        Args:
            results: Trials with outcomes, as `Trial.with_outcome` makes them.

        Raises:
            TrialError: A trial has no outcome, or a metric is missing that a limit reads; the run is unchanged.
            ConfigError: A configuration does not belong to the space.
            JournalError: The results could not be recorded; the run is unchanged.
        """
        self._commit(lambda state: build_late_results(state, results))

    def _require_lease(self) -> float:
        lease = self.lease
        if lease is None:
            raise ValueError(
                "this optimizer has no leases; write Optimizer(..., sharing=Sharing(lease=seconds))"
            )
        return lease

    def _report_skew(self) -> None:
        """Warn if a lease shows that wall clocks disagree; again only if it is more than twice as much."""
        if self.lease is None:
            return
        leases = {id(t.lease): t.lease for t in self.pending if t.lease is not None}
        if not leases:
            return
        now = self._now()
        skew, text = max(lease.describe_skew(now) for lease in leases.values())
        if skew > 2 * self._reported_skew:
            self._reported_skew = skew
            warn_caller(f"{text}; synchronise the clocks (NTP)", BacoWarning)

    def _now(self) -> Moment:
        raise NotImplementedError

    def _commit(self, make: Callable[[OptimizerState], Draft], *, announce: bool = True) -> Draft:
        raise NotImplementedError
