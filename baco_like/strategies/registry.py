"""Names of strategies: the only place where a string becomes a class.

A maker returns a frozen recipe; its keyword arguments are the settings that ``strategy=`` by name, the TOML file and
the command line accept. Importing this module loads no model library: makers import when they are called.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from baco_like.spaces.design import (
    biased_walk,
    from_prior,
    latin_hypercube,
    maximin,
    middle,
    sobol,
    uniform,
)
from baco_like.strategies.composite.phased import Design
from baco_like.strategies.direct.basin_hopping import basin_hopping
from baco_like.strategies.direct.dual_annealing import dual_annealing
from baco_like.strategies.direct.pattern_search import pattern_search
from baco_like.strategies.direct.torczon import torczon
from baco_like.strategies.evolutionary.differential_evolution import differential_evolution
from baco_like.strategies.evolutionary.firefly import firefly
from baco_like.strategies.evolutionary.genetic_algorithm import genetic_algorithm
from baco_like.strategies.evolutionary.particle_swarm import particle_swarm
from baco_like.strategies.exhaustive import Exhaustive
from baco_like.strategies.local.genetic_local_search import genetic_local_search
from baco_like.strategies.local.local_search import iterated_local_search, multi_start_local_search
from baco_like.strategies.local.simulated_annealing import simulated_annealing
from baco_like.strategies.local.tabu_search import tabu_search
from baco_like.strategies.protocol import Strategy
from baco_like.strategies.racing.iterated_racing import Racing
from baco_like.strategies.random_search import RandomSearch

Maker = Callable[..., Strategy[Any]]


DESIGNS = {
    "uniform": uniform,
    "biased_walk": biased_walk,
    "latin_hypercube": latin_hypercube,
    "maximin": maximin,
    "middle": middle,
    "sobol": sobol,
    "prior": from_prior,
}
"""Names of first designs, for the setting ``design``."""


def _design(name: str) -> Design:
    if name not in DESIGNS:
        raise ValueError(f"design {name!r} is unknown; choose from {', '.join(DESIGNS)}")
    return DESIGNS[name]


def _bayesian(initial: int = 10, design: str = "uniform") -> Strategy[Any]:
    """Bayesian optimization in BaCO's manner: Gaussian process, learnt feasibility, all or locally searched."""
    from baco_like.strategies.bayesian.bayesian import Bayesian
    from baco_like.strategies.composite.phased import Phased

    return Phased(Bayesian(), initial, _design(design))


def _random_forest(initial: int = 10, design: str = "uniform") -> Strategy[Any]:
    """Bayesian optimization with a random forest as the model."""
    from baco_like.strategies.bayesian.bayesian import Bayesian
    from baco_like.strategies.composite.phased import Phased
    from baco_like.surrogates.forest import RandomForest

    return Phased(Bayesian(surrogate=RandomForest()), initial, _design(design))


def _baco(initial: int = 10, design: str = "uniform") -> Strategy[Any]:
    """BaCO as published: always by local search, its program's minimum feasibility, every fit from many starts."""
    from baco_like.strategies.bayesian.bayesian import Bayesian
    from baco_like.strategies.composite.phased import Phased
    from baco_like.surrogates.gp.fit import Effort
    from baco_like.surrogates.gp.model import GaussianProcess

    surrogate = GaussianProcess(effort=Effort(draws=200, starts=5, fresh_starts=5, fresh_every=1))
    then = Bayesian(surrogate=surrogate, scan_limit=0, largest_minimum=0.1)
    return Phased(then, initial, _design(design))


def _kernel_tuner_bo(
    initial: int = 20,
    design: str = "maximin",
    acquisition: str = "advanced_multi",
    exploration: float | None = None,
) -> Strategy[Any]:
    """Kernel Tuner's Bayesian optimization; acquisition: advanced_multi, multi, ei; exploration None: contextual."""
    from baco_like.acquisitions.selectors import (
        ACQUISITIONS,
        AcquisitionSelector,
        AdvancedMulti,
        Multi,
    )
    from baco_like.strategies.bayesian.kernel_tuner_bo import KernelTunerBO
    from baco_like.strategies.composite.phased import Phased
    from baco_like.surrogates.gp.model import FixedGaussianProcess

    selectors: dict[str, AcquisitionSelector] = {
        "advanced_multi": AdvancedMulti(),
        "multi": Multi(),
        "ei": Multi(),
    }
    if acquisition not in selectors:
        known = ", ".join(selectors)
        raise ValueError(f"acquisition {acquisition!r} is unknown; choose from {known}")
    then = KernelTunerBO(
        acquisitions=("ei",) if acquisition == "ei" else tuple(ACQUISITIONS),
        selector=selectors[acquisition],
        exploration=exploration,
        surrogate=FixedGaussianProcess(lengthscale=1.5 if exploration is None else 2.0),
    )
    return Phased(then, initial, _design(design))


def _auto(initial: int | None = None, design: str = "middle") -> Strategy[Any]:
    """The recommended strategy: Bayesian optimization that also sees quantities the space names."""
    from baco_like.strategies.auto import Auto

    return Auto(initial, _design(design))


def _random_search() -> Strategy[Any]:
    """Uniform random sampling without replacement."""
    return RandomSearch()


def _exhaustive() -> Strategy[Any]:
    """Every feasible configuration once, in order."""
    return Exhaustive()


