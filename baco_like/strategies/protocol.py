"""The strategy contract: a frozen recipe, a state that is a value, chance handed in.

*The state is a fold over the observations.* ``ask`` changes nothing; what a strategy must remember about a point it
asked for goes into the proposal's ``tag``, is written to the journal with it and comes back in ``tell``. So a run
resumes from its journal without asking again, outcomes may come in any order, and a trial that never returns costs
one slot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from baco_like._typing import Array, Codes, Mask, Rng
from baco_like.exceptions import TrialError
from baco_like.records.direction import Direction, sign_of
from baco_like.records.history import History, Noise
from baco_like.records.trial import Proposal, Trial
from baco_like.spaces.space import Space

S = TypeVar("S")


@dataclass(frozen=True)
class Problem:
    """What a strategy is told once.

    Attributes:
        space: Where to look.
        budget: Evaluations in all, or None where it is not known.
        noise: ``none``: never propose an observed point again; ``repeat``: it may be worth it.
        direction: What the user wants of the values.
    """

    space: Space
    budget: int | None = None
    noise: Noise = "none"
    direction: Direction = "minimize"

    def taken(self, history: History, codes: Codes) -> Mask:
        """Return which rows may not be proposed, ``(n, w)`` -> ``(n,)``."""
        return history.taken(codes, self.noise)

    def code(self, observation: Trial) -> Array | None:
        """Return the row of codes of a trial, ``(w,)``; None for an imported one outside the space."""
        if observation.origin == "imported" and not self.space.contains(observation.config):
            return None
        return np.asarray(self.space.encode([observation.config])[0])

    def cost(self, observation: Trial) -> float:
        """Return the value of an observed trial as a cost, to be minimised; infinity unless its status is OK."""
        if observation.value is None:
            return math.inf
        return sign_of(self.direction) * observation.value


class Strategy(Protocol[S]):
    """An ask/tell algorithm. Costs are minimised: `History.costs` and `Problem.cost` have the sign flipped."""

    def init(self, problem: Problem, rng: Rng) -> S:
        """Return the state before anything is observed."""

    def ask(
        self, problem: Problem, history: History, state: S, n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return at most n proposals, possibly none: distinct, feasible and not taken. Changes nothing.

        The optimizer fills up to n with uniform draws.
        """

    def tell(self, problem: Problem, state: S, observation: Trial, rng: Rng) -> S:
        """Return the state after one more observation; its tag may be somebody else's."""


class Prediction(NamedTuple):
    """What a model expects of n configurations.

    Attributes:
        mean: Of the cost in the user's unit, ``(n,)``.
        std: Its standard deviation, ``(n,)``.
        feasible: Probability of feasibility, ``(n,)``.
        median: Of the cost in the user's unit, ``(n,)``. It ranks configurations: where logarithms are modelled, the
            mean also grows with what is not known.
    """

    mean: Array
    std: Array
    feasible: Array
    median: Array


@runtime_checkable
class Predictive(Protocol):
    """A strategy that can say what it expects of configurations."""

    def predict(
        self, problem: Problem, history: History, state: Any, codes: Codes, rng: Rng
    ) -> Prediction:
        """Return what the model expects of these configurations.

        Raises:
            TrialError: Too little has been observed.
        """


def predictive(strategy: Strategy[Any]) -> Predictive:
    """Return the strategy if it has a model, so that one that wraps it can pass predictions on.

    Raises:
        TrialError: It has none.
    """
    if not isinstance(strategy, Predictive):
        raise TrialError(f"strategy {type(strategy).__name__} has no model to predict with")
    return strategy
