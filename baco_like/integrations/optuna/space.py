"""Convert spaces and configurations to and from Optuna.

Optuna has no ordinals and no permutations. Both become categorical, a permutation as texts such as ``"i,j,k"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from baco_like.exceptions import MissingExtra, SpaceError
from baco_like.integrations._shared.permutation_text import (
    order_texts,
    read_permutations,
    write_permutations,
)
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


def optuna_distributions(space: Space) -> dict[str, BaseDistribution]:
    """Return the space's parameters as Optuna distributions, as ``study.ask`` accepts them.

    Raises:
        SpaceError: A permutation has more than seven elements, two orders of it have the same text, or ``space`` is
            not a `Space`.
    """
    if not isinstance(space, Space):
        raise SpaceError(f"space = {space!r:.60}: expected a Space; create it with Space(...)")
    return {name: _distribution(name, p) for name, p in space.parameters.items()}


def suggest_config(trial: optuna.Trial, space: Space) -> dict[str, Any]:
    """Return the configuration that an objective evaluates, in the space's own values.

    Raises:
        SpaceError: As for `optuna_distributions`.
    """
    params: dict[str, Any] = {}
    for name, choice in optuna_distributions(space).items():
        if isinstance(choice, FloatDistribution):
            params[name] = trial.suggest_float(name, choice.low, choice.high, log=choice.log)
        elif isinstance(choice, IntDistribution):
            params[name] = trial.suggest_int(name, choice.low, choice.high, log=choice.log)
        elif isinstance(choice, CategoricalDistribution):
            params[name] = trial.suggest_categorical(name, choice.choices)
    return from_optuna(params, space)


def from_optuna(params: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return a trial's parameters as a configuration; parameters outside the space are left out."""
    return read_permutations(params, space)


def to_optuna(config: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return a configuration as Optuna's parameters, as ``study.enqueue_trial`` accepts them."""
    return write_permutations(config, space)


def _distribution(name: str, parameter: Parameter) -> BaseDistribution:
    if isinstance(parameter, Real):
        return FloatDistribution(parameter.low, parameter.high, log=parameter.log)
    if isinstance(parameter, Integer):
        return IntDistribution(parameter.low, parameter.high, log=parameter.log)
    if isinstance(parameter, (Ordinal, Categorical)):
        return CategoricalDistribution(parameter.values)
    if isinstance(parameter, Permutation):
        return CategoricalDistribution(order_texts(name, parameter, "Optuna"))
    raise SpaceError(
        f"parameter {name!r}: Optuna has no distribution for {type(parameter).__name__}"
    )
