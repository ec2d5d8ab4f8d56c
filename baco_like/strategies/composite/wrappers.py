"""Strategies that wrap one other strategy: a design before it, or uniform draws among its proposals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from baco_like._typing import Codes, Mask, Rng
from baco_like.records import History, Observation, Proposal, Status
from baco_like.spaces import Space
from baco_like.spaces.design import uniform
from baco_like.strategies import protocol
from baco_like.strategies.protocol import Prediction, Problem, Proposals, Strategy
from baco_like.strategies.random_search import RandomSearch

Design = Callable[[Space, int, Rng, Callable[[Codes], Mask]], Codes]
"""Chooses n distinct feasible rows that are not excluded; the functions of `baco_like.spaces.design` are designs."""


def check_initial(initial: int) -> None:
    """Check the number of trials of the initial design.

    Raises:
        ValueError: It is negative.
    """
    if initial < 0:
        raise ValueError(f"initial = {initial}: expected 0 or more trials before the model")


@dataclass(frozen=True)
class StrategyWrapper:
    """Passes everything but ``ask`` on to another strategy, whose state is also the wrapper's state.

    Attributes:
        then: The wrapped strategy.
    """

    then: Strategy[Any]

    @property
    def draws_in_tell(self) -> bool:
        """Whether the wrapped strategy does."""
        return protocol.draws_in_tell(self.then)

    @property
    def several_objectives(self) -> bool:
        """Whether the wrapped strategy optimises several objectives."""
        return protocol.optimises_several(self.then)

    @property
    def uses_related_tasks(self) -> bool:
        """Whether the wrapped strategy uses the results of related tasks."""
        return protocol.uses_related_tasks(self.then)

    def init(self, problem: Problem, rng: Rng) -> Any:
        """Return the first state of the wrapped strategy."""
        return self.then.init(problem, rng)

    def ask_after(
        self, first: Proposals, problem: Problem, history: History, state: Any, n: int, rng: Rng
    ) -> Proposals:
        """Return these proposals, and then those of the wrapped strategy: n together."""
        if len(first) == n:
            return first
        history = history.assume_pending(protocol.proposed_rows(problem.space, first))
        return [*first, *self.then.ask(problem, history, state, n - len(first), rng)]

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
        return protocol.require_predictive(self.then).predict(problem, history, state, codes, rng)


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

    def ask(self, problem: Problem, history: History, state: Any, n: int, rng: Rng) -> Proposals:
        """Return the missing points of the design, then proposals of the later strategy."""
        missing = min(n, max(0, self.initial - len(history) - len(history.pending)))
        if not missing:
            return self.then.ask(problem, history, state, n, rng)
        design = self.design
        if self.before_success is not None and not history.where(Status.OK).any():
            design = self.before_success
        # A design never repeats a configuration, even if noise="repeat" lets the later strategy do so.
        rows = design(problem.space, missing, rng, history.is_excluded)
        proposals = [Proposal(row, {"phase": "design"}) for row in rows]
        return self.ask_after(proposals, problem, history, state, n, rng)


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

    def ask(self, problem: Problem, history: History, state: Any, n: int, rng: Rng) -> Proposals:
        """Return the uniform draws first, then proposals of the other strategy."""
        count = int((rng.random(n) < self.share).sum())
        draws = RandomSearch().ask(problem, history, None, count, rng) if count else []
        return self.ask_after(draws, problem, history, state, n, rng)


@final
@dataclass(frozen=True)
class RandomAfterStall(StrategyWrapper):
    """Makes one uniform draw when the model keeps expecting a gain that does not come.

    A model that is wrong in one region can return to it for the rest of a run. The tag of each suggestion of a model
    holds ``p_gain``, its probability of a new best. The sum over the suggestions since the last new best, or since the
    last of these draws, is the number of gains that the model expected. If its probabilities are right, the chance of
    none is at most exp(-sum), because 1 - p <= exp(-p): 5 % at 3. Then the next suggestion is a uniform draw, and its
    tag says why.

    Attributes:
        then: The strategy with the model.
        expected: Number of expected gains that is too many, above 0.

    Raises:
        ValueError: ``expected`` is not above 0.
    """

    expected: float = 3.0

    def __post_init__(self) -> None:
        if not self.expected > 0:
            raise ValueError(f"expected = {self.expected}: give a number of gains above 0")

    def ask(self, problem: Problem, history: History, state: Any, n: int, rng: Rng) -> Proposals:
        """Return the uniform draw if it is due, then proposals of the other strategy."""
        pending = any(t.read_tag("phase") == "restart" for t in history.pending.values())
        expected = 0.0 if pending else self.count_expected(history)
        if expected < self.expected:
            return self.then.ask(problem, history, state, n, rng)
        rows = uniform(problem.space, 1, rng, history.is_excluded)
        note = f"the model expected {expected:.1f} gains since the last one, and none came"
        draws = [Proposal(row, {"phase": "restart", "note": note}) for row in rows]
        return self.ask_after(draws, problem, history, state, n, rng)

    @staticmethod
    def count_expected(history: History) -> float:
        """Return the number of gains that the model expected since the last gain or restart."""
        if not history.where(Status.OK).any():
            return 0.0
        last_gain = int(np.nanargmin(history.costs))
        expected = 0.0
        for trial in history.trials[:last_gain:-1]:
            if trial.read_tag("phase") == "restart":
                break
            if isinstance(trial.tag, Mapping) and "branch" not in trial.tag:
                expected += trial.tag.get("p_gain", 0.0)
        return expected
