"""The default strategy: `choose` selects its parts by the properties of the problem; see docs/default_strategy.md."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, NamedTuple, final

from baco_like._typing import Codes, Rng
from baco_like.acquisitions.functions import LowerConfidenceBound
from baco_like.acquisitions.optimizers import LocalSearch, NearbySearch
from baco_like.parameters import ParameterKind
from baco_like.parameters.protocol import is_sequence
from baco_like.records.history import History
from baco_like.records.objective_values import number_within
from baco_like.records.trial import Observation
from baco_like.spaces.design import distinct_middle, latin_hypercube, middle
from baco_like.spaces.space import format_size
from baco_like.strategies.baselines import Exhaustive
from baco_like.strategies.bayesian.bayesian import Bayesian
from baco_like.strategies.bayesian.fitting import with_quantities
from baco_like.strategies.bayesian.several_objectives import ExpectedHypervolume, ParEGO
from baco_like.strategies.initial_phase import (
    MOST,
    MOST_OF_MANY,
    AdaptiveDesign,
    Design,
    Phased,
    size_by_orders,
)
from baco_like.strategies.per_second import SecondsAware
from baco_like.strategies.protocol import (
    Prediction,
    Problem,
    Proposals,
    Strategy,
    require_predictive,
)
from baco_like.strategies.wrappers import BranchExploration, RandomAfterStall
from baco_like.surrogates.effects import SparseEffects
from baco_like.surrogates.gp.gaussian_process import GaussianProcess
from baco_like.surrogates.gp.prior import SMOOTH_PRIORS
from baco_like.surrogates.protocol import Surrogate
from baco_like.surrogates.registry import create_surrogate

FEW = 3
"""A space of at most this many configurations is evaluated completely: a model would have nothing to choose from."""

FAILED_AS = 0.75
"""Quantile of the successful costs that is imputed for a failure. Measured over 30 seeds: it halved the failures on the
recorded space `hidden` (benchmarks/quality/log/failures.md)."""

LONG_ORDER = math.factorial(7)
"""From this number of orders on, a permutation is long: its features take most of the time of a suggestion."""

DRAWS_BESIDE_LONG_ORDERS = 700
"""Uniform draws that the local search scores first in a space with a long permutation. 1,500 draws gain nothing there:
six spaces, 20 seeds, the relative log regret differs by 0.001 (0.019); see benchmarks/quality/log/adaptive_default.md.
"""

MOST_FOR_VOLUME = 3
"""Largest number of objectives for which the expected gain of hypervolume is used; the boxes of more are too many."""


MANY_PARAMETERS = 21
"""From this number of parameters on, few of them have strong effects in the model, and the search stays near the best
configurations. The tables on which the default for fewer was developed have at most 20."""


def model_of_many() -> Bayesian:
    """Return the Bayesian optimization of the default strategy for `MANY_PARAMETERS` or more, without a design.

    Of random changes of the best configurations it takes the one with the best predicted value. Expected improvement
    prefers uncertain ones, and with hundreds of parameters nearly all changes are uncertain. On sizes of 15 programs by
    the flags of gcc, two seeds, a local search on expected improvement gained 0.9 percentage points less after 60
    builds, in twice the CPU time.
    """
    search = NearbySearch()
    model, value = SparseEffects(), LowerConfidenceBound(deviations=0.0)
    return Bayesian(model, value, scan_limit=0, failed_as=FAILED_AS, search=search, mixed=search)


def model_of_auto(surrogate: str | Surrogate = "gp", device: str = "auto") -> Bayesian:
    """Return the Bayesian optimization of the default strategy, without a design; the surrogate may be your own.

    Raises:
        ValueError: The surrogate or the device is unknown.
        StrategyError: This machine has no such device.
    """
    closed_form = GaussianProcess(priors=SMOOTH_PRIORS, mean="constant")
    if isinstance(surrogate, str):
        surrogate = create_surrogate(surrogate, closed_form, device)
    return Bayesian(surrogate, view=with_quantities, failed_as=FAILED_AS)


class AutoState(NamedTuple):
    """The state.

    Attributes:
        then: The chosen strategy.
        reason: Why it was chosen.
        later: Its state.
    """

    then: Strategy[Any]
    reason: str
    later: Any


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
        surrogate: "gp" (closed form; "effects" for many parameters), "gpytorch", "forest" or "effects", or a surrogate.
        device: Torch device of "gpytorch": "auto" (the GPU if there is one), "cpu", "cuda" or "cuda:N".
        parts: Fields of `Bayesian` that replace those of this strategy, for ablations: ``{"failed_as": None}``, or
            another ``acquisition``, ``feasibility``, ``view``, ``scale``, ``search``.

    Raises:
        ValueError: ``initial`` is negative, the surrogate or device is unknown, or `Bayesian` has no such part.
        StrategyError: This machine has no such device.
    """

    initial: int | None = None
    design: Design = middle
    surrogate: str | Surrogate = "gp"
    device: str = "auto"
    parts: Mapping[str, Any] = field(default_factory=dict)

    draws_in_tell: ClassVar[bool] = False
    several_objectives: ClassVar[bool] = True
    uses_related_tasks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        number_within("initial", self.initial or 0, "[0, inf)")
        model = model_of_auto(self.surrogate, self.device)
        known = [each.name for each in fields(model) if each.name != "surrogate"]
        if unknown := [name for name in self.parts if name not in known]:
            raise ValueError(f"parts has {unknown[0]!r}; its names are {', '.join(known)}")
        replace(model, **self.parts)

    def init(self, problem: Problem, rng: Rng) -> AutoState:
        """Return the choice, and the first state of the chosen strategy."""
        then, reason = choose(problem, self)
        return AutoState(then, reason, then.init(problem, rng))

    def ask(
        self, problem: Problem, history: History, state: AutoState, n: int, rng: Rng
    ) -> Proposals:
        """Return the proposals of the chosen strategy; the tags of the first ones say why it was chosen."""
        proposals = state.then.ask(problem, history, state.later, n, rng)
        if len(history):
            return proposals
        reason = state.reason
        if isinstance(state.then, AdaptiveDesign):
            size = state.then.describe_size(problem.space, state.later.seed)
            reason = f"{reason} after {size}"
        return [replace(p, tag={**(p.tag or {}), "auto": reason}) for p in proposals]

    def tell(
        self, problem: Problem, state: AutoState, observation: Observation, rng: Rng
    ) -> AutoState:
        """Pass the observation on to the chosen strategy."""
        later = state.then.tell(problem, state.later, observation, rng)
        return state if later is state.later else state._replace(later=later)

    def predict(
        self, problem: Problem, history: History, state: AutoState, codes: Codes, rng: Rng
    ) -> Prediction:
        """Return the model's predictions for configurations, ``(n, w)``.

        Raises:
            TrialError: There are too few observations, or the space is so small that there is no model.
        """
        return require_predictive(state.then).predict(problem, history, state.later, codes, rng)


