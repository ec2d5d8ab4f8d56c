"""Tell the findings of a run in words: sentences and text tables, for the command line, the report and the progress."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from baco_like._output import align_cells, escape_control_characters, format_table, in_percent, show
from baco_like.journal.header import FOLDER, hashes_in
from baco_like.records import (
    Confirmation,
    History,
    Objective,
    Speedup,
    Status,
    TaskRecommendation,
    Trial,
)
from baco_like.records.trial import CONTROL, read_values
from baco_like.results.files import hash_of_files
from baco_like.running.findings import CHANGED, Findings, best_by_task
from baco_like.shipping.stamp import describe_edit

COMPLETE = 15
"""Most parameters whose unchanged values are shown too."""

SHOWN = 20
"""Most rows of a table of the front."""

_UNTRIED = (
    "Not each of them was tried: raise [confirmation] simplify (simplify in Python) and resume."
)

_WRONG_DEFAULT = "The default fails its check: suspect the program, for example undefined behaviour, or the check."

_MORE = "for more measurements, raise [confirmation] evaluations (Confirm(evaluations=...) in Python) and resume"


# Sentences ------------------------------------------------------------------------------------------------------------


def tell_counts(found: Findings, budget: int | None = None) -> str:
    """Return how many trials there are: evaluations of a budget, pending ones, failures by kind, and busy workers."""
    history, searched = found.history, found.history.searched
    again = history.evaluations - history.builds
    # A resumed run may have a larger budget than its journal names.
    of = "" if budget is None or searched > budget else f" of {budget}"
    text = f"{searched}{of} evaluations"
    text += f", {history.builds} builds" if history.builds > searched else ""
    text += f", {len(history.pending)} pending" if history.pending else ""
    text += f", {again} measurements to confirm the winner" if again else ""
    text += f", {history.warm} results of earlier runs" if history.warm else ""
    text += f"; failures: {in_words(found.failures) or 'none'}"
    text += f"; censored: {in_words(found.censored)}" if found.censored else ""
    return text + (f"; {found.utilisation.describe()}" if found.utilisation else "")


def tell_findings(found: Findings) -> list[str]:
    """Return all sentences on the findings but those on counts and edits."""
    result = [*tell_result(found), *tell_confirmation(found.confirmation), *tell_steps(found)]
    return [*result, *tell_sources(found), *tell_conditions(found)]


def tell_result(found: Findings) -> list[str]:
    """Return the sentences on the best configuration: which one it is, how good it is, and how sure that is."""
    best, default, objectives = found.best, found.default, found.history.objectives
    suspect = [] if default is None or default.failure != "correctness" else [_WRONG_DEFAULT]
    if best is None:
        return ["No evaluation has succeeded yet.", *suspect]
    known = ""
    if default is not None and default.outcome is not None:
        known = f" (the default: {describe_values(default, objectives or (found.objective,))})"
    if objectives:
        values = describe_values(best, objectives)
        return [
            f"No configuration is the best in all objectives: {describe_front(found.front, objectives)}.",
            f"The knee, the nearest to the best of each, is trial {best.id}: {values}{known}.",
        ]
    if found.tasks:
        return [
            f"The run has {len(found.tasks)} tasks. The table has the best configuration of each."
        ]
    value = f"{found.objective.name} = {_with_unit(best, found.objective)}"
    confirmation, speedup = found.confirmation, found.confirmed_speedup
    if found.is_default_best and not found.is_default_kept:
        return [f"The default configuration is the best one found: {value}."]
    if found.is_default_best:
        return [
            f"No configuration is shown to be better than the default, which is kept: {value}.",
            *_tell_leader(found),
        ]
    lines = [f"Trial {best.id} is the best: {value}{known}.", *suspect]
    if confirmation is not None and speedup is not None:
        shown = format_speedup(speedup, confirmation.plan.confidence)
        lines.append(f"{found.objective.gain.capitalize()} over the default: {shown}.")
        if speedup.low <= 1.0:
            lines.append("The interval includes 1, so the gain is not certain.")
    elif found.speedup is not None:
        lines.append(f"That is {found.speedup:.4g} times better than the default.")
    if confirmation is None and not found.objective.exact:
        lines += _tell_controls(found.history, best)
        lines.append(
            "The best of many noisy values is partly luck: [confirmation] measures it and the default again."
        )
    return lines


def _tell_leader(found: Findings) -> list[str]:
    """Return how good the fastest candidate may be where the default is kept."""
    leader, confirmation = found.leader, found.confirmation
    speedup = None if confirmation is None else confirmation.speedup_of(leader)
    if leader is None or confirmation is None or speedup is None:
        return []
    shown = format_speedup(speedup, confirmation.plan.confidence)
    return [f"Trial {leader.id} may be: {shown}."]


def _tell_controls(history: History, best: Trial) -> list[str]:
    """Return what later measurements of the winner gave during the search."""
    same = [t for t in history.trials_of(best.config) if t.origin == CONTROL]
    values = [trial.value for trial in same if trial.value is not None]
    if not values:
        return []
    number = "once" if len(values) == 1 else f"{len(values)} times"
    median = show(float(np.median(values)))
    return [f"Measured again {number} during the search, the median was {median}."]


def tell_confirmation(confirmation: Confirmation | None) -> list[str]:
    """Return the sentences on the candidates of a confirmation: its size, ties, the choice, and changed values."""
    if confirmation is None:
        return []
    lines, plan, chosen = [], confirmation.plan, confirmation.recommended
    if not plan.exact:
        measured = _count(confirmation.measurements, "measurement")
        rounds = _count(confirmation.rounds, "round")
        end = "decided" if confirmation.is_decided else f"not decided; {_MORE}"
        candidates = _count(len(confirmation.candidates), "candidate")
        lines.append(f"Confirmed in {rounds} of {candidates} ({measured}): {end}.")
    lines += _tell_simplification(confirmation)
    if len(confirmation.tied) > 1 and chosen is not None:
        text = "Not distinguishable: " + ", ".join(
            candidate_name(trial, confirmation) for trial in confirmation.tied
        )
        if chosen is not confirmation.default and confirmation.default is not None:
            text += (
                f"; {candidate_name(chosen, confirmation)} is the closest to the default of those within "
                f"{in_percent(plan.tolerance, 1)} of the best"
            )
        lines.append(f"{text}.")
    changes = [
        f"{candidate_name(trial, confirmation)} from {observed:.4g} to {trial.value:.4g}"
        for trial in confirmation.candidates
        if trial.value is not None
        and (observed := trial.extra.get("observed"))
        and abs(trial.value / observed - 1.0) > CHANGED
    ]
    if changes:
        lines.append(
            f"Values that changed by more than {in_percent(CHANGED)}: {', '.join(changes)}."
        )
    failed = [
        f"{candidate_name(trial, confirmation)} ({trial.failure})"
        for trial in confirmation.candidates
        if trial.failure
    ]
    return [*lines, f"Failed when measured again: {', '.join(failed)}."] if failed else lines


def _tell_simplification(confirmation: Confirmation) -> list[str]:
    """Return which parameters of the winner returned to their defaults, and which ones did not."""
    found, best = confirmation.plan.simplification, confirmation.recommended
    if found is None or best is None or best is confirmation.default:
        return []
    n, kept = len(found.dropped), ", ".join(found.kept[:COMPLETE])
    changed = f"{n} of the {n + len(found.kept)} changed parameters"
    tests = f"({_count(found.measurements, 'measurement')})"
    if found.elements:
        lost = _count(found.elements, "element")
        changed = f"{lost} of its sequences" if not n else f"{lost} of its sequences and {changed}"
    if best.id == found.trial and (n or found.elements):
        return [f"Without {changed} the winner is not as good {tests}."]
    more = "" if len(found.kept) <= COMPLETE else ", ..."
    ending = "returned to their defaults" if not found.elements else "were dropped"
    text = f"{changed} {ending} {tests}. Those that differ: {kept}{more}."
    if found.elements and not n and isinstance(left := best.config.get(kept), (tuple, list)):
        before, after = len(left) + found.elements, _count(len(left), "element")
        text = f"{kept} went from {before} to {after} {tests}."
    return [text if found.is_minimal else f"{text} {_UNTRIED}"]


def tell_steps(found: Findings) -> list[str]:
    """Return for each sequence of the best configuration its value after each element, if all were measured."""
    return [
        f"Step by step, {name}: "
        + ", ".join(
            f"{'none' if element is None else show(element)} "
            + ("fails" if value is None else f"{value:.6g}")
            for element, value in steps
        )
        + "."
        for name, steps in found.steps.items()
    ]


def tell_conditions(found: Findings) -> list[str]:
    """Return the sentences on the conditions of the measurements: noise, drift, notes, and priors without weight."""
    lines = []
    if found.noise is not None:
        lines.append(f"Repeats of one configuration spread by {in_percent(found.noise, 1)}.")
    lines += [*found.drift, *found.notes]
    if not found.drift and any(trial.origin == CONTROL for trial in found.history.trials):
        lines.append(f"No drift of the machine beyond {in_percent(found.threshold)}.")
    return lines + [
        f"The prior {name} has no weight: it ranks the results of this run no better than chance, or worse than the "
        "run's own model does."
        for name, weight in found.prior_weights.items()
        if weight == 0.0
    ]


def tell_sources(found: Findings) -> list[str]:
    """Return a sentence on each source of proposals and on the others: its trials, its gains and its best value."""
    return [
        f"Found by {name}: {_count(record.trials, 'trial')}, {_count(record.gains, 'new best')}, "
        f"best {'none' if record.best is None else format_result(record.best)}."
        for name, record in found.finders.items()
    ]


def tell_edits(context: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each source of a run that was edited since, where its folder is on this machine."""
    folder, edited = Path(str(context.get(FOLDER, ""))), []
    for name, old in hashes_in(context).items() if folder.is_absolute() else ():
        with contextlib.suppress(OSError, ValueError):
            if hash_of_files([folder / name]) != old:
                edited.append(describe_edit(name))
    return edited


