"""T1 files of the auto-tuning community: parameters with ``Values`` as Python text, and ``Conditions``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from baco_like.exceptions import SpaceError
from baco_like.spaces.expression import Expression
from baco_like.spaces.formats.description import SpaceDescription, json_object
from baco_like.spaces.formats.kernel_tuner import values_parameter
from baco_like.spaces.formats.literals import list_of
from baco_like.spaces.parameter import Parameter
from baco_like.spaces.values import plain


def read_t1(source: str | Path | Mapping[str, Any]) -> SpaceDescription:
    """Return the space of a T1 file.

    A default that is no value of its parameter is left out, with a note. Everything but the space is in ``settings``.

    Args:
        source: The path of a file, or its parsed contents.

    Raises:
        SpaceError: Something is missing or wrong; the message names it.
        OSError: The file cannot be read.
    """
    data = json_object(source, "T1 file")
    space = _member(data, "ConfigurationSpace", Mapping, "the file")
    notes: list[str] = []
    parameters: dict[str, Parameter] = {}
    for entry in _member(space, "TuningParameters", Sequence, "ConfigurationSpace"):
        name, parameter = _parameter(entry, notes)
        if name in parameters:
            raise SpaceError(f"parameter {name!r} stands twice; leave one out")
        parameters[name] = parameter
    conditions = space.get("Conditions") or []
    if not isinstance(conditions, list):
        raise SpaceError("Conditions must be a list")
    constraints = tuple(_condition(entry, parameters, notes) for entry in conditions)
    rest = {key: value for key, value in data.items() if key != "ConfigurationSpace"}
    return SpaceDescription(parameters, constraints, tuple(notes), rest)


def _member(data: Any, key: str, kind: type[Any], what: str) -> Any:
    found = data.get(key) if isinstance(data, Mapping) else None
    if not isinstance(found, kind) or (isinstance(found, str) and kind is not str):
        raise SpaceError(f"{what} has no {key!r}, or it is wrong: {found!r:.60}")
    return found


def _parameter(entry: Any, notes: list[str]) -> tuple[str, Parameter]:
    name = _member(entry, "Name", str, "a tuning parameter")
    given = entry.get("Values")
    try:
        values = list_of(given) if isinstance(given, str) else given
        parameter = values_parameter(name, values)
    except SpaceError as error:
        message = str(error)
        raise SpaceError(
            message if message.startswith("parameter") else f"parameter {name!r}: {error}"
        ) from None
    default = _default(entry.get("Default"))
    if default is None:
        return name, parameter
    if not parameter.contains(default):
        notes.append(
            f"parameter {name!r}: the default {default!r:.60} is none of its values and was left out"
        )
        return name, parameter
    return name, values_parameter(name, values, default)


def _default(given: Any) -> Any:
    """Return a default, also one that stands in a list of its own, as in some files."""
    return plain(given[0]) if isinstance(given, list) and len(given) == 1 else plain(given)


def _condition(entry: Any, parameters: Mapping[str, Parameter], notes: list[str]) -> str:
    text = entry if isinstance(entry, str) else _member(entry, "Expression", str, "a condition")
    expression = Expression(text, parameters)
    declared = entry.get("Parameters") if isinstance(entry, Mapping) else None
    if isinstance(declared, list) and set(map(str, declared)) != set(expression.parameters):
        notes.append(
            f"condition {text!r} reads {', '.join(expression.parameters)}, but declares {', '.join(map(str, declared))}"
        )
    return text
