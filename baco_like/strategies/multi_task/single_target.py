"""Runs in which one task is tuned and the results of the others were known before: an ensemble of models.

Then no other task has to be predicted. The ensemble, which ``WarmStart(..., mode="prior")`` uses too, suffers less from
misleading results than the model of all tasks, and is several times faster (benchmarks/quality/log/tasks.md).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from baco_like._typing import Rng
from baco_like.records import History, Proposal
from baco_like.strategies.auto import FAILED_AS, Auto
from baco_like.strategies.levels import history_of_part
from baco_like.strategies.multi_task.candidates import goal_of, problem_at_task
from baco_like.strategies.protocol import (
    FEWEST_RELATED,
    MOST_RELATED,
    Problem,
    Proposals,
    RelatedTask,
)
from baco_like.surrogates.gp.fit import chosen_rows


def is_single_target(problem: Problem, history: History) -> bool:
    """Whether this process tunes one task, and all results of the others are those of warm starts."""
    if problem.task is None or not goal_of(problem).is_each:
        return False
    made = np.concatenate([history.codes[history.warm :], history.pending_codes])
    return bool((problem.space.task_columns.index_of(made) == problem.task).all())


def propose_for_target(
    then: Auto, problem: Problem, history: History, seed: int, n: int, rng: Rng
) -> Proposals:
    """Return n proposals for the only task of a process; none if no other task has results for a model.

    Args:
        then: The strategy whose settings are used.
        problem: The problem, with the task.
        history: The history, as `is_single_target` wants it.
        seed: Seed of the models of the other tasks.
        n: Number of proposals.
        rng: Random generator.
    """
    target = problem.task
    assert target is not None
    at_task, columns = problem_at_task(problem, target), problem.space.task_columns

    def make() -> tuple[Problem, Any] | None:
        fitted = np.random.default_rng(seed)
        related = _related_tasks(problem, history, target, fitted)
        informed = replace(at_task, related=related)
        return (informed, then.init(informed, fitted)) if related else None

    made = history.first(history.warm).derive(("single target", then), (target, seed), make)
    if made is None:
        return ()
    informed, state = made
    own = history_of_part(
        at_task.space,
        history,
        lambda rows: np.equal(columns.index_of(rows), target),
        columns.without_task,
    )
    proposals = then.ask(informed, own, state, n, rng)
    return [Proposal(columns.with_task(p.code[None], target)[0], p.tag) for p in proposals]


def _related_tasks(
    problem: Problem, history: History, target: int, rng: Rng
) -> tuple[RelatedTask, ...]:
    """Return the results of the other tasks, of each at most `MOST_RELATED`."""
    columns = problem.space.task_columns
    codes, costs = history.codes[: history.warm], history.costs[: history.warm]
    tasks, related = columns.index_of(codes), []
    for index, name in enumerate(columns.tasks.names):
        rows = np.flatnonzero((tasks == index) & history.inside[: history.warm])
        ok = np.isfinite(costs[rows])
        if index == target or len(np.unique(costs[rows][ok])) < FEWEST_RELATED:
            continue
        imputed = np.quantile(costs[rows][ok], FAILED_AS, method="higher")
        rows = rows[chosen_rows(np.where(ok, costs[rows], imputed), MOST_RELATED, rng)]
        related.append(RelatedTask(name, columns.without_task(codes[rows]), costs[rows]))
    return tuple(related)
