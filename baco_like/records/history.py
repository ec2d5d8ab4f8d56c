"""Everything known about a run as a frozen value: observations in order of arrival, pending trials, the queue.

Histories share one append-only buffer, so adding an observation takes the same time at the first and at the 100,000th
trial. An older history that is extended again gets its own copy of the buffer. Values are stored as *costs*, which are
always minimised: the sign is flipped when the direction is ``maximize``.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from baco_like._typing import Array, Codes, Ints, Mask
from baco_like.exceptions import TrialError
from baco_like.records.front import is_non_dominated, knee
from baco_like.records.leases import Lease, Moment
from baco_like.records.objective import Direction, Objective, sign_of
from baco_like.records.plan import ConfirmationPlan
from baco_like.records.rows import STATUSES, Buffer, PendingTrials, TrialRows, read_only, row_keys
from baco_like.records.sources import OpenProposal
from baco_like.records.trial import (
    LATE,
    Candidate,
    Observation,
    Outcome,
    Status,
    Trial,
    read_metric,
)
from baco_like.spaces.space import Space

T = TypeVar("T")

Noise = Literal["none", "repeat"]
"""Whether an observed configuration may be suggested again (``repeat``) or not (``none``)."""


_MOST_BUILT = 1000
"""Most built configurations whose metrics are kept for a choice."""


@dataclass(frozen=True)
class History:
    """The observations and pending trials of a run. Build one with `start`; every method returns a new history.

    Attributes:
        space: The space of the run.
        direction: ``minimize`` or ``maximize``.
        next_id: Id of the next trial; ids are never used twice.
        warm: Number of observations that came from a warm start; they are the first ones.
        plan: The plan of the latest confirmation, or None.
        objectives: All objectives if there are several, else empty; the direction and `costs` are those of the first.
    """

    space: Space
    direction: Direction
    next_id: int = 0
    warm: int = 0
    plan: ConfirmationPlan | None = None
    objectives: tuple[Objective, ...] = ()
    _length: int = 0
    _buffer: Buffer = field(default_factory=lambda: Buffer(0), repr=False)
    _pending: PendingTrials = field(default_factory=PendingTrials, repr=False)
    _view: Callable[[Any], Any] | None = field(default=None, repr=False)
    _queue: TrialRows[Mapping[str, Any]] = field(default_factory=TrialRows, repr=False)
    _enqueued: int = 0
    _proposals: TrialRows[OpenProposal] = field(default_factory=TrialRows, repr=False)
    _proposed: int = 0
    _late: TrialRows[tuple[Trial, int]] = field(default_factory=TrialRows, repr=False)
    _built: Mapping[bytes, Candidate] = field(default_factory=dict, repr=False)
    _left_out: frozenset[bytes] = frozenset()

    @classmethod
    def start(
        cls, space: Space, direction: Direction = "minimize", objectives: tuple[Objective, ...] = ()
    ) -> History:
        """Return an empty history."""
        return cls(space, direction, objectives=objectives, _buffer=Buffer(space.width))

    def _with(self, **changes: Any) -> History:
        """Return a history with other field values; takes a third of the time of `dataclasses.replace`."""
        other = object.__new__(History)
        vars(other).update(vars(self), **changes)
        return other

    # Look up ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._length

    @property
    def evaluations(self) -> int:
        """Number of trials observed in this run, without those of a warm start."""
        return self._length - self.warm

    @property
    def builds(self) -> int:
        """Number of `evaluations` without the measurements of confirmations."""
        return self.evaluations - self._count(self._buffer.confirming)

    @property
    def searched(self) -> int:
        """Number of `builds` without equal programs; a budget limits these.

        A trial does not count if an earlier trial of this run with another configuration had the same program. Controls
        count.
        """
        return self.builds - self._count(self._buffer.equal)

    def _count(self, rows: Sequence[int]) -> int:
        """Return how many of these sorted rows belong to this run."""
        return bisect_left(rows, self._length) - bisect_left(rows, self.warm)

    @property
    def searched_trials(self) -> list[Trial]:
        """The trials that `searched` counts, in order of arrival."""
        trials = self.trials[self.warm :]
        if len(trials) == self.searched:
            return trials
        return [t for t, kept in zip(trials, self.is_search[self.warm :], strict=True) if kept]

    @property
    def is_search(self) -> Mask:
        """Which observed trials `searched` counts, and those of a warm start, (n,)."""
        mask = np.ones(self._length, dtype=np.bool_)
        for rows in (self._buffer.confirming, self._buffer.equal):
            mask[rows[: bisect_left(rows, self._length)]] = False
        return mask

    @property
    def trials(self) -> list[Trial]:
        """Observed trials, in order of arrival."""
        trials: list[Trial] = [*self._buffer.trials[: self._length]]
        return trials if self._view is None else [self._view(trial) for trial in trials]

    def trials_of(self, config: Mapping[str, Any], start: int = 0) -> list[Trial]:
        """Return the observed trials of a configuration, in order of arrival, from the observation ``start`` on."""
        wanted = dict(config)
        return [trial for trial in self.trials[start:] if dict(trial.config) == wanted]

    @property
    def last(self) -> Observation | None:
        """The latest observed trial, or None."""
        if not self._length:
            return None
        trial = self._buffer.trials[self._length - 1]
        return trial if self._view is None else self._view(trial)

    @property
    def pending(self) -> Mapping[int, Trial]:
        """Pending trials by id, in order of their ids."""
        view = self._view
        return MappingProxyType(
            {i: trial if view is None else view(trial) for i, (trial, _) in self._pending.pairs()}
        )

    @property
    def queue(self) -> Collection[Mapping[str, Any]]:
        """Enqueued configurations that were not suggested yet, oldest first."""
        return self._queue.values()

    @property
    def open_proposals(self) -> Collection[OpenProposal]:
        """Configurations that sources have proposed and that no trial has had since, oldest first."""
        return self._proposals.values()

    @property
    def built(self) -> list[Candidate]:
        """Configurations that were built and are neither observed nor pending, oldest first; of equal programs one."""
        if not self._built:
            return []
        candidates = list(self._built.values())
        gone = self.is_excluded(np.array([candidate.code for candidate in candidates]))
        programs = {
            name for (name, _), row in self._buffer.first_rows.items() if row < self._length
        }
        kept = []
        for candidate, is_gone in zip(candidates, gone, strict=True):
            if not is_gone and candidate.program not in programs:
                kept.append(candidate)
                if candidate.program is not None:
                    programs.add(candidate.program)
        return kept

    def find_build(self, config: Mapping[str, Any]) -> Mapping[str, float]:
        """Return the build metrics that were reported for a configuration before its measurement."""
        if not self._built:
            return {}
        (key,) = row_keys(self.space.encode([config]))
        return self._built[key].build if key in self._built else {}

    @property
    def codes(self) -> Codes:
        """Codes of the observed trials, (n, w); NaN where an imported configuration lies outside the space."""
        return read_only(self._buffer.codes[: self._length])

    @property
    def costs(self) -> Array:
        """Costs of the observed trials, (n,); NaN unless the status is OK."""
        return read_only(self._buffer.numbers[: self._length, 0])

    @property
    def bounds(self) -> Array:
        """Lower bounds of the costs of censored trials, (n,); NaN for all others."""
        return read_only(self._buffer.numbers[: self._length, 1])

    @property
    def variances(self) -> Array:
        """Squared standard errors of the costs, (n,); NaN without repeats."""
        return read_only(self._buffer.numbers[: self._length, 2])

    @property
    def inside(self) -> Mask:
        """Whether each observed trial lies in the space, (n,); false only for imported ones."""
        return self._buffer.inside[: self._length].copy()

    @property
    def programs(self) -> Ints:
        """Programs of the observed trials, (n,): equal numbers are equal programs; -1 where the program is unknown.

        The number is the index of the first observed trial with this program.
        """
        return self._buffer.programs[: self._length].copy()

    def where(self, status: Status) -> Mask:
        """Return which observed trials inside the space have this status, (n,)."""
        has_status = np.equal(self._buffer.numbers[: self._length, 3], STATUSES.index(status))
        return np.asarray(has_status & self._buffer.inside[: self._length])

    @property
    def pending_codes(self) -> Codes:
        """Codes of the pending trials, (m, w)."""
        rows = [code for _, code in self._pending.values()]
        return np.array(rows) if rows else np.empty((0, self.space.width))

    @property
    def is_target(self) -> Mask:
        """Which observed trials count for the best configuration: those at the target fidelity, (n,)."""
        fidelity = self.space.fidelity
        if fidelity is None:
            return np.ones(self._length, dtype=np.bool_)
        return np.equal(self.codes[:, fidelity.column], fidelity.target)

    @property
    def target_trials(self) -> list[Trial]:
        """Observed trials at the target fidelity, in order of arrival."""
        if self.space.fidelity is None:
            return self.trials
        return [t for t, kept in zip(self.trials, self.is_target, strict=True) if kept]

    @property
    def is_success(self) -> Mask:
        """Which observed trials may be the best: OK, inside the space and at the target fidelity, (n,).

        Trials that measure a configuration again on purpose do not count: the best of several measurements is luck.
        """
        mask = self.where(Status.OK) & self.is_target
        mask[self._buffer.again[: bisect_left(self._buffer.again, self._length)]] = False
        return mask

    @property
    def successes(self) -> list[Observation]:
        """The trials that may be the best, in order of arrival."""
        return [self._buffer.trials[i] for i in np.flatnonzero(self.is_success)]

    def is_excluded(self, codes: Codes, noise: Noise = "none") -> Mask:
        """Return which rows must not be suggested, (n, w) -> (n,).

        These are pending and failed configurations and, unless ``noise="repeat"``, all observed ones; also those of
        `leave_out`.
        """
        keys = row_keys(codes)
        known, pending = self._buffer.rows_by_key, self._pending.keys_of_codes()
        excluded = [
            key in pending or key in self._left_out or (key in known and self._blocks(key, noise))
            for key in keys
        ]
        return np.array(excluded, bool)

    def _blocks(self, key: bytes, noise: Noise) -> bool:
        """Whether an observation of this configuration forbids another suggestion of it."""
        rows = self._buffer.rows_by_key.get(key)
        if rows is None or rows[0] >= self._length:
            return False
        if noise == "none":
            return True
        failed = STATUSES.index(Status.FAILED)
        return any(i < self._length and self._buffer.numbers[i, 3] == failed for i in rows)

    def objective_costs(self) -> tuple[Array, Array]:
        """Return the costs of all objectives, (n, m), and their squared standard errors, (n, m).

        Costs are NaN unless the status is OK, squared errors without repeats. The arrays are read-only.
        """
        kind, key = "objective costs", self.objectives
        before = self._buffer.derived.get(kind)
        known = before[1] if before is not None and before[0][1] == key else None
        return self.derive(kind, key, lambda: self._read_objective_costs(known))

    def _read_objective_costs(self, known: tuple[Array, Array] | None) -> tuple[Array, Array]:
        """Read the metrics of the trials that are not among the ``known`` rows: reading all takes time."""
        costs = np.full((self._length, max(1, len(self.objectives))), np.nan)
        variances = np.full_like(costs, np.nan)
        count = 0
        if known is not None:
            count = min(self._length, len(known[0]))
            costs[:count], variances[:count] = (rows[:count] for rows in known)
        costs[count:, 0], variances[count:, 0] = self.costs[count:], self.variances[count:]
        new = np.flatnonzero(~np.isnan(costs[count:, 0])) + count
        for i in new if self.objectives else ():
            for j, objective in enumerate(self.objectives[1:], 1):
                costs[i, j], variances[i, j] = read_metric(self._buffer.trials[i], objective)
        return read_only(costs), read_only(variances)

    def with_costs(self, costs: Array, variances: Array) -> History:
        """Return the history with other costs and squared standard errors, (n,) each: of one objective of several.

        Only these arrays and `bounds`, which have no value then, differ; the trials are the same.
        """
        buffer = self._buffer.copy(self._length)
        buffer.numbers[: self._length, 0], buffer.numbers[: self._length, 2] = costs, variances
        buffer.numbers[: self._length, 1] = np.nan
        return self._with(_buffer=buffer)

    def front(self) -> list[Observation]:
        """Return the front: the undominated OK trials inside the space, sorted by the cost of the first objective."""
        ok = np.flatnonzero(self.is_success)
        costs = self.objective_costs()[0][ok]
        kept = np.flatnonzero(is_non_dominated(costs))
        return [self._buffer.trials[ok[i]] for i in kept[np.lexsort(costs[kept].T[::-1])]]

    def best(self) -> Observation | None:
        """Return the OK trial inside the space with the lowest cost (the first of several), or None.

        With a fidelity only the target counts. With several objectives it is the knee of the front, see
        `baco_like.records.front.knee`. With several tasks it is the trial with the largest gain over the first success
        of its task: the ratio of both values, or the difference if values have both signs.
        """
        ok = np.flatnonzero(self.is_success)
        if not len(ok):
            return None
        if self.objectives:
            return self._buffer.trials[int(ok[knee(self.objective_costs()[0][ok])])]
        return self._buffer.trials[int(ok[np.argmin(self._relative_costs(ok))])]

    def ranked(self) -> list[Observation]:
        """Return the trials that may be the best, the best first, by the first objective as `best` compares it."""
        ok = np.flatnonzero(self.is_success)
        order = np.argsort(self._relative_costs(ok), kind="stable")
        return [self._buffer.trials[i] for i in ok[order]]

    def _relative_costs(self, ok: Ints) -> Array:
        """Return the costs of some successes, (n,); with several tasks relative to the first success of their task."""
        if self.space.tasks is None or len(self.space.tasks) < 2 or not len(ok):
            return self.costs[ok]
        costs, task = self.costs[ok], self.space.task_columns.index_of(self.codes[ok])
        _, first, owner = np.unique(task, return_index=True, return_inverse=True)
        reference = costs[first][owner.reshape(-1)]  # NumPy 2.0 returns two dimensions
        if np.all(costs > 0) or np.all(costs < 0):
            return np.asarray(np.sign(costs) * (costs / reference))
        return np.asarray(costs - reference)

    def find(self, trial_id: int) -> Trial | None:
        """Return the observed or pending trial with this id, or None."""
        if trial_id in self._pending:
            return self._pending[trial_id][0]
        row = self._buffer.rows_by_id.get(trial_id)
        return None if row is None or row >= self._length else self._buffer.trials[row]

    def find_pending(self, code: Array) -> Trial | None:
        """Return the oldest pending trial with this row of codes, (w,), or None."""
        (key,) = row_keys(code[None, :])
        if not self._pending.has_code(key):
            return None
        rows = zip(self._pending.values(), row_keys(self.pending_codes), strict=True)
        return next(trial for (trial, _), other in rows if other == key)

    def find_expired(self, now: Moment) -> list[int]:
        """Return the ids of pending trials whose lease has expired, in order."""
        pending = [(i, trial.lease) for i, (trial, _) in self._pending.pairs()]
        # Trials share leases.
        leases = {id(lease): lease for _, lease in pending if lease is not None}
        over = {key for key, lease in leases.items() if lease.is_expired(now)}
        return [i for i, lease in pending if id(lease) in over]

    def is_pending(self, trial_id: int) -> bool:
        """Whether the trial with this id is pending."""
        return trial_id in self._pending

    def get_pending(self, trial_id: int) -> Trial:
        """Return the pending trial with this id.

        Raises:
            TrialError: It is not pending; the message says why and names the pending ones.
        """
        return self._pending_row(trial_id)[0]

    def _pending_row(self, trial_id: int) -> tuple[Trial, Array]:
        try:
            return self._pending[trial_id]
        except KeyError:
            if self.find(trial_id) is not None:
                state = "is already observed"
            else:
                state = "was abandoned" if 0 <= trial_id < self.next_id else "is unknown"
            ids = list(self._pending)
            shown = ", ".join(map(str, ids[:10])) + (", ..." if len(ids) > 10 else "")
            pending = f"pending are {shown}" if shown else "this optimizer has no pending trial"
            raise TrialError(f"trial {trial_id} {state}; {pending}") from None

    def first(self, count: int) -> History:
        """Return the history after its first ``count`` observations, without pending trials."""
        return self._with(_length=min(count, self._length), _pending=PendingTrials())

    def derive(self, kind: Hashable, key: Hashable, make: Callable[[], T]) -> T:
        """Return ``make()``, or the value that it returned last for the same observations and the same key.

        It only saves time: ``make`` must depend on the observations and the arguments alone. The histories of a run
        share one value for each kind, and another key or number of observations replaces it.

        Args:
            kind: Name of the value. A kind without a hash, such as a strategy with mutable parts, disables the cache.
            key: The inputs of ``make`` besides the observations.
            make: Makes the value.
        """
        try:
            hash(kind)
        except TypeError:
            return make()
        derived, key = self._buffer.derived, (self._length, key)
        known = derived.get(kind)
        if known is None or known[0] != key:
            known = key, make()
            derived[kind] = known
        value: T = known[1]
        return value

    def view_as(self, view: Callable[[Any], Any]) -> History:
        """Return the history as one part of a composed strategy sees it.

        Args:
            view: Maps each trial that `trials`, `last` and `pending` hold, for example to one with another tag.
        """
        inner = self._view
        return self._with(_view=view if inner is None else lambda trial: view(inner(trial)))

    # Change -------------------------------------------------------------------------------------------

    def add_pending(self, trials: Sequence[Trial], codes: Codes) -> History:
        """Return the history with these trials pending; ``codes`` are their rows, (n, w).

        Raises:
            TrialError: An id was used before.
        """
        self._check_new(t.id for t in trials)
        trials = self._with_tasks(trials)
        pending = self._pending.add(
            {t.id: (t, code) for t, code in zip(trials, codes, strict=True)}
        )
        next_id = max([self.next_id, *(t.id + 1 for t in trials)])
        return self._with(_pending=pending, next_id=next_id, **self._without_proposals(codes))

    def _with_tasks(self, trials: Sequence[Trial]) -> Sequence[Trial]:
        """Return the trials with the descriptors of their tasks."""
        tasks = self.space.tasks
        if tasks is None:
            return trials
        return [t if t.task else replace(t, task=tasks.find(t.config)) for t in trials]

    def assume_pending(self, codes: Codes) -> History:
        """Return the history with these rows, (n, w), pending as trials without a configuration."""
        if not len(codes):
            return self
        return self.add_pending([Trial(self.next_id + i, {}) for i in range(len(codes))], codes)

    def renew_leases(
        self,
        ids: Sequence[int],
        lease: Lease | None,
        worker: str | None = None,
        *,
        again: bool = True,
        at: float | None = None,
    ) -> History:
        """Return the history in which a worker has a new lease of these trials.

        Args:
            ids: The trials.
            lease: The lease, or None.
            worker: Name of the worker.
            again: Whether another worker gets the trials; their first worker may still report a late result. False: the
                same worker keeps them.
            at: When another worker got them, in Unix seconds.

        Raises:
            TrialError: A trial is not pending.
        """
        rows = {i: self._pending_row(i) for i in ids}
        given: dict[str, Any] = {"worker": worker, "started": at} if again else {}
        renewed = {
            i: (replace(trial, lease=lease, **given), code) for i, (trial, code) in rows.items()
        }
        history = self._with(_pending=self._pending.add(renewed))
        # Without a lease, only a trial whose worker has ended is given to another one.
        late = [trial for trial, _ in rows.values() if trial.lease is not None]
        return history._expect_late(late) if again and late else history

    def expects_late(self, trial: Trial) -> bool:
        """Whether a worker may still have this trial, which is finished or was abandoned."""
        known = self.find_late(trial.id)
        return known is not None and dict(known.config) == dict(trial.config)

    def find_late(self, trial_id: int) -> Trial | None:
        """Return the trial of which a worker may still report a late result, or None."""
        known = self._late.get(trial_id)
        return None if known is None or trial_id in self._pending else known[0]

    def _expect_late(self, trials: Iterable[Trial]) -> History:
        """Return the history that accepts one more late result of each of these trials."""
        rows = {t.id: (t, self._late.get(t.id, (t, 0))[1] + 1) for t in trials}
        return self._with(_late=self._late.add(rows))

    def _receive_late(self, ids: Iterable[Any]) -> History:
        """Return the history after one late result of each of these trials; ids that are unknown are ignored."""
        late = self._late
        for i in ids:
            if type(i) is int and i in late:
                trial, number = late[i]
                late = late.add({i: (trial, number - 1)}) if number > 1 else late.remove([i])
        return self._with(_late=late)

    def complete(
        self,
        outcomes: Sequence[Outcome],
        unsuggested: Mapping[int, tuple[Trial, Array | None]] | None = None,
        at: float | None = None,
    ) -> tuple[History, tuple[Observation, ...]]:
        """Return the history after these outcomes, and the observations that they become, in the same order.

        Args:
            outcomes: Results of pending trials or of those in ``unsuggested``.
            unsuggested: By id, trials that were observed without being suggested, each with its row of codes, (w,), or
                None for a configuration outside the space.
            at: When the outcomes are recorded, in Unix seconds.

        Raises:
            TrialError: An id is neither pending nor new, or appears twice.
        """
        unsuggested = unsuggested or {}
        self._check_new(unsuggested)
        observations: dict[int, Observation] = {}
        for outcome in outcomes:
            i = outcome.trial_id
            if i in observations:
                raise TrialError(f"trial {i} appears twice in one call; report each trial once")
            trial, code = unsuggested[i] if i in unsuggested else self._pending_row(i)
            cost = math.inf if outcome.value is None else sign_of(self.direction) * outcome.value
            (trial,) = self._with_tasks([trial])
            known = {**vars(trial), "outcome": outcome, "lease": None, "ended": at}
            observations[i] = Observation(**known, code=code, cost=cost)
        buffer = self._buffer
        if len(buffer.trials) != self._length:  # another history has grown from this one
            buffer = buffer.copy(self._length)
        for observation in observations.values():
            buffer.append(observation)
        history = self._with(
            _pending=self._pending.remove(observations),
            _buffer=buffer,
            _length=len(buffer.trials),
            next_id=max([self.next_id, *(i + 1 for i in unsuggested)]),
            **self._without_proposals([code for _, code in unsuggested.values()]),
        )
        late = [o.extra.get(LATE) for o in observations.values() if o.origin == LATE]
        if late:
            history = history._receive_late(late)
        return history, tuple(observations.values())

    def add_warm_start(self, trials: Sequence[Trial]) -> tuple[History, tuple[Observation, ...]]:
        """Return this empty history with results of earlier runs, and these as observations.

        Args:
            trials: Configurations of the space with their outcomes.

        Raises:
            TrialError: An id is not new.
            ConfigError: A configuration does not belong to the space.
        """
        codes = self.space.encode([trial.config for trial in trials])
        rows = {trial.id: (trial, code) for trial, code in zip(trials, codes, strict=True)}
        outcomes = [trial.outcome for trial in trials if trial.outcome is not None]
        history, observations = self.complete(outcomes, rows)
        return history._with(warm=len(history)), observations

    def _check_new(self, ids: Iterable[int]) -> None:
        """Refuse ids that do not increase: the trial was observed twice, or the record was forged."""
        last = self.next_id - 1
        for number in ids:
            if type(number) is not int:
                raise TrialError(f"id {number!r:.80} is not an integer")
            if number <= last:
                raise TrialError(f"id {number} was used before; the next id is {last + 1}")
            last = number

    def abandon(self, trial_id: int) -> History:
        """Return the history in which this trial is no longer pending; its id is not used again.

        Its worker may still report a late result.

        Raises:
            TrialError: It is not pending.
        """
        trial, _ = self._pending_row(trial_id)
        return self._with(_pending=self._pending.remove([trial_id]))._expect_late([trial])

    def enqueue(self, configs: Sequence[Mapping[str, Any]]) -> History:
        """Return the history with these configurations at the end of the queue."""
        queue = self._queue.add(dict(enumerate(configs, self._enqueued)))
        return self._with(_queue=queue, _enqueued=self._enqueued + len(configs))

    def propose(self, proposals: Sequence[OpenProposal]) -> History:
        """Return the history with more open proposals; each leaves when its configuration becomes a trial."""
        added = self._proposals.add(dict(enumerate(proposals, self._proposed)))
        return self._with(_proposals=added, _proposed=self._proposed + len(proposals))

    def _without_proposals(self, codes: Iterable[Array | None]) -> dict[str, Any]:
        """Return the field of the open proposals after trials with these rows of codes, if there are any."""
        if not self._proposals:
            return {}
        keys = {key for code in codes if code is not None for key in row_keys(code[None, :])}
        gone = [i for i, p in self._proposals.pairs() if row_keys(p.code[None, :])[0] in keys]
        return {"_proposals": self._proposals.remove(gone)}

    def add_built(self, candidates: Sequence[Candidate]) -> History:
        """Return the history with more built configurations; the latest `_MOST_BUILT` are kept."""
        keys = row_keys(np.array([candidate.code for candidate in candidates]))
        built = {**self._built, **dict(zip(keys, candidates, strict=True))}
        return self._with(
            _built=dict(islice(built.items(), max(0, len(built) - _MOST_BUILT), None))
        )

    def leave_out(self, codes: Codes) -> History:
        """Return the history in which these rows, (n, w), must not be suggested."""
        return self._with(_left_out=frozenset(row_keys(codes)))

    def start_confirmation(self, plan: ConfirmationPlan) -> History:
        """Return the history in which a confirmation begins now."""
        return self._with(plan=replace(plan, start=self._length))

    def dequeue(self, n: int) -> History:
        """Return the history without the first n configurations of the queue."""
        return self._with(_queue=self._queue.remove([*islice(self._queue, n)]))


class StopRule(Protocol):
    """Decides when a run ends. The rules are in `baco_like.running.stopping`."""

    def reason(self, history: History, seconds: float) -> str | None:
        """Return why the run should end, or None.

        Args:
            history: The history of the run.
            seconds: Seconds since the run was opened.
        """

    def room(self, history: History) -> int | None:
        """Return the number of trials that may still be started, or None if this rule does not limit it."""
