"""Convert search spaces and parameterizations of Ax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from baco_like.constraints.language.writer import write_name
from baco_like.exceptions import MissingExtra, SpaceError
from baco_like.integrations._shared.permutation_text import write_permutations
from baco_like.parameters.categorical import Categorical
from baco_like.parameters.integer import Integer
from baco_like.parameters.ordinal import Ordinal
from baco_like.parameters.protocol import Parameter
from baco_like.parameters.real import Real
from baco_like.parameters.values import is_number
from baco_like.spaces.space import Space

try:
    from ax.core.parameter import ChoiceParameter, FixedParameter, ParameterType, RangeParameter
    from ax.core.search_space import SearchSpace
except ImportError:
    raise MissingExtra("ax", "ax") from None


def from_search_space(search_space: SearchSpace) -> Space:
    """Return the space of Ax's parameters and linear constraints.

    An ordered choice of numbers becomes an ordinal, any other choice a categorical parameter.

    Raises:
        SpaceError: A parameter is not a range, choice or fixed parameter, or it depends on another parameter.
    """
    parameters = {name: _parameter(name, p) for name, p in search_space.parameters.items()}
    constraints = [
        _expression(c.constraint_dict, c.bound, c.is_equality)
        for c in search_space.parameter_constraints
    ]
    return Space(parameters, constraints)


def _parameter(name: str, parameter: Any) -> Parameter:
    if isinstance(parameter, RangeParameter):
        make = Integer if parameter.parameter_type is ParameterType.INT else Real
        return make(parameter.lower, parameter.upper, log=parameter.log_scale)
    if isinstance(parameter, FixedParameter):
        value = parameter.value
        return Ordinal([value]) if is_number(value) else Categorical([value])
    if isinstance(parameter, ChoiceParameter) and not parameter.is_hierarchical:
        if not (parameter.is_ordered and all(map(is_number, parameter.values))):
            return Categorical(parameter.values)
        log = bool(getattr(parameter, "log_scale", False))  # older versions of Ax lack it
        return Ordinal(parameter.values, log=log)
    raise SpaceError(
        f"parameter {name!r}: this {type(parameter).__name__} cannot be converted; pass a Space to BacoNode"
    )


def _expression(weights: Mapping[str, float], bound: float, equality: bool) -> str:
    """Return a linear constraint as the text of an expression."""
    terms = [f"{float(weight)!r} * {write_name(name)}" for name, weight in weights.items()]
    return f"{' + '.join(terms)} {'==' if equality else '<='} {float(bound)!r}"


def to_parameterization(
    config: Mapping[str, Any], space: Space, search_space: SearchSpace
) -> dict[str, Any]:
    """Return a configuration in Ax's types; fixed parameters that only Ax has are added.

    Raises:
        SpaceError: Ax lacks a parameter or a value of the space, or has another parameter that is not fixed.
    """
    values = write_permutations(config, space)
    for name, parameter in search_space.parameters.items():
        if name not in values:
            if not isinstance(parameter, FixedParameter):
                raise SpaceError(f"the space lacks the experiment's parameter {name!r}; add it")
            values[name] = parameter.value
        value = parameter.cast(values[name])
        if not parameter.validate(value):
            raise SpaceError(
                f"parameter {name!r} of the experiment does not have the value {values[name]!r}; "
                "give the space and the experiment the same values"
            )
        values[name] = value
    unknown = [name for name in values if name not in search_space.parameters]
    if unknown:
        raise SpaceError(f"the experiment lacks the space's parameters {', '.join(unknown)}")
    return values
