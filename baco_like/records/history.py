"""All that is known of a run, as a frozen value: what was observed in order of arrival, and what is in flight.

Histories share one append-only buffer, so that growing a history by one observation costs the same at the first and
at the 100,000th; an older view that is grown again gets a buffer of its own. Inside, values are *costs*: minimised,
with the sign flipped when the direction is to maximise.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from baco_like._typing import Array, Codes, Mask
from baco_like.exceptions import TrialError
from baco_like.records.direction import Direction, sign_of
from baco_like.records.trial import Outcome, Status, Trial
from baco_like.spaces.space import Space

Noise = Literal["none", "repeat"]

_STATUSES = (Status.OK, Status.FAILED, Status.CENSORED)


def row_keys(codes: Codes) -> list[bytes]:
    """Return one hashable key per row of codes; -0.0 and 0.0 have the same."""
    rows = np.ascontiguousarray(codes + 0.0)
    return [row.tobytes() for row in rows]


class _Buffer:
    """The growing arrays behind histories; rows are only ever added."""

    def __init__(self, width: int) -> None:
        self.trials: list[Trial] = []
        self.ids: dict[int, int] = {}
        self.keys: dict[bytes, list[int]] = {}
        self.codes = np.empty((16, width))
        self.numbers = np.empty((16, 4))  # cost, lower bound of the cost, variance, status
        self.inside = np.empty(16, dtype=np.bool_)

    def add(self, trial: Trial, code: Array, numbers: tuple[float, ...]) -> None:
        n = len(self.trials)
        if n == len(self.codes):
            self.codes = np.concatenate([self.codes, np.empty_like(self.codes)])
            self.numbers = np.concatenate([self.numbers, np.empty_like(self.numbers)])
            self.inside = np.concatenate([self.inside, np.empty_like(self.inside)])
        self.codes[n] = code
        self.numbers[n] = numbers
        self.ids[trial.id] = n
        self.inside[n] = not np.isnan(code).any()
        if self.inside[n]:
            self.keys.setdefault(row_keys(code[None, :])[0], []).append(n)
        self.trials.append(trial)

    def copy(self, length: int) -> _Buffer:
        other = _Buffer(self.codes.shape[1])
        for i in range(length):
            other.add(self.trials[i], self.codes[i], tuple(self.numbers[i]))
        return other


def _frozen(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True)
class History:
    """What a strategy may know. Build one with `History.start`; every method returns a new history.

    Attributes:
        space: The space of the run.
        direction: ``minimize`` or ``maximize``.
        next_id: The number that the next trial gets; ids are never used twice.
        queue: Enqueued configurations that are still to be suggested, oldest first.
        warm: How many of the first observations are earlier results that the run began with.
    """

    space: Space
    direction: Direction
    next_id: int = 0
    queue: tuple[Mapping[str, Any], ...] = ()
    warm: int = 0
    _length: int = 0
    _buffer: _Buffer = field(default_factory=lambda: _Buffer(0), repr=False)
    _pending: Mapping[int, tuple[Trial, Array]] = field(default_factory=dict, repr=False)
    _shown: Callable[[Trial], Trial] | None = field(default=None, repr=False)

    @classmethod
    def start(cls, space: Space, direction: Direction = "minimize") -> History:
        """Return the empty history of a space."""
        return cls(space, direction, _buffer=_Buffer(space.width))

    def _with(self, **changes: Any) -> History:
        """Return a history that differs in these fields, in a third of the time of `dataclasses.replace`."""
        other = object.__new__(History)
        vars(other).update(vars(self), **changes)
        vars(other).pop("_pending_keys", None)  # it is worked out anew
        return other

    # What is known ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._length

    @property
    def evaluations(self) -> int:
        """How many trials were observed in this run; what it began with does not count."""
        return self._length - self.warm

    @property
    def trials(self) -> list[Trial]:
        """Observed trials, in order of arrival."""
        trials = self._buffer.trials[: self._length]
        return trials if self._shown is None else [self._shown(trial) for trial in trials]

    @property
    def last(self) -> Trial | None:
        """The trial observed last, or None."""
        if not self._length:
            return None
        trial = self._buffer.trials[self._length - 1]
        return trial if self._shown is None else self._shown(trial)

    @property
    def pending(self) -> Mapping[int, Trial]:
        """Trials in flight by id, in order of their ids."""
        shown = self._shown
        return MappingProxyType(
            {i: trial if shown is None else shown(trial) for i, (trial, _) in self._pending.items()}
        )

    @property
    def codes(self) -> Codes:
        """Codes of the observed trials, ``(n, w)``; NaN where an imported configuration lies outside the space."""
        return _frozen(self._buffer.codes[: self._length])

    @property
    def costs(self) -> Array:
        """Minimised values of the observed trials, ``(n,)``; NaN unless OK."""
        return _frozen(self._buffer.numbers[: self._length, 0])

    @property
    def bounds(self) -> Array:
        """Lower bounds of the costs of censored trials, ``(n,)``; NaN elsewhere."""
        return _frozen(self._buffer.numbers[: self._length, 1])

    @property
    def variances(self) -> Array:
        """Squared standard errors of the costs, ``(n,)``; NaN where there are no repeats."""
        return _frozen(self._buffer.numbers[: self._length, 2])

    @property
    def inside(self) -> Mask:
        """Which observed trials lie in the space, ``(n,)``: all but some that were imported."""
        return self._buffer.inside[: self._length].copy()

    def where(self, status: Status) -> Mask:
        """Return which observed trials inside the space have this status, ``(n,)``."""
        found = np.equal(self._buffer.numbers[: self._length, 3], _STATUSES.index(status))
        return np.asarray(found & self._buffer.inside[: self._length])

    @property
    def pending_codes(self) -> Codes:
        """Codes of the pending trials, ``(m, w)``."""
        rows = [code for _, code in self._pending.values()]
        return np.array(rows) if rows else np.empty((0, self.space.width))

    def taken(self, codes: Codes, noise: Noise = "none") -> Mask:
        """Return which rows may not be suggested: in flight, failed, or (unless ``noise="repeat"``) observed."""
        return np.fromiter(
            (key in self._pending_keys or self._observed(key, noise) for key in row_keys(codes)),
            bool,
            len(codes),
        )

    @cached_property
    def _pending_keys(self) -> frozenset[bytes]:
        return frozenset(row_keys(self.pending_codes))

    def _observed(self, key: bytes, noise: Noise) -> bool:
        rows = self._buffer.keys.get(key)
        if rows is None or rows[0] >= self._length:
            return False
        if noise == "none":
            return True
        failed = _STATUSES.index(Status.FAILED)
        return any(i < self._length and self._buffer.numbers[i, 3] == failed for i in rows)

    def best(self) -> Trial | None:
        """Return the OK trial inside the space with the lowest cost (the first of equals), or None."""
        ok = np.flatnonzero(self.where(Status.OK))
        if not len(ok):
            return None
        return self._buffer.trials[int(ok[np.argmin(self.costs[ok])])]

    def find_pending(self, trial_id: int) -> Trial | None:
        """Return the pending trials with this id, or None."""
        found = self._pending.get(trial_id)
        return None if found is None else found[0]

    def find_pending_code(self, code: Array) -> Trial | None:
        """Return the oldest pending trials with this row of codes, ``(w,)``, or None."""
        (key,) = row_keys(code[None, :])
        if key not in self._pending_keys:
            return None
        rows = zip(self._pending.values(), row_keys(self.pending_codes), strict=True)
        return next(trial for (trial, _), own in rows if own == key)

    def find(self, trial_id: int) -> Trial | None:
        """Return the observed or pending trial with this id, or None."""
        if trial_id in self._pending:
            return self._pending[trial_id][0]
        row = self._buffer.ids.get(trial_id)
        return None if row is None or row >= self._length else self._buffer.trials[row]

    # What comes next -------------------------------------------------------------------------------------------

    def suggested(self, trials: Sequence[Trial], codes: Codes) -> History:
        """Return the history in which these trials are in flight; ``codes`` are their rows, ``(n, w)``.

        Raises:
            TrialError: An id was used before.
        """
        self._check_new(t.id for t in trials)
        pending = dict(self._pending)
        pending.update({t.id: (t, code) for t, code in zip(trials, codes, strict=True)})
        next_id = max([self.next_id, *(t.id + 1 for t in trials)])
        return self._with(_pending=pending, next_id=next_id)

    def expired(self, now: float) -> list[int]:
        """Return the ids in flight whose lease has ended by ``now`` (seconds since 1970), in order."""
        return [i for i, (t, _) in self._pending.items() if t.until is not None and t.until <= now]

    def offered(self, ids: Sequence[int], until: float | None) -> History:
        """Return the history in which these pending trials have a lease until then.

        Raises:
            TrialError: One of them is not pending.
        """
        pending = dict(self._pending)
        for i in ids:
            if i not in pending:
                raise TrialError(f"{self._why_not_pending(i)}; it cannot be offered again")
            trial, code = pending[i]
            pending[i] = (replace(trial, until=until), code)
        return self._with(_pending=pending)

    def assuming(self, codes: Codes) -> History:
        """Return the history in which these rows are in flight as trials without a configuration, ``(n, w)``."""
        if not len(codes):
            return self
        return self.suggested([Trial(self.next_id + i, {}) for i in range(len(codes))], codes)

    def checked(self, outcomes: Sequence[Outcome]) -> tuple[Trial, ...]:
        """Return the trials that these outcomes complete.

        Raises:
            TrialError: An id is not pending or stands there twice (the message names the pending ones), or there is
                not a finite value exactly where the status is OK.
        """
        ids = [outcome.trial_id for outcome in outcomes]
        for i in ids:
            if i not in self._pending:
                raise TrialError(f"{self._why_not_pending(i)}; pending are {self._pending_shown()}")
        if len(ids) > 1 and len(set(ids)) < len(ids):
            (twice, _), *_ = Counter(ids).most_common(1)
            raise TrialError(f"trial {twice} is told twice in one call; tell each trial once")
        for outcome in outcomes:
            finite = outcome.value is not None and math.isfinite(outcome.value)
            if finite != (outcome.status is Status.OK) or (outcome.value is not None) != finite:
                raise TrialError(
                    f"trial {outcome.trial_id}: value {outcome.value!r} does not go with status "
                    f"{outcome.status.value!r}; only OK has a value, and it is finite"
                )
        return tuple(self._pending[o.trial_id][0].completed(o) for o in outcomes)

    def _why_not_pending(self, trial_id: int) -> str:
        if trial_id in self._buffer.ids and self.find(trial_id) is not None:
            return f"trial {trial_id} is already observed"
        known = "was abandoned" if 0 <= trial_id < self.next_id else "is unknown"
        return f"trial {trial_id} {known}"

    def _pending_shown(self) -> str:
        ids = list(self._pending)
        return ", ".join(map(str, ids[:10])) + (", ..." if len(ids) > 10 else "") if ids else "none"

    def completed(self, trials: Iterable[Trial]) -> History:
        """Return the history that has observed these trials, which carry their outcomes.

        A pending trials is taken from there; any other was told without being asked for.

        Raises:
            TrialError: An id that is not in flight was used before.
        """
        trials = list(trials)
        pending = dict(self._pending)
        self._check_new(t.id for t in trials if t.id not in pending)
        buffer = (
            self._buffer
            if len(self._buffer.trials) == self._length
            else self._buffer.copy(self._length)
        )
        for trial in trials:
            pending_row = pending.pop(trial.id, None)
            code = self._code(trial) if pending_row is None else pending_row[1]
            buffer.add(trial, code, self._numbers(trial))
        next_id = max([self.next_id, *(t.id + 1 for t in trials)])
        return self._with(
            _pending=pending, _buffer=buffer, _length=len(buffer.trials), next_id=next_id
        )

    def warmed(self, trials: Iterable[Trial]) -> History:
        """Return the history that begins with these trials, which carry their outcomes; it is empty so far.

        Raises:
            TrialError: An id was used before.
        """
        begun = self.completed(trials)
        return begun._with(warm=len(begun))

    def _check_new(self, ids: Iterable[int]) -> None:
        """Ids only grow; everything else is a trial told twice, or a forged record."""
        last = self.next_id - 1
        for number in ids:
            if type(number) is not int:
                raise TrialError(f"id {number!r:.80} is no whole number")
            if number <= last:
                raise TrialError(f"id {number} was used before; the next id is {last + 1}")
            last = number

    def _code(self, trial: Trial) -> Array:
        if trial.origin == "imported" and not self.space.contains(trial.config):
            return np.full(self.space.width, np.nan)
        code: Array = self.space.encode([trial.config])[0]
        return code

    def _numbers(self, trial: Trial) -> tuple[float, ...]:
        sign = sign_of(self.direction)
        cost = np.nan if trial.value is None else sign * trial.value
        bound = np.nan if trial.bound is None else trial.bound
        variance = np.nan if trial.sem is None else min(trial.sem, 1e150) ** 2
        return cost, bound, variance, float(_STATUSES.index(trial.status))

    def retagged(self, shown: Callable[[Trial], Trial]) -> History:
        """Return the history as one part of a composed strategy sees it.

        Args:
            shown: What `trials`, `last` and `pending` hold for a trial: the same one, perhaps with another tag.
        """
        before = self._shown
        both = shown if before is None else lambda trial: shown(before(trial))
        return self._with(_shown=both)

    def abandoned(self, trial_id: int) -> History:
        """Return the history in which this trial is no longer in flight; its id is not used again.

        Raises:
            TrialError: It is not pending.
        """
        if trial_id not in self._pending:
            raise TrialError(
                f"{self._why_not_pending(trial_id)}; pending are {self._pending_shown()}"
            )
        return self._with(_pending={i: v for i, v in self._pending.items() if i != trial_id})

    def enqueued(self, configs: Sequence[Mapping[str, Any]]) -> History:
        """Return the history with these configurations at the end of the queue."""
        return self._with(queue=(*self.queue, *configs))

    def dequeued(self, n: int) -> History:
        """Return the history without the first n configurations of the queue."""
        return self._with(queue=self.queue[n:])
