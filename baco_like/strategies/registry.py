"""Strategies by name, with their settings.

A maker is a strategy class or a function that returns a strategy. Its keyword arguments are the settings that are
accepted together with a name by ``strategy=``, by the run file and on the command line.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, cast

from baco_like._plugins import Plugin, Registry
from baco_like.acquisitions.registry import create_acquisition
from baco_like.exceptions import StrategyError
from baco_like.spaces import design as designs
from baco_like.strategies.auto import Auto, model_of_auto
from baco_like.strategies.baselines import Exhaustive, RandomSearch
from baco_like.strategies.bayesian.bayesian import Bayesian
from baco_like.strategies.bayesian.kernel_tuner_bo import (
    ACQUISITIONS,
    AcquisitionSelector,
    AdvancedMulti,
    KernelTunerBO,
    Multi,
    fixed_process,
)
from baco_like.strategies.bayesian.several_objectives import ExpectedHypervolume, ParEGO
from baco_like.strategies.direct.global_minimisers import BasinHopping, DualAnnealing
from baco_like.strategies.direct.pattern_search import PatternSearch, Torczon
from baco_like.strategies.evolutionary.differential_evolution import DifferentialEvolution
from baco_like.strategies.evolutionary.genetic import NSGA2, GeneticAlgorithm
from baco_like.strategies.evolutionary.swarms import Firefly, ParticleSwarm
from baco_like.strategies.fidelity import MultiFidelity, SuccessiveHalving
from baco_like.strategies.initial_phase import Design, Phased
from baco_like.strategies.local import searches
from baco_like.strategies.local.genetic_local_search import GeneticLocalSearch
from baco_like.strategies.multi_task import MultiTask
from baco_like.strategies.per_second import SecondsAware
from baco_like.strategies.portfolio import AreaUnderCurve, ArmRule, Portfolio, RoundRobin
from baco_like.strategies.protocol import Problem, Strategy
from baco_like.strategies.racing import Racing
from baco_like.strategies.settings import choose
from baco_like.strategies.wrappers import RandomInterleaving
from baco_like.surrogates import GaussianProcess, RandomForest
from baco_like.surrogates.gp.fit import Effort
from baco_like.surrogates.registry import create_surrogate

Maker = Callable[..., Strategy[Any]]

Arms = str | Sequence[str] | Mapping[str, Mapping[str, Any]]
"""Names of strategies, separated by commas or as a sequence, or settings of strategies by name."""

DESIGNS: Mapping[str, Design] = {
    "uniform": designs.uniform,
    "biased_walk": designs.biased_walk,
    "latin_hypercube": designs.latin_hypercube,
    "maximin": designs.maximin,
    "middle": designs.middle,
    "sobol": designs.sobol,
    "prior": designs.from_prior,
}
"""Initial designs by name, for the setting ``design``."""


def _after_design(then: Strategy[Any], initial: int, design: str) -> Phased:
    return Phased(then, initial, choose("design", design, DESIGNS))


def _bayesian(
    initial: int = 10,
    design: str = "uniform",
    surrogate: str = "gp",
    device: str = "auto",
    acquisition: str = "ei",
) -> Phased:
    """BaCO's Bayesian optimization: ten uniform draws, then Gaussian process, failure model, scan or local search."""
    model = create_surrogate(surrogate, GaussianProcess(), device)
    then = SecondsAware(Bayesian(model, acquisition=create_acquisition(acquisition)))
    return _after_design(then, initial, design)


def _random_forest(initial: int = 10, design: str = "uniform", acquisition: str = "ei") -> Phased:
    """Bayesian optimization with a random forest as the surrogate."""
    then = Bayesian(surrogate=RandomForest(), acquisition=create_acquisition(acquisition))
    return _after_design(then, initial, design)


def _baco(
    initial: int = 10, design: str = "uniform", surrogate: str = "gp", device: str = "auto"
) -> Phased:
    """BaCO as published: always local search, minimum feasibility of BaCO's program, every fit from many starts."""
    closed_form = GaussianProcess(effort=Effort(draws=200, starts=5, fresh_starts=5, fresh_every=1))
    model = create_surrogate(surrogate, closed_form, device)
    then = Bayesian(model, scan_limit=0, largest_minimum=0.1)
    return _after_design(then, initial, design)