def tell_recommendation(found: TaskRecommendation | None) -> list[str]:
    """Return the recommended configurations with the tasks that they are for, and the combined slowdown."""
    if found is None:
        return []
    # A condition may read a descriptor, so these may be more than `found.configs`.
    by_config: dict[str, list[str]] = {}
    for choice in found.choices:
        values = ", ".join(f"{name}={show(value)}" for name, value in choice.config.items())
        by_config.setdefault(values, []).append(choice.name)
    lines = [
        f"recommended: {values} (for {', '.join(names)})" for values, names in by_config.items()
    ]
    known = {choice.name for choice in found.choices}
    if missing := [name for name in found.selector.tasks.names if name not in known]:
        lines.append(f"no configuration is recommended for {', '.join(missing)}")
    slowest = max(choice.slowdown for choice in found.choices)
    lines.append(
        f"combined slowdown {found.slowdown:.3f}, largest {slowest:.3f}, relative to the best known value of each task"
    )
    return [*map(escape_control_characters, lines)]


def format_speedup(speedup: Speedup, confidence: float) -> str:
    """Return a speed-up with its interval in words; an exact one has none."""
    if speedup.low == speedup.high:
        return f"{speedup.value:.3f}"
    if math.isinf(speedup.high):
        return f"{speedup.value:.3g}, too few rounds for an interval"
    text = f"{speedup.value:.3f}, {100 * confidence:g} % interval {speedup.low:.3f} to {speedup.high:.3f}"
    if speedup.search is None:
        return text
    return f"{text} (it changes with the load: {speedup.search:.3f} in the search)"


