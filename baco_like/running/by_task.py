"""The results of a run with tasks, task by task, as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from baco_like._output import escape_control_characters, show
from baco_like.exceptions import TrialError
from baco_like.optimizer.view import RunView
from baco_like.records import History, Objective, Status, TaskRecommendation, Trial
from baco_like.records.trial import rank


def best_by_task(history: History) -> list[tuple[str, list[Trial], Trial | None]]:
    """Return for each task its name, its observed trials, and the best of them; empty with fewer than two tasks."""
    tasks = history.space.tasks
    if tasks is None or len(tasks) < 2:
        return []
    found = []
    for name, descriptor in zip(tasks.names, tasks.descriptors, strict=True):
        own = [trial for trial in history.trials if trial.task == descriptor]
        found.append((name, own, next(iter(rank(own, history.direction)), None)))
    return found


def best_beside(history: History, trial: Trial) -> tuple[str, Trial | None] | None:
    """Return the name of a trial's task, and the best trial of that task; None in a run with fewer than two tasks."""
    tasks = history.space.tasks
    if tasks is None or len(tasks) < 2 or trial.task is None:
        return None
    name, _, best = best_by_task(history)[tasks.descriptors.index(trial.task)]
    return name, best


def task_table(history: History, objective: Objective) -> tuple[list[str], list[list[object]]]:
    """Return the head and the rows of a table: task, evaluations, failures, best value, its trial and parameters."""
    tasks = history.space.tasks
    names = [] if tasks is None else list(tasks.configuration(dict.fromkeys(history.space.names)))
    head = ["task", "evaluations", "failures", objective.label, "trial", *names]
    rows: list[list[object]] = []
    ids = {trial.id for trial in history.searched_trials}
    for name, own, best in best_by_task(history):
        counted = [trial for trial in own if trial.id in ids]
        failed = sum(trial.status is Status.FAILED for trial in counted)
        chosen: list[object] = ["-", "-", *["-"] * len(names)]
        if best is not None:
            chosen = [best.value, best.id, *(best.config.get(n, "-") for n in names)]
        rows.append([name, len(counted), failed, *chosen])
    return head, rows


def recommend_by_task(view: RunView) -> TaskRecommendation | None:
    """Return the recommendation of a run with several tasks; None without them, or before the first success."""
    found: TaskRecommendation | None = view.recommend() if best_by_task(view.history) else None
    return found


def recommended_trial(
    found: TaskRecommendation | None, task: Mapping[str, Any] | str | None, history: History
) -> Trial:
    """Return the recommended configuration of a task as a trial: the measured one, else one without an outcome.

    Args:
        found: The recommendation.
        task: Descriptor or name of the task; None if one configuration is recommended for all.
        history: The history of the run.

    Raises:
        TrialError: Nothing is recommended for the task, or there are several configurations and no task is named.
    """
    choices = () if found is None else found.choices
    if not choices and task is not None:
        raise TrialError(f"task = {task!r:.60}: this run has no tasks, or no success")
    own = [c for c in choices if task in (None, c.name, dict(c.task))]
    if not own or (task is None and any(c.config != own[0].config for c in own)):
        known = " or ".join(
            ",".join(f"{name}={value}" for name, value in c.task.items()) for c in choices
        )
        text = "nothing is recommended" if not own else "each task has its own configuration"
        raise TrialError(f"{text}; name a task by --task {known}" if known else f"{text} yet")
    config = {**own[0].config, **own[0].task}
    measured = history.trials_of(config)
    return measured[-1] if measured else Trial(len(history), config, task=own[0].task)


def recommendation_lines(found: TaskRecommendation | None) -> list[str]:
    """Return the recommended configurations with the tasks that they are for, and the combined slowdown."""
    if found is None:
        return []
    lines = []
    # A condition may read a descriptor, so these may be more than `found.configs`.
    distinct = [
        c
        for i, c in enumerate(found.choices)
        if c.config not in [b.config for b in found.choices[:i]]
    ]
    for config in (choice.config for choice in distinct):
        own = [choice for choice in found.choices if choice.config == config]
        values = ", ".join(f"{name}={show(value)}" for name, value in config.items())
        names = ", ".join(choice.name for choice in own)
        lines.append(escape_control_characters(f"recommended: {values} (for {names})"))
    missing = [
        name for name in found.selector.tasks.names if name not in {c.name for c in found.choices}
    ]
    if missing:
        lines.append(
            escape_control_characters(f"no configuration is recommended for {', '.join(missing)}")
        )
    slowest = max(choice.slowdown for choice in found.choices)
    ending = f"combined slowdown {found.slowdown:.3f}, largest {slowest:.3f}"
    return [*lines, f"{ending}, relative to the best known value of each task"]


def recommendation_entries(
    found: TaskRecommendation | None,
    make_commands: Callable[[Mapping[str, Any]], Mapping[str, Any] | None],
) -> dict[str, Any]:
    """Return the entry ``tasks`` of ``best.json``: the recommended configuration of each task, with its commands."""
    if found is None:
        return {}
    rows = [
        {
            "name": choice.name,
            "task": dict(choice.task),
            "config": dict(choice.config),
            "value": choice.value,
            "measured": choice.is_measured,
            "slowdown": choice.slowdown,
            "commands": make_commands({**choice.config, **choice.task}),
        }
        for choice in found.choices
    ]
    return {"tasks": rows, "task_goal": found.goal.to_json()}
