"""Uniform random sampling without replacement: the baseline of every comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from baco_like._typing import Rng
from baco_like.records import History, Observation, Proposal
from baco_like.spaces.design import uniform
from baco_like.strategies.protocol import Problem, Proposals


@final
@dataclass(frozen=True)
class RandomSearch:
    """Uniform random sampling without replacement.

    Use it as the baseline of a comparison. It has no settings.
    """

    draws_in_tell: ClassVar[bool] = False
    several_objectives: ClassVar[bool] = True
    uses_tasks: ClassVar[bool] = True

    def init(self, problem: Problem, rng: Rng) -> None:
        """Return None: the strategy has no state."""

    def ask(self, problem: Problem, history: History, state: None, n: int, rng: Rng) -> Proposals:
        """Return n uniform draws from the feasible configurations that are not excluded."""
        rows = uniform(problem.space, n, rng, lambda codes: problem.is_excluded(history, codes))
        return [Proposal(row, {"phase": "random"}) for row in rows]

    def tell(self, problem: Problem, state: None, observation: Observation, rng: Rng) -> None:
        """Ignore the observation."""