def format_result(trial: Trial) -> str:
    """Return the value of an observed trial, the bound of a censored one, or the failure word."""
    if trial.value is not None:
        return f"{trial.value:.4g}"
    return str(trial.failure) if trial.bound is None else f">= {trial.bound:.4g}"


def _with_unit(trial: Trial, objective: Objective) -> str:
    has_number = trial.value is not None or trial.bound is not None
    return f"{format_result(trial)} {objective.unit if has_number else ''}".rstrip()


def shown_value(value: Any) -> str:
    """Return a value of a configuration or a note in one line."""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = " ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
    return escape_control_characters(text)


def describe_front(front: Sequence[Trial], objectives: Sequence[Objective]) -> str:
    """Return the size of a front and the range of each objective on it, as one line."""
    values = [read_values(trial, objectives) for trial in front]
    if not values:
        return "no evaluation has succeeded yet"
    parts = []
    for objective, column in zip(objectives, zip(*values, strict=True), strict=True):
        low, high = min(column), max(column)
        numbers = show(low) if low == high else f"{show(low)} to {show(high)}"
        parts.append(f"{objective.name} {numbers} {objective.unit}".rstrip())
    return f"front of {len(front)}: {', '.join(parts)}"


def describe_values(trial: Trial, objectives: Sequence[Objective]) -> str:
    """Return the values of a trial by objective, as in ``time 1.2, size 800``; without a value how it ended."""
    if len(objectives) < 2 or trial.value is None:
        return _with_unit(trial, objectives[0])
    values = zip(objectives, read_values(trial, objectives), strict=True)
    return ", ".join(f"{objective.name} {show(value)}" for objective, value in values)


