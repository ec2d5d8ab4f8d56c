"""An initial design, then another strategy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from baco_like._typing import Codes, Mask, Rng
from baco_like.records.history import History
from baco_like.records.trial import Proposal, Status
from baco_like.spaces.design import uniform
from baco_like.spaces.space import Space
from baco_like.strategies.composite.wrapper import StrategyWrapper
from baco_like.strategies.protocol import Problem

Design = Callable[[Space, int, Rng, Callable[[Codes], Mask]], Codes]
"""Chooses n distinct feasible rows that are not excluded; the functions of `baco_like.spaces.design` are designs."""


def check_initial(initial: int) -> None:
    """Check the number of trials of the initial design.

    Raises:
        ValueError: It is negative.
    """
    if initial < 0:
        raise ValueError(f"initial = {initial}: expected 0 or more trials before the model")


@final
@dataclass(frozen=True)
class Phased(StrategyWrapper):
    """Proposes an initial design, then the proposals of another strategy.

    Use it to give a model-based strategy its first observations.

    Attributes:
        then: The strategy after the design. It receives every observation from the start of the run.
        initial: Number of trials in the design, 0 or more. Observed and pending trials of any origin count.
        design: Chooses the rows of the design.
        before_success: Replaces ``design`` until the first success; None keeps ``design``.

    Raises:
        ValueError: ``initial`` is negative.
    """

    initial: int = 10
    design: Design = uniform
    before_success: Design | None = None

    def __post_init__(self) -> None:
        check_initial(self.initial)

    def ask(
        self, problem: Problem, history: History, state: Any, n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return the missing points of the design, then proposals of the later strategy."""
        missing = min(n, max(0, self.initial - len(history) - len(history.pending)))
        rows = np.empty((0, problem.space.width))
        if missing:
            # A design never repeats a configuration, even if noise="repeat" lets the later strategy do so.
            rows = self._current_design(history)(problem.space, missing, rng, history.is_excluded)
        proposals = [Proposal(row, {"phase": "design"}) for row in rows]
        if len(proposals) == n:
            return proposals
        history = history.assume_pending(rows)
        return [*proposals, *self.then.ask(problem, history, state, n - len(proposals), rng)]

    def _current_design(self, history: History) -> Design:
        if self.before_success is None or history.where(Status.OK).any():
            return self.design
        return self.before_success
