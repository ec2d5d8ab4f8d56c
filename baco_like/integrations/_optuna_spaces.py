"""Spaces, distributions and configurations in the terms of Optuna, and back.

Optuna has no ordinals and no permutations: both become categorical, a permutation as texts such as ``"i,j,k"``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from baco_like._optional import needs_extra
from baco_like.exceptions import SpaceError
from baco_like.integrations._define_by_run import Bounds
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
from baco_like.parameters.numeric import MAX_VALUES
from baco_like.parameters.values import value_key
from baco_like.spaces import Space

with needs_extra("optuna", "optuna"):
    import optuna
    from optuna.distributions import (
        BaseDistribution,
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

_STEPS = 1000
"""Most values of a number with a step that are listed."""


def optuna_distributions(space: Space) -> dict[str, BaseDistribution]:
    """Return the space's parameters as Optuna distributions, as ``study.ask`` accepts them.

    Raises:
        SpaceError: A permutation has more than seven elements, two orders of it have the same text, or ``space`` is
            not a `Space`.
    """
    if not isinstance(space, Space):
        raise SpaceError(f"space = {space!r:.60}: expected a Space; create it with Space(...)")
    return {name: distribution_of(name, p) for name, p in space.parameters.items()}


def suggest_config(trial: optuna.Trial, space: Space) -> dict[str, Any]:
    """Return the configuration that an objective evaluates, in the space's own values; inactive ones are not asked for.

    Raises:
        SpaceError: As for `optuna_distributions`.
    """
    params: dict[str, Any] = {}
    for name, choice in optuna_distributions(space).items():
        if name not in space.conditions.expressions:
            params[name] = ask_parameter(trial, name, choice)
    for name in space.conditions.expressions:  # those that a condition reads come first
        if space.activity.is_active(name, from_optuna(params, space)):
            params[name] = ask_parameter(trial, name, distribution_of(name, space.parameters[name]))
    return from_optuna(params, space)


def ask_parameter(trial: optuna.Trial, name: str, choice: BaseDistribution) -> Any:
    """Return the value of a parameter that a trial is asked for."""
    if isinstance(choice, FloatDistribution):
        step = choice.step
        return trial.suggest_float(name, choice.low, choice.high, step=step, log=choice.log)
    if isinstance(choice, IntDistribution):
        step = choice.step
        return trial.suggest_int(name, choice.low, choice.high, step=step, log=choice.log)
    assert isinstance(choice, CategoricalDistribution)
    return trial.suggest_categorical(name, choice.choices)


def from_optuna(params: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return a trial's parameters as a configuration; parameters outside the space are left out."""
    return read_permutations(params, space)


