"""What `Optimizer.recommend` returns for a run with tasks."""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array, Ints, Mask
from baco_like.exceptions import TrialError
from baco_like.optimizer.predictions import predict
from baco_like.optimizer.state import OptimizerState
from baco_like.records import Cover, TaskChoice, TaskRecommendation, sign_of
from baco_like.records.covering import combine, cover_for
from baco_like.records.selector import fit_selector
from baco_like.strategies.multi_task.table import TaskScales, TaskTable
from baco_like.strategies.protocol import Predictive


def recommend_for_tasks(
    state: OptimizerState, goal: Cover | None = None
) -> TaskRecommendation | None:
    """Return the recommendation of a run with tasks, or None before the first success.

    Only measured values decide, as long as one configuration (for one) or a set of them was measured on every task.
    With ``noise="repeat"`` the model's predictions replace the values of the measured configurations, because the least
    of many noisy values is too low.

    Args:
        state: The state of the run.
        goal: A goal that replaces the run's.
    """
    goal = goal or state.problem.goal or Cover()
    table = TaskTable.of(state.problem.space, state.history)
    tried = np.flatnonzero(table.known.any(axis=0))
    if not len(tried):
        return None
    ran = table.known.any(axis=1)
    # In a larger set, another configuration serves the tasks on which one has failed.
    if goal.count == 1:
        ran &= ~table.failed.any(axis=1)
    rows = np.flatnonzero(ran if ran.any() else table.known.any(axis=1))
    costs = np.where(table.known[rows], table.costs[rows], np.inf)[:, tried]
    if state.problem.noise == "repeat":
        costs = _replace_costs(state, table, rows, tried, costs, np.isfinite(costs))
    scales = TaskScales.of(table)
    chosen = cover_for(goal, scales.logs(costs, tried))
    if np.isinf(costs[chosen].min(axis=0)).any():  # no set was measured on every task
        costs = _replace_costs(state, table, rows, tried, costs, np.isinf(costs))
        chosen = cover_for(goal, scales.logs(costs, tried))
    is_measured = table.known[rows[chosen]][:, tried]
    own = _replace_costs(state, table, rows[chosen], tried, costs[chosen], np.isinf(costs[chosen]))
    # Where a chosen configuration was measured, the prediction of another one does not count: it may be wrong.
    least = np.where(is_measured, own, np.inf).min(axis=0)
    own = np.where(is_measured | np.isinf(least), own, np.maximum(own, least))
    return _build(state, goal, table, rows[chosen], tried, own, is_measured)


def _replace_costs(
    state: OptimizerState, table: TaskTable, rows: Ints, tasks: Ints, costs: Array, where: Mask
) -> Array:
    """Return costs, ``(u, t)``, with predicted medians at some cells that satisfy the constraints and have not failed.

    Without a model the cells keep their values.
    """
    where = where & table.feasible[rows][:, tasks] & ~table.failed[rows][:, tasks]
    if not where.any() or not isinstance(state.strategy, Predictive):
        return costs
    space, (places, columns) = state.problem.space, np.nonzero(where)
    codes = [
        space.task_columns.with_task(table.rows[rows[i]][None], int(tasks[j]))
        for i, j in zip(places, columns, strict=True)
    ]
    try:
        predicted = predict(state, space.decode(np.concatenate(codes))).median
    except TrialError:  # too few observations
        return costs
    replaced = costs.copy()
    replaced[places, columns] = predicted
    return replaced


def _build(
    state: OptimizerState,
    goal: Cover,
    table: TaskTable,
    rows: Ints,
    tried: Ints,
    costs: Array,
    is_measured: Mask,
) -> TaskRecommendation:
    """Return the recommendation of some rows of the table, with their costs on the tasks that have a success."""
    space, sign = state.problem.space, sign_of(state.history.direction)
    tasks = space.task_columns.tasks
    # A condition may read a descriptor: the configuration of a row has the values that any task needs.
    by_task = {
        int(task): [
            tasks.configuration(config)
            for config in space.decode(space.task_columns.with_task(table.rows[rows], int(task)))
        ]
        for task in (tried if space.depends_on_task else tried[:1])
    }
    configs = [
        {name: value for own in by_task.values() for name, value in own[i].items()}
        for i in range(len(rows))
    ]
    logs = np.full((len(rows), len(tasks)), np.inf)
    # The best known cost of each task takes part, so that a slowdown is relative to it.
    best = np.nanmin(table.costs[:, tried], axis=0)
    logs[:, tried] = TaskScales.of(table).logs(np.vstack([costs, best]), tried)[:-1]
    choices, picked = [], set()
    for column, task in enumerate(tried):
        counts = is_measured[:, column] | ~is_measured[:, column].any()
        i = int(np.argmin(np.where(counts, logs[:, task], np.inf)))
        if np.isinf(logs[i, task]):
            continue  # none of them may run there, or their values there are unknown
        picked.add(i)
        choices.append(
            TaskChoice(
                tasks.names[task],
                tasks.descriptors[task],
                by_task.get(int(task), by_task[int(tried[0])])[i],
                float(sign * costs[i, column]),
                bool(is_measured[i, column]),
                float(np.exp(logs[i, task])),
            )
        )
    unknown = np.isinf(logs).all(axis=0)
    filled = np.where(unknown, logs[:, tried].mean(axis=1, keepdims=True), logs)
    used = sorted(picked)
    reached = float(np.exp(combine(logs[:, tried].min(axis=0), goal.aggregate)))
    selector = fit_selector(space, [configs[i] for i in used], filled[used])
    kept = tuple(configs[i] for i in used)
    return TaskRecommendation(goal, tuple(choices), kept, reached, selector)
