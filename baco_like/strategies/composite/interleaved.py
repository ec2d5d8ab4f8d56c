"""A strategy whose proposals are now and then replaced by random ones, as SMAC interleaves them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from baco_like._typing import Codes, Rng
from baco_like.records.history import History
from baco_like.records.trial import Proposal, Trial
from baco_like.strategies.protocol import Prediction, Problem, Strategy, predictive
from baco_like.strategies.random_search import RandomSearch


@final
@dataclass(frozen=True)
class Interleaved:
    """Proposes uniform draws with a probability, and otherwise what another strategy proposes.

    With it every configuration is tried in the end, whatever the model believes (Hutter et al. 2011, section 4.1).

    Attributes:
        then: The other strategy.
        share: The probability.

    Raises:
        ValueError: The probability is not between 0 and 1.
    """

    then: Strategy[Any]
    share: float

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"random_share is {self.share}; give a probability from 0 to 1")

    def init(self, problem: Problem, rng: Rng) -> Any:
        """Begin with the state of the other strategy."""
        return self.then.init(problem, rng)

    def ask(
        self, problem: Problem, history: History, state: Any, n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return some uniform draws, and fill up from the other strategy."""
        drawn = int((rng.random(n) < self.share).sum())
        first = RandomSearch().ask(problem, history, None, drawn, rng) if drawn else []
        if len(first) == n:
            return first
        rows = np.array([p.code for p in first]).reshape(-1, problem.space.width)
        rest = self.then.ask(problem, history.assuming(rows), state, n - len(first), rng)
        return [*first, *rest]

    def tell(self, problem: Problem, state: Any, observation: Trial, rng: Rng) -> Any:
        """Let the other strategy know."""
        return self.then.tell(problem, state, observation, rng)

    def predict(
        self, problem: Problem, history: History, state: Any, codes: Codes, rng: Rng
    ) -> Prediction:
        """Return what the other strategy predicts.

        Raises:
            TrialError: It predicts nothing.
        """
        return predictive(self.then).predict(problem, history, state, codes, rng)
