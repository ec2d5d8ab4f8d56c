"""The aim of a run: objectives, limits on other metrics, and the goal of a run with several tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from baco_like.records.covering import Cover, Goal, read_goal
from baco_like.records.limits import limits_of
from baco_like.records.objective import Direction, Objective
from baco_like.records.objective_values import require_objectives
from baco_like.records.trial import Outcome

GivenObjectives: TypeAlias = Direction | Objective | Mapping[str, Direction] | Sequence[Objective]
"""The direction of the only value, an objective, directions of values by name, or a list of objectives."""


@dataclass(frozen=True, init=False)
class Aim:
    """Objectives, limits and goal of a run.

    Args:
        objectives: ``minimize`` or ``maximize`` for one value; directions of values by name, such as
            ``{"time": "minimize", "size": "minimize"}``; or an `Objective` or a list of them, which also have units and
            may be ``exact``. With several, `Optimizer.observe` needs all values, `Optimizer.front` has the trials that
            no other one dominates, and `Optimizer.best` is the knee of the front.
        limits: Conditions on the metrics of outcomes, such as ``["size <= 40000"]``. An outcome beyond one is recorded
            as a failure with the word ``limit``; it keeps its metrics and repeats, models learn from them, and it never
            wins.
        goal: With tasks: ``each`` (the best configuration of each task, the default), ``single`` (one configuration for
            all), or a `Cover`, such as ``Cover(2)`` for two configurations that cover all.

    Attributes:
        objectives: All objectives, one or several.
        limits: The limits.
        goal: The goal, or None.

    Raises:
        ValueError: An objective or the goal is wrong, two objectives have the same name, or a limit cannot be read.
    """

    objectives: tuple[Objective, ...]
    limits: tuple[str, ...]
    goal: Cover | None

    def __init__(
        self,
        objectives: GivenObjectives = "minimize",
        limits: str | Iterable[str] = (),
        goal: Goal | None = None,
    ) -> None:
        given: Any = objectives
        if isinstance(objectives, Mapping):
            given = [Objective(name, direction=d) for name, d in objectives.items()]
        elif isinstance(objectives, str):
            given = [Objective(direction=given)]
        elif not isinstance(objectives, Sequence):
            given = [objectives]
        if not given or not all(isinstance(each, Objective) for each in given):
            raise ValueError(
                f"objectives = {objectives!r:.80}: expected 'minimize', 'maximize', or names with directions, as in "
                "{'time': 'minimize', 'energy': 'minimize'}"
            )
        if len({each.name for each in given}) < len(given):
            raise ValueError(f"objectives = {objectives!r:.200}: two have the same name")
        texts = (limits,) if isinstance(limits, str) else tuple(limits)
        if not all(isinstance(limit, str) for limit in texts):
            raise ValueError(f"limits must be a list of texts, not {limits!r:.80}")
        limits_of(texts)  # refuses conditions that cannot be read
        object.__setattr__(self, "objectives", tuple(given))
        object.__setattr__(self, "limits", texts)
        object.__setattr__(self, "goal", None if goal is None else read_goal(goal))

    @classmethod
    def of(cls, given: Aim | GivenObjectives) -> Aim:
        """Return an aim, or the one with these objectives."""
        return given if isinstance(given, Aim) else cls(given)

    @property
    def first(self) -> Objective:
        """The only objective, or the first of several."""
        return self.objectives[0]

    @property
    def several(self) -> tuple[Objective, ...]:
        """All objectives if there are several, else empty."""
        return self.objectives if len(self.objectives) > 1 else ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all objectives."""
        return tuple(objective.name for objective in self.objectives)

    @property
    def is_exact(self) -> bool:
        """Whether all objectives are exact, so that one measurement is enough."""
        return all(objective.exact for objective in self.objectives)

    def judge(self, outcome: Outcome, *, strict: bool = True) -> Outcome:
        """Return the outcome, or a failure if an objective is not a number or a limit is exceeded.

        Raises:
            TrialError: A successful outcome lacks an objective, or a metric that a limit reads.
        """
        outcome = require_objectives(outcome, self.names[1:])
        return limits_of(self.limits).judge(outcome, self.first.name, strict=strict)