def to_optuna(config: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return a configuration as Optuna's parameters, as ``study.enqueue_trial`` accepts them."""
    return write_permutations(config, space)


# Single distributions -------------------------------------------------------------------------------------------------


def distribution_of(name: str, parameter: Parameter) -> BaseDistribution:
    """Return a parameter as a distribution of Optuna.

    Raises:
        SpaceError: Optuna has none, or as for `optuna_distributions`.
    """
    if isinstance(parameter, Real):
        return FloatDistribution(parameter.low, parameter.high, log=parameter.log)
    if isinstance(parameter, SteppedReal):
        return FloatDistribution(parameter.low, parameter.high, step=parameter.step)
    if isinstance(parameter, Integer):
        return IntDistribution(parameter.low, parameter.high, log=parameter.log)
    if isinstance(parameter, (Ordinal, Categorical)):
        values: Any = parameter.values  # Optuna accepts tuples among them, with a warning
        return CategoricalDistribution(values)
    if isinstance(parameter, Permutation):
        return CategoricalDistribution(order_texts(name, parameter, "Optuna"))
    raise SpaceError(
        f"parameter {name!r}: Optuna has no distribution for {type(parameter).__name__}; use Optimizer directly"
    )


def parameter_of(distribution: BaseDistribution) -> Parameter:
    """Return a distribution of Optuna as a parameter; the inverse of `distribution_of`, but for permutations."""
    if isinstance(distribution, CategoricalDistribution):
        # Optuna takes the first of choices that are equal in Python, such as 1 and True.
        return Categorical(list(dict.fromkeys(map(_plain, distribution.choices))))
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    low, high, step = distribution.low, distribution.high, distribution.step
    is_whole = isinstance(distribution, IntDistribution)
    has_step = step is not None and not (is_whole and step == 1)
    if has_step and not is_whole:
        return Real(low, high, step=step)
    if has_step and step is not None and (high - low) / step < _STEPS:
        return Ordinal(range(int(low), int(high) + 1, int(step)))
    if is_whole:
        return Integer(int(low), int(high), log=distribution.log)
    return Real(low, high, log=distribution.log)


def read_bounds(distributions: Mapping[str, BaseDistribution]) -> dict[str, Bounds]:
    """Return the bounds and the step of each number."""
    bounds: dict[str, Bounds] = {}
    for name, each in distributions.items():
        if isinstance(each, IntDistribution):
            bounds[name] = (each.low, each.high, (each.low % each.step, each.step))
        elif isinstance(each, FloatDistribution):
            bounds[name] = (each.low, each.high, None)
    return bounds


def describe_numbers(numbers: FloatDistribution | IntDistribution) -> str:
    """Return the bounds and the step of numbers in words."""
    step = "" if numbers.step in (None, 1) else f" in steps of {numbers.step!r}"
    return f"{numbers.low!r} to {numbers.high!r}{step}"


# Spaces that a study learns -------------------------------------------------------------------------------------------


@dataclass
class LearnedDomains:
    """The parameters of a study whose space is not given, with the widest bounds of all trials.

    Attributes:
        distributions: As Optuna has them.
        wide: Names of integers with more values than `Integer` takes; Optuna samples them independently.
    """

    distributions: dict[str, BaseDistribution] = field(default_factory=dict)
    wide: set[str] = field(default_factory=set)

    def add(self, distributions: Mapping[str, BaseDistribution]) -> None:
        """Add the distributions of a trial; numbers get the wider bounds."""
        for name, new in distributions.items():
            widened = _widen(self.distributions.get(name, new), new)
            if isinstance(widened, IntDistribution) and widened.high - widened.low >= MAX_VALUES:
                self.wide.add(name)
            self.distributions[name] = widened
        for name in self.wide & self.distributions.keys():
            del self.distributions[name]

    def space(self) -> Space | None:
        """Return the space, or None without parameters."""
        parameters = {name: parameter_of(each) for name, each in self.distributions.items()}
        return Space(parameters) if parameters else None

    def read(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a trial as a configuration, or a part of it."""
        return {name: _plain(value) for name, value in params.items() if name in self.distributions}

    def write(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return a configuration as Optuna's parameters; the inverse of `read`."""
        params = dict(config)
        for name, value in config.items():
            own = self.distributions[name]
            if isinstance(own, CategoricalDistribution):
                choices = {value_key(_plain(choice)): choice for choice in own.choices}
                params[name] = choices[value_key(value)]
        return params


def _plain(choice: Any) -> Any:
    """Return a choice as a value of a parameter.

    It is a text such as ``<nan>`` if a `Categorical` cannot have the choice, or, as None, not if it is conditional.
    """
    try:
        return f"<{choice!r}>" if choice is None else Categorical([choice]).values[0]
    except SpaceError:
        return f"<{choice!r}>"


def _widen(known: BaseDistribution, new: BaseDistribution) -> BaseDistribution:
    """Return the distribution of two trials; of different kinds, the new one."""
    if isinstance(known, FloatDistribution) and isinstance(new, FloatDistribution):
        low, high = min(known.low, new.low), max(known.high, new.high)
        step = new.step if known.step == new.step else None
        shift = 0.0 if step is None else (known.low - new.low) / step
        step = step if math.isclose(shift, round(shift)) else None
        return FloatDistribution(low, high, log=new.log, step=step)
    if isinstance(known, IntDistribution) and isinstance(new, IntDistribution):
        step = math.gcd(known.step, new.step, known.low - new.low)
        return IntDistribution(
            min(known.low, new.low), max(known.high, new.high), log=new.log, step=step
        )
    return new
