"""Stopping rules: predicates on the history, combined with ``|`` (any of them) and ``&`` (all of them)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, final

import numpy as np
from typing_extensions import override

from baco_like import explanations
from baco_like._tables import Count, Positive, Shape, Share, check_values
from baco_like._threads import thread_limit
from baco_like.exceptions import TrialError
from baco_like.records import History, Objective, Status, StopRule
from baco_like.records.front import is_non_dominated
from baco_like.records.limits import LIMIT
from baco_like.records.objective import sign_of
from baco_like.records.trial import AFTER_SEARCH

OUTLOOK_EVERY = 10
"""Number of evaluations after which `LowOutlook` computes the outlook again."""


BUILDS = 10
"""Largest number of builds for each evaluation, so that a run ends whose parameters do not change the program."""


class StoppingRule:
    """Base of the rules in this module; it adds ``|`` and ``&``. A custom rule needs `reason` and `room` only."""

    def __post_init__(self) -> None:
        """Check the values of a rule that is a dataclass."""
        try:
            check_values(self)
        except ValueError as error:
            raise ValueError(f"{type(self).__name__}: {error}") from None

    def reason(self, history: History, seconds: float) -> str | None:
        """Return the reason why the run must end, or None while it continues."""
        raise NotImplementedError

    def room(self, history: History) -> int | None:
        """Return how many more trials may be started, or None if this rule sets no limit."""
        return None

    def __or__(self, other: StopRule) -> AnyOf:
        return AnyOf((self, other))

    def __and__(self, other: StopRule) -> AllOf:
        return AllOf((self, other))


@final
@dataclass(frozen=True)
class MaxEvals(StoppingRule):
    """End after a number of observed trials, including failures; pending trials reduce the room for new ones.

    Measurements of a confirmation do not count; those that measure the incumbent again during the search do. A trial
    whose program an earlier trial of the run had does not count either: it is a build, and builds have their own limit.

    Attributes:
        evaluations: Largest number of evaluations.
        builds: Largest number of builds; None: `BUILDS` times the evaluations. With as many builds as evaluations,
            each trial counts.
    """

    evaluations: Count
    builds: Count | None = None

    @property
    def _builds(self) -> int:
        return BUILDS * self.evaluations if self.builds is None else self.builds

    @override
    def reason(self, history: History, seconds: float) -> str | None:
        if history.searched >= self.evaluations:
            return f"{self.evaluations} evaluations"
        if history.builds < self._builds:
            return None
        return f"{self._builds} builds, of which {history.searched} are evaluations"

    @override
    def room(self, history: History) -> int | None:
        pending = sum(trial.origin not in AFTER_SEARCH for trial in history.pending.values())
        room = min(self.evaluations - history.searched, self._builds - history.builds)
        return max(0, room - pending)


@final
@dataclass(frozen=True)
class MaxTime(StoppingRule):
    """End a number of seconds after the run was started or resumed; pending trials are still awaited."""

    seconds: Positive

    @override
    def reason(self, history: History, seconds: float) -> str | None:
        return f"{self.seconds:g} seconds" if seconds >= self.seconds else None


@final
@dataclass(frozen=True)
class NoImprovement(StoppingRule):
    """End when the last ``evaluations`` trials have not improved the best cost by more than ``rel`` times its size.

    With several objectives, a trial is an improvement if it is better than each earlier one in some objective by more
    than ``rel``: the epsilon-dominance of Laumanns et al., "Combining convergence and diversity in evolutionary
    multiobjective optimization" (2002).

    The rule never ends a run before the first success. Measurements of a confirmation do not count, so a run that is
    resumed after one ends where a longer run would have ended.
    """

    evaluations: Count
    rel: Annotated[float, Shape(type="number", minimum=0, exclusiveMaximum=1)] = 0.0

    @override
    def reason(self, history: History, seconds: float) -> str | None:
        if history.searched < self.evaluations:
            return None
        is_counted = history.is_success
        every = history.objective_costs()[0]
        costs = np.where(is_counted[:, None], every, np.inf)[history.is_search]
        before, latest = costs[: -self.evaluations], costs[-self.evaluations :]
        before = before[np.isfinite(before).all(axis=1)]
        if not len(before):
            return None
        # Only these decide; with one objective the minimum is faster to find.
        single = costs.shape[1] == 1
        before = before.min(axis=0, keepdims=True) if single else before[is_non_dominated(before)]
        goal = before - self.rel * np.abs(before)
        is_better = (latest[:, None] < before) & (latest[:, None] <= goal)
        improved = bool(np.all(np.any(is_better, axis=2), axis=1).any())
        return None if improved else f"no improvement in {self.evaluations} evaluations"


@final
@dataclass(frozen=True)
class Target(StoppingRule):
    """End when a value is at least as good as this one, in the user's unit. For one objective only."""

    value: float

    @override
    def reason(self, history: History, seconds: float) -> str | None:
        check_rule(self, history.objectives)
        best = history.best()
        if best is None or best.value is None:
            return None
        sign = sign_of(history.direction)
        return f"target {self.value:g} reached" if sign * best.value <= sign * self.value else None


