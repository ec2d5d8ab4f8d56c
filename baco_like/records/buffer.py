"""The arrays behind histories: observations in order of arrival, with their codes, costs and statuses."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from typing_extensions import override

from baco_like._typing import Array
from baco_like.records.pending import row_keys
from baco_like.records.trial import (
    AFTER_SEARCH,
    CONTROL,
    PROGRAM,
    WARM,
    Observation,
    Status,
    squared_error,
)

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
        self.equal: list[
            int
        ] = []  # rows whose program another configuration of this run had before
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
        self.rows_by_id[trial.id] = n
        if trial.origin in AFTER_SEARCH:
            self.confirming.append(n)

    def copy(self, length: int) -> Buffer:
        """Return a separate buffer with the first observations."""
        other = Buffer(self.codes.shape[1])
        other.trials = self.trials[:length]
        other.confirming = [n for n in self.confirming if n < length]
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
