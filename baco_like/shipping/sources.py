"""Make the entries of a shipped table from the histories of runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from baco_like.exceptions import RunFileError
from baco_like.journal.events import Event
from baco_like.journal.header import COMPILER, UNIT, Header, hashes_in
from baco_like.records import Confirmation, History, TaskRecommendation, Trial
from baco_like.records.confirmation import winner_of
from baco_like.records.objective import sign_of
from baco_like.records.task_selector import Leaf, Nearest, Split
from baco_like.shipping.stamp import Stamp, fingerprint
from baco_like.shipping.table import Evidence, ShippedEntry, ShippedTable
from baco_like.spaces import Space

_MOST_RATIOS = 200
"""Rounds of a confirmation that are kept as evidence."""


def entries_of_tasks(
    history: History, recommendation: TaskRecommendation
) -> tuple[ShippedEntry, ...]:
    """Return the entries of a run with tasks, one for each task.

    Args:
        history: The history.
        recommendation: What `Optimizer.recommend` returns.
    """
    default = _default_of(history.space)
    entries = []
    for choice in recommendation.choices:
        task, config = dict(choice.task), dict(choice.config)
        reference = None if default is None else {**default, **task}
        own = _find(history, {**config, **task})
        evidence = _search_evidence(history, choice.value, own, reference)
        entries.append(ShippedEntry(task, config, evidence))
    return tuple(entries)


def rule_of_tasks(
    entries: Sequence[ShippedEntry], recommendation: TaskRecommendation
) -> tuple[Leaf | Split | None, tuple[int, ...]]:
    """Return the decision tree or leaf of a recommendation, or None, and the number of each entry's configuration."""
    rule = recommendation.selector.rule
    if isinstance(rule, Nearest) or len(recommendation.configs) == 1:
        return None, ()
    groups = []
    for entry in entries:
        # A configuration has the values that any task needs, and an entry has the values of its task.
        holds = (all(c[n] == v for n, v in entry.config.items()) for c in recommendation.configs)
        groups.append(list(holds).index(True))
    return rule, tuple(groups)


def _default_of(space: Space) -> dict[str, Any] | None:
    """Return the default configuration without the descriptor of a task, or None."""
    config = space.default_config
    if config is None or space.tasks is None:
        return config
    return space.tasks.configuration(config)


def _find(history: History, config: Mapping[str, Any]) -> Trial | None:
    """Return the first successful trial of a configuration, or None."""
    trials = (t for t in history.target_trials if dict(t.config) == config)
    return next((trial for trial in trials if trial.value is not None), None)


def entry_of_run(history: History, task: Mapping[str, Any] | None = None) -> ShippedEntry:
    """Return the entry with the winner of a run: the recommended configuration of the confirmation, else the best.

    Args:
        history: The history.
        task: The descriptor of the run's task.

    Raises:
        RunFileError: No trial has succeeded.
    """
    if history.space.tasks is not None:
        raise RunFileError(
            "the run has several tasks, and each has an entry of its own: call Optimizer.shipped_run"
        )
    winner, confirmation = winner_of(history)
    if winner is None or winner.value is None:
        raise RunFileError("the run has no successful trial; there is nothing to ship")
    if confirmation is None or confirmation.recommended is None:
        default = history.space.default_config
        evidence = _search_evidence(history, winner.value, winner, default)
    else:
        evidence = _confirmed_evidence(confirmation, winner, history.searched)
    return ShippedEntry(dict(task or {}), dict(winner.config), evidence)


def _search_evidence(
    history: History, value: float, trial: Trial | None, default: Mapping[str, Any] | None
) -> Evidence:
    """Return the evidence without a confirmation: one value of each configuration, and no interval.

    Args:
        history: The history.
        value: Value of the winner.
        trial: The trial that measured it, or None for a prediction.
        default: The default configuration, or None.
    """
    other = None if default is None else _find(history, default)
    reference = None if other is None else other.value
    speedup = None
    if reference is not None and reference > 0.0 and value > 0.0:
        speedup = (reference / value) ** sign_of(history.direction)
    count = 0 if trial is None else len(trial.repeats) or 1
    return Evidence(value, count, reference, speedup, evaluations=history.searched)


def _confirmed_evidence(confirmation: Confirmation, winner: Trial, searched: int) -> Evidence:
    value, default = winner.value, confirmation.default
    assert value is not None
    speedup = confirmation.speedup_of(winner)
    is_bounded = speedup is not None and math.isfinite(speedup.high)
    k = next(i for i, trial in enumerate(confirmation.candidates) if trial is winner)
    plan, own = confirmation.plan, confirmation.results[k].values
    ratios: tuple[float, ...] = ()
    if plan.default is not None and k != plan.default:
        pairs = list(zip(confirmation.results[plan.default].values, own, strict=False))
        if all(a > 0.0 and b > 0.0 for a, b in pairs):
            sign = sign_of(confirmation.direction)
            ratios = tuple((a / b) ** sign for a, b in pairs[:_MOST_RATIOS])
    return Evidence(
        value,
        len(own),
        None if default is None else default.value,
        None if speedup is None else speedup.value,
        speedup.low if speedup is not None and is_bounded else None,
        speedup.high if speedup is not None and is_bounded else None,
        plan.confidence,
        max(1, len(confirmation.candidates) - (confirmation.default is not None)),
        ratios,
        searched,
    )