def _kernel_tuner_bo(
    initial: int = 20,
    design: str = "maximin",
    acquisition: str = "advanced_multi",
    exploration: float | None = None,
    surrogate: str = "gp",
    device: str = "auto",
) -> Phased:
    """Kernel Tuner's Bayesian optimization; acquisition: advanced_multi, multi, ei; exploration None: contextual."""
    selectors: Mapping[str, AcquisitionSelector]
    selectors = {"advanced_multi": AdvancedMulti(), "multi": Multi(), "ei": Multi()}
    if surrogate in ("forest", "effects"):
        raise ValueError(
            "kernel_tuner_bo needs a Gaussian process; choose surrogate gp or gpytorch"
        )
    # Table I of Willemsen et al. 2021: lengthscale 1.5 with contextual variance, 2 with a constant factor.
    closed_form = fixed_process(1.5 if exploration is None else 2.0)
    then = KernelTunerBO(
        acquisitions=("ei",) if acquisition == "ei" else tuple(ACQUISITIONS),
        selector=choose("acquisition", acquisition, selectors),
        exploration=exploration,
        surrogate=create_surrogate(surrogate, closed_form, device),
    )
    return _after_design(then, initial, design)


def _smac(
    initial: int = 10,
    design: str = "sobol",
    surrogate: str = "gp",
    acquisition: str = "lcb",
    random_share: float = 0.08,
    device: str = "auto",
) -> Phased:
    """SMAC's parts as in the 2022 survey, and some random draws.

    The lower confidence bound is 2 standard deviations below the mean; SMAC's factor grows with the logarithm of the
    number of observations.
    """
    then = Bayesian(
        surrogate=create_surrogate(surrogate, GaussianProcess(), device),
        acquisition=create_acquisition(acquisition),
    )
    return _after_design(RandomInterleaving(then, random_share), initial, design)


def _successive_halving(
    eta: float = 3.0, random_share: float = 0.33, surrogate: str = "gp", device: str = "auto"
) -> SuccessiveHalving:
    """Successive halving over fidelities, as in BOHB: the best share of each level is promoted to the next one."""
    model_based = Bayesian(create_surrogate(surrogate, GaussianProcess(), device))
    return SuccessiveHalving(eta, random_share, model_based)


def _auto(
    initial: int | None = None, design: str = "middle", surrogate: str = "gp", device: str = "auto"
) -> Auto:
    """The recommended strategy: Bayesian optimization with features derived from the space, such as products."""
    return Auto(initial, choose("design", design, DESIGNS), surrogate, device)


def _ehvi(
    initial: int = 8, design: str = "latin_hypercube", surrogate: str = "gp", device: str = "auto"
) -> Phased:
    """Two or three objectives: expected improvement of the hypervolume. The choice of `auto`."""
    then = ExpectedHypervolume(model_of_auto(surrogate, device))
    return _after_design(then, initial, design)


def _parego(
    initial: int = 8, design: str = "latin_hypercube", surrogate: str = "gp", device: str = "auto"
) -> Phased:
    """Four or more objectives: expected improvement of a maximum with random weights. The choice of `auto`."""
    return _after_design(ParEGO(model_of_auto(surrogate, device)), initial, design)


def _portfolio(
    arms: Arms = "pattern_search, torczon, dual_annealing",
    rule: str = "auc",
    window: int = 500,
    exploration: float = 0.05,
) -> Portfolio:
    """Several strategies share the evaluations; arms: names or settings by name; rule: auc, round_robin."""
    names = arms.split(",") if isinstance(arms, str) else arms
    by_name = names if isinstance(names, Mapping) else {name.strip(): {} for name in names}
    strategies = {}
    for name, settings in by_name.items():
        own = dict(settings)
        strategies[name] = create_strategy(str(own.pop("strategy", name)), own)
    rules: dict[str, Callable[[], ArmRule]] = {
        "auc": lambda: AreaUnderCurve(window, exploration),
        "round_robin": RoundRobin,
    }
    return Portfolio(strategies, choose("rule", rule, rules)())


STRATEGIES: Mapping[str, Maker] = {
    "auto": _auto,
    "bayesian": _bayesian,
    "baco": _baco,
    "kernel_tuner_bo": _kernel_tuner_bo,
    "random_forest": _random_forest,
    "ehvi": _ehvi,
    "parego": _parego,
    "random_search": RandomSearch,
    "exhaustive": Exhaustive,
    "nsga2": NSGA2,
    "genetic_algorithm": GeneticAlgorithm,
    "differential_evolution": DifferentialEvolution,
    "particle_swarm": ParticleSwarm,
    "firefly": Firefly,
    "multi_start_local_search": searches.MultiStartLocalSearch,
    "iterated_local_search": searches.IteratedLocalSearch,
    "tabu_search": searches.TabuSearch,
    "simulated_annealing": searches.SimulatedAnnealing,
    "genetic_local_search": GeneticLocalSearch,
    "basin_hopping": BasinHopping,
    "dual_annealing": DualAnnealing,
    "pattern_search": PatternSearch,
    "torczon": Torczon,
    "racing": Racing,
    "portfolio": _portfolio,
    "smac": _smac,
    "successive_halving": _successive_halving,
}
"""Makers of strategies by name."""


