"""The interface between the optimizer and a strategy, and the check of proposals before they become trials.

A strategy is an immutable object with settings. Its state is a value that the optimizer keeps and passes in, and random
numbers come from the generator that is passed in. The state depends on the observations only: ``ask`` changes nothing,
and a strategy that has to remember something about a proposal puts it into the proposal's ``tag``. The tag is written
to the journal and comes back in ``tell``. Therefore

- a run resumes from its journal by replaying ``tell``, without calling ``ask``;
- outcomes may arrive in any order;
- a trial whose outcome never arrives costs one evaluation and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from baco_like._plugins import name_of
from baco_like._typing import Array, Codes, Mask, Rng
from baco_like.exceptions import PluginError, StrategyError, TrialError
from baco_like.records import Cover, History, Objective, Observation, Proposal
from baco_like.records.history import Noise
from baco_like.records.limits import RunLimits
from baco_like.records.objective import Direction
from baco_like.spaces import Space

S = TypeVar("S")

Proposals = Sequence[Proposal]
"""The proposals of one call of `Strategy.ask`."""


@dataclass(frozen=True)
class Problem:
    """The fixed description of a run that every call of a strategy receives.

    Attributes:
        space: The space to search.
        budget: Number of evaluations in the whole run, or None if unknown.
        noise: ``none``: an observed configuration is never proposed again; ``repeat``: it may be.
        direction: Whether the user's values are minimised or maximised.
        objectives: All objectives if there are several, else empty. Then `History.costs` are those of the first one,
            and `History.objective_costs` has all.
        seconds: Seconds of all evaluations of the run together if the budget is in time, else None.
        limits: The limits on metrics, or None. An outcome beyond a limit is a failure in the history that keeps its
            values.
        goal: The goal of a run with several tasks, else None.
        task: Index of the only task that may be proposed now, or None for all.
        region: Returns which rows may be proposed now, ``(n, w)`` -> ``(n,)``; None for all.
        related: Results of related tasks, from ``WarmStart(..., mode="prior")``.
    """

    space: Space
    budget: int | None = None
    noise: Noise = "none"
    direction: Direction = "minimize"
    objectives: tuple[Objective, ...] = ()
    seconds: float | None = None
    limits: RunLimits | None = None
    goal: Cover | None = None
    task: int | None = None
    region: Callable[[Codes], Mask] | None = None
    related: tuple[RelatedTask, ...] = field(default=(), repr=False)

    def is_excluded(self, history: History, codes: Codes) -> Mask:
        """Return which rows may not be proposed, ``(n, w)`` -> ``(n,)``.

        They are pending, failed or already observed ones, and those outside the region.
        """
        excluded = history.is_excluded(codes, self.noise)
        return excluded if self.region is None else excluded | ~self.region(codes)


@runtime_checkable
class Strategy(Protocol[S]):
    """An algorithm that proposes configurations. It minimises costs: `History.costs` and `Observation.cost`."""

    def init(self, problem: Problem, rng: Rng) -> S:
        """Return the state before the first observation."""

    def ask(self, problem: Problem, history: History, state: S, n: int, rng: Rng) -> Proposals:
        """Return at most n proposals: distinct, feasible and not excluded (`Problem.is_excluded`).

        The sequence may be shorter than n or empty; the optimizer adds uniform draws. The call changes nothing.
        """

    def tell(self, problem: Problem, state: S, observation: Observation, rng: Rng) -> S:
        """Return the state after one more observation.

        The trial need not be a proposal of this strategy; then its tag is None or was written by somebody else.
        """


class HistoryStrategy:
    """Base of strategies that read all observations from the history; their state does not change."""

    draws_in_tell: ClassVar[bool] = False

    def tell(self, problem: Problem, state: S, observation: Observation, rng: Rng) -> S:
        """Return the state unchanged."""
        return state


def proposed_rows(space: Space, proposals: Iterable[Proposal]) -> Codes:
    """Return the rows of codes of n proposals, ``(n, w)``."""
    return np.array([proposal.code for proposal in proposals]).reshape(-1, space.width)


def draws_in_tell(strategy: Strategy[Any]) -> bool:
    """Whether `Strategy.tell` may draw from its generator.

    A strategy whose `tell` draws nothing can say so by an attribute ``draws_in_tell = False``. Then no generator is
    made for each observation, which is a fifth of the time of opening a journal.
    """
    return bool(getattr(strategy, "draws_in_tell", True))


def optimises_several(strategy: Strategy[Any]) -> bool:
    """Whether a strategy optimises several objectives; it then has an attribute ``several_objectives = True``."""
    return bool(getattr(strategy, "several_objectives", False))


def check_objectives(
    strategy: Strategy[Any], objectives: Sequence[Objective], name: str | None
) -> None:
    """Refuse a strategy that cannot optimise several objectives.

    Args:
        strategy: The strategy.
        objectives: The objectives if there are several.
        name: The registered name of the strategy; None for an object.

    Raises:
        StrategyError: There are several objectives, and the strategy optimises one.
    """
    if objectives and not optimises_several(strategy):
        names = ", ".join(repr(objective.name) for objective in objectives)
        raise StrategyError(
            f"strategy {name or type(strategy).__name__} optimises one objective, not {names}; take auto, ehvi, "
            "parego, nsga2, random_search or exhaustive"
        )


def uses_related_tasks(strategy: Strategy[Any]) -> bool:
    """Whether a strategy reads `Problem.related`; it then has an attribute ``uses_related_tasks = True``."""
    return bool(getattr(strategy, "uses_related_tasks", False))


def check_related_tasks(strategy: Strategy[Any], related: Sequence[RelatedTask]) -> None:
    """Refuse a strategy that cannot use the results of related tasks.

    Raises:
        StrategyError: There are related tasks, and the strategy has no Gaussian process that they could inform.
    """
    if related and not uses_related_tasks(strategy):
        raise StrategyError(
            f"strategy {type(strategy).__name__} has no Gaussian process that a related task could inform; "
            "take strategy='auto', or WarmStart(..., mode='configs') for the task's best configurations"
        )


class Prediction(NamedTuple):
    """Predictions of a model for n configurations.

    Attributes:
        mean: Expected cost in the user's unit, ``(n,)``.
        std: Standard deviation of the cost, ``(n,)``.
        feasible: Probability that the configuration runs, from the feasibility model, ``(n,)``.
        median: Median of the cost in the user's unit, ``(n,)``. Rank configurations by it: if logarithms of the values
            are modelled, the mean also grows with the uncertainty.
    """

    mean: Array
    std: Array
    feasible: Array
    median: Array


@runtime_checkable
class Predictive(Protocol):
    """A strategy with a model that predicts costs."""

    def predict(
        self, problem: Problem, history: History, state: Any, codes: Codes, rng: Rng
    ) -> Prediction:
        """Return the model's predictions for configurations, ``(n, w)``.

        Raises:
            TrialError: There are too few observations.
        """


def require_predictive(strategy: Strategy[Any]) -> Predictive:
    """Return the strategy if it has a model; wrappers call it to pass predictions on.

    Raises:
        TrialError: The strategy has no model.
    """
    if not isinstance(strategy, Predictive):
        raise TrialError(f"strategy {type(strategy).__name__} has no model to predict with")
    return strategy


FEWEST_RELATED = 3
"""Different values that a model of a related task needs: with two, any model ranks half of the pairs correctly."""

MOST_RELATED = 300
"""Largest number of results in the model of a related task, unless the user gives another one."""


@dataclass(frozen=True, eq=False)
class RelatedTask:
    """Results of a related task: the same kernel on another device or for another input size.

    Attributes:
        name: Name of the task in messages and tags.
        codes: Configurations, ``(n, w)``; known constraints may exclude them.
        costs: Their costs, ``(n,)``, with several objectives ``(n, m)``; NaN for failures. NaN in some columns only is
            an objective that was not measured.
    """

    name: str
    codes: Codes
    costs: Array

    @property
    def objective_costs(self) -> Array:
        """The costs with a column for each objective, ``(n, m)``."""
        return self.costs if self.costs.ndim == 2 else self.costs[:, None]

    def of_objective(self, number: int) -> RelatedTask | None:
        """Return the results for one objective; None if they have too few different values for a model."""
        every = self.objective_costs
        costs = every[:, number]
        if len(np.unique(costs[~np.isnan(costs)])) < FEWEST_RELATED:
            return None
        kept = ~np.isnan(costs) | np.isnan(every).all(axis=1)
        return RelatedTask(self.name, self.codes[kept], costs[kept])


def check_proposals(strategy: Strategy[Any], space: Space, proposals: Any, n: int) -> Codes:
    """Return the rows of codes of at most n proposals, ``(k, w)``.

    Args:
        strategy: The strategy that has made them.
        space: The space.
        proposals: What its ``ask`` has returned.
        n: Number of proposals that it was asked for.

    Raises:
        PluginError: There are too many of them, or one is not a feasible row of codes with a tag in JSON.
    """
    bug = f"bug in strategy {name_of(strategy)}"
    if not isinstance(proposals, Sequence):
        raise PluginError(f"{bug}: ask returned {proposals!r:.80}, not a sequence of proposals")
    if len(proposals) > n:
        raise PluginError(f"{bug}: {len(proposals)} proposals, asked for {n}")
    for i, proposal in enumerate(proposals, 1):
        if reason := _find_fault(space, proposal):
            raise PluginError(f"{bug}: proposal {i} {reason}")
    codes = np.array([proposal.code for proposal in proposals]).reshape(-1, space.width)
    feasible = space.feasible.contains(codes)
    if not feasible.all():
        i = int(np.argmin(feasible))
        raise PluginError(
            f"{bug}: it proposed an infeasible configuration, proposal {i + 1}: {_explain_row(space, codes[i])}"
        )
    return codes


def _find_fault(space: Space, proposal: Any) -> str:
    """Return what is wrong with the form of a proposal, or an empty text."""
    if isinstance(proposal, Mapping):
        return (
            f"is the configuration {dict(proposal)!r:.80}; return "
            "Proposal(problem.space.encode([configuration])[0]), which also checks names and values"
        )
    if not isinstance(proposal, Proposal):
        return f"is {proposal!r:.80}; return baco_like.records.Proposal(code, tag)"
    try:
        code = np.asarray(proposal.code, dtype=np.float64)
    except (TypeError, ValueError):
        return f"has the code {proposal.code!r:.80}; it must be a row of {space.width} numbers"
    if code.shape != (space.width,):
        return f"has a code with the shape {code.shape}; this space needs ({space.width},)"
    if proposal.tag is not None:
        try:
            json.dumps(proposal.tag, allow_nan=False)
        except (TypeError, ValueError) as error:
            return f"has a tag that JSON cannot hold: {error}; the tag is {proposal.tag!r:.80}"
    return ""


def _explain_row(space: Space, code: Array) -> str:
    """Return why a row of codes is not a feasible configuration."""
    for name, parameter in space.parameters.items():
        own = code[space.columns[name]]
        try:
            is_legal = bool(np.isfinite(own).all()) and np.array_equal(
                parameter.encode(parameter.decode(own[None]))[0], own
            )
        except (ValueError, IndexError, OverflowError, TypeError):
            is_legal = False
        if not is_legal:
            return f"{own.tolist()!r:.80} is no code of parameter {name!r}, {parameter!r:.120}"
    (config,) = space.decode(code[None])
    return f"{config!r:.120}: {'; '.join(space.explain(config)) or 'its codes are not those of encode'}"