@final
@dataclass(frozen=True)
class MaxFailures(StoppingRule):
    """End after a number of failed trials of the search.

    A configuration beyond a limit on a metric has run, so it does not count. Neither does a program that fails again.
    """

    failures: Count

    @override
    def reason(self, history: History, seconds: float) -> str | None:
        trials = history.searched_trials
        failed = sum(t.status is Status.FAILED and t.failure != LIMIT for t in trials)
        return f"{self.failures} failures" if failed >= self.failures else None


_ABOUT_CONFIGS = ("constraints", LIMIT)

_VARYING = re.compile(r"(?:/[\w.+-]+)+|0[xX][0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
"""A number or path in a message: times, process ids, addresses and temporary files differ at every failure."""


@final
@dataclass(frozen=True)
class IdenticalFailures(StoppingRule):
    """End when, before the first success, a number of trials in a row have failed with the same word and message.

    The cause is then the set-up rather than the configurations. The first lines of the messages are compared without
    their numbers and paths, because a time, a process id or a temporary file differs each time. The words
    ``constraints`` and ``limit`` are about configurations and do not count.
    """

    failures: Count = 10

    @override
    def reason(self, history: History, seconds: float) -> str | None:
        own = history.trials[history.warm :]
        last = own[-self.failures :]
        if len(last) < self.failures or any(trial.value is not None for trial in own):
            return None
        if any(t.status is not Status.FAILED or t.failure in _ABOUT_CONFIGS for t in last):
            return None
        lines = [t.message.partition("\n")[0] for t in last]
        if len({(t.failure, _VARYING.sub("#", x)) for t, x in zip(last, lines, strict=True)}) > 1:
            return None
        return f"{self.failures} evaluations in a row failed alike, with {last[-1].failure}: {lines[-1]:.300}"


@final
@dataclass(frozen=True)
class LowOutlook(StoppingRule):
    """End when the models expect the next ``evaluations`` trials to improve the best cost by less than ``rel``.

    The outlook (see `baco_like.explanations.estimate_outlook`) is computed again after every tenth evaluation, because
    it takes tenths of a second. It depends on the observations up to there only, so a resumed run ends at the same one.
    It is about one objective, and never ends a run whose best value is 0.

    Attributes:
        evaluations: Number of the next evaluations.
        rel: Least improvement, relative to the best value; 0.01 is 1 %.
        least: Number of evaluations before which the rule never ends a run; models of fewer expect far too much or
            nothing.
    """

    evaluations: Count = 20
    rel: Share = 0.01
    least: Count = 30
    _last: dict[bytes, float | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @override
    def reason(self, history: History, seconds: float) -> str | None:
        check_rule(self, history.objectives)
        checked = history.searched // OUTLOOK_EVERY * OUTLOOK_EVERY
        if checked < self.least or not checked:
            return None
        rows = np.flatnonzero(history.is_search)
        expected = self._expected(history, int(rows[rows >= history.warm][checked - 1]) + 1)
        if expected is None or expected >= self.rel:
            return None
        return f"less than {100 * self.rel:g} % improvement expected within {self.evaluations} evaluations"

    def _expected(self, history: History, count: int) -> float | None:
        """Return the expected improvement after the first observations; None where there is no outlook."""
        key = history.codes[:count].tobytes() + history.costs[:count].tobytes()
        if key not in self._last:
            self._last.clear()
            self._last[key] = None
            with suppress(TrialError), thread_limit(1):
                found = explanations.estimate_outlook(
                    history, evaluations=self.evaluations, count=count
                )
                self._last[key] = found.expected
        return self._last[key]


@dataclass(frozen=True)
class _Combination(StoppingRule):
    rules: tuple[StopRule, ...]

    @override
    def __post_init__(self) -> None:
        for rule in self.rules:
            methods = (getattr(rule, "reason", None), getattr(rule, "room", None))
            if isinstance(rule, type) or not all(map(callable, methods)):
                raise TypeError(
                    f"{rule!r} is not a stopping rule; write for example MaxEvals(60) or MaxTime(60)"
                )


@final
@dataclass(frozen=True)
class AnyOf(_Combination):
    """End when any of the rules ends the run."""

    @override
    def reason(self, history: History, seconds: float) -> str | None:
        return next(filter(None, (rule.reason(history, seconds) for rule in self.rules)), None)

    @override
    def room(self, history: History) -> int | None:
        rooms = (rule.room(history) for rule in self.rules)
        return min((room for room in rooms if room is not None), default=None)


@final
@dataclass(frozen=True)
class AllOf(_Combination):
    """End when all of the rules end the run."""

    @override
    def reason(self, history: History, seconds: float) -> str | None:
        reasons = [rule.reason(history, seconds) for rule in self.rules]
        return " and ".join(filter(None, reasons)) if all(reasons) else None

    @override
    def room(self, history: History) -> int | None:
        rooms = [rule.room(history) for rule in self.rules]
        return None if None in rooms else max(room for room in rooms if room is not None)


def time_limit(rule: StopRule) -> float | None:
    """Return the number of seconds after which a rule surely ends a run, or None."""
    if isinstance(rule, MaxTime):
        return float(rule.seconds)
    if not isinstance(rule, (AnyOf, AllOf)):
        return None
    limits = [time_limit(part) for part in rule.rules]
    known = [limit for limit in limits if limit is not None]
    if isinstance(rule, AnyOf):
        return min(known, default=None)
    return max(known, default=None) if len(known) == len(limits) else None


def check_rule(
    rule: StopRule, objectives: Sequence[Objective] = (), has_tasks: bool = False
) -> None:
    """Refuse a rule about the best value of one objective or one task in a run with several.

    Args:
        rule: The rule, whose parts are checked too.
        objectives: The objectives, if there are several.
        has_tasks: Whether there are several tasks.

    Raises:
        ValueError: The rule is `Target` or `LowOutlook`; or there are several tasks, and it is `NoImprovement`.
    """
    name = type(rule).__name__
    if objectives and isinstance(rule, (Target, LowOutlook)):
        raise ValueError(
            f"{name} is about the best value of one objective, and there are several: "
            f"{', '.join(repr(objective.name) for objective in objectives)}; end the run by MaxEvals, MaxTime or "
            "NoImprovement (which then asks for new points of the front)"
        )
    if has_tasks and isinstance(rule, (Target, LowOutlook, NoImprovement)):
        raise ValueError(
            f"{name} is about the best value of one task, and there are several; end the run by MaxEvals or MaxTime"
        )
    for part in rule.rules if isinstance(rule, _Combination) else ():
        check_rule(part, objectives, has_tasks)
