"""A strategy some of whose proposals are replaced by random ones, as in SMAC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from baco_like._typing import Rng
from baco_like.records.history import History
from baco_like.records.trial import Proposal
from baco_like.strategies.composite.wrapper import StrategyWrapper
from baco_like.strategies.protocol import Problem, proposed_rows
from baco_like.strategies.random_search import RandomSearch


@final
@dataclass(frozen=True)
class RandomInterleaving(StrategyWrapper):
    """Replaces proposals of another strategy by uniform draws, each with the same probability.

    Use it if a model may be wrong: in the long run every configuration is tried, whatever the model predicts (Hutter et
    al. 2011, "Sequential model-based optimization for general algorithm configuration", section 4.1).

    Attributes:
        then: The other strategy.
        share: The probability of a uniform draw, from 0 to 1.

    Raises:
        ValueError: The probability is not between 0 and 1.
    """

    share: float

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"random_share is {self.share}; give a probability from 0 to 1")

    def ask(
        self, problem: Problem, history: History, state: Any, n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return the uniform draws first, then proposals of the other strategy."""
        count = int((rng.random(n) < self.share).sum())
        draws = RandomSearch().ask(problem, history, None, count, rng) if count else []
        if len(draws) == n:
            return draws
        history = history.assume_pending(proposed_rows(problem.space, draws))
        return [*draws, *self.then.ask(problem, history, state, n - len(draws), rng)]