def in_words(counts: Mapping[str, int]) -> str:
    """Return counts by word as a text, the largest first."""
    return ", ".join(f"{word} {n}" for word, n in Counter(counts).most_common())


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def candidate_name(trial: Trial, confirmation: Confirmation) -> str:
    """Return the name of a candidate of a confirmation."""
    return "the default" if trial is confirmation.default else f"trial {trial.id}"


# Tables ---------------------------------------------------------------------------------------------------------------


def format_summary(found: Findings) -> str:
    """Return a table and the sentences about it: the default against the best, the front, or the best of each task."""
    if found.best is None:
        messages = [f"  {word}: {message}" for word, message in found.messages.items()]
        return "\n".join([f"{tell_counts(found)}. {' '.join(tell_result(found))}", *messages])
    if found.history.objectives:
        table = format_front(found, COMPLETE)
    elif found.tasks:
        table = format_table(*task_table(found.history, found.objective))
    else:
        table = _format_comparison(found, found.best)
    return "\n".join([table, "", *tell_findings(found), "", tell_counts(found)])


def _format_comparison(found: Findings, best: Trial) -> str:
    """Return the default against the best: parameters, value, speed-up, repeats and their spread."""
    speedup, default, title = found.speedup, found.default, "best"
    if found.leader is not None and found.confirmation is not None:
        best, title = found.leader, f"trial {found.leader.id}"
        confirmed = found.confirmation.speedup_of(best)
        speedup = None if confirmed is None else confirmed.value
    names = every = list(best)
    if default is not None:
        # Conditional parameters: either configuration may lack some of the other.
        names = every = list(dict.fromkeys([*best, *default]))
        if len(every) > COMPLETE:
            names = [name for name in every if default.get(name) != best.get(name)]
    columns = [
        ["", *names, found.objective.label, "repeats", "spread"],
        ["default", *_format_column(default, names)],
        [title, *_format_column(best, names)],
    ]
    if speedup is not None:
        cells = (found.objective.gain, "1.00", f"{speedup:.2f}")
        columns = [[*column, cell] for column, cell in zip(columns, cells, strict=True)]
    lines = align_cells(zip(*columns, strict=True), left=1)
    rule = "-" * max(map(len, lines))
    n = len(names)
    same = [f"{len(every) - n} more have their default"] if n < len(every) else []
    return "\n".join([lines[0], rule, *lines[1 : n + 1], *same, rule, *lines[n + 1 :]])


def _format_column(trial: Trial | None, names: Sequence[str]) -> list[str]:
    """Return the cells of a trial: its values, its result, its repeats and their range."""
    if trial is None:
        return ["-"] * (len(names) + 3)
    values = [shown_value(trial.config.get(name, "-")) for name in names]
    repeats = trial.repeats
    spread = f"{min(repeats):.4g} - {max(repeats):.4g}" if repeats else "-"
    return [*values, format_result(trial), str(len(repeats)), spread]


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


def front_table(found: Findings, most_parameters: int) -> tuple[list[str], list[list[Any]]]:
    """Return the head and the rows of a table: what a trial is, its number, objectives and parameters.

    The default comes first. Of a large front `SHOWN` trials are selected evenly, the knee among them. With more
    parameters than ``most_parameters``, those with the same value in all rows are left out.
    """
    knee, default, objectives = found.best, found.default, found.history.objectives
    shown = found.front
    if len(shown) > SHOWN:
        at = set(np.linspace(0, len(shown) - 1, SHOWN).round().astype(int).tolist())
        shown = [t for i, t in enumerate(shown) if i in at or t is knee]
    rows = [*([] if default is None else [default]), *(t for t in shown if t is not default)]
    names = list(dict.fromkeys(name for trial in rows for name in trial))
    if len(names) > most_parameters:
        names = [n for n in names if len({str(trial.config.get(n)) for trial in rows}) > 1]
    head = ["", "trial", *(objective.label for objective in objectives), *names]
    table = []
    for trial in rows:
        words = ["default"] if trial is default else []
        words += ["knee"] if trial is knee else []
        is_ok = trial.value is not None
        values = read_values(trial, objectives) if is_ok else [trial.failure] * len(objectives)
        configured = [trial.config.get(name, "-") for name in names]
        table.append([", ".join(words), trial.id, *values, *configured])
    return head, table


def format_front(found: Findings, most_parameters: int) -> str:
    """Return the front as a text table, see `front_table`; each line is at most as wide as its cells."""
    head, rows = front_table(found, most_parameters)
    left = len(found.front) - sum(trial.id in {row[1] for row in rows} for trial in found.front)
    more = [f"{left} more trials of the front are not shown"] if left else []
    return "\n".join([format_table(head, rows), *more])
