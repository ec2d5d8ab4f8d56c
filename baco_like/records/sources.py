"""Sources of proposals beside the strategy: what each has brought, and which of their proposals comes next.

A source is a person, a script, another tuner, a language model: anybody who calls `Optimizer.propose` under a name. Its
proposals compete with the strategy for trials. All here are pure functions of the history.

The share of a source follows its gains. Its first trials, its probation, come at the shortest interval, as soon as the
strategy has had a few. If all of them fail, the source is stopped. Later a trial without a new best doubles the
interval to the next one, and a new best makes it the shortest again. So the share has a floor and a ceiling, and a
source that was good once is asked again.

The source ``experience`` has a short list with the best first, so a stricter rule suits it. Its trials follow the first
one of the run, one at a time, and after two in a row without a new best it is stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from baco_like._typing import Array, Mask
from baco_like.records.trial import PROPOSED, Observation, Status, Trial

if TYPE_CHECKING:
    from collections.abc import Mapping

    from baco_like.records.history import History

SHORTEST, LONGEST = 2, 20
"""Trials from one of a source to its next one: after a new best, and at most."""

WAIT = 3
"""Number of trials before the first one of a source: the default strategy compares its first three with each other."""

PROBATION = 5
"""Number of the first trials of a source, which come at the shortest interval; it is stopped if all of them fail."""

EXPERIENCE = "experience"
"""The source of what earlier runs of other programs know."""

MOST_MISSES = 2
"""Number of trials in a row without a new best after which `EXPERIENCE` is stopped."""


@dataclass(frozen=True, eq=False)
class OpenProposal:
    """A configuration that a source has proposed, and that no trial has yet.

    Attributes:
        source: Name of the source.
        note: Its reason, or an empty text.
        config: The configuration.
        code: Its row of codes, (w,).
    """

    source: str
    note: str
    config: Mapping[str, Any]
    code: Array


@dataclass(frozen=True)
class SourceRecord:
    """The trials of a source and their gains.

    Attributes:
        source: Name of the source.
        trials: Number of its trials, pending ones included.
        pending: Number of those without an outcome.
        successes: Number of those that ran.
        gains: Number of those that were a new best when they were observed.
        best: Its best trial, or None.
        interval: Number of trials from its last one to its next one.
        last: Position of its last trial among all trials; before the first one such that it comes after `WAIT` others.
        misses: Number of its trials since the last new best, pending ones included.
    """

    source: str
    trials: int = 0
    pending: int = 0
    successes: int = 0
    gains: int = 0
    best: Observation | None = None
    interval: int = SHORTEST
    last: int = WAIT - SHORTEST
    misses: int = 0

    @property
    def is_stopped(self) -> bool:
        """Whether it gets no trial: as many as may fail have failed, or are pending, and none has succeeded."""
        if self.source == EXPERIENCE:
            return self.misses >= MOST_MISSES
        return not self.successes and self.trials >= PROBATION

    @property
    def share(self) -> float:
        """Its present share of the trials; 0 if it is stopped."""
        if self.source == EXPERIENCE:
            return float(not self.is_stopped)
        return 0.0 if self.is_stopped else 1.0 / self.interval

    def add(self, position: int, trial: Trial | None, is_gain: bool) -> SourceRecord:
        """Return the record after one more trial of the source; None is one that is suggested now."""
        own = trial if isinstance(trial, Observation) else None  # else it is pending
        has_run = own is not None and own.value is not None
        is_early = self.trials + 1 < PROBATION
        known = [each for each in (self.best, own if has_run else None) if each is not None]
        return replace(
            self,
            trials=self.trials + 1,
            pending=self.pending + (own is None),
            successes=self.successes + has_run,
            gains=self.gains + is_gain,
            best=min(known, key=lambda each: each.cost, default=None),
            interval=SHORTEST if is_early or is_gain else min(LONGEST, 2 * self.interval),
            last=position,
            misses=0 if is_gain else self.misses + 1,
        )


def source_of(trial: Trial) -> str | None:
    """Return the source that has proposed a trial, or None."""
    return trial.read_tag("source") if trial.origin == PROPOSED else None


def read_sources(history: History) -> dict[str, SourceRecord]:
    """Return the records of all sources that have trials, by name."""
    return _read_trials(history)[0]


def read_finders(history: History) -> dict[str, SourceRecord]:
    """Return what each source, and each origin of the other trials of the search, has brought; empty without a source.

    The interval and the position of an origin have no meaning.
    """
    trials = history.trials
    if all(source_of(trial) is None for trial in trials):
        return {}
    records: dict[str, SourceRecord] = {}
    for row in np.flatnonzero(history.is_search)[history.warm :]:
        name = source_of(trials[row]) or trials[row].origin
        record = records.get(name, SourceRecord(name))
        records[name] = record.add(row, trials[row], _is_new_best(history, row))
    return records


def next_proposals(
    history: History, proposals: Sequence[OpenProposal], n: int
) -> list[OpenProposal]:
    """Return the open proposals that are among the next n trials; the others belong to the strategy.

    Each of the n trials counts those before it as pending. Of one source the first proposal is chosen.

    Args:
        history: The history of the run.
        proposals: The open proposals that may be suggested now.
        n: Number of trials.
    """
    if not proposals:
        return []
    records, position, debt = _read_trials(history)
    left = list(proposals)
    chosen: list[OpenProposal] = []
    for here in range(position, position + n):
        due = [p for p in left if _is_due(records.get(p.source, SourceRecord(p.source)), here)]
        due = [p for p in due if p.source == EXPERIENCE] or ([] if debt else due)
        if not due:
            debt = max(0, debt - 1)
            continue
        proposal = min(due, key=lambda p: _order(records.get(p.source)))
        record = records.get(proposal.source, SourceRecord(proposal.source))
        records[proposal.source] = record.add(here, None, False)
        left.remove(proposal)
        chosen.append(proposal)
        debt += proposal.source != EXPERIENCE
    return chosen


def _is_due(record: SourceRecord, position: int) -> bool:
    if record.source == EXPERIENCE:
        return position > 0 and not record.is_stopped
    return not record.is_stopped and position - record.last >= record.interval


def _order(record: SourceRecord | None) -> tuple[int, int]:
    """Return by what the next source is chosen: first a new one, then the best one, then the one that has waited."""
    return (0, 0) if record is None else (record.interval, record.last)


def _read_trials(history: History) -> tuple[dict[str, SourceRecord], int, int]:
    """Return the records of the sources, the number of trials, and the debt of the sources.

    The debt is the number of trials that belong to the strategy before a source is due again, so that all sources
    together have at most half of the trials.
    """
    observed = {trial.id: row for row, trial in enumerate(history.trials)}
    trials = {trial.id: trial for trial in (*history.trials, *history.pending.values())}
    records: dict[str, SourceRecord] = {}
    debt = 0
    for position, i in enumerate(sorted(trials)):
        source = source_of(trials[i])
        if source is None:
            debt = max(0, debt - 1)
            continue
        is_gain = i in observed and _is_new_best(history, observed[i])
        record = records.get(source, SourceRecord(source))
        records[source] = record.add(position, trials[i], is_gain)
        debt += source != EXPERIENCE
    return records, len(trials), debt


def _is_new_best(history: History, row: int) -> bool:
    """Whether no earlier trial of the same task and fidelity was as good in all objectives."""
    ok = history.where(Status.OK)
    if not ok[row]:
        return False
    costs = history.objective_costs()[0]
    earlier = np.flatnonzero(ok[:row] & _is_same_aim(history, row)[:row])
    return not bool((costs[earlier] <= costs[row]).all(axis=1).any())


def _is_same_aim(history: History, row: int) -> Mask:
    """Return which observations have the task and the fidelity of one of them, (n,)."""
    space, codes = history.space, history.codes
    columns = [] if space.fidelity is None else [space.fidelity.column]
    columns += [] if space.tasks is None else space.task_columns.columns.tolist()
    return np.asarray((codes[:, columns] == codes[row, columns]).all(axis=1))
