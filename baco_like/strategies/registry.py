"""Names of strategies: the only place where a string becomes a class.

A maker returns a frozen recipe; its keyword arguments are the settings that ``strategy=`` by name, the TOML file and
the command line accept. Importing this module loads no model library: makers import when they are called.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from baco_like.strategies.exhaustive import Exhaustive
from baco_like.strategies.protocol import Strategy
from baco_like.strategies.random_search import RandomSearch

Maker = Callable[..., Strategy[Any]]


def _bayesian(initial: int = 10) -> Strategy[Any]:
    """BaCO's Bayesian optimization: uniform design, Gaussian process, learnt feasibility, local search."""
    from baco_like.strategies.bayesian import Bayesian
    from baco_like.strategies.phased import Phased

    return Phased(Bayesian(), initial)


def _random_forest(initial: int = 10) -> Strategy[Any]:
    """Bayesian optimization with a random forest as the model."""
    from baco_like.strategies.bayesian import Bayesian
    from baco_like.strategies.phased import Phased
    from baco_like.surrogates.forest import RandomForest

    return Phased(Bayesian(surrogate=RandomForest()), initial)


def _auto(initial: int = 10) -> Strategy[Any]:
    """The recommended strategy: BaCO's Bayesian optimization, as 'bayesian'."""
    return _bayesian(initial)


def _random_search() -> Strategy[Any]:
    """Uniform random sampling without replacement."""
    return RandomSearch()


def _exhaustive() -> Strategy[Any]:
    """Every feasible configuration once, in order."""
    return Exhaustive()


STRATEGIES: Mapping[str, Maker] = {
    "auto": _auto,
    "bayesian": _bayesian,
    "random_forest": _random_forest,
    "random_search": _random_search,
    "exhaustive": _exhaustive,
}


def create(name: str, settings: Mapping[str, Any]) -> Strategy[Any]:
    """Return the strategy with this name.

    Raises:
        ValueError: The name is unknown, or it has no such setting; the message lists what there is.
    """
    known = settings_of(name)
    wrong = [key for key in settings if key not in known]
    if wrong:
        allowed = ", ".join(known) or "none"
        raise ValueError(
            f"strategy {name!r} has no setting {wrong[0]!r}; its settings are: {allowed}"
        )
    return STRATEGIES[name](**settings)


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
