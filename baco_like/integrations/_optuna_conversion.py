"""Spaces and configurations in the terms of Optuna."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from baco_like._optional import needs_extra
from baco_like.exceptions import SpaceError
from baco_like.integrations._shared import order_texts, read_permutations, write_permutations
from baco_like.parameters import (
    Categorical,
    Integer,
    Ordinal,
    Parameter,
    Permutation,
    Real,
    SteppedReal,
)
from baco_like.spaces import Space

with needs_extra("optuna", "optuna"):
    import optuna
    from optuna.distributions import (
        BaseDistribution,
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )


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
    """Return the configuration that an objective evaluates, in the space's own values; inactive ones are not asked for.

    Raises:
        SpaceError: As for `optuna_distributions`.
    """
    params: dict[str, Any] = {}
    for name, choice in optuna_distributions(space).items():
        if name not in space.conditions.expressions:
            params[name] = _ask(trial, name, choice)
    for name in space.conditions.expressions:  # those that a condition reads come first
        if space.activity.is_active(name, from_optuna(params, space)):
            params[name] = _ask(trial, name, _distribution(name, space.parameters[name]))
    return from_optuna(params, space)


def _ask(trial: optuna.Trial, name: str, choice: BaseDistribution) -> Any:
    if isinstance(choice, FloatDistribution):
        return trial.suggest_float(name, choice.low, choice.high, log=choice.log)
    if isinstance(choice, IntDistribution):
        return trial.suggest_int(name, choice.low, choice.high, log=choice.log)
    assert isinstance(choice, CategoricalDistribution)
    return trial.suggest_categorical(name, choice.choices)


def from_optuna(params: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return a trial's parameters as a configuration; parameters outside the space are left out."""
    return read_permutations(params, space)


def to_optuna(config: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return a configuration as Optuna's parameters, as ``study.enqueue_trial`` accepts them."""
    return write_permutations(config, space)


def _distribution(name: str, parameter: Parameter) -> BaseDistribution:
    if isinstance(parameter, Real):
        return FloatDistribution(parameter.low, parameter.high, log=parameter.log)
    if isinstance(parameter, SteppedReal):
        return FloatDistribution(parameter.low, parameter.high, step=parameter.step)
    if isinstance(parameter, Integer):
        return IntDistribution(parameter.low, parameter.high, log=parameter.log)
    if isinstance(parameter, (Ordinal, Categorical)):
        values: tuple[Any, ...] = (
            parameter.values
        )  # Optuna accepts tuples among them, with a warning
        return CategoricalDistribution(values)
    if isinstance(parameter, Permutation):
        return CategoricalDistribution(order_texts(name, parameter, "Optuna"))
    raise SpaceError(
        f"parameter {name!r}: Optuna has no distribution for {type(parameter).__name__}; use Optimizer directly"
    )
