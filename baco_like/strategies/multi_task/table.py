"""The results of a run with tasks as a table: one row for each configuration, one column for each task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from baco_like._typing import Array, Codes, Ints, Mask
from baco_like.records import History, Status, row_keys
from baco_like.spaces.space import Space
from baco_like.surrogates.transform import Transform, fit_transform, standardise

_PRIOR_COUNT = 4.0
"""Number of values that the common deviation of all tasks is worth beside a task's own."""

_FEW = 3
"""With fewer values, a task says nothing about the deviation."""


@dataclass(frozen=True, eq=False)
class TaskTable:
    """Results of u configurations on t tasks.

    Attributes:
        rows: The configurations as rows of `Space.at_task`, ``(u, w)``.
        costs: The least cost of the successes, NaN without one, ``(u, t)``.
        failed: Whether a trial has failed or reached its time limit, ``(u, t)``.
        pending: Whether a trial is pending, ``(u, t)``.
        feasible: Whether the configuration satisfies the known constraints of the task, ``(u, t)``.
    """

    rows: Codes
    costs: Array
    failed: Mask
    pending: Mask
    feasible: Mask

    @classmethod
    def of(cls, space: Space, history: History) -> TaskTable:
        """Return the table of the observed and pending trials of a history."""
        columns = space.task_columns
        inside = np.flatnonzero(history.inside)
        waiting = history.pending_codes
        codes = np.concatenate([history.codes[inside], waiting])
        task, rows = columns.index_of(codes), columns.without_task(codes)
        distinct: dict[bytes, int] = {}
        owner = [distinct.setdefault(key, len(distinct)) for key in row_keys(rows)]
        shape = len(distinct), len(columns.tasks)
        table = np.empty((len(distinct), space.width))
        costs, failed, pending = (
            np.full(shape, np.nan),
            np.zeros(shape, bool),
            np.zeros(shape, bool),
        )
        has_failed = ~history.where(Status.OK)[inside]
        for i, (row, t) in enumerate(zip(owner, task, strict=True)):
            table[row] = rows[i]
            if i >= len(inside):
                pending[row, t] = True
                continue
            failed[row, t] |= has_failed[i]
            costs[row, t] = np.fmin(costs[row, t], history.costs[inside[i]])
        lifted = [space.feasible.contains(columns.with_task(table, t)) for t in range(shape[1])]
        feasible = np.column_stack(lifted) if len(table) else np.ones(shape, bool)
        return cls(table, costs, failed, pending, feasible)

    @property
    def known(self) -> Mask:
        """Whether a configuration has succeeded on a task, ``(u, t)``."""
        return ~np.isnan(self.costs)

    @property
    def missing(self) -> Mask:
        """Whether a configuration could be evaluated on a task, and was not, ``(u, t)``."""
        return self.feasible & ~self.known & ~self.failed & ~self.pending

    @cached_property
    def places(self) -> dict[bytes, int]:
        """Index of each configuration by its `row_keys`."""
        return {key: i for i, key in enumerate(row_keys(self.rows))}

    def find(self, rows: Codes) -> Ints:
        """Return the index of each row of `Space.at_task` in the table, ``(m,)``; -1 for a new one."""
        return np.array([self.places.get(key, -1) for key in row_keys(rows)], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class TaskScales:
    """The scales on which the model sees the costs of each task.

    With ``is_log``, differences of `logs` are logarithms of slowdowns. Otherwise the values have both signs, ratios
    have no meaning, and they are differences in standard deviations of the task.

    Attributes:
        transforms: One for each task.
        is_log: Whether all values have the same sign.
    """

    transforms: tuple[Transform, ...]
    is_log: bool

    @classmethod
    def of(cls, table: TaskTable) -> TaskScales:
        """Return the scales of a table; a task without a success has the scale of the others.

        The deviation of a task with few values is drawn towards the deviation of all tasks.
        """
        known = [column[~np.isnan(column)] for column in table.costs.T]
        every = np.concatenate(known)
        is_log = bool(np.all(every > 0) or np.all(every < 0))
        scale = fit_transform if is_log else standardise
        fitted = [scale(values if len(values) else every) for values in known]
        if not is_log:
            return cls(tuple(fitted), False)
        squares = [
            float(np.var(f.warp(v))) for f, v in zip(fitted, known, strict=True) if len(v) >= _FEW
        ]
        common = float(np.median(squares)) if squares else 0.0
        made = []
        for transform, values in zip(fitted, known, strict=True):
            own = float(np.var(transform.warp(values))) if len(values) else 0.0
            mixed = (len(values) * own + _PRIOR_COUNT * common) / (len(values) + _PRIOR_COUNT)
            made.append(replace(transform, deviation=float(np.sqrt(mixed)) or 1.0))
        return cls(tuple(made), True)

    @property
    def units(self) -> Array:
        """The unit of each task's standardised values, as a logarithm of a slowdown, ``(t,)``."""
        if not self.is_log:
            return np.ones(len(self.transforms))
        return np.array([transform.deviation for transform in self.transforms])

    def forward(self, costs: Array, tasks: Ints) -> Array:
        """Return the standardised values of costs on their tasks, ``(n,)``."""
        values = np.empty(len(costs))
        for t, transform in enumerate(self.transforms):
            own = tasks == t
            values[own] = transform.forward(costs[own])
        return values

    def forward_variance(self, costs: Array, variances: Array, tasks: Ints) -> Array:
        """Return the variances of standardised values, ``(n,)``."""
        values = np.zeros(len(costs))
        for t, transform in enumerate(self.transforms):
            own = tasks == t
            values[own] = transform.forward_variance(costs[own], variances[own])
        return values

    def logs(self, costs: Array, tasks: Ints) -> Array:
        """Return the logarithms of the slowdowns of a table of costs, relative to the best of each column.

        Args:
            costs: Costs, infinite where unknown, ``(u, s)``.
            tasks: The task of each column, ``(s,)``.
        """
        values = np.full(costs.shape, np.inf)
        for column, task in enumerate(tasks):
            known = np.isfinite(costs[:, column])
            if known.any():
                own = self.transforms[task].forward(costs[known, column]) * self.units[task]
                values[known, column] = own - own.min()
        return values
