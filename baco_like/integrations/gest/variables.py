"""Convert spaces to and from the variables of a gest-api VOCS."""

from __future__ import annotations

from typing import Any

from baco_like.exceptions import MissingExtra, SpaceError
from baco_like.integrations._shared.permutation_text import order_texts
from baco_like.parameters.categorical import Categorical
from baco_like.parameters.integer import Integer
from baco_like.parameters.ordinal import Ordinal
from baco_like.parameters.permutation import Permutation
from baco_like.parameters.protocol import Parameter
from baco_like.parameters.real import Real
from baco_like.parameters.values import is_number, plain
from baco_like.spaces.space import Space

try:
    from gest_api.vocs import VOCS, BaseVariable, ContinuousVariable, DiscreteVariable
except ImportError:
    raise MissingExtra("gest_api", "gest") from None

_MAX_LISTED = 1000
"""Integers with more values than this are declared as an interval instead of a set."""


def vocs_variables(space: Space) -> dict[str, list[float] | set[Any]]:
    """Return a space's parameters as the variables of a VOCS: intervals, and sets of values.

    Raises:
        SpaceError: A permutation has more than seven elements, or two orders of it have the same text.
    """
    return {name: _variable(name, p) for name, p in space.parameters.items()}


def space_from_vocs(vocs: VOCS) -> Space:
    """Return the space of the variables; a set of texts is sorted, since sets have no order."""
    parameters: dict[str, Parameter] = {}
    for name, variable in vocs.variables.items():
        default = variable.default_value
        if isinstance(variable, ContinuousVariable):
            low, high = variable.domain
            parameters[name] = Real(low, high, default=default)
            continue
        values = [plain(value) for value in variable.values]
        if all(map(is_number, values)):
            parameters[name] = Ordinal(values, default=default)
        else:
            parameters[name] = Categorical(set(values))
    return Space(parameters)


def check_variables(vocs: VOCS, space: Space) -> None:
    """Check that the VOCS allows every configuration of the space.

    Raises:
        ValueError: The VOCS lacks a variable or a value.
    """
    if set(vocs.variables) != set(space.names):
        raise ValueError(
            f"the variables of the VOCS are {', '.join(vocs.variables)}, but the space has {', '.join(space.names)}; "
            "vocs_variables(space) returns matching variables"
        )
    for name, parameter in space.parameters.items():
        if not _contains(vocs.variables[name], _variable(name, parameter)):
            raise ValueError(
                f"variable {name!r} of the VOCS does not have all values of {parameter!r:.100}; "
                "vocs_variables(space) returns matching variables"
            )


def _variable(name: str, parameter: Parameter) -> list[float] | set[Any]:
    if isinstance(parameter, Permutation):
        return set(order_texts(name, parameter, "gest-api"))
    if isinstance(parameter, Integer) and parameter.cardinality <= _MAX_LISTED:
        return set(range(parameter.low, parameter.high + 1))
    if isinstance(parameter, Real | Integer):
        low, high = parameter.low, parameter.high
        return {low} if low == high else [low, high]
    if isinstance(parameter, Ordinal | Categorical):
        return set(parameter.values)
    raise SpaceError(f"parameter {name!r}: a VOCS has no {type(parameter).__name__}")


def _contains(declared: BaseVariable, needed: list[float] | set[Any]) -> bool:
    """Return whether a variable of the VOCS has all of an interval, or all values of a set."""
    if isinstance(declared, DiscreteVariable):
        return isinstance(needed, set) and needed <= set(declared.values)
    low, high = declared.domain
    return all(map(is_number, needed)) and low <= min(needed) and max(needed) <= high
