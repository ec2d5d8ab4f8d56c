"""Stopping rules: pure predicates on the history, joined with ``|`` (whichever comes first) and ``&`` (all of them)."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import SupportsFloat, final

import numpy as np
from typing_extensions import override

from baco_like.records.direction import sign_of
from baco_like.records.history import History
from baco_like.records.stopping import StopRule
from baco_like.records.trial import Status


class Rule:
    """Base of the rules here: adds ``|`` and ``&``. A rule of your own needs `reason` and `room` only."""

    def reason(self, history: History, seconds: float) -> str | None:
        """Return why the run is over, or None while it is not."""
        raise NotImplementedError

    def room(self, history: History) -> int | None:
        """Return how many more trials may be started, or None where this rule sets no number."""
        return None

    def __or__(self, other: StopRule) -> AnyOf:
        return AnyOf((self, other))

    def __and__(self, other: StopRule) -> AllOf:
        return AllOf((self, other))


def _check_number(name: str, wanted: str, value: float) -> None:
    if isinstance(value, str) or not isinstance(value, SupportsFloat):
        raise TypeError(f"{name} must be {wanted}, not {value!r}")


def _positive(name: str, value: float) -> None:
    _check_number(name, "a positive number", value)
    if not value > 0:
        raise ValueError(f"{name} must be positive, not {value!r}")


def _count(name: str, value: int) -> int:
    """Return a whole number from 1 as an int; NumPy's are welcome."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, not {value!r}") from None
    _positive(name, number)
    return number


def _check_rules(rules: Iterable[StopRule]) -> None:
    for rule in rules:
        parts = (getattr(rule, "reason", None), getattr(rule, "room", None))
        if isinstance(rule, type) or not all(map(callable, parts)):
            raise TypeError(f"{rule!r} is no stopping rule; write MaxEvals(60) or MaxTime(60), say")


@final
@dataclass(frozen=True)
class MaxEvals(Rule):
    """End after so many observed trials, failures included; pending ones count against what may be started."""

    evaluations: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "evaluations", _count("MaxEvals(evaluations)", self.evaluations))

    @override
    def reason(self, history: History, seconds: float) -> str | None:
        return (
            f"{self.evaluations} evaluations" if history.evaluations >= self.evaluations else None
        )

    @override
    def room(self, history: History) -> int | None:
        return max(0, self.evaluations - history.evaluations - len(history.pending))


@final
@dataclass(frozen=True)
class MaxTime(Rule):
    """End so many seconds after the run was opened (or resumed); what is in flight is still waited for."""

    seconds: float

    def __post_init__(self) -> None:
        _positive("MaxTime(seconds)", self.seconds)

    @override
    def reason(self, history: History, seconds: float) -> str | None:
        return f"{self.seconds:g} seconds" if seconds >= self.seconds else None


@final
@dataclass(frozen=True)
class NoImprovement(Rule):
    """End when the last ``evaluations`` trials have not improved the best cost by more than ``rel`` of its size.

    Nothing ends before the first success.
    """

    evaluations: int
    rel: float = 0.0

    def __post_init__(self) -> None:
        evaluations = _count("NoImprovement(evaluations)", self.evaluations)
        object.__setattr__(self, "evaluations", evaluations)
        if not 0 <= self.rel < 1:
            raise ValueError(f"NoImprovement(rel) must be in [0, 1), not {self.rel!r}")

    @override
    def reason(self, history: History, seconds: float) -> str | None:
        if history.evaluations < self.evaluations:
            return None
        costs = np.where(history.where(Status.OK), history.costs, np.inf)
        before = costs[: -self.evaluations]
        if not len(before) or not np.isfinite(before.min()):
            return None
        needed = before.min() - self.rel * abs(before.min())
        better = costs.min() < before.min() and costs.min() <= needed
        return None if better else f"no improvement in {self.evaluations} evaluations"


@final
@dataclass(frozen=True)
class Target(Rule):
    """End when a value is at least as good as this one, in the user's unit."""

    value: float

    def __post_init__(self) -> None:
        _check_number("Target(value)", "a number", self.value)
        if math.isnan(self.value):
            raise ValueError("Target(value) must be a number, not nan")

    @override
    def reason(self, history: History, seconds: float) -> str | None:
        best = history.best()
        if best is None or best.value is None:
            return None
        sign = sign_of(history.direction)
        return f"target {self.value:g} reached" if sign * best.value <= sign * self.value else None


@final
@dataclass(frozen=True)
class MaxFailures(Rule):
    """End after so many failed trials."""

    failures: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "failures", _count("MaxFailures(failures)", self.failures))

    @override
    def reason(self, history: History, seconds: float) -> str | None:
        failed = int(history.where(Status.FAILED)[history.warm :].sum())
        return f"{self.failures} failures" if failed >= self.failures else None


@final
@dataclass(frozen=True)
class AnyOf(Rule):
    """End when one of the rules does."""

    rules: tuple[StopRule, ...]

    def __post_init__(self) -> None:
        _check_rules(self.rules)

    @override
    def reason(self, history: History, seconds: float) -> str | None:
        return next(filter(None, (rule.reason(history, seconds) for rule in self.rules)), None)

    @override
    def room(self, history: History) -> int | None:
        return min(
            (n for n in (r.room(history) for r in self.rules) if n is not None), default=None
        )


@final
@dataclass(frozen=True)
class AllOf(Rule):
    """End when every one of the rules does."""

    rules: tuple[StopRule, ...]

    def __post_init__(self) -> None:
        _check_rules(self.rules)

    @override
    def reason(self, history: History, seconds: float) -> str | None:
        reasons = [rule.reason(history, seconds) for rule in self.rules]
        return " and ".join(filter(None, reasons)) if all(reasons) else None

    @override
    def room(self, history: History) -> int | None:
        rooms = [rule.room(history) for rule in self.rules]
        return None if None in rooms else max(n for n in rooms if n is not None)
