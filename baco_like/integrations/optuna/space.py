"""Our spaces and configurations in Optuna's terms.

Ordinals and permutations have no distribution in Optuna: they are categorical there, a permutation as the text
``"i,j,k"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from baco_like.exceptions import MissingExtra, SpaceError
from baco_like.integrations.permutation_text import order_texts, with_texts, without_texts
from baco_like.parameters.categorical import Categorical
from baco_like.parameters.integer import Integer
from baco_like.parameters.ordinal import Ordinal
from baco_like.parameters.permutation import Permutation
from baco_like.parameters.protocol import Parameter
from baco_like.parameters.real import Real
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


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """Return the space's parameters as Optuna's distributions, such as ``study.ask`` takes.

    Raises:
        SpaceError: A permutation has more than seven elements, or two orders of it would be one text; or ``space`` is
            no `Space`.
    """
    if not isinstance(space, Space):
        raise SpaceError(f"space = {space!r:.60}: make a Space of it once, space = Space(...)")
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
    return without_texts(params, space)


def to_params(config: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return a configuration as Optuna's parameters, such as ``study.enqueue_trial`` takes; inverse of `to_config`."""
    return with_texts(config, space)


def _distribution(name: str, parameter: Parameter) -> BaseDistribution:
    if isinstance(parameter, Real):
        return FloatDistribution(parameter.low, parameter.high, log=parameter.log)
    if isinstance(parameter, Integer):
        return IntDistribution(parameter.low, parameter.high, log=parameter.log)
    if isinstance(parameter, (Ordinal, Categorical)):
        return CategoricalDistribution(parameter.values)
    if isinstance(parameter, Permutation):
        return CategoricalDistribution(order_texts(name, parameter, "Optuna"))
    raise SpaceError(f"parameter {name!r}: a {type(parameter).__name__} has no distribution")
