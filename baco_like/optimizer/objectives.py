"""The methods of the optimizer for several objectives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from baco_like.exceptions import TrialError
from baco_like.records import History, Objective, Trial, sign_of
from baco_like.records.front import hypervolume, is_non_dominated, knee
from baco_like.records.limits import limits_of
from baco_like.records.reading import finite_number
from baco_like.records.trial import Status


def history_of(history: History, objective: str | None) -> History:
    """Return the history with the costs of one objective; None: the first objective.

    Raises:
        ValueError: The run has no such objective.
    """
    if objective is None:
        return history
    names = [each.name for each in history.objectives]
    if objective not in names:
        known = ", ".join(map(repr, names)) or "one, whose name need not be given"
        raise ValueError(f"objective = {objective!r}: the run has {known}")
    j = names.index(objective)
    costs, variances = history.objective_costs()
    own = history.with_costs(costs[:, j], variances[:, j])
    return replace(own, direction=history.objectives[j].direction, objectives=())


def hypervolume_of(history: History, objective: str, reference: Mapping[str, float]) -> float:
    """Return the volume that the front of a history dominates, see `Optimizer.hypervolume`.

    Args:
        history: The history.
        objective: Name of the objective if there is only one.
        reference: For each objective the worst value that counts.

    Raises:
        ValueError: The names are not those of the objectives, or a value is not a finite number.
    """
    objectives = history.objectives or (Objective(objective, direction=history.direction),)
    point = _values_by_objective(objectives, reference, "reference")
    ok = history.where(Status.OK)
    signs = np.array([sign_of(o.direction) for o in objectives])
    return hypervolume(history.objective_costs()[0][ok], signs * point)


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
    numbers = _values_by_objective(objectives, given, "weights")
    if (numbers < 0.0).any():
        raise ValueError(f"weights = {dict(weights or {})!r:.80}: expected numbers of at least 0")
    conditions = limits_of(limits)
    if conditions.soft:
        raise ValueError(f"limits = {limits!r:.80}: a choice from the front has no soft limits")
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


def _values_by_objective(
    objectives: tuple[Objective, ...], values: Mapping[str, float], argument: str
) -> np.ndarray:
    """Return the numbers in the order of the objectives.

    Raises:
        ValueError: The names are not those of the objectives, or a value is not a finite number.
    """
    names = [objective.name for objective in objectives]
    if not isinstance(values, Mapping) or set(values) != set(names):
        raise ValueError(
            f"{argument} = {values!r:.80}: expected one number for each of {', '.join(map(repr, names))}"
        )
    numbers = [finite_number(values[name]) for name in names]
    for name, number in zip(names, numbers, strict=True):
        if number is None:
            raise ValueError(f"{argument}[{name!r}] = {values[name]!r:.80} is not a finite number")
    return np.array(numbers, dtype=float)
