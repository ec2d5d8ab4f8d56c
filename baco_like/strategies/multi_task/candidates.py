"""The results of all tasks as a table, the fitted models, and which configurations may be proposed on which tasks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.acquisitions.functions import add_feasibility, feasibility_weight
from baco_like.acquisitions.protocol import REFUSED, Score
from baco_like.exceptions import StrategyError
from baco_like.records import Cover, History, Status, Trial
from baco_like.records.covering import least_cover
from baco_like.records.rows import row_keys
from baco_like.spaces.space import Space
from baco_like.strategies.multi_task.scores import GoalScore, WeightedGain, set_gain
from baco_like.strategies.per_second import COST_EXPONENT, total_seconds
from baco_like.strategies.protocol import Problem
from baco_like.surrogates import FeasibilityModel
from baco_like.surrogates.forest import ConstantFeasibility
from baco_like.surrogates.gp.multi_task import MultiTaskModel
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


MOST_SEARCHED = 8
"""Largest number of tasks among which one proposal searches; with more, those with the fewest evaluations."""

DESIGN = "design"
"""Phase in the tag of the configurations with which every task begins."""


class FittedTasks(NamedTuple):
    """The models of all tasks.

    Attributes:
        table: The results.
        scales: The scales of the values.
        model: The model of the values, conditioned on pending trials.
        feasibility: The model of the probability that a configuration runs, over rows of the whole space.
        minimum: Least accepted probability.
    """

    table: TaskTable
    scales: TaskScales
    model: MultiTaskModel
    feasibility: FeasibilityModel
    minimum: float

    @property
    def logs(self) -> Array:
        """Logarithms of the known slowdowns, infinite where unknown, ``(u, t)``."""
        costs = np.where(self.table.known, self.table.costs, np.inf)
        return self.scales.logs(costs, np.arange(costs.shape[1]))

    @property
    def best(self) -> Array:
        """The least standardised value of each task, ``(t,)``."""
        pairs = zip(self.scales.transforms, self.table.costs.T, strict=True)
        return np.array([float(s.forward(np.array([np.nanmin(costs)]))[0]) for s, costs in pairs])


def goal_of(problem: Problem) -> Cover:
    """Return the goal; without one, every task may have its own configuration."""
    return Cover() if problem.goal is None else problem.goal


def allowed_tasks(problem: Problem) -> list[int]:
    """Return the tasks that may be proposed."""
    count = len(problem.space.task_columns.tasks)
    return list(range(count)) if problem.task is None else [problem.task]


def lagging_tasks(problem: Problem, table: TaskTable) -> list[int]:
    """Return the tasks that may be proposed and have fewer evaluations than the mean of all tasks.

    The expected gain of a set follows the model, which expects little where the first results of a task are all alike:
    a task with reversed values got 16 to 34 of 90 evaluations. With equal numbers, the slowdown of two configurations
    fell from 2.5 to 1.9 times the least one (benchmarks/quality/log/tasks.md).
    """
    done = (table.known | table.failed | table.pending).sum(axis=0)
    return [task for task in allowed_tasks(problem) if done[task] < done.mean()]


def problem_at_task(problem: Problem, task: int) -> Problem:
    """Return the problem of one task."""
    return replace(problem, space=problem.space.at_task(task), goal=None, task=None)


def is_shared(trial: Trial) -> bool:
    """Whether every task begins with the configuration of a trial."""
    return bool(trial.read_tag("phase") == DESIGN)


def average_ranks(costs: Array) -> Array:
    """Return the mean rank of each row over the columns where it is known, ``(u, t)`` -> ``(u,)``; NaN if unknown."""
    ranks = np.full(costs.shape, np.nan)
    for t, column in enumerate(costs.T):
        known = np.flatnonzero(~np.isnan(column))
        ranks[known[np.argsort(column[known], kind="stable")], t] = np.arange(len(known)) / max(
            len(known), 1
        )
    counts = (~np.isnan(ranks)).sum(axis=1)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nansum(ranks, axis=1) / np.where(counts, counts, np.nan))


def allows(space: Space, rows: Codes) -> Mask:
    """Return whether rows of `Space.at_task` satisfy the known constraints of each task, ``(m, w)`` -> ``(m, t)``."""
    columns = space.task_columns
    count = len(columns.tasks)
    if not space.depends_on_task:
        return np.ones((len(rows), count), dtype=np.bool_)
    lifted = [space.feasible.contains(columns.with_task(rows, t)) for t in range(count)]
    return np.column_stack(lifted)


def searched_tasks(space: Space, size: int, rng: Rng) -> list[int]:
    """Return the tasks whose feasible sets are searched for one proposal."""
    count = len(space.task_columns.tasks)
    if not space.depends_on_task:
        return [0]
    if size == 1:  # a configuration must run on all tasks, so the smallest set has them all
        sizes = [space.at_task(t).feasible_size for t in range(min(count, MOST_SEARCHED))]
        return [int(np.argmin([np.inf if s is None else float(s) for s in sizes]))]
    return [int(t) for t in rng.permutation(count)[:4]]


@dataclass(frozen=True, eq=False)
class SetCandidates:
    """The configurations that may become a part of a set, and their scores.

    Attributes:
        problem: The problem.
        table: The results.
        goal: The acquisition function.
        size: Number of configurations in the set.
        room: Number of evaluations that are left; None without a budget.
    """

    problem: Problem
    table: TaskTable
    goal: GoalScore
    size: int
    room: int | None

    def missing(self, rows: Codes) -> Mask:
        """Return on which tasks each row could be evaluated, ``(m, w)`` -> ``(m, t)``."""
        places, new = self.table.find(rows), allows(self.problem.space, rows)
        if not len(self.table.rows):
            return new
        return np.where(places[:, None] >= 0, self.table.missing[places], new)

    def score(self, rows: Codes) -> Array:
        """Return the gain per cost of all missing evaluations; rows that cannot reach the goal are refused."""
        left = self.missing(rows).sum(axis=1)
        values = self.goal.score(rows) - COST_EXPONENT * np.log(np.maximum(left, 1))
        places, failed = self.table.find(rows), np.asarray(self.table.failed.any(axis=1))
        refused = (places >= 0) & failed[places] if len(failed) else np.zeros(len(rows), bool)
        if self.size == 1:
            refused |= ~allows(self.problem.space, rows).all(axis=1)
            if self.room is not None and self.room < len(self.problem.space.task_columns.tasks):
                refused |= left > max(self.room, 1)
        return np.where(refused, REFUSED, values)

    def is_excluded(self, rows: Codes) -> Mask:
        """Return which rows cannot be evaluated on any task that may be proposed."""
        return np.asarray(~self.missing(rows)[:, allowed_tasks(self.problem)].any(axis=1))


def weight_by_running(
    score: Score, fitted: FittedTasks, with_task: Any, tasks: Iterable[int]
) -> Score:
    """Return the score with the weight of the least probability of running on some tasks."""
    if isinstance(fitted.feasibility, ConstantFeasibility):
        return score

    def weighted(rows: Codes) -> Array:
        each = [feasibility_weight(fitted.feasibility, with_task(rows, task)) for task in tasks]
        return add_feasibility(score(rows), np.min(each, axis=0), fitted.minimum)

    return weighted


def task_costs(history: History, tasks: Ints, count: int) -> Array:
    """Return the relative cost of an evaluation of each task, ``(t,)``: its median seconds if they are known."""
    seconds = np.array([total_seconds([trial]) for trial in history.trials])
    medians = [
        np.median(seconds[tasks == t]) if (tasks == t).any() else np.nan for t in range(count)
    ]
    costs = np.array(medians)
    if not (np.isfinite(costs) & (costs > 0)).all():
        return np.ones(count)
    return np.asarray(costs / costs.mean())


def size_of_set(goal: Cover, fitted: FittedTasks) -> int:
    """Return the number of configurations to improve now.

    With ``within``, one fewer than the present results need, because fewer are better.
    """
    count = len(fitted.scales.transforms)
    if goal.within is None:
        return count if goal.count is None else min(goal.count, count)
    return max(1, len(least_cover(fitted.logs, goal.within, goal.aggregate)) - 1)


def score_of(goal: Cover, size: int, fitted: FittedTasks, space: Space, rng: Rng) -> GoalScore:
    """Return the acquisition function for a set of ``size`` configurations."""
    units, logs = fitted.scales.units, fitted.logs
    if size == 1 and goal.aggregate == "geometric_mean":
        weights = units / len(units)
        complete = np.isfinite(logs).all(axis=1)
        sums = logs[complete].mean(axis=1) + float(weights @ fitted.best)
        if not len(sums):
            sums = fitted.model.predict_weighted(fitted.table.rows, weights)[0]
        return WeightedGain(fitted.model, weights, float(sums.min()))
    runs_on = partial(allows, space)
    return set_gain(fitted.model, units, fitted.best, logs, size, goal.aggregate, runs_on, rng)


def check_common(space: Space) -> None:
    """Refuse tasks whose constraints have no common configuration, as far as that can be seen.

    Raises:
        StrategyError: There is none among all configurations, or among many draws.
    """
    if not space.depends_on_task:
        return
    (task,) = searched_tasks(space, 1, np.random.default_rng(0))
    own = space.at_task(task)
    count = own.feasible.count
    few = count is not None and count <= 100_000
    rows = own.feasible.listed if few else own.feasible.sample(10_000, np.random.default_rng(0))
    if not allows(space, rows).all(axis=1).any():
        raise StrategyError(
            "no configuration satisfies the constraints of all tasks; take the goal 'each' or Cover(2)"
        )