def _portfolio(
    arms: str
    | Sequence[str]
    | Mapping[str, Mapping[str, Any]] = "pattern_search, torczon, dual_annealing",
    rule: str = "auc",
    window: int = 500,
    exploration: float = 0.05,
) -> Strategy[Any]:
    """Several strategies share the evaluations; arms: names or settings by name; rule: auc, round_robin."""
    from baco_like.strategies.composite.bandit import AreaUnderCurve, RoundRobin
    from baco_like.strategies.composite.portfolio import Portfolio

    if rule not in ("auc", "round_robin"):
        raise ValueError(f"rule {rule!r} is unknown; choose from auc, round_robin")
    given = arms.split(",") if isinstance(arms, str) else arms
    named = given if isinstance(given, Mapping) else {name.strip(): {} for name in given}
    strategies = {
        name: create(str(settings.get("strategy", name)), _without(settings, "strategy"))
        for name, settings in named.items()
    }
    return Portfolio(
        strategies, AreaUnderCurve(window, exploration) if rule == "auc" else RoundRobin()
    )


def _without(settings: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != key}


def _smac(
    initial: int = 10,
    design: str = "sobol",
    surrogate: str = "gp",
    acquisition: str = "lcb",
    random_share: float = 0.08,
) -> Strategy[Any]:
    """SMAC's parts as in the 2022 survey, some draws being random; surrogate: gp, forest; acquisition: lcb, ei.

    The bound lies 2 standard deviations below the mean, where SMAC's factor grows with the logarithm of the data.
    """
    from baco_like.acquisitions.functions import ExpectedImprovement, LowerConfidenceBound
    from baco_like.acquisitions.protocol import AcquisitionFunction
    from baco_like.strategies.bayesian.bayesian import Bayesian
    from baco_like.strategies.composite.interleaved import Interleaved
    from baco_like.strategies.composite.phased import Phased
    from baco_like.surrogates.forest import RandomForest
    from baco_like.surrogates.gp.model import GaussianProcess
    from baco_like.surrogates.protocol import Surrogate

    models: dict[str, Callable[[], Surrogate]] = {"gp": GaussianProcess, "forest": RandomForest}
    scores: dict[str, Callable[[], AcquisitionFunction]] = {
        "lcb": LowerConfidenceBound,
        "ei": ExpectedImprovement,
    }
    for setting, value, known in (
        ("surrogate", surrogate, models),
        ("acquisition", acquisition, scores),
    ):
        if value not in known:
            raise ValueError(f"{setting} {value!r} is unknown; choose from {', '.join(known)}")
    then = Bayesian(surrogate=models[surrogate](), acquisition=scores[acquisition]())
    return Phased(Interleaved(then, random_share), initial, _design(design))


STRATEGIES: Mapping[str, Maker] = {
    "auto": _auto,
    "bayesian": _bayesian,
    "baco": _baco,
    "kernel_tuner_bo": _kernel_tuner_bo,
    "random_forest": _random_forest,
    "random_search": _random_search,
    "exhaustive": _exhaustive,
    "genetic_algorithm": genetic_algorithm,
    "differential_evolution": differential_evolution,
    "particle_swarm": particle_swarm,
    "firefly": firefly,
    "multi_start_local_search": multi_start_local_search,
    "iterated_local_search": iterated_local_search,
    "tabu_search": tabu_search,
    "simulated_annealing": simulated_annealing,
    "genetic_local_search": genetic_local_search,
    "basin_hopping": basin_hopping,
    "dual_annealing": dual_annealing,
    "pattern_search": pattern_search,
    "torczon": torczon,
    "racing": Racing,
    "portfolio": _portfolio,
    "smac": _smac,
}


def create(name: str, settings: Mapping[str, Any]) -> Strategy[Any]:
    """Return the strategy with this name.

    Raises:
        ValueError: The name is unknown, it has no such setting, or a value is of another kind; the message says what
            there is.
    """
    known = settings_of(name)
    wrong = [key for key in settings if key not in known]
    if wrong:
        allowed = ", ".join(known) or "none"
        raise ValueError(
            f"strategy {name!r} has no setting {wrong[0]!r}; its settings are: {allowed}"
        )
    kinds = inspect.signature(STRATEGIES[name]).parameters
    for key, value in settings.items():
        if not _is_of_kind(value, str(kinds[key].annotation)):
            raise ValueError(
                f"strategy {name!r}: {key} = {value!r}; it takes {kinds[key].annotation}"
            )
    return STRATEGIES[name](**settings)


_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "int": Integral,
    "float": Real,
    "str": str,
    "bool": bool,
    "None": type(None),
}


def _is_of_kind(value: Any, annotation: str) -> bool:
    """Whether a value is of one of the plain kinds of an annotation; what is not plain is left to the strategy."""
    kinds = [kind.strip() for kind in annotation.split("|")]
    if not _KINDS.keys() >= set(kinds):
        return True
    if isinstance(value, bool):
        return "bool" in kinds
    return any(isinstance(value, _KINDS[kind]) for kind in kinds)


def settings_of(name: str) -> dict[str, Any]:
    """Return the settings of a strategy with their defaults.

    Raises:
        ValueError: The name is unknown.
    """
    if name not in STRATEGIES:
        near = difflib.get_close_matches(name, STRATEGIES, 1)
        hint = f"did you mean {near[0]!r}?" if near else "choose one of " + ", ".join(STRATEGIES)
        raise ValueError(f"strategy {name!r} is unknown; {hint}")
    return {p.name: p.default for p in inspect.signature(STRATEGIES[name]).parameters.values()}


def summary(name: str) -> str:
    """Return one line on a strategy."""
    return (inspect.getdoc(STRATEGIES[name]) or "").splitlines()[0]
