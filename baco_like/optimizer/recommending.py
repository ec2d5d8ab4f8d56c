"""Choose what a run recommends: one trial, a trial of the front, or a configuration for each task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from baco_like._typing import Array, Ints, Mask
from baco_like.exceptions import TrialError
from baco_like.optimizer.predictions import predict, values_by_objective
from baco_like.optimizer.state import OptimizerState
from baco_like.records import (
    Cover,
    History,
    Status,
    TaskRecommendation,
    Trial,
    read_confirmation,
)
from baco_like.records.confirmation import is_current
from baco_like.records.covering import combine, cover_for
from baco_like.records.front import is_non_dominated, knee
from baco_like.records.limits import limits_of
from baco_like.records.objective import sign_of
from baco_like.records.task_selector import TaskChoice, fit_selector
from baco_like.strategies.multi_task.candidates import TaskScales, TaskTable
from baco_like.strategies.protocol import Predictive
from baco_like.surrogates.transform import fit_transform


def choose_from_front(
    history: History, weights: Mapping[str, float] | None, limits: tuple[str, ...]
) -> Trial | None:
    """Return the knee of the front under preferences, or None before the first success.

    Args:
        history: The history of a run with several objectives.
        weights: Weights of the objectives by name, 1 for those that are left out.
        limits: Conditions on objectives and metrics.

    Raises:
        ValueError: A weight has another name, or is not a finite number of at least 0; or a limit cannot be read.
        TrialError: No success satisfies the limits, or one names a value that was not measured.
    """
    objectives = history.objectives
    given = {objective.name: 1.0 for objective in objectives} | dict(weights or {})
    if unknown := [name for name in given if name not in [o.name for o in objectives]]:
        raise ValueError(
            f"weights = {dict(weights or {})!r:.80}: {unknown[0]!r:.40} is not an objective; "
            f"choose from {', '.join(repr(o.name) for o in objectives)}"
        )
    numbers = values_by_objective(objectives, given, "weights")
    if (numbers < 0.0).any():
        raise ValueError(f"weights = {dict(weights or {})!r:.80}: expected numbers of at least 0")
    if not numbers.any():
        raise ValueError(f"weights = {dict(weights or {})!r:.80}: all are 0; raise one of them")
    conditions = limits_of(limits)
    trials = history.trials
    ok = np.array(
        [
            i
            for i in np.flatnonzero(history.where(Status.OK))
            if (outcome := trials[i].outcome) is not None
            and conditions.judge(outcome, objectives[0].name).status is Status.OK
        ],
        dtype=int,
    )
    if not len(ok):
        if limits and history.where(Status.OK).any():
            raise TrialError(
                f"no successful trial satisfies {' and '.join(map(repr, limits))}; relax a limit, or tune further"
            )
        return None
    costs = history.objective_costs()[0][ok]
    # Only the front of the allowed trials counts; a weight of 0 alone would choose among dominated ones.
    front = np.flatnonzero(is_non_dominated(costs))
    return trials[int(ok[front[knee(costs[front], numbers)]])]


def recommend(
    state: OptimizerState, weights: Mapping[str, float] | None = None, limits: Sequence[str] = ()
) -> Trial | None:
    """Return the trial for `Optimizer.recommend`, or None before the first success.

    With several objectives, `choose_from_front` chooses.

    The latest confirmation decides, unless the search has continued after it; else the best value, if values are exact;
    else the model among the trials whose value may be the best, else the repeats, else the best single value.
    """
    if state.history.objectives:
        return choose_from_front(state.history, weights, tuple(limits))
    if weights or limits:
        raise ValueError("weights and limits choose from the front of several objectives")
    confirmed = _read_confirmed(state.history)
    if confirmed is not None:
        return confirmed
    if state.options.aim.is_exact:  # a model cannot tell equal values apart
        return state.history.best()
    fallback = best_by_repeats(state.history) or state.history.best()
    candidates = _not_told_from_best(state)
    if not candidates or not isinstance(state.strategy, Predictive):
        return fallback
    try:
        prediction = predict(state, [t.config for t in candidates])
    except TrialError:
        return fallback
    return candidates[int(np.argmin(prediction.median))]


def _not_told_from_best(state: OptimizerState) -> list[Trial]:
    """Return the successful trials but those whose value exceeds the best by more than two standard errors.

    Without it, the model could smooth away a value that is surely good. A trial without a standard error stays.
    """
    trials = state.history.successes
    if not trials:
        return []
    costs = np.array([trial.cost for trial in trials])
    errors = np.array([np.inf if t.sem is None else t.sem for t in trials])
    best = int(np.argmin(costs))
    # Halves: the difference of the largest doubles is infinite.
    told = costs / 2 - costs[best] / 2 > np.hypot(errors, errors[best])
    return [t for t, is_told in zip(trials, told, strict=True) if not is_told]


def _read_confirmed(history: History) -> Trial | None:
    """Return the recommended trial of a confirmation of the present results with its new values, or None."""
    confirmation = read_confirmation(history) if is_current(history) else None
    chosen = None if confirmation is None else confirmation.recommended
    if chosen is None or chosen.id >= 0:
        return chosen
    # A default that was measured for the first time by the confirmation.
    return next(iter(history.trials_of(chosen.config)), None)


def best_by_repeats(history: History) -> Trial | None:
    """Return a trial of the configuration whose repeated measurements are best, or None without repeats.

    The mean of each configuration is shrunk towards the overall mean, the more the fewer measurements it has: the best
    linear unbiased prediction of a random effect (Robinson, "That BLUP is a good thing", Statistical Science 1991,
    section 1), with variances estimated from the repeats. So a lucky single measurement does not win against a
    configuration that was good ten times.

    Returns:
        Of the winning configuration the trial nearest to its mean. None if no configuration was measured twice, because
        then the noise is unknown.
    """
    rows = np.flatnonzero(history.where(Status.OK) & history.is_target)
    if len(rows) < 2:
        return None
    _, owner = np.unique(history.codes[rows], axis=0, return_inverse=True)
    owner = owner.reshape(-1)  # NumPy 2.0 returns two dimensions
    counts = np.bincount(owner)
    if counts.max() < 2:
        return None
    costs = history.costs[rows]
    values = fit_transform(costs).forward(costs)
    means = np.bincount(owner, values) / counts
    noise = float(((values - means[owner]) ** 2).sum() / (counts - 1).sum())
    grand = float(means.mean())
    spread = float(((means - grand) ** 2).sum() / max(1, len(means) - 1) - (noise / counts).mean())
    if spread > 0.0:
        shrunk = grand + spread / (spread + noise / counts) * (means - grand)
    else:  # the configurations differ no more than the noise: prefer those that were measured often
        shrunk = means + np.sqrt(noise / counts)
    off = np.where(owner == np.argmin(shrunk), np.abs(values - means[owner]), np.inf)
    return history.trials[int(rows[np.argmin(off)])]


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
