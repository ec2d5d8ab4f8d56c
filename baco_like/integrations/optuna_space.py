"""Our spaces and configurations in Optuna's terms.

Ordinals and permutations have no distribution in Optuna: they are categorical there, a permutation as the text
``"i,j,k"``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

from baco_like.exceptions import MissingExtra, SpaceError
from baco_like.spaces.categorical import Categorical
from baco_like.spaces.integer import Integer
from baco_like.spaces.ordinal import Ordinal
from baco_like.spaces.parameter import Parameter
from baco_like.spaces.permutation import Permutation
from baco_like.spaces.real import Real
from baco_like.spaces.space import Space

try:
    import optuna
    from optuna.distributions import (
        BaseDistribution,
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )
except ImportError:
    raise MissingExtra("optuna", "optuna") from None

_MOST_ORDERS = 5040
"""Choices of a categorical distribution at most: Optuna stores all of them with every trial."""


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """Return the space's parameters as Optuna's distributions, such as ``study.ask`` takes.

    Raises:
        SpaceError: A permutation has more than seven elements, or two orders of it would be one text.
    """
    return {name: _distribution(name, one) for name, one in space.parameters.items()}


def suggest(trial: optuna.Trial, space: Space) -> dict[str, Any]:
    """Return the configuration that an objective shall evaluate, in the space's own values.

    Raises:
        SpaceError: As `distributions`.
    """
    params: dict[str, Any] = {}
    for name, distribution in distributions(space).items():
        if isinstance(distribution, FloatDistribution):
            params[name] = trial.suggest_float(
                name, distribution.low, distribution.high, log=distribution.log
            )
        elif isinstance(distribution, IntDistribution):
            params[name] = trial.suggest_int(
                name, distribution.low, distribution.high, log=distribution.log
            )
        elif isinstance(distribution, CategoricalDistribution):
            params[name] = trial.suggest_categorical(name, distribution.choices)
    return to_config(params, space)


def to_config(params: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return the configuration that a trial's parameters stand for; others than the space's are left out."""
    known = space.parameters.items()
    return {name: _from_optuna(one, params[name]) for name, one in known if name in params}


def to_params(config: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return a configuration as Optuna's parameters, such as ``study.enqueue_trial`` takes; inverse of `to_config`."""
    return {
        name: _text(value) if isinstance(space.parameters[name], Permutation) else value
        for name, value in config.items()
    }


def _distribution(name: str, parameter: Parameter) -> BaseDistribution:
    if isinstance(parameter, Real):
        return FloatDistribution(parameter.low, parameter.high, log=parameter.log)
    if isinstance(parameter, Integer):
        return IntDistribution(parameter.low, parameter.high, log=parameter.log)
    if isinstance(parameter, (Ordinal, Categorical)):
        return CategoricalDistribution(parameter.values)
    if isinstance(parameter, Permutation):
        return CategoricalDistribution(_orders(name, parameter))
    raise SpaceError(f"parameter {name!r}: a {type(parameter).__name__} has no distribution")


def _orders(name: str, parameter: Permutation) -> list[str]:
    if math.factorial(len(parameter.elements)) > _MOST_ORDERS:
        raise SpaceError(
            f"parameter {name!r}: a permutation of {len(parameter.elements)} elements is too long for Optuna, "
            "which stores every order; at most 7, or use Optimizer instead of a study"
        )
    texts = [str(element) for element in parameter.elements]
    if len(set(texts)) < len(texts) or any("," in text for text in texts):
        raise SpaceError(f"parameter {name!r}: elements must differ as text and have no comma")
    return [_text(order) for order in permutations(texts)]


def _text(order: Sequence[Any]) -> str:
    return ",".join(map(str, order))


def _from_optuna(parameter: Parameter, value: Any) -> Any:
    if isinstance(parameter, Permutation) and isinstance(value, str):
        elements = {str(element): element for element in parameter.elements}
        return tuple(elements[text] for text in value.split(","))
    return value
