"""Base of strategies that wrap one other strategy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from typing_extensions import Self

from baco_like._typing import Codes, Rng
from baco_like.records.history import History
from baco_like.records.trial import Observation
from baco_like.strategies.protocol import (
    Prediction,
    Problem,
    RelatedTask,
    Strategy,
    require_predictive,
    use_related_tasks,
)


@dataclass(frozen=True)
class StrategyWrapper:
    """Passes everything but ``ask`` on to another strategy, whose state is also the wrapper's state.

    Attributes:
        then: The wrapped strategy.
    """

    then: Strategy[Any]

    def init(self, problem: Problem, rng: Rng) -> Any:
        """Return the first state of the wrapped strategy."""
        return self.then.init(problem, rng)

    def tell(self, problem: Problem, state: Any, observation: Observation, rng: Rng) -> Any:
        """Pass the observation on."""
        return self.then.tell(problem, state, observation, rng)

    def predict(
        self, problem: Problem, history: History, state: Any, codes: Codes, rng: Rng
    ) -> Prediction:
        """Return the predictions of the wrapped strategy.

        Raises:
            TrialError: It has no model, or there are too few observations.
        """
        return require_predictive(self.then).predict(problem, history, state, codes, rng)

    def with_related_tasks(self, tasks: Sequence[RelatedTask]) -> Self:
        """Return the wrapper of the strategy that uses related tasks.

        Raises:
            StrategyError: The wrapped strategy cannot use them.
        """
        return replace(self, then=use_related_tasks(self.then, tasks))
