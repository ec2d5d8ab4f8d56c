"""The sections of a report about the results: the winner, the search, its end, failures, the peak, metrics."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import combinations, permutations

import numpy as np

from baco_like._output import in_percent, show
from baco_like._random import Purpose, generator
from baco_like._typing import Codes
from baco_like.parameters.protocol import is_permutation
from baco_like.records import Confirmation, Status, Trial
from baco_like.records.limits import LIMIT
from baco_like.records.objective import sign_of
from baco_like.records.sources import source_of
from baco_like.reporting import charts
from baco_like.reporting.facts import RunFacts
from baco_like.reporting.page import Heading, Part, ReportTable, Section
from baco_like.running.findings import convergence, evaluation_numbers, group_failures
from baco_like.running.sentences import (
    COMPLETE,
    candidate_name,
    front_table,
    in_words,
    task_table,
    tell_confirmation,
    tell_counts,
    tell_result,
)
from baco_like.spaces.space import format_size

_SHOWN = 15
"""Most rows of a table that is not complete."""

_BINS = 10
"""Ranges of a continuous parameter whose coverage is counted."""

_MISSING = 8
"""Most values that a table names of those that were not tried."""

_SAMPLE = 2000
"""Random feasible configurations that tell which orders of elements are possible."""

_LEAST = 3
"""Fewest trials with a value whose share of failures is shown."""


def winner_section(facts: RunFacts) -> Section:
    """What won, by how much, and how sure is it?"""
    found, objectives = facts.findings, facts.objectives
    best, confirmation = found.best, found.confirmation
    parts: list[Part] = []
    answer = " ".join(tell_result(found))
    if objectives and best is not None:
        answer += (
            f" The sections on the search and on what mattered are about the first objective, {objectives[0].name}. "
            "What mattered also names the importance for each other objective."
        )
        parts += [
            charts.draw_front(facts, i, j) for i, j in combinations(range(len(objectives)), 2)
        ]
        parts.append(ReportTable(*front_table(found, COMPLETE)))
    elif found.tasks:
        answer += " The other sections treat the tasks as parameters."
        parts.append(ReportTable(*task_table(facts.history, facts.objective)))
    elif confirmation is not None:
        chart = charts.draw_speedups(confirmation, facts.objective.gain)
        parts += [" ".join(tell_confirmation(confirmation)), *([chart] if chart else [])]
        parts.append(_candidates(facts, confirmation))
    elif best is not None and (found.default is not None or len(best.repeats) > 1):
        parts.append(_measured_table(facts))
    if best is not None and (objectives or not found.tasks):
        parts.append(_configurations(facts, best))
        parts += [_steps(facts, name, steps) for name, steps in found.steps.items()]
    return Section("winner", "What won, by how much, and how sure is that?", answer, parts)


def _configurations(facts: RunFacts, best: Trial) -> ReportTable:
    default = facts.findings.default
    if default is None:
        return ReportTable(["parameter", "best"], [[name, show(best[name])] for name in best])
    names = dict.fromkeys([*best, *default])  # conditional parameters: either may lack some
    rows = [[name, show(default.get(name)), show(best.get(name))] for name in names]
    changed = [row for row in rows if row[1] != row[2]]
    counted = sum(name in facts.space.active for name in names)
    caption = f"{len(changed)} of {counted} parameters differ"
    caption += "; those with one value are not counted" if counted < len(rows) else ""
    if changed and len(rows) > COMPLETE:
        rows, caption = changed, f"{caption}; the last section has all values"
    return ReportTable(["parameter", "default", "best"], rows, caption)


def _steps(facts: RunFacts, name: str, steps: Sequence[tuple[object, float | None]]) -> ReportTable:
    before, rows = None, list[list[object]]()
    for element, value in steps:
        change = None if value is None or before is None else value - before
        rows.append(["none" if element is None else element, value, change])
        before = value
    head = ["element", facts.objective.label, "change"]
    return ReportTable(head, rows, f"{name} step by step: the value after each element")


def _measured_table(facts: RunFacts) -> ReportTable:
    rows: list[list[object]] = []
    for name, trial in (("default", facts.findings.default), ("best", facts.findings.best)):
        if trial is not None:
            ends = min(trial.repeats, default=None), max(trial.repeats, default=None)
            rows.append([name, trial.value, len(trial.repeats), *ends])
    head = ["", facts.objective.label, "repeats", "smallest", "largest"]
    return ReportTable(head, rows, "Measured values")


def _candidates(facts: RunFacts, confirmation: Confirmation) -> ReportTable:
    rows: list[list[object]] = []
    for trial, speedup in zip(confirmation.candidates, confirmation.speedups, strict=True):
        interval = "-"
        if speedup is not None and np.isfinite(speedup.high):
            interval = f"{speedup.low:.3f} to {speedup.high:.3f}"
        notes = ["recommended"] if trial is confirmation.recommended else []
        notes += ["not distinguishable from the best"] if trial in confirmation.tied else []
        notes += [f"failed: {trial.failure}"] if trial.failure else []
        measured = [trial.extra.get("observed"), trial.value, len(trial.repeats)]
        gain = [None if speedup is None else speedup.value, interval]
        rows.append([candidate_name(trial, confirmation), *measured, *gain, ", ".join(notes)])
    head = [
        "candidate",
        "in the search",
        "measured again",
        "rounds",
        facts.objective.gain,
        "interval",
        "",
    ]
    return ReportTable(head, rows, f"Candidates; values are {facts.objective.label}")


def search_section(facts: RunFacts) -> Section:
    """How did the search get there?"""
    history, answer = facts.history, tell_counts(facts.findings)
    known = [minutes for minutes in facts.minutes if minutes is not None]
    answer += f"; {_duration(max(known))} of wall time." if known else "."
    if not facts.trials:
        return Section("search", "How did the search get there?", answer)
    best = [float(value) for value in convergence(history)]
    drawn = [charts.draw_search(facts, best, by_time=False)]
    drawn += [charts.draw_search(facts, best, by_time=True)] if known else []
    table = ReportTable(
        ["evaluation", "minutes", "trial", facts.objective.label, "proposed by", "changes"],
        _improvements(facts, best)[-_SHOWN:],
        f"The last improvements, at most {_SHOWN}",
    )
    found = [
        [name, record.trials, record.gains, None if record.best is None else record.best.value]
        for name, record in facts.findings.finders.items()
    ]
    head = ["proposed by", "trials", "new bests", facts.objective.label]
    sources = ReportTable(head, found, "What the sources of proposals found, and the other trials")
    return Section("search", "How did the search get there?", answer, [*drawn, sources, table])


def _improvements(facts: RunFacts, best: Sequence[float]) -> list[list[object]]:
    rows: list[list[object]] = []
    before: Trial | None = None
    numbers = evaluation_numbers(facts.history)
    for n, (trial, level) in enumerate(zip(facts.trials, best, strict=True)):
        is_first = n == 0 or np.isnan(best[n - 1])
        if trial.value != level or not (is_first or best[n - 1] != level):
            continue
        old = trial if before is None else before
        changes = [
            f"{name}: {show(old.get(name))} → {show(trial.get(name))}"
            for name in facts.space.parameters
            if old.get(name) != trial.get(name)
        ]
        shown = ", ".join(changes[:6])
        shown += f" and {len(changes) - 6} more" if len(changes) > 6 else ""
        phase = trial.tag.get("phase") if isinstance(trial.tag, dict) else None
        source = source_of(trial) or (f"{trial.origin}, {phase}" if phase else trial.origin)
        minutes = facts.minutes[n]
        at = None if minutes is None else round(minutes, 2)
        rows.append([int(numbers[n]), at, trial.id, trial.value, source, shown])
        before = trial
    return rows


def _duration(minutes: float) -> str:
    return f"{minutes * 60:.0f} seconds" if minutes < 2 else f"{minutes:.0f} minutes"


def end_section(facts: RunFacts) -> Section:
    """Is it finished?"""
    question, explained = "Is it finished?", facts.explained
    options, history = facts.options, facts.history
    done = tell_counts(facts.findings, options.budget)
    answer = "Too few successes for an estimate."
    if history.objectives or facts.findings.tasks:
        several = "objectives" if history.objectives else "tasks"
        answer = f"There is no estimate for several {several}."
    elif explained is not None:
        answer = f"{explained.outlook or 'There is no estimate relative to a best value of 0'}."
    if runners := facts.find_runner():
        done += f"; process {', '.join(map(str, runners))} is still tuning"
    codes = history.codes[history.inside]
    distinct = len(np.unique(codes, axis=0)) if len(codes) else 0
    size = facts.space.feasible_size if facts.has_constraints else None
    done += (
        f"; {distinct} of {format_size(size)} feasible configurations were tried" if size else ""
    )
    head = ["tried", "possible", "share", "not tried"]
    coverage = _coverage(facts, codes)
    gaps = [row for row in coverage if row[1] != row[2]]
    whole = len(coverage) - len(gaps)
    complete = (
        f"Every value of {whole} of {len(coverage)} parameters was tried." if coverage else ""
    )
    caption = "Parameters with values that were not tried"
    table = ReportTable(["parameter", *head], gaps, caption)
    caption = "Coverage of orders: pairs of elements in both orders, and positions of elements"
    orders = ReportTable(["permutation", *head], _order_coverage(facts, codes), caption)
    return Section("end", question, answer, [f"{done}.", *filter(None, [complete]), table, orders])


def _coverage(facts: RunFacts, codes: Codes) -> list[list[object]]:
    """Return how many values of each parameter were tried."""
    rows: list[list[object]] = []
    for name in facts.space.active:
        parameter = facts.space.parameters[name]
        if parameter.width > 1:
            continue
        column = facts.space.columns[name].start
        own = codes[facts.space.activity.where(name, codes)]
        used = facts.space.feasible.used(column)
        if used is None:
            tenths = (parameter.to_unit(own[:, [column]]) * _BINS).astype(int)
            tried = len(np.unique(np.minimum(tenths, _BINS - 1)))
            rows.append(
                [f"{name} (tenths of the range)", tried, _BINS, in_percent(tried / _BINS), ""]
            )
            continue
        missing = np.setdiff1d(used, own[:, column])
        listed = missing[: _MISSING + 1, None]
        words = [show(value) for value in parameter.decode(listed)] if len(missing) else []
        rows.append(_coverage_row(name, len(used) - len(missing), len(used), words))
    return rows


def _coverage_row(name: str, tried: int, possible: int, missing: Sequence[str]) -> list[object]:
    """Return a row of a table of coverage; of what was not tried, it names the first."""
    shown = ", ".join([*missing[:_MISSING], *(["..."] if len(missing) > _MISSING else [])])
    share = in_percent(tried / possible) if possible else "-"
    return [name, tried, possible, share, shown]


def _order_coverage(facts: RunFacts, codes: Codes) -> list[list[object]]:
    """Return how many orders of two elements and positions were tried, of those seen in random configurations."""
    rows: list[list[object]] = []
    names = [n for n in facts.space.active if is_permutation(facts.space.parameters[n])]
    if not names:
        return rows
    rng = generator(facts.options.seed, Purpose.EXPLAIN, len(facts.history) + 5)
    sample = np.concatenate([facts.space.feasible.sample(_SAMPLE, rng), codes])
    for name in names:
        parameter = facts.space.parameters[name]
        assert is_permutation(parameter)
        elements, columns = parameter.elements, facts.space.columns[name]
        tried = codes[facts.space.activity.where(name, codes)][:, columns]
        possible = sample[facts.space.activity.where(name, sample)][:, columns]
        pairs = {}
        for (i, a), (j, b) in permutations(enumerate(elements), 2):
            if (possible[:, i] < possible[:, j]).any():
                pairs[f"{a} before {b}"] = bool((tried[:, i] < tried[:, j]).any())
        places = {
            f"{element} at {k}": bool((tried[:, i] == k).any())
            for i, element in enumerate(elements)
            for k in range(len(elements))
            if (possible[:, i] == k).any()
        }
        for label, found in (("pairs", pairs), ("positions", places)):
            missing = [text for text, is_tried in found.items() if not is_tried]
            count = len(found) - len(missing)
            rows.append(_coverage_row(f"{name}: {label}", count, len(found), missing))
    return rows


def failure_section(facts: RunFacts) -> Section:
    """What fails, and why?"""
    question, trials = "What fails, and why?", facts.history.searched_trials
    failed = [t for t in trials if t.status is Status.FAILED]
    stopped = in_words(facts.findings.censored)
    extra = f" Stopped early, with a lower bound of the value: {stopped}." if stopped else ""
    if not failed:
        return Section("failures", question, f"Nothing failed.{extra}")
    answer = f"{len(failed)} of {len(trials)} evaluations failed: {in_words(facts.findings.failures)}.{extra}"
    rows: list[list[object]] = [
        [word, len(same), message, ", ".join(str(t.id) for t in same[:5])]
        for word, message, same in group_failures(failed)[:_SHOWN]
    ]
    head = ["failure", "number", "first line of the log", "trials"]
    parts: list[Part] = [ReportTable(head, rows, "Most frequent causes")]
    head = ["parameter", "value", "trials", "failed", "share"]
    caption = (
        f"Values that fail most often (tried at least {_LEAST} times, above the overall share)"
    )
    parts.append(ReportTable(head, _failing_values(trials), caption))
    if facts.explained is not None:
        effects = [e for e in facts.explained.importance if not np.isnan(e.failing)]
        effects.sort(key=lambda e: -e.failing)
        shares = [[e.name, *e.cells()[4:]] for e in effects[:8]]
        caption = "What decides whether a configuration runs: shares of the variance of failing"
        parts.append(ReportTable(["parameter", "share", "90 % interval"], shares, caption))
    return Section("failures", question, answer, parts)


def _failing_values(trials: Sequence[Trial]) -> list[list[object]]:
    total, failed = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for trial in trials:
        pairs = [(name, show(value)) for name, value in trial.config.items()]
        total.update(pairs)
        if trial.status is Status.FAILED:
            failed.update(pairs)
    overall = sum(t.status is Status.FAILED for t in trials) / len(trials)
    shares = [
        (failed[pair] / count, count, pair)
        for pair, count in total.items()
        if count >= _LEAST and failed[pair] / count > overall
    ]
    shares.sort(key=lambda each: (-each[0], -each[1]))
    return [[*pair, n, failed[pair], in_percent(share)] for share, n, pair in shares[:_SHOWN]]


def peak_section(facts: RunFacts) -> Section:
    """How far is it from the peak?"""
    question, best, peak = "How far is it from the peak?", facts.findings.best, facts.peak
    if facts.objectives:
        return Section("peak", question, "A peak is the best value of one objective.")
    if peak is None:
        hint = (
            "No peak was stated. Write the best value that the machine allows as peak under [objective] of the run "
            "file, or give --peak to the command report."
        )
        return Section("peak", question, hint)
    if best is None or best.value is None:
        return Section("peak", question, "No evaluation has succeeded yet.")
    sign = sign_of(facts.objective.direction)
    rows: list[list[object]] = [
        [name, trial.value, in_percent((peak / trial.value) ** sign, 1)]
        for name, trial in (("default", facts.findings.default), ("best", best))
        if trial is not None and trial.value
    ]
    reached = rows[-1][2] if rows else "an unknown share"
    answer = f"The best configuration reaches {reached} of the stated peak, {show(peak)}."
    beaten = sum(t.value is not None and sign * t.value < sign * peak for t in facts.ok)
    if beaten:
        answer += (
            f" {beaten} evaluations are better than the peak: check the peak, or the measurement."
        )
    rows.append(["peak", peak, "100 %"])
    table = ReportTable(["", facts.objective.label, "of the peak"], rows)
    return Section("peak", question, answer, [table])


def metrics_section(facts: RunFacts) -> Section:
    """What about other metrics or inputs?"""
    question = "What about other metrics or inputs?"
    names = list(dict.fromkeys(name for trial in facts.trials for name in trial.metrics))
    limits = facts.options.aim.limits
    if not names and not limits:
        return Section("metrics", question, "The run measured one value only.")
    beyond = sum(t.failure == LIMIT for t in facts.trials)
    answer = f"The run also measured {', '.join(names) or 'nothing yet'}."
    if limits:
        answer += f" Limits: {'; '.join(map(str, limits))}; {beyond} evaluations were beyond one."
    best, default = facts.findings.best, facts.findings.default
    rows: list[list[object]] = []
    for name in names:
        values = [t.metrics[name] for t in facts.trials if name in t.metrics]
        pair = [_metric(facts, trial, name) for trial in (default, best)]
        rows.append([name, *pair, min(values), float(np.median(values)), max(values)])
    table = ReportTable(["metric", "default", "best", "smallest", "median", "largest"], rows)
    inputs = _inputs(facts, names)
    parts: list[Part] = [table]
    if inputs is not None:
        answer += f" {inputs[0]}"
        parts += [Heading("Inputs"), inputs[1]]
    drawn = [charts.draw_metric(facts, name) for name in names[:4]]
    return Section("metrics", question, answer, [*parts, Heading("Metrics and the value"), *drawn])


def _inputs(facts: RunFacts, names: Sequence[str]) -> tuple[str, ReportTable] | None:
    """Compare the winner with the best configuration for each input alone; None if no metrics are those of inputs.

    Metrics of inputs have the objective's name and an ending (``time_small``), or differ in a number (``ms_1000``).
    """
    objective, best, default = facts.objective, facts.findings.best, facts.findings.default
    own = [name for name in names if name.startswith(f"{objective.name}_")]
    family = {name: re.sub(r"\d+", "#", name) for name in names}
    sizes = Counter(family.values())
    own += [name for name in names if name not in own and sizes[family[name]] > 1]
    sign = sign_of(objective.direction)
    rows: list[list[object]] = []
    behind: list[tuple[float, str]] = []
    for name in own:
        value = _metric(facts, best, name)
        measured = [(sign * t.metrics[name], t.id) for t in facts.ok if name in t.metrics]
        if value is None or not measured:
            continue
        cost, number = min(measured)
        # The winner may have been measured again, and then be better.
        loss = max(value / cost - sign, 0.0) if sign * cost * value > 0.0 else 0.0
        behind.append((loss, name))
        first = _metric(facts, default, name)
        rows.append([name, first, value, sign * cost, number, in_percent(loss, 1)])
    if len(rows) < 2:
        return None
    head = ["input", "default", "winner", "best of any", "its trial", "winner is worse by"]
    better = "smaller" if sign > 0.0 else "larger"
    caption = f"Metrics whose names end or differ as those of inputs do; {better} is better"
    most, name = max(behind)
    answer = f"For each of {len(rows)} inputs alone, the winner is at most {in_percent(most, 1)} behind the best"
    return f"{answer} ({name}).", ReportTable(head, rows, caption)


def _metric(facts: RunFacts, trial: Trial | None, name: str) -> float | None:
    """Return a metric of a trial; new measurements of a configuration count with its first trial in the run."""
    if trial is None:
        return None
    same = facts.history.trials_of(trial.config)
    known = (t.metrics[name] for t in same if t.status is Status.OK and name in t.metrics)
    return trial.metrics.get(name, next(known, None))