def choose(problem: Problem, auto: Auto) -> tuple[Strategy[Any], str]:
    """Return the strategy for a problem, and the reason in one line.

    The numbers are those of docs/default_strategy.md. `Recipe.search_of` takes decision 5, the kind of search, and
    `AdaptiveDesign` the decisions 11 and 12, whether the space has a distinct middle, and whether it wins.

    Args:
        problem: The problem.
        auto: The settings.
    """
    space, size, several = problem.space, problem.space.feasible_size, len(problem.objectives)
    if size is not None and size <= FEW:  # 1: tiny spaces
        return Exhaustive(), f"exhaustive: there are {format_size(size)} configurations"

    active = [space.parameters[name] for name in space.active]
    is_single = not (several or problem.related)
    many = is_single and auto.surrogate == "gp" and len(active) >= MANY_PARAMETERS
    model = model_of_many() if many else model_of_auto(auto.surrogate, auto.device)
    if many:  # 2: few of many parameters matter
        pass
    elif any(map(is_sequence, space.parameters.values())):  # 3: sequences
        # The model of a sequence ranks badly, so few changes are scored.
        near = NearbySearch(candidates=50)
        model = replace(model, search=near, mixed=near)
    elif any(p.kind is ParameterKind.PERMUTATION and p.cardinality >= LONG_ORDER for p in active):
        model = replace(model, search=LocalSearch(candidates=DRAWS_BESIDE_LONG_ORDERS))  # 4
    model = replace(model, **auto.parts)
    how = "all scored" if size is not None and size <= model.scan_limit else "searched"
    reason = f"bayesian: {format_size(size)} configurations, {how} by the model"

    then: Strategy[Any]
    if several:  # 6: several objectives
        then = ParEGO(model) if several > MOST_FOR_VOLUME else ExpectedHypervolume(model)
    else:
        then = SecondsAware(model)  # 7: a budget in seconds
        if space.conditions:
            then = BranchExploration(then)  # 8: branches of conditions
        then = RandomAfterStall(then)  # 9: gains that do not come

    if problem.related:  # 10: related results replace all but one point of the design
        reason = f"{reason} and those of related tasks, after 1 of the design"
        return Phased(then, 1, auto.design), reason
    if several:
        initial = MOST if auto.initial is None else auto.initial
        return Phased(
            then, initial, latin_hypercube if auto.design is middle else auto.design
        ), reason
    if auto.initial is None and auto.design is middle:
        return AdaptiveDesign(then, most=MOST_OF_MANY if many else MOST, many=many), reason
    initial = size_by_orders(space) if auto.initial is None else auto.initial
    before_success = distinct_middle if auto.design is middle else None
    phased = Phased(then, initial, auto.design, before_success)
    return phased, f"{reason} after {initial} of the design"
