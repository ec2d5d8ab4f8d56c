"""Spaces and parameters as JSON dictionaries of our own, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from baco_like.constraints.table import table_from_dict
from baco_like.exceptions import SpaceError
from baco_like.parameters.categorical import Categorical
from baco_like.parameters.integer import Integer
from baco_like.parameters.ordinal import Ordinal
from baco_like.parameters.permutation import Permutation
from baco_like.parameters.prior import prior_from_dict
from baco_like.parameters.protocol import Parameter
from baco_like.parameters.real import Real
from baco_like.spaces.formats.description import Given, SpaceDescription, named

VERSION = 1
"""Of the dictionaries that `Space.to_dict` and `parameter_to_dict` write."""

_Fields = tuple[Callable[..., Parameter], tuple[str, ...], tuple[str, ...]]

_KINDS: Mapping[str, _Fields] = {
    "real": (Real, ("low", "high"), ("log", "default", "prior")),
    "integer": (Integer, ("low", "high"), ("log", "default", "prior")),
    "ordinal": (Ordinal, ("values",), ("log", "default", "prior")),
    "categorical": (Categorical, ("values",), ("default", "prior")),
    "permutation": (Permutation, ("elements",), ("metric", "default")),
}
"""Class, needed and optional fields of each type."""


def parameter_to_dict(parameter: Parameter) -> dict[str, Any]:
    """Return a JSON description with its version; `parameter_from_dict` is the inverse."""
    return {"version": VERSION, **parameter.to_dict()}


def parameter_from_dict(data: Mapping[str, Any]) -> Parameter:
    """Return the parameter of a description; one without a version is read as this release writes it.

    Raises:
        SpaceError: The version or type is unknown, a field is unknown, missing or wrong.
    """
    if not isinstance(data, Mapping):
        raise SpaceError(f"a parameter's description must be an object, got {data!r:.60}")
    fields = {key: value for key, value in data.items() if value is not None}
    version = fields.pop("version", VERSION)
    if version != VERSION:
        raise SpaceError(
            f"a parameter of version {version!r} cannot be read; this release reads {VERSION}"
        )
    kind = fields.pop("type", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise SpaceError(f"type {kind!r} is unknown; it is one of {', '.join(_KINDS)}")
    make, needed, optional = _KINDS[kind]
    for key in fields:
        if key not in needed + optional:
            raise SpaceError(f"field {key!r} is unknown; {kind} has {', '.join(needed + optional)}")
    for key in needed:
        if key not in fields:
            raise SpaceError(f"field {key!r} is missing; {kind} needs {', '.join(needed)}")
    if not isinstance(fields.get("log", False), bool):
        raise SpaceError(f"log must be true or false, got {fields['log']!r:.40}")
    if "prior" in fields:
        fields["prior"] = prior_from_dict(fields["prior"])
    return make(**fields)


def space_from_dict(data: Mapping[str, Any]) -> SpaceDescription:
    """Return the space of a description by `Space.to_dict`.

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
    parameters = {name: named(name, parameter_from_dict, d) for name, d in described.items()}
    return SpaceDescription(parameters, tuple(_constraint(c, parameters) for c in constraints))


def _constraint(data: Any, parameters: Mapping[str, Parameter]) -> Given:
    if isinstance(data, str):
        return data
    if not isinstance(data, Mapping):
        raise SpaceError(f"a constraint must be a text or an object, got {data!r:.60}")
    if "table" in data:
        return table_from_dict(data, parameters)
    raise SpaceError(
        f"constraint {data.get('callable')!r} is a callable or a large table and was not written down; "
        "give the space again, or write the constraint as an expression"
    )
