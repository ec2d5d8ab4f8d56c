"""The workers that evaluate, how they measure, and which configurations they measure again so that drift is noticed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Annotated, Any

from typing_extensions import override

from baco_like._tables import ANY, Natural, Positive, check_values
from baco_like.evaluators.function.call import DEFAULT_FAILURES
from baco_like.optimizer import Sharing
from baco_like.optimizer.recommending import best_by_repeats
from baco_like.optimizer.simplifying import can_simplify
from baco_like.records import Aim, History, StopRule
from baco_like.records.drift import Drift, read_drift
from baco_like.records.history import Noise
from baco_like.records.trial import CONTROL, select_best
from baco_like.running.confirming import Confirm
from baco_like.running.stopping import check_rule
from baco_like.spaces import Space

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
        every: Evaluations from one control measurement to the next; 0: none, which is the default for
            ``kind = "replay"`` and with ``[tasks]``.
        threshold: Relative change that counts as drift.

    Raises:
        ValueError: A value is out of range.
    """

    every: Natural = RECHECK
    threshold: Positive = 0.05

    def __post_init__(self) -> None:
        check_values(self)

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
        if affected is not None or (len(latest) > 1 and latest[-2].origin == CONTROL):
            return affected
        config = _incumbent(history)  # unless it has been a control
        measured = [dict(point.trial.config) for point in drift.points]
        return None if config is None or dict(config) in measured else config


def _incumbent(history: History) -> Mapping[str, Any] | None:
    # With several objectives the knee is measured again, and drift is checked in the first objective.
    best = (None if history.objectives else best_by_repeats(history)) or history.best()
    return None if best is None else best.config


def _find_next_affected(history: History, drift: Drift) -> Mapping[str, Any] | None:
    """Return the next of the best configurations to measure after the latest change, or None."""
    if not drift.changes:
        return None
    change = drift.changes[-1].row
    trials = history.trials
    if any(trial.origin != CONTROL for trial in trials[change:]):
        return None  # the search has continued, so they have been measured
    before = history.first(change).successes
    since = [dict(trial.config) for trial in trials[change - 1 :]]
    if history.objectives:
        known = {trial.id for trial in before}
        before = [trial for trial in history.front() if trial.id in known]
    best = select_best(before, history.direction, _AFFECTED)
    return next((trial.config for trial in best if dict(trial.config) not in since), None)


@dataclass(frozen=True)
class Workers(Sharing):
    """What evaluates the trials of this process; the attributes of `Sharing` too.

    Attributes:
        executor: Runs evaluations in parallel; any `concurrent.futures.Executor`.
        slots: Device slots such as ``["cuda:0", "cuda:1"]``, instead of ``executor``: each is a process that sees its
            device only, and calls the function for one trial at a time. It must be a function of a module. The journal
            keeps the device type; a resume on devices of another type is refused.
        max_pending: Largest number of pending evaluations; by default the number of the executor's workers.

    Raises:
        ValueError: There are slots and an executor, or a value of `Sharing` is wrong.
    """

    executor: Executor | None = None
    slots: Annotated[Sequence[Any] | None, ANY] = None
    max_pending: int | None = None

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        if self.slots is not None and self.executor is not None:
            raise ValueError(
                f"slots = {self.slots!r:.80}: each slot is a process; leave executor out"
            )


@dataclass(frozen=True)
class Measuring:
    """How configurations are measured: repeats within a trial, later rechecks, and the confirmation of the winner.

    Attributes:
        repeats: Calls of the function per configuration; their median is the value, and all are kept.
        retries: Number of times that a failed call is repeated before it counts as a failure.
        failures: Exception types that mean a failure of the configuration; any other type ends the run.
        recheck: How often the best configuration is measured again, to notice drift of the machine; these measurements
            count as evaluations. None: as ``Recheck()`` says with ``noise="repeat"``; otherwise, and for exact values
            and several tasks, never.
        confirm: How the best configurations are measured again at the end; only these measurements decide
            `Result.winner`. A time limit of the run includes them: the search leaves time for them. None: never.
    """

    repeats: int = 1
    retries: int = 0
    failures: tuple[type[BaseException], ...] = DEFAULT_FAILURES
    recheck: Recheck | None = None
    confirm: Confirm | None = None

    def for_run(
        self,
        stop: StopRule,
        aim: Aim,
        space: Space,
        noise: Noise = "none",
        names: tuple[str, str, str] = ("stop", "confirm", "recheck"),
    ) -> Measuring:
        """Return the value with the default of `recheck` for a run, after a check that the run allows all of it.

        Args:
            stop: The rule that ends the run.
            aim: Its objectives.
            space: Its space, with the tasks.
            noise: Whether a configuration may be measured again.
            names: The user's words for the rule, the confirmation and the rechecks, for messages.

        Raises:
            TypeError: ``stop`` is not a rule.
            ValueError: Something is about one objective, one task, or values that vary, and the run has others.
        """
        rule, confirm, recheck = names
        if not callable(getattr(stop, "room", None)):
            raise TypeError(f"{rule} must be a rule such as MaxEvals(60), not {stop!r}")
        has_tasks = len(space.tasks or ()) > 1
        try:
            check_rule(stop, aim.several, has_tasks)
        except ValueError as error:
            raise ValueError(f"{rule}: {error}") from None
        rechecks = self.recheck is not None and self.recheck.every > 0
        if self.confirm is not None and aim.several:
            raise ValueError(
                f"{confirm} compares values of one objective, and there are several; leave it out"
            )
        if has_tasks and (self.confirm is not None or rechecks):
            raise ValueError(
                f"{confirm} and {recheck} measure the best configuration of one task, and there are several; "
                "leave them out"
            )
        if aim.is_exact and (self.repeats > 1 or (self.confirm and self.confirm.top) or rechecks):
            raise ValueError(
                f"repeats, {confirm} and {recheck} measure again, and the objective is exact; leave them out"
            )
        if self.confirm and not (self.confirm.top or can_simplify(History.start(space))):
            raise ValueError(
                f"{confirm}: simplify = {self.confirm.simplify} needs a default configuration that is feasible"
            )
        if self.recheck is not None:
            return self
        varies = noise == "repeat" and not (has_tasks or aim.is_exact)
        return replace(self, recheck=Recheck() if varies else Recheck(0))