REGISTRY: Registry[Maker] = Registry("baco_like.strategies", "strategy", STRATEGIES, "auto")
"""`STRATEGIES`, and the strategies of plug-ins."""


def create_strategy(name: str, settings: Mapping[str, Any] | None = None) -> Strategy[Any]:
    """Return the strategy with this name.

    Args:
        name: A key of `STRATEGIES`, or the name of a plug-in.
        settings: Values of some of its settings; see `default_settings`.

    Raises:
        ValueError: The name or a setting is unknown, a value has the wrong type, or a setting without a default is
            missing; the message lists the choices.
        PluginError: The plug-in cannot be imported, or makes something else than a strategy.
    """
    make, settings = find_maker(name), settings or {}
    known = _parameters(make)
    unknown = [key for key in settings if key not in known]
    if unknown:
        allowed = ", ".join(known) or "none"
        raise ValueError(
            f"strategy {name!r} has no setting {unknown[0]!r}; its settings are: {allowed}"
        )
    for key, value in settings.items():
        given = known[key].annotation  # a class in a module that does not postpone its annotations
        annotation = given.__name__ if isinstance(given, type) else str(given)
        if known[key].default is None and "None" not in annotation:
            annotation += " | None"  # an open setting, see `BY_BUDGET`
        if not _is_instance(value, annotation):
            raise ValueError(f"strategy {name!r}: {key} = {value!r}; it takes {annotation}")
    for key, parameter in known.items():
        if parameter.default is parameter.empty and key not in settings:
            raise ValueError(f"strategy {name!r} needs a value of its setting {key!r}")
    if isinstance(part := REGISTRY.find(name), Plugin):
        return cast("Strategy[Any]", part.create(("init", "ask", "tell"), **settings))
    return make(**settings)


def find_maker(name: str) -> Maker:
    """Return the class or function that makes the strategy with this name.

    Raises:
        ValueError: The name is unknown.
        PluginError: The plug-in cannot be imported.
    """
    part = REGISTRY.find(name)
    return part.load() if isinstance(part, Plugin) else part


def _parameters(make: Maker) -> dict[str, inspect.Parameter]:
    """Return the settings of a maker by name."""
    parameters = inspect.signature(make).parameters
    return {
        name: p for name, p in parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    }


_TYPES = {"int": Integral, "float": Real, "str": str, "bool": bool, "None": type(None)}


def _is_instance(value: Any, annotation: str) -> bool:
    """Whether a value has a type of an annotation; annotations with other types are checked by the strategy itself."""
    names = [name.strip() for name in annotation.split("|")]
    if not _TYPES.keys() >= set(names):
        return True
    if isinstance(value, bool):
        return "bool" in names
    return any(isinstance(value, _TYPES[name]) for name in names)


def default_settings(name: str) -> dict[str, Any]:
    """Return the settings of a strategy with their defaults; a setting of a plug-in may have none.

    Raises:
        ValueError: The name is unknown.
        PluginError: The plug-in cannot be imported.
    """
    parameters = _parameters(find_maker(name))
    return {key: p.default for key, p in parameters.items() if p.default is not p.empty}


def describe_strategy(name: str) -> str:
    """Return a description of a strategy in one line."""
    text = (inspect.getdoc(find_maker(name)) or "").partition("\n")[0]
    part = REGISTRY.find(name)
    return f"{text} (plug-in of {part.origin})" if isinstance(part, Plugin) else text


def for_space(strategy: Strategy[Any], problem: Problem) -> Strategy[Any]:
    """Return the strategy for a space: `MultiTask` or `MultiFidelity` around it if there are tasks or a fidelity.

    One task needs no other strategy. A strategy may use tasks or a fidelity itself: by an attribute ``uses_tasks`` or
    ``uses_fidelity``.

    Raises:
        StrategyError: There is a fidelity or several tasks, and there are several objectives; or the strategy cannot
            tune several tasks.
    """
    if problem.space.tasks is not None and len(problem.space.tasks) > 1:
        if problem.objectives:
            raise StrategyError(
                "several tasks go with one objective; leave out the tasks or the other objectives"
            )
        return strategy if getattr(strategy, "uses_tasks", False) else MultiTask(strategy)
    if problem.space.fidelity is None:
        return strategy
    if problem.objectives:
        raise StrategyError(
            "a fidelity goes with one objective; leave out the fidelity or the other objectives"
        )
    if getattr(strategy, "uses_fidelity", False):
        return strategy
    return MultiFidelity(strategy)
