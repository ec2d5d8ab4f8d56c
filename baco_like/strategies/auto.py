"""The default: which strategy, and why, from what is known before the run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

from baco_like._typing import Codes, Rng
from baco_like.parameters.protocol import ParameterKind
from baco_like.records.history import History
from baco_like.records.trial import Proposal, Trial
from baco_like.spaces.design import distinct_middle, middle
from baco_like.spaces.space import Space, in_words
from baco_like.strategies.bayesian.bayesian import Bayesian, with_quantities
from baco_like.strategies.bayesian.transferred import Task, Transferred
from baco_like.strategies.composite.phased import Design, Phased, check_initial
from baco_like.strategies.exhaustive import Exhaustive
from baco_like.strategies.protocol import Prediction, Problem, Strategy, predictive
from baco_like.surrogates.gp.model import GaussianProcess
from baco_like.surrogates.gp.prior import LogNormal, Priors

FEW = 3
"""A space of at most so many configurations is run through: a model would have nothing to choose from."""

FAILED_AS = 0.75
"""Quantile of the successes that the model of the values is told of a failure: half as many failures, measured."""

PRIORS = Priors(lengthscale=LogNormal(4.0, 1.0))
"""The most probable lengthscale, 1.5, is near that of the plain `Priors`, but long ones are far likelier (half are
above 4) and short ones rarer. Measured."""

FIRST_POINTS = (3, 10)
"""Fewest and most."""


def first_points(space: Space) -> int:
    """Return how many trials come before a model is asked: 3, or more where there are many orders to choose from.

    As many as the bits that number the orders (9 for six loops), but at most 10. Of an order few trials tell little,
    and a model of three stays near the best of them for long.
    """
    active = (space.parameters[name] for name in space.active)
    bits = sum(math.log2(p.cardinality) for p in active if p.kind is ParameterKind.PERMUTATION)
    fewest, most = FIRST_POINTS
    return min(most, max(fewest, int(bits)))


@final
@dataclass(frozen=True)
class Auto:
    """Chooses by the size of the space, and says so in the tag of its first proposals.

    Attributes:
        initial: Trials before a model is asked; two must succeed. None stands for `first_points`.
        design: Chooses the first of them.
        tasks: Related tasks whose results are known; they take the place of all of the design but its first point,
            which is the hedge against misleading ones.

    Raises:
        ValueError: ``initial`` is negative.
    """

    initial: int | None = None
    design: Design = middle
    tasks: tuple[Task, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        check_initial(self.initial or 0)

    def choice(self, problem: Problem) -> tuple[Strategy[Any], str]:
        """Return the strategy for a problem, and why in one line."""
        size = problem.space.feasible_size
        shown = in_words(size)
        if size is not None and size <= FEW:
            return Exhaustive(), f"exhaustive: there are {shown} configurations"
        surrogate = GaussianProcess(priors=PRIORS)
        bayesian = Bayesian(surrogate, view=with_quantities, failed_as=FAILED_AS)
        where = "all scored" if size is not None and size <= bayesian.scan_limit else "searched"
        begun = f"bayesian: {shown} configurations, {where} by the model"
        if self.tasks:
            why = f"{begun} and those of related tasks, after 1 of the design"
            return Phased(Transferred(bayesian, self.tasks), 1, self.design), why
        initial = first_points(problem.space) if self.initial is None else self.initial
        first = distinct_middle if self.design is middle else None
        phased = Phased(bayesian, initial, self.design, before_success=first)
        return phased, f"{begun} after {initial} of the design"

    def init(self, problem: Problem, rng: Rng) -> Any:
        """Begin with the state of the strategy that is chosen."""
        return self.choice(problem)[0].init(problem, rng)

    def ask(
        self, problem: Problem, history: History, state: Any, n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return what the strategy that is chosen proposes."""
        strategy, why = self.choice(problem)
        proposals = strategy.ask(problem, history, state, n, rng)
        if len(history):
            return proposals
        return [replace(one, tag={**(one.tag or {}), "auto": why}) for one in proposals]

    def tell(self, problem: Problem, state: Any, observation: Trial, rng: Rng) -> Any:
        """Let the strategy that is chosen know."""
        return self.choice(problem)[0].tell(problem, state, observation, rng)

    def predict(
        self, problem: Problem, history: History, state: Any, codes: Codes, rng: Rng
    ) -> Prediction:
        """Return what the model predicts.

        Raises:
            TrialError: Too little has been observed, or the space is so small that there is no model.
        """
        strategy, _ = self.choice(problem)
        return predictive(strategy).predict(problem, history, state, codes, rng)
