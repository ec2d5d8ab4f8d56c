"""The result type of the readers of spaces, and the readers of Python and JSON dictionaries."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, cast

from baco_like._checks import nesting_depth
from baco_like.constraints.conditions import Conditions
from baco_like.constraints.expression import Expression
from baco_like.constraints.protocol import Constraint
from baco_like.constraints.table import table_from_dict
from baco_like.exceptions import ExpressionError, SpaceError
from baco_like.parameters.protocol import Parameter
from baco_like.parameters.registry import VERSION, parameter_from_dict
from baco_like.spaces import inputs
from baco_like.spaces.inputs import GivenConstraint
from baco_like.spaces.tasks import Tasks

MAX_FILE = 8 * 2**20
"""Most bytes of a space file. Parsed JSON takes up to 30 times the memory of its text."""

_MAX_DEPTH = 32
"""Deepest nesting of brackets; scenarios and T1 files need less than 8."""


@dataclass(frozen=True)
class SpaceDescription:
    """The ingredients of a space.

    Attributes:
        parameters: By name, in the order of the file; they carry defaults and priors.
        constraints: Texts, callables or constraints.
        notes: One line for everything that was left out, replaced or not understood.
        settings: The other members of the file (objectives, budget, ...), unchanged.
        fidelity: Name of the fidelity parameter, or None.
        tasks: The tasks, or None.
        when: The condition of each conditional parameter.
    """

    parameters: Mapping[str, Parameter]
    constraints: tuple[GivenConstraint, ...] = ()
    notes: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    fidelity: str | None = None
    tasks: Tasks | None = None
    when: Mapping[str, str | Expression] = field(default_factory=dict)


class SpaceContents(Protocol):
    """The members of `Space` that writers of space files read."""

    parameters: dict[str, Parameter]
    constraints: tuple[Constraint, ...]
    conditions: Conditions


def with_default(name: str, parameter: Any, default: Any, notes: list[str]) -> Parameter:
    """Return a built-in parameter with a default; a default outside the domain is left out, with a note."""
    if default is not None and not parameter.contains(default):
        notes.append(
            f"parameter {name!r}: the default {default!r:.60} is not among its values and was left out"
        )
        default = None
    return cast("Parameter", replace(parameter, default=default))


def json_object(source: str | Path | Mapping[str, Any], what: str) -> Mapping[str, Any]:
    """Return the given mapping, or the contents of the JSON file at a path.

    Raises:
        SpaceError: The file is too large, is not JSON, is nested too deep, or does not contain an object.
        OSError: The file cannot be read.
    """
    if isinstance(source, Mapping):
        return source
    path = Path(source)
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "its name has a null character", str(path))
    with path.open("rb") as file:
        content = file.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        raise SpaceError(
            f"{what} {path.name!r} has more than {MAX_FILE // 2**20} MiB; parse it yourself, and pass the dictionary"
        )
    try:
        text = content.decode(json.detect_encoding(content), "surrogatepass")
        is_too_deep = nesting_depth(text) > _MAX_DEPTH
        data = None if is_too_deep else json.loads(text)
    except ValueError as error:
        raise SpaceError(f"{what} {path.name!r} is not JSON: {error}") from None
    if is_too_deep:
        raise SpaceError(f"{what} {path.name!r}: brackets are nested more than {_MAX_DEPTH} deep")
    if not isinstance(data, dict):
        raise SpaceError(f"{what} {path.name!r} does not contain a JSON object")
    return data


def space_from_dict(data: Mapping[str, Any]) -> SpaceDescription:
    """Return the space of a dictionary that `Space.to_dict` wrote.

    Raises:
        SpaceError: The version is unknown, a description is wrong, or a constraint was a callable.
    """
    if not isinstance(data, Mapping):
        raise SpaceError(f"a space's description must be an object, got {data!r:.60}")
    if data.get("version") != VERSION:
        raise SpaceError(f"space version {data.get('version')!r} cannot be read, only {VERSION}")
    described, constraints = data.get("parameters"), data.get("constraints", [])
    if not isinstance(described, Mapping) or not isinstance(constraints, list):
        raise SpaceError("a space needs an object 'parameters' and a list 'constraints'")
    parameters = {
        name: inputs.make_named(name, parameter_from_dict, d) for name, d in described.items()
    }
    fidelity = data.get("fidelity")
    if fidelity is not None and not isinstance(fidelity, str):
        raise SpaceError(
            f"a space's 'fidelity' must be the name of a parameter, got {fidelity!r:.60}"
        )
    tasks = Tasks.from_dict(data["tasks"]) if "tasks" in data else None
    when = data.get("when", {})
    if not isinstance(when, Mapping):
        raise SpaceError(f"a space's 'when' must be an object of conditions, got {when!r:.60}")
    # Read here: a journal may have conditions on values that a parameter never has, which is an error in a new text.
    conditions = {
        name: _read_text(text, parameters) if isinstance(text, str) else text
        for name, text in when.items()
    }
    read = tuple(_constraint(c, parameters) for c in constraints)
    return SpaceDescription(parameters, read, fidelity=fidelity, tasks=tasks, when=conditions)


def _constraint(data: Any, parameters: Mapping[str, Parameter]) -> GivenConstraint:
    if isinstance(data, str):
        return _read_text(data, parameters)
    if not isinstance(data, Mapping):
        raise SpaceError(f"a constraint must be a text or an object, got {data!r:.60}")
    if "table" in data:
        return table_from_dict(data, parameters)
    raise SpaceError(
        f"constraint {data.get('callable')!r} is a callable or a large table, which cannot be stored; "
        "give the space again, or write the constraint as an expression"
    )


def _read_text(text: str, parameters: Mapping[str, Parameter]) -> str | Expression:
    """Return the expression of a text; the text itself if it reads a task's descriptor, or is wrong."""
    try:
        return Expression(text, parameters)
    except ExpressionError:  # the space reports what is wrong
        return text


def read_kernel_tuner(
    tune_params: Mapping[str, Iterable[Any]],
    restrictions: GivenConstraint | Iterable[GivenConstraint] | None = None,
) -> SpaceDescription:
    """Return the space of Kernel Tuner's ``tune_params`` and ``restrictions``.

    Args:
        tune_params: From each name to its values.
        restrictions: A string, a callable, or a list of them; callables take parameters by name, or a mapping of all
            parameters.

    Raises:
        SpaceError: A domain is wrong, or a restriction is neither a string nor a callable.
    """
    if not isinstance(tune_params, Mapping):
        raise SpaceError(f"tune_params must be a dictionary, got {type(tune_params).__name__}")
    parameters = {
        name: inputs.parameter_from_values(name, values) for name, values in tune_params.items()
    }
    given = [] if restrictions is None else inputs.list_constraints(restrictions)
    for restriction in given:
        if not (isinstance(restriction, str | Constraint) or callable(restriction)):
            raise SpaceError(f"restriction {restriction!r:.60} is neither a string nor a callable")
    return SpaceDescription(parameters, tuple(given))
