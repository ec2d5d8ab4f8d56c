"""Drift of the machine during a run: the incumbent is measured again from time to time, and its values are compared.

The first value of an incumbent is lucky more often than not (it was chosen for it), so it says nothing about drift. The
later values of the same configuration, of trials with the origin ``control``, are not chosen: they show drift.

The repeats of one trial may differ too: the first run may fill a cache, or find a processor that is cold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from baco_like._output import in_percent
from baco_like._typing import Array
from baco_like.records.objective import sign_of
from baco_like.records.trial import CONTROL, SAME_PROGRAM, Trial, median

if TYPE_CHECKING:
    from baco_like.records.history import History

_ERRORS = 3.0
"""Standard errors of a typical trial that a change has to exceed, too."""

_FALSE_NOTES = 0.001
"""Share of runs with equally distributed repeats in which `describe_first_repeats` finds a difference by chance."""

_LEAST_DIFFERENCE = 0.01
"""Relative difference of the first repeats that is worth a sentence."""


@dataclass(frozen=True)
class ControlPoint:
    """A control measurement.

    Attributes:
        row: Number of observations before it.
        trial: The trial.
        level: Costs at this time over costs at the first control measurement: 1.1 means 10 % worse.
        is_change: Whether it and the control before it show a change beyond the threshold.
    """

    row: int
    trial: Trial
    level: float
    is_change: bool = False


@dataclass(frozen=True)
class Drift:
    """The control measurements of a run.

    Attributes:
        points: The control measurements, in order.
        limit: Relative change that counts: the threshold, or three standard errors if these are larger.
        is_suspicious: Whether the latest control deviates from the accepted level, and no second one has confirmed it.
        is_deterministic: Whether the controls repeat earlier values exactly.
    """

    points: tuple[ControlPoint, ...] = ()
    limit: float = 0.05
    is_suspicious: bool = False
    is_deterministic: bool = False

    @property
    def changes(self) -> tuple[ControlPoint, ...]:
        """The points at which a change was confirmed."""
        return tuple(point for point in self.points if point.is_change)

    def levels(self, rows: int) -> Array:
        """Return the level at each of the first observations, (rows,), interpolated between the controls."""
        if not self.changes:
            return np.ones(rows)
        at = [float(point.row) for point in self.points]
        logs = np.interp(np.arange(rows), at, [math.log(point.level) for point in self.points])
        return np.asarray(np.exp(logs))

    def describe(self) -> list[str]:
        """Return one sentence for each change."""
        lines, before = [], 1.0
        for point in self.changes:
            change = point.level / before - 1.0
            word = "worse" if change > 0 else "better"
            lines.append(
                f"Drift: values became {in_percent(abs(change))} {word} until evaluation {point.row + 1} (trial "
                f"{point.trial.id} repeats an earlier configuration)."
            )
            before = point.level
        return lines


def read_drift(history: History, threshold: float = 0.05) -> Drift:
    """Return the control measurements of a run and the changes that they show.

    A change is two consecutive controls of one configuration that deviate from the accepted level in the same
    direction by more than the limit; one alone may be a disturbance. Values that are not positive show none.

    Args:
        history: The history.
        threshold: Relative change that counts.
    """
    rows = [(i, t) for i, t in enumerate(history.trials) if t.origin == CONTROL]
    rows = [(i, t) for i, t in rows if t.value is not None and t.value > 0.0]
    limit = max(threshold, _ERRORS * _typical_error(history)) if rows else threshold
    sign, accepted, level, equal = sign_of(history.direction), 1.0, 1.0, 0
    known: dict[Any, tuple[float, float]] = {}
    points: list[ControlPoint] = []
    suspicion: tuple[Any, float] | None = None
    for row, trial in rows:
        name, value = tuple(trial.config.items()), trial.value or 0.0
        if name in known:
            earlier, its_level = known[name]
            level = its_level * (value / earlier) ** sign
            equal += value == earlier
        known.setdefault(name, (value, level))
        gap = math.log(level / accepted)
        is_change = False
        if abs(gap) <= math.log1p(limit):
            suspicion = None
        elif suspicion is not None and suspicion[0] == name and suspicion[1] * gap > 0.0:
            is_change, suspicion, accepted = True, None, level
        else:
            suspicion = (name, gap)
        points.append(ControlPoint(row, trial, level, is_change))
    is_deterministic = equal > 1 and equal == len(rows) - len(known)
    return Drift(tuple(points), limit, suspicion is not None, is_deterministic)


def drift_notes(history: History, trial: Trial, threshold: float = 0.05) -> list[str]:
    """Return the sentence to show after a trial: the change that it confirms, if it is a control."""
    if trial.origin != CONTROL:
        return []
    changes = read_drift(history, threshold)
    latest = changes.changes[-1:]
    return changes.describe()[-1:] if latest and latest[0].trial.id == trial.id else []


def describe_first_repeats(history: History) -> list[str]:
    """Return a sentence if the first repeats of the trials differ from the others beyond chance, else nothing.

    If all repeats of a trial have the same distribution, whatever it is, the first of m is the largest with a
    probability of at most 1 / m. Over all trials this is a binomial test. Tests for the largest and for the smallest
    share the error rate `_FALSE_NOTES`. All trials are compared by their first m values, where m is the smallest number
    of repeats: later values depend on the first ones where they decide the number of repeats.
    """
    trials = [t for t in history.trials[history.warm :] if SAME_PROGRAM not in t.extra]
    repeats = [t.repeats for t in trials if t.value is not None and len(t.repeats) > 1]
    m = min(map(len, repeats), default=0)
    ratios = [r[0] / other for r in repeats if (other := median(r[1:m])) != 0]
    if not ratios or abs(float(np.median(ratios)) - 1.0) < _LEAST_DIFFERENCE:
        return []
    from scipy.special import bdtrc  # the probability of more successes than its first argument

    for word, extreme in (("largest", max), ("smallest", min)):
        # Equal values do not count: a value that never changes shows nothing.
        count = sum(r[0] == extreme(r[:m]) and r[0] not in r[1:m] for r in repeats)
        if bdtrc(count - 1, len(repeats), 1 / m) <= _FALSE_NOTES / 2:
            return [
                f"The first repeat is the {word} of {m} in {count} of {len(repeats)} trials (by chance: in "
                f"{len(repeats) / m:.0f}), at the median {float(np.median(ratios)):.3g} times the others. An earlier "
                "run may fill a cache or warm the machine: add a warm-up, or empty the cache before each run."
            ]
    return []


def _typical_error(history: History) -> float:
    """Return the median of the relative standard errors of all trials with repeats, or 0."""
    errors = [t.sem / abs(t.value) for t in history.trials if t.sem is not None and t.value]
    return float(np.median(errors)) if errors else 0.0
