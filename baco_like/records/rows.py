"""The collections behind a history: growing arrays of observations, and rows by number (pending trials, the queue).

Histories share them: adding a row takes the same time at the first and at the 100,000th trial.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np
from typing_extensions import Self, override

from baco_like._typing import Array, Codes
from baco_like.records.trial import (
    AFTER_SEARCH,
    CANDIDATE,
    CONTROL,
    MEASURED_AGAIN,
    PROGRAM,
    WARM,
    Observation,
    Status,
    Trial,
    squared_error,
)

PendingRow = tuple[Trial, Array]
"""A pending trial and its row of codes, (w,)."""

Row = TypeVar("Row")

_CHUNK = 256
"""Ids that share a dictionary. A change copies one of these and the outer one: a copy of all makes a run quadratic."""


class _Chunk(dict[int, PendingRow]):
    """Trials of some ids; it never changes after its creation."""

    @cached_property
    def keys_of_codes(self) -> frozenset[bytes]:
        """The `row_keys` of the trials; a change of the mapping computes those of one chunk again."""
        return frozenset(row_keys(np.array([code for _, code in self.values()])))


def row_keys(codes: Codes) -> list[bytes]:
    """Return one hashable key per row of codes, (n, w); -0.0 and 0.0 have the same key."""
    rows = np.ascontiguousarray(codes + 0.0)
    if not rows.shape[1]:
        return [b""] * len(rows)
    keys: list[bytes] = rows.view(f"V{rows.strides[0]}").ravel().tolist()
    return keys


@dataclass(frozen=True)
class TrialRows(Mapping[int, Row]):
    """Rows by number, such as the id of a trial, in the order of their addition. Changes return a new mapping."""

    _chunks: Mapping[int, Any] = field(default_factory=dict)
    _make_chunk: ClassVar[Any] = dict

    @override
    def __getitem__(self, trial_id: int) -> Row:
        row: Row = self._chunks[trial_id // _CHUNK][trial_id]
        return row

    @override
    def __iter__(self) -> Iterator[int]:
        for chunk in self._chunks.values():
            yield from chunk

    @override
    def __len__(self) -> int:
        return sum(map(len, self._chunks.values()))

    def pairs(self) -> Iterator[tuple[int, Row]]:
        """Yield the same as `items`, three times as fast."""
        for chunk in self._chunks.values():
            yield from chunk.items()

    def add(self, rows: Mapping[int, Row]) -> Self:
        """Return the mapping with more rows, or with other rows of the same numbers."""
        parts: dict[int, dict[int, Row]] = {}
        for trial_id, row in rows.items():
            parts.setdefault(trial_id // _CHUNK, {})[trial_id] = row
        chunks = dict(self._chunks)
        for number, part in parts.items():
            chunks[number] = self._make_chunk({**chunks.get(number, {}), **part})
        return type(self)(chunks)

    def remove(self, trial_ids: Iterable[int]) -> Self:
        """Return the mapping without these numbers; those that are not in it are ignored."""
        parts: dict[int, set[int]] = {}
        for trial_id in trial_ids:
            parts.setdefault(trial_id // _CHUNK, set()).add(trial_id)
        chunks = dict(self._chunks)
        for number, part in parts.items():
            if number in chunks:
                rest = {i: r for i, r in chunks[number].items() if i not in part}
                chunks[number] = self._make_chunk(rest)
                if not chunks[number]:
                    del chunks[number]
        return type(self)(chunks)


class PendingTrials(TrialRows[PendingRow]):
    """Pending trials by id."""

    _make_chunk = _Chunk

    def has_code(self, key: bytes) -> bool:
        """Whether a trial has the row of codes with this key of `row_keys`."""
        return any(key in chunk.keys_of_codes for chunk in self._chunks.values())

    def keys_of_codes(self) -> frozenset[bytes]:
        """Return the `row_keys` of all trials."""
        return frozenset().union(*(chunk.keys_of_codes for chunk in self._chunks.values()))


STATUSES = (Status.OK, Status.FAILED, Status.CENSORED)
"""The statuses of observed trials; the buffer keeps their indices."""

ARRAYS = ("codes", "numbers", "inside", "programs")
"""The arrays of a buffer with one row for each observation."""


class Buffer:
    """Growing arrays shared by histories; rows are only ever appended."""

    def __init__(self, width: int) -> None:
        self.trials: list[Observation] = []
        self.rows_by_id: dict[int, int] = {}
        self.confirming: list[int] = []  # rows of the trials after the search
        self.again: list[
            int
        ] = []  # rows of the trials that measure a configuration again on purpose
        # Rows whose program another configuration of this run had before.
        self.equal: list[int] = []
        self.rows_by_key: dict[bytes, list[int]] = {}
        # The first row of each program, apart for results of a warm start and of this run.
        self.first_rows: dict[tuple[str, bool], int] = {}
        self.codes = np.empty((16, width))
        self.numbers = np.empty((16, 4))  # cost, its lower bound, variance, index of the status
        self.inside = np.empty(16, dtype=np.bool_)
        self.programs = np.empty(16, dtype=np.int64)  # first row of the same program, or -1
        self.derived: dict[Hashable, tuple[tuple[int, Hashable], Any]] = {}  # see `History.derive`

    @override
    def __getstate__(self) -> dict[str, Any]:
        """Leave the derived values out of copies for other processes: they may be large, and are made again."""
        return {**vars(self), "derived": {}}

    def append(self, trial: Observation) -> None:
        """Add an observation."""
        n = len(self.trials)
        # The first change: if a fork or an interrupt stops this call, the length differs, and the buffer is copied.
        self.trials.append(trial)
        if n == len(self.codes):
            for name in ARRAYS:
                array = getattr(self, name)
                setattr(self, name, np.concatenate([array, np.empty_like(array)]))
        cost = np.nan if trial.value is None else trial.cost
        bound = np.nan if trial.bound is None else trial.bound
        variance = squared_error(trial.sem)
        self.numbers[n] = cost, bound, variance, STATUSES.index(trial.status)
        self.inside[n] = trial.code is not None
        self.codes[n] = np.nan if trial.code is None else trial.code
        if trial.code is not None:
            self.rows_by_key.setdefault(row_keys(trial.code[None, :])[0], []).append(n)
        self.programs[n] = -1
        if isinstance(program := trial.extra.get(PROGRAM), str):  # the user may have anything there
            first = self.first_rows.setdefault((program, trial.origin == WARM), n)
            self.programs[n] = self.first_rows.get((program, True), first)
            is_new = first == n or trial.origin in (WARM, CONTROL, *AFTER_SEARCH)
            if not is_new and dict(self.trials[first].config) != dict(trial.config):
                self.equal.append(n)
        if trial.origin == CANDIDATE and self.equal[-1:] != [n]:  # a build that has failed
            self.equal.append(n)
        self.rows_by_id[trial.id] = n
        if trial.origin in AFTER_SEARCH:
            self.confirming.append(n)
        if trial.origin in MEASURED_AGAIN:
            self.again.append(n)

    def copy(self, length: int) -> Buffer:
        """Return a separate buffer with the first observations."""
        other = Buffer(self.codes.shape[1])
        other.trials = self.trials[:length]
        other.confirming = [n for n in self.confirming if n < length]
        other.again = [n for n in self.again if n < length]
        other.equal = [n for n in self.equal if n < length]
        other.first_rows = {key: n for key, n in list(self.first_rows.items()) if n < length}
        for name in ARRAYS:
            array = getattr(self, name)[:length]
            room = np.empty_like(array, shape=(max(16, length), *array.shape[1:]))
            setattr(other, name, np.concatenate([array, room]))
        other.rows_by_id = {i: n for i, n in list(self.rows_by_id.items()) if n < length}
        for key, rows in list(self.rows_by_key.items()):
            if kept := [n for n in rows if n < length]:
                other.rows_by_key[key] = kept
        return other


def read_only(array: Array) -> Array:
    """Return a view of an array that cannot be changed."""
    view = array.view()
    view.flags.writeable = False
    return view
