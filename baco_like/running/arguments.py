"""Arguments of `tune` as values: the workers that evaluate, and how they measure."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

from typing_extensions import override

from baco_like.evaluators import DEFAULT_FAILURES
from baco_like.optimizer import Sharing
from baco_like.optimizer.simplifying import can_simplify
from baco_like.records import Aim, History, Noise, StopRule
from baco_like.running.confirming import Confirm
from baco_like.running.control import Recheck
from baco_like.running.stopping import check_rule
from baco_like.spaces import Space


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
    slots: Sequence[Any] | None = None
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
