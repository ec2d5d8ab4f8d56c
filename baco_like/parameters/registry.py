"""The registered parameter types, and parameters as JSON dictionaries."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from baco_like._plugins import Plugin, Registry
from baco_like.exceptions import SpaceError
from baco_like.parameters.bases import TYPE_NAMES
from baco_like.parameters.listed import Categorical, Ordinal
from baco_like.parameters.numeric import Integer, Real
from baco_like.parameters.permutation import Permutation
from baco_like.parameters.priors import prior_from_dict
from baco_like.parameters.protocol import Parameter
from baco_like.parameters.sequence import Sequence, Subset

VERSION = 1
"""Version of the dictionaries that `Space.to_dict` and `parameter_to_dict` write."""

PARAMETER_TYPES: dict[str, Callable[..., Parameter]] = {
    "real": Real,
    "integer": Integer,
    "ordinal": Ordinal,
    "categorical": Categorical,
    "permutation": Permutation,
    "sequence": Sequence,
    "subset": Subset,
}
"""The types by name. A type of this package is an entry here; `register_parameter` adds all others."""

BUILT_IN_TYPES = tuple(PARAMETER_TYPES)
"""The types of this package."""

REGISTRY: Registry[Callable[..., Parameter]] = Registry(
    "baco_like.parameters", "parameter type", PARAMETER_TYPES
)
"""`PARAMETER_TYPES`, and the types of plug-ins that are not registered yet."""

TYPE_NAMES.update({make: name for name, make in PARAMETER_TYPES.items()})


def register_parameter(type_name: str, make: Callable[..., Parameter]) -> None:
    """Register a parameter type, so that journals, ``Space.from_dict`` and run files can read it.

    A second call with the same name replaces the class, as when a notebook cell runs again.

    Args:
        type_name: The ``type`` that the parameter's ``to_dict`` writes; an inherited ``to_dict`` writes this name.
        make: The class; its constructor accepts the other fields of ``to_dict`` as keyword arguments.

    Raises:
        SpaceError: The name belongs to one of the types of this package.
    """
    if type_name in BUILT_IN_TYPES:
        raise SpaceError(f"parameter type {type_name!r} is built in; choose another name")
    PARAMETER_TYPES[type_name] = make
    TYPE_NAMES[make] = type_name


def find_type(type_name: str) -> Callable[..., Parameter]:
    """Return the class of a type; a plug-in is imported and registered when it is asked for first.

    Raises:
        SpaceError: The type is unknown.
        PluginError: The plug-in cannot be imported.
    """
    if type_name not in PARAMETER_TYPES:
        if type_name not in REGISTRY:
            raise SpaceError(f"type {type_name!r} is unknown; known: {', '.join(REGISTRY.names)}")
        part = REGISTRY.find(type_name)
        register_parameter(type_name, part.load() if isinstance(part, Plugin) else part)
    return PARAMETER_TYPES[type_name]


def parameter_to_dict(parameter: Parameter) -> dict[str, Any]:
    """Return a JSON description with its version; `parameter_from_dict` is the inverse."""
    return {"version": VERSION, **parameter.to_dict()}


def parameter_from_dict(data: Mapping[str, Any]) -> Parameter:
    """Return the parameter of a description; without a version, the current version is assumed.

    Raises:
        SpaceError: The version or type is unknown, or a field is unknown, missing or wrong.
    """
    if not isinstance(data, Mapping):
        raise SpaceError(f"a parameter's description must be an object, got {data!r:.60}")
    fields = {key: value for key, value in data.items() if value is not None}
    version = fields.pop("version", VERSION)
    if version != VERSION:
        raise SpaceError(f"parameter version {version!r} cannot be read, only {VERSION}")
    type_name = fields.pop("type", None)
    if not isinstance(type_name, str):
        raise SpaceError(f"type {type_name!r} is unknown; known: {', '.join(PARAMETER_TYPES)}")
    make = find_type(type_name)
    known = inspect.signature(make).parameters
    needed = [name for name, field in known.items() if field.default is field.empty]
    for key in fields:
        if key not in known:
            raise SpaceError(f"field {key!r} is unknown; {type_name} has {', '.join(known)}")
    for key in needed:
        if key not in fields:
            raise SpaceError(f"field {key!r} is missing; {type_name} needs {', '.join(needed)}")
    if not isinstance(fields.get("log", False), bool):
        raise SpaceError(f"log must be true or false, got {fields['log']!r:.40}")
    if "prior" in fields:
        fields["prior"] = prior_from_dict(fields["prior"])
    return make(**fields)