@dataclass(frozen=True)
class ShippedRun:
    """A run whose winner is shipped.

    Attributes:
        header: The header of its journal.
        opened: The first event of the journal, which also has the machine, the versions and the date.
        entries: The winner, or those of the tasks of the run.
        may_use_default: Whether the default configuration may be a fallback: it was not evaluated, or has run.
        rule: As for `ShippedTable`.
        groups: As for `ShippedTable`.
    """

    header: Header
    opened: Event
    entries: tuple[ShippedEntry, ...]
    may_use_default: bool = True
    rule: Leaf | Split | None = None
    groups: tuple[int, ...] = ()


def run_of(
    history: History,
    opened: Event,
    task: Mapping[str, Any] | None = None,
    recommendation: TaskRecommendation | None = None,
    name: str = "the run",
) -> ShippedRun:
    """Return a run to ship.

    Args:
        history: The history.
        opened: The first event of the journal.
        task: The descriptor of the run's task.
        recommendation: Of a run with tasks, what `Optimizer.recommend` returns.
        name: Name of the run in messages.

    Raises:
        RunFileError: The run has several objectives, no trial has succeeded, or the run has tasks and no
            recommendation, or another task is given.
    """
    if history.objectives:
        raise RunFileError(
            f"{name} has several objectives, and no single winner; baco-like rebuild --trial N builds one of its front"
        )
    tasks, default = history.space.tasks, _default_of(history.space)
    own = (dict(t.config) for t in history.target_trials)
    configs = own if tasks is None else map(tasks.configuration, own)
    values = [
        trial.value
        for trial, config in zip(history.target_trials, configs, strict=True)
        if config == default
    ]
    may_use_default = not values or any(value is not None for value in values)
    header = Header.read(opened, "the journal")
    if recommendation is None:
        return ShippedRun(header, opened, (entry_of_run(history, task),), may_use_default)
    if task:
        raise RunFileError(f"task = {dict(task)!r:.80}: the run has tasks of its own")
    entries = entries_of_tasks(history, recommendation)
    rule, groups = rule_of_tasks(entries, recommendation)
    return ShippedRun(header, opened, entries, may_use_default, rule, groups)


def make_table(
    runs: Sequence[ShippedRun],
    space: Space,
    *,
    unit: str | None = None,
    device: str | None = None,
    constraints: Iterable[str] = (),
) -> ShippedTable:
    """Return the table of one or several runs of the same space.

    Args:
        runs: The runs.
        space: The space, with the known constraints if they are texts.
        unit: Unit of the values. None: as in the journal.
        device: Name of the device. None: the model of the CPU, unless the runs were made on several ones.
        constraints: Further known constraints, which may read descriptors of tasks.

    Raises:
        RunFileError: The runs have different spaces, objectives or directions.
        ExpressionError: A constraint cannot be read.
    """
    header = runs[0].header
    for other in runs[1:]:
        _check_same(header, other.header)
    entries = tuple(entry for run in runs for entry in run.entries)
    opened = [run.opened for run in runs]
    context = header.options.context
    kept = ("name", "machine", "system")
    stamp = Stamp(
        fingerprint(header.space),
        header.options.aim.first.name,
        str(context.get(UNIT, "")) if unit is None else unit,
        header.options.aim.first.direction,
        device or _common(str(_part(event, "host").get("cpu", "")) for event in opened),
        _common(str(run.header.options.context.get(COMPILER, "")) for run in runs),
        {k: str(v) for k, v in _part(opened[0], "host").items() if k in kept},
        {str(k): str(v) for k, v in _part(opened[0], "versions").items()},
        max(str(event.get("created", "")) for event in opened),
        tuple({"task": dict(e.task), **e.evidence.summary()} for e in entries),
        hashes_in(context),
    )
    default = _default_of(space)
    tasks = [{}] if space.tasks is None else space.tasks.descriptors
    if default is not None and not (
        all(run.may_use_default for run in runs)
        and any(space.contains({**default, **task}) for task in tasks)
    ):
        default = None
    rule, groups = (runs[0].rule, runs[0].groups) if len(runs) == 1 else (None, ())
    return ShippedTable(entries, default, space, stamp, tuple(constraints), rule, groups)


def _check_same(first: Header, other: Header) -> None:
    for what, old, new in (
        ("space", fingerprint(first.space), fingerprint(other.space)),
        ("objective", first.options.aim.first.name, other.options.aim.first.name),
        ("direction", first.options.aim.first.direction, other.options.aim.first.direction),
    ):
        if old != new:
            raise RunFileError(
                f"the runs differ in the {what} ({old!r:.40} and {new!r:.40}); ship them in separate files"
            )


def _common(values: Iterable[str]) -> str | None:
    """Return the value that all runs have, or None."""
    different = set(values)
    return different.pop() or None if len(different) == 1 else None


def _part(event: Event, key: str) -> Mapping[str, Any]:
    part = event.get(key)
    return part if isinstance(part, Mapping) else {}
