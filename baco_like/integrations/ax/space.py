"""Search spaces of Ax as spaces of ours, and configurations there and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from baco_like.constraints.language.writer import write_name
from baco_like.exceptions import MissingExtra, SpaceError
from baco_like.integrations.permutation_text import with_texts, without_texts
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


def space_of(search_space: SearchSpace) -> Space:
    """Return the space of Ax's parameters and linear constraints.

    Numbers of an ordered choice have Ax's order (a choice of numbers that is not ordered is categorical).

    Raises:
        SpaceError: A parameter is none of range, choice and fixed, or depends on another one.
    """
    parameters = {name: _parameter(name, one) for name, one in search_space.parameters.items()}
    constraints = [
        _text(one.constraint_dict, one.bound, one.is_equality)
        for one in search_space.parameter_constraints
    ]
    return Space(parameters, constraints)


def _parameter(name: str, one: Any) -> Parameter:
    if isinstance(one, RangeParameter):
        whole = one.parameter_type is ParameterType.INT
        make = Integer if whole else Real
        return make(one.lower, one.upper, log=one.log_scale)
    if isinstance(one, FixedParameter):
        return Ordinal([one.value]) if is_number(one.value) else Categorical([one.value])
    if isinstance(one, ChoiceParameter) and not one.is_hierarchical:
        ordered = one.is_ordered and all(map(is_number, one.values))
        log = bool(getattr(one, "log_scale", False))
        return Ordinal(one.values, log=log) if ordered else Categorical(one.values)
    raise SpaceError(
        f"parameter {name!r}: a {type(one).__name__} like this has no equal here; give the space yourself"
    )


def _text(weights: Mapping[str, float], bound: float, equality: bool) -> str:
    """Return a linear constraint as an expression."""
    total = " + ".join(
        f"{float(weight)!r} * {write_name(name)}" for name, weight in weights.items()
    )
    return f"{total} {'==' if equality else '<='} {float(bound)!r}"


def to_ax(config: Mapping[str, Any], space: Space, search_space: SearchSpace) -> dict[str, Any]:
    """Return a configuration in Ax's types, with the parameters that only it has at their fixed values.

    Raises:
        SpaceError: Ax does not have all of the space's parameters and values, or has further ones that are not fixed.
    """
    found = with_texts(config, space)
    for name, one in search_space.parameters.items():
        if name not in found:
            if not isinstance(one, FixedParameter):
                raise SpaceError(
                    f"the experiment has a parameter {name!r}, which the space has not"
                )
            found[name] = one.value
        value = one.cast(found[name])
        if not one.validate(value):
            raise SpaceError(f"parameter {name!r} of the experiment does not have {found[name]!r}")
        found[name] = value
    if len(found) > len(search_space.parameters):
        further = [name for name in found if name not in search_space.parameters]
        raise SpaceError(f"the experiment lacks {', '.join(further)}, which the space has")
    return found


def from_ax(parameters: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return Ax's values as a configuration; parameters that the space has not are left out."""
    return without_texts(parameters, space)
