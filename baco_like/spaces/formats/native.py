"""Spaces from the JSON dictionaries that ``Space.to_dict`` writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from baco_like.constraints.table import table_from_dict
from baco_like.exceptions import SpaceError
from baco_like.parameters.protocol import Parameter
from baco_like.parameters.registry import VERSION, parameter_from_dict
from baco_like.spaces.formats.description import SpaceDescription
from baco_like.spaces.inputs import GivenConstraint, make_named


def space_from_dict(data: Mapping[str, Any]) -> SpaceDescription:
    """Return the space of a dictionary that `Space.to_dict` wrote.

    Raises:
        SpaceError: The version is unknown, a description is wrong, or a constraint was a callable.
    """
    if not isinstance(data, Mapping):
        raise SpaceError(f"a space's description must be an object, got {data!r:.60}")
    if data.get("version") != VERSION:
        raise SpaceError(
            f"a space of version {data.get('version')!r} cannot be read; this release reads {VERSION}"
        )
    described, constraints = data.get("parameters"), data.get("constraints", [])
    if not isinstance(described, Mapping) or not isinstance(constraints, list):
        raise SpaceError(
            "a space's description needs an object 'parameters' and a list 'constraints'"
        )
    parameters = {name: make_named(name, parameter_from_dict, d) for name, d in described.items()}
    return SpaceDescription(parameters, tuple(_constraint(c, parameters) for c in constraints))


def _constraint(data: Any, parameters: Mapping[str, Parameter]) -> GivenConstraint:
    if isinstance(data, str):
        return data
    if not isinstance(data, Mapping):
        raise SpaceError(f"a constraint must be a text or an object, got {data!r:.60}")
    if "table" in data:
        return table_from_dict(data, parameters)
    raise SpaceError(
        f"constraint {data.get('callable')!r} is a callable or a large table, which cannot be stored; "
        "give the space again, or write the constraint as an expression"
    )
