"""T1 files of the auto-tuning community: parameters with ``Values`` as Python text, and ``Conditions``.

They list every value, so they have neither intervals nor permutations. Other properties of a parameter (a logarithmic
scale, a prior, the type `Integer`) are stored next to its values under a separate key, which other tools ignore.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from baco_like.constraints.expression import Expression
from baco_like.exceptions import SpaceError
from baco_like.parameters import (
    Categorical,
    Integer,
    Ordinal,
    Parameter,
    SteppedReal,
    parameter_from_dict,
)
from baco_like.parameters.values import plain
from baco_like.spaces.formats import description
from baco_like.spaces.formats.description import SpaceContents, SpaceDescription
from baco_like.spaces.formats.literals import list_of
from baco_like.spaces.inputs import make_named, parameter_from_values

_OWN = "BacoLike"
"""The key of a parameter's description by ``Parameter.to_dict``."""

_MOST_VALUES = 100_000

_KERNEL: Mapping[str, Any] = {
    "Language": "Hypertuner",
    "KernelName": "unknown",
    "KernelFile": "unknown",
    "GlobalSize": {"X": "1"},
    "LocalSize": {"X": "1"},
}
"""Members of ``KernelSpecification`` that the schema requires, for an unknown kernel."""


def read_t1(source: str | Path | Mapping[str, Any]) -> SpaceDescription:
    """Return the space of a T1 file.

    A default that is not a value of its parameter is left out, with a note. All other members are in ``settings``.

    Args:
        source: The path of a file, or its parsed contents.

    Raises:
        SpaceError: Something is missing or wrong; the message names it.
        OSError: The file cannot be read.
    """
    data = description.json_object(source, "T1 file")
    space = _member(data, "ConfigurationSpace", Mapping, "the file")
    notes: list[str] = []
    parameters: dict[str, Parameter] = {}
    for entry in _member(space, "TuningParameters", Sequence, "ConfigurationSpace"):
        name, parameter = _parameter(entry, notes)
        if name in parameters:
            raise SpaceError(f"parameter {name!r} occurs twice; remove one of them")
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
    if isinstance(entry.get(_OWN), Mapping):
        return name, make_named(name, parameter_from_dict, entry[_OWN])
    values, default = entry.get("Values"), entry.get("Default")
    if isinstance(values, str):
        values = make_named(name, list_of, values)
    if isinstance(default, list) and len(default) == 1:  # as some files write it
        (default,) = default
    return name, description.with_default(
        name, parameter_from_values(name, values), plain(default), notes
    )


def _condition(entry: Any, parameters: Mapping[str, Parameter], notes: list[str]) -> str:
    text = entry if isinstance(entry, str) else _member(entry, "Expression", str, "a condition")
    expression = Expression(text, parameters)
    declared = entry.get("Parameters") if isinstance(entry, Mapping) else None
    if isinstance(declared, list) and set(map(str, declared)) != set(expression.parameters):
        notes.append(
            f"condition {text!r} reads {', '.join(expression.parameters)}, but declares {', '.join(map(str, declared))}"
        )
    return text


def to_t1(
    space: SpaceContents, kernel: Mapping[str, Any] | None = None, **rest: Any
) -> dict[str, Any]:
    """Return a space as the contents of a T1 file; `Space.from_t1` is the inverse.

    Args:
        space: Its parameters have lists of values and no conditions, its constraints are expressions.
        kernel: Entries of ``KernelSpecification`` that replace the defaults for an unknown kernel.
        **rest: Other members of the file, such as ``Search`` and ``Budget``.

    Raises:
        SpaceError: The space has a real, a permutation, an integer of more than 100,000 values, a conditional
            parameter, or a constraint that is not an expression.
    """
    for name, condition in space.conditions.texts.items():
        raise SpaceError(
            f"parameter {name!r}: it is active only when {condition!r:.80}, and a T1 file has a value of every "
            "parameter in every configuration; keep the space by Space.to_dict, or give the parameter a value that "
            f"means 'unused' and replace the condition by a constraint such as \"({condition:.80}) or {name} == ...\""
        )
    for constraint in space.constraints:
        if not isinstance(constraint, Expression):
            raise SpaceError(
                f"constraint {constraint.text!r:.80} is not an expression, and a T1 file has only expressions; "
                "write it as one"
            )
    parameters = [_write_parameter(name, parameter) for name, parameter in space.parameters.items()]
    conditions = [
        {"Expression": constraint.text, "Parameters": list(constraint.parameters)}
        for constraint in space.constraints
    ]
    return {
        "ConfigurationSpace": {"TuningParameters": parameters, "Conditions": conditions},
        "KernelSpecification": {**_KERNEL, **(kernel or {})},
        **rest,
    }


def _write_parameter(name: str, parameter: Parameter) -> dict[str, Any]:
    values = _values(name, parameter)
    kinds = {type(value) for value in values}
    kind = next((word for word, types in _TYPES.items() if kinds <= types), "string")
    text = repr(values)
    entry: dict[str, Any] = {"Name": name, "Type": kind}
    entry["Values"] = f"list({text})" if isinstance(values, range) else text
    if parameter.default is not None:
        entry["Default"] = parameter.default
    if _parameter(entry, [])[1] != parameter:
        entry[_OWN] = parameter.to_dict()
    return entry


_TYPES: Mapping[str, set[type]] = {"bool": {bool}, "int": {int}, "float": {int, float}}


def _values(name: str, parameter: Parameter) -> list[Any] | range:
    if isinstance(parameter, Ordinal | Categorical | SteppedReal) and parameter.values is not None:
        return list(parameter.values)
    if isinstance(parameter, Integer) and parameter.cardinality <= _MOST_VALUES:
        return range(parameter.low, parameter.high + 1)
    raise SpaceError(
        f"parameter {name!r}: a T1 file lists every value, and a {type(parameter).__name__} has no such list; "
        "make it an Ordinal, or keep the space by Space.to_dict"
    )
