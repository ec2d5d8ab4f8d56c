"""A design first, then another strategy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from baco_like._typing import Codes, Mask, Rng
from baco_like.records.history import History
from baco_like.records.trial import Proposal, Status, Trial
from baco_like.spaces.design import uniform
from baco_like.spaces.space import Space
from baco_like.strategies.protocol import Prediction, Problem, Strategy, predictive

Design = Callable[[Space, int, Rng, Callable[[Codes], Mask]], Codes]
"""Chooses n distinct feasible rows that are not taken, such as the functions of `baco_like.spaces.design`."""


def check_initial(number: int) -> None:
    """Refuse a negative number of trials.

    Raises:
        ValueError: It is negative.
    """
    if number < 0:
        raise ValueError(f"initial = {number}: expected 0 or more trials before the model")


@final
@dataclass(frozen=True)
class Phased:
    """Proposes points of a design until enough trials are started, then what another strategy proposes.

    Attributes:
        then: The strategy after the design; it sees every observation from the start.
        initial: Trials of the first phase; observed and pending ones of any origin count.
        design: Chooses the rows of the first phase.
        before_success: Takes its place as long as nothing has succeeded; None is the design itself.

    Raises:
        ValueError: ``initial`` is negative.
    """

    then: Strategy[Any]
    initial: int = 10
    design: Design = uniform
    before_success: Design | None = None

    def __post_init__(self) -> None:
        check_initial(self.initial)

    def init(self, problem: Problem, rng: Rng) -> Any:
        """Begin with the state of the later strategy."""
        return self.then.init(problem, rng)

    def ask(
        self, problem: Problem, history: History, state: Any, n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return points of the design while it lasts, and fill up from the later strategy."""
        missing = min(n, max(0, self.initial - len(history) - len(history.pending)))
        rows = np.empty((0, problem.space.width))
        if missing:
            # A design repeats nothing, also where the strategy after it may (`noise="repeat"`).
            rows = self._design_after(history)(problem.space, missing, rng, history.taken)
        first = [Proposal(row, {"phase": "design"}) for row in rows]
        if len(first) == n:
            return first
        return [*first, *self.then.ask(problem, history.assuming(rows), state, n - len(first), rng)]

    def _design_after(self, history: History) -> Design:
        none = not history.where(Status.OK).any()
        return self.before_success if none and self.before_success is not None else self.design

    def tell(self, problem: Problem, state: Any, observation: Trial, rng: Rng) -> Any:
        """Let the later strategy know."""
        return self.then.tell(problem, state, observation, rng)

    def predict(
        self, problem: Problem, history: History, state: Any, codes: Codes, rng: Rng
    ) -> Prediction:
        """Return what the later strategy predicts.

        Raises:
            TrialError: It predicts nothing.
        """
        return predictive(self.then).predict(problem, history, state, codes, rng)
