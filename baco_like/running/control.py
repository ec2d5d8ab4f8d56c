"""Choose the configurations to measure again during a run, so that drift of the machine is noticed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from baco_like.optimizer.predictions import best_by_repeats
from baco_like.records import History
from baco_like.records.drift import Drift, read_drift
from baco_like.records.trial import CONTROL, MEASURED_AGAIN, Trial, select_best

RECHECK = 25
"""Number of evaluations from one control to the next by default: at most 8 % of a run without drift."""

_AFFECTED = 3
"""Number of best configurations that are measured again after a change."""

_SHARE = 0.1
"""Largest share of control measurements among the evaluations."""


@dataclass(frozen=True)
class Recheck:
    """How often the incumbent is measured again.

    Attributes:
        every: Number of evaluations from one control to the next; 0 makes none.
        threshold: Relative change of its value that counts as drift.

    Raises:
        ValueError: A value is out of range.
    """

    every: int = RECHECK
    threshold: float = 0.05

    def __post_init__(self) -> None:
        if self.every < 0:
            raise ValueError(
                f"every = {self.every}: expected 0 or more evaluations between two rechecks"
            )
        if not self.threshold > 0:
            raise ValueError(f"threshold = {self.threshold}: expected a relative change above 0")

    def next_config(self, history: History) -> Mapping[str, Any] | None:
        """Return the configuration to measure again now, or None. The history alone decides, so a run can resume.

        - After ``every`` evaluations: the configuration of the last control, and then the incumbent if it is another.
        - After a control beyond the threshold: the same configuration at once, since one value may be a disturbance.
        - After a confirmed change: the best three configurations, whose values are from before it. Their new values
          are of the same time, so they can be compared. Measuring again is preferred to correcting all values by a
          factor, because configurations need not slow down by the same factor.
        """
        if not self.every or any(trial.origin == CONTROL for trial in history.pending.values()):
            return None
        latest = history.searched_trials[-self.every :]
        is_due = len(latest) == self.every and all(t.origin != CONTROL for t in latest)
        if not is_due and (not latest or latest[-1].origin != CONTROL):
            return None
        drift = read_drift(history, self.threshold)
        count = len(drift.points)
        if drift.is_deterministic or count > 2 + _SHARE * history.searched:
            return None
        if is_due:
            return drift.points[-1].trial.config if count else _incumbent(history)
        if drift.is_suspicious:
            return drift.points[-1].trial.config
        affected = _find_next_affected(history, drift)
        return affected if affected is not None else _find_next_incumbent(history, latest, drift)


def _incumbent(history: History) -> Mapping[str, Any] | None:
    # With several objectives the knee is measured again, and drift is checked in the first objective.
    best = (None if history.objectives else best_by_repeats(history)) or history.best()
    return None if best is None else best.config


def _find_next_incumbent(
    history: History, latest: list[Trial], drift: Drift
) -> Mapping[str, Any] | None:
    """Return the incumbent after one control of another configuration, unless it has been a control."""
    if len(latest) > 1 and latest[-2].origin == CONTROL:
        return None
    config = _incumbent(history)
    measured = [dict(point.trial.config) for point in drift.points]
    return None if config is None or dict(config) in measured else config


def _find_next_affected(history: History, drift: Drift) -> Mapping[str, Any] | None:
    """Return the next of the best configurations to measure after the latest change, or None."""
    if not drift.changes:
        return None
    change = drift.changes[-1].row
    trials, is_target = history.trials, history.is_target
    if any(trial.origin != CONTROL for trial in trials[change:]):
        return None  # the search has continued, so they have been measured
    before = [
        t
        for t, kept in zip(trials[:change], is_target, strict=False)
        if kept and t.origin not in MEASURED_AGAIN
    ]
    since = [dict(trial.config) for trial in trials[change - 1 :]]
    if history.objectives:
        known = {trial.id for trial in before}
        before = [trial for trial in history.front() if trial.id in known]
    best = select_best(before, history.direction, _AFFECTED)
    return next((trial.config for trial in best if dict(trial.config) not in since), None)
