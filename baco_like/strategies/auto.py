"""The default strategy: chooses a strategy from the properties of the space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

from baco_like._random import Purpose, generator
from baco_like._typing import Codes, Rng
from baco_like.acquisitions.functions import LowerConfidenceBound
from baco_like.acquisitions.optimizers.searches import LocalSearch, NearbySearch
from baco_like.parameters import ParameterKind
from baco_like.parameters.protocol import is_sequence
from baco_like.records.history import History
from baco_like.records.trial import Observation, Proposal
from baco_like.spaces.design import distinct_middle, has_distinct_middle, latin_hypercube, middle
from baco_like.spaces.space import Space, format_size
from baco_like.strategies.bayesian.bayesian import Bayesian, with_quantities
from baco_like.strategies.bayesian.expected_hypervolume import ExpectedHypervolume
from baco_like.strategies.bayesian.several_objectives import ParEGO
from baco_like.strategies.composite.adaptive_design import (
    MOST_BRANCHES,
    AdaptiveDesign,
    size_by_orders,
)
from baco_like.strategies.composite.branches import BranchExploration
from baco_like.strategies.composite.wrappers import (
    Design,
    Phased,
    RandomAfterStall,
    check_initial,
)
from baco_like.strategies.exhaustive import Exhaustive
from baco_like.strategies.per_second import SecondsAware
from baco_like.strategies.protocol import (
    Prediction,
    Problem,
    Strategy,
    require_predictive,
)
from baco_like.surrogates.effects import SparseEffects
from baco_like.surrogates.gp.gaussian_process import GaussianProcess
from baco_like.surrogates.gp.prior import LogNormal, Priors
from baco_like.surrogates.registry import create_surrogate

FEW = 3
"""A space of at most this many configurations is evaluated completely: a model would have nothing to choose from."""

FAILED_AS = 0.75
"""Quantile of the successful costs that is imputed for a failure. Measured over 30 seeds: it halved the failures on the
recorded space `hidden` (benchmarks/quality/log/failures.md)."""

PRIORS = Priors(lengthscale=LogNormal(4.0, 1.0))
"""Prior of the lengthscales, chosen by measurement (benchmarks/quality/log/priors.md). Its mode, 1.5, is near the mode
of the default `Priors`, but long lengthscales are more probable (half are above 4) and short ones less."""

LONG_ORDER = math.factorial(7)
"""From this number of orders on, a permutation is long: its features take most of the time of a suggestion."""

DRAWS_BESIDE_LONG_ORDERS = 700
"""Uniform draws that the local search scores first in a space with a long permutation. 1,500 draws gain nothing there:
six spaces, 20 seeds, the relative log regret differs by 0.001 (0.019); see benchmarks/quality/log/adaptive_default.md.
"""

MOST_FOR_VOLUME = 3
"""Largest number of objectives for which the expected gain of hypervolume is used; the boxes of more are too many."""


MANY = 21
"""From this number of parameters on, few of them have strong effects in the model, and the search stays near the best
configurations. The tables on which the default for fewer was developed have at most 20."""


def model_of_many() -> Bayesian:
    """Return the Bayesian optimization of the default strategy for `MANY` or more parameters, without a design.

    Of random changes of the best configurations it takes the one with the best predicted value. Expected improvement
    prefers uncertain ones, and with hundreds of parameters nearly all changes are uncertain. On sizes of 15 programs by
    the flags of gcc, two seeds, a local search on expected improvement gained 0.9 percentage points less after 60
    builds, in twice the CPU time.
    """
    search = NearbySearch()
    model, value = SparseEffects(), LowerConfidenceBound(deviations=0.0)
    return Bayesian(model, value, scan_limit=0, failed_as=FAILED_AS, search=search, mixed=search)


def model_of_auto(surrogate: str = "gp", device: str = "auto") -> Bayesian:
    """Return the Bayesian optimization of the default strategy, without a design.

    Raises:
        ValueError: The surrogate or the device is unknown.
        StrategyError: This machine has no such device.
    """
    closed_form = GaussianProcess(priors=PRIORS, mean="constant")
    model = create_surrogate(surrogate, closed_form, device)
    return Bayesian(model, view=with_quantities, failed_as=FAILED_AS)


@final
@dataclass(frozen=True)
class Auto:
    """The recommended strategy: exhaustive search of tiny spaces, Bayesian optimization of all others.

    Use it unless you have a reason to choose another one. The tag of its first proposals names the choice. Results of
    related tasks replace the design except for its first point, which is a safeguard against misleading tasks.

    Attributes:
        initial: Number of trials before the model is used, 0 or more; the model needs two successes. None lets the
            first trials decide (`AdaptiveDesign`); for another design than the middle, `size_by_orders` decides.
        design: Chooses the configurations of these trials.
        surrogate: "gp" (closed form; "effects" for many parameters), "gpytorch", "forest" or "effects".
        device: Torch device of "gpytorch": "auto" (the GPU if there is one), "cpu", "cuda" or "cuda:N".

    Raises:
        ValueError: ``initial`` is negative, or the surrogate or device is unknown.
        StrategyError: This machine has no such device.
    """

    initial: int | None = None
    design: Design = middle
    surrogate: str = "gp"
    device: str = "auto"

    draws_in_tell: ClassVar[bool] = False
    several_objectives: ClassVar[bool] = True
    uses_related_tasks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_initial(self.initial or 0)
        model_of_auto(self.surrogate, self.device)

    def choice(self, problem: Problem) -> tuple[Strategy[Any], str]:
        """Return the strategy for a problem, and the reason in one line; `ask` adds the size of the default design."""
        size = problem.space.feasible_size
        shown = format_size(size)
        if size is not None and size <= FEW:
            return Exhaustive(), f"exhaustive: there are {shown} configurations"
        many = self._has_many(problem)
        bayesian = model_of_many() if many else model_of_auto(self.surrogate, self.device)
        if not many and any(map(is_sequence, problem.space.parameters.values())):
            # A climb scores all moves of a sequence. That takes twice the CPU time, and on pass pipelines of five
            # programs it ended level after 60 evaluations.
            bayesian = replace(bayesian, search=NearbySearch(), mixed=NearbySearch())
        elif not many and has_long_order(problem.space):
            bayesian = replace(bayesian, search=LocalSearch(candidates=DRAWS_BESIDE_LONG_ORDERS))
        how = "all scored" if size is not None and size <= bayesian.scan_limit else "searched"
        reason = f"bayesian: {shown} configurations, {how} by the model"
        if problem.related:
            reason = f"{reason} and those of related tasks, after 1 of the design"
        if problem.objectives:
            return self._several(problem, bayesian), reason
        later = _with_exploration(SecondsAware(bayesian), problem)
        if problem.related:
            return Phased(later, 1, self.design), reason
        if self.initial is None and self.design is middle:
            return AdaptiveDesign(later, most=9 if many else 8, many=many), reason
        initial = size_by_orders(problem.space) if self.initial is None else self.initial
        before_success = distinct_middle if self.design is middle else None
        phased = Phased(later, initial, self.design, before_success=before_success)
        return phased, f"{reason} after {initial} of the design"

    def _has_many(self, problem: Problem) -> bool:
        """Return whether `model_of_many` is the model."""
        is_single = not (problem.objectives or problem.related)
        return is_single and self.surrogate == "gp" and len(problem.space.active) >= MANY

    def _several(self, problem: Problem, bayesian: Bayesian) -> Strategy[Any]:
        """Return the strategy for several objectives, after a design."""
        several = len(problem.objectives)
        choice = ParEGO if several > MOST_FOR_VOLUME else ExpectedHypervolume
        then = choice(bayesian)
        if problem.related:
            return Phased(then, 1, self.design)
        initial = AdaptiveDesign.most if self.initial is None else self.initial
        return Phased(then, initial, latin_hypercube if self.design is middle else self.design)

    def init(self, problem: Problem, rng: Rng) -> Any:
        """Return the first state of the chosen strategy."""
        return self.choice(problem)[0].init(problem, rng)

    def ask(
        self, problem: Problem, history: History, state: Any, n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return the proposals of the chosen strategy."""
        strategy, reason = self.choice(problem)
        proposals = strategy.ask(problem, history, state, n, rng)
        if len(history):
            return proposals
        if isinstance(strategy, AdaptiveDesign):
            reason = f"{reason} after {_describe_size(strategy, problem.space, state.seed)}"
        return [replace(p, tag={**(p.tag or {}), "auto": reason}) for p in proposals]

    def tell(self, problem: Problem, state: Any, observation: Observation, rng: Rng) -> Any:
        """Pass the observation on to the chosen strategy."""
        return self.choice(problem)[0].tell(problem, state, observation, rng)

    def predict(
        self, problem: Problem, history: History, state: Any, codes: Codes, rng: Rng
    ) -> Prediction:
        """Return the model's predictions for configurations, ``(n, w)``.

        Raises:
            TrialError: There are too few observations, or the space is so small that there is no model.
        """
        strategy, _ = self.choice(problem)
        return require_predictive(strategy).predict(problem, history, state, codes, rng)


def has_long_order(space: Space) -> bool:
    """Return whether an active parameter is a permutation with at least `LONG_ORDER` orders."""
    if space.width == len(space.columns):  # a permutation has a column for each element
        return False
    active = (space.parameters[name] for name in space.active)
    return any(p.kind is ParameterKind.PERMUTATION and p.cardinality >= LONG_ORDER for p in active)


def _with_exploration(strategy: Strategy[Any], problem: Problem) -> RandomAfterStall:
    """Return the strategy with steps into other branches, if there are any, and with draws after a stall."""
    return RandomAfterStall(BranchExploration(strategy) if problem.space.conditions else strategy)


def _describe_size(design: AdaptiveDesign, space: Space, seed: int) -> str:
    """Return how many trials the default design has; ``seed`` is the one by which it looks for a middle."""
    if space.conditions:
        return f"one trial in each branch of the conditions, at most {MOST_BRANCHES}"
    if design.many:
        return f"{design.most} of the design"
    if has_distinct_middle(space, generator(seed, Purpose.MODEL)):
        return f"{design.middles + 1} of the design, up to {design.most} if the middle loses"
    return f"{design.most} of the design, as the space has no distinct middle"
