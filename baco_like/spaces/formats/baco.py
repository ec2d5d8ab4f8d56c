"""Scenario files of BaCO and HyperMapper, read by one lenient reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baco_like.constraints.language import tree
from baco_like.constraints.language.reader import Dialect, read
from baco_like.constraints.language.writer import write
from baco_like.exceptions import ExpressionError, SpaceError
from baco_like.parameters.categorical import Categorical
from baco_like.parameters.integer import Integer
from baco_like.parameters.ordinal import Ordinal
from baco_like.parameters.permutation import Permutation
from baco_like.parameters.priors import Gaussian, PiecewiseLinear
from baco_like.parameters.protocol import Parameter
from baco_like.parameters.real import Real
from baco_like.spaces.formats.description import SpaceDescription, json_object
from baco_like.spaces.inputs import make_named

_FIELDS = frozenset(
    {
        "parameter_type",
        "values",
        "parameter_default",
        "constraints",
        "dependencies",
        "transform",
        "prior",
        "prior_parameters",
        "parametrization",
    }
)


@dataclass(frozen=True)
class _Entry:
    """One parameter of the file."""

    name: str
    fields: Mapping[str, Any]
    notes: list[str]

    def note(self, text: str) -> None:
        self.notes.append(f"parameter {self.name!r}: {text}")

    def refuse(self, text: str) -> SpaceError:
        return SpaceError(f"parameter {self.name!r}: {text}")

    def texts(self, key: str) -> list[str]:
        found = self.fields.get(key) or []
        if isinstance(found, str):
            return [found]
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise self.refuse(f"{key} must be a list of strings, got {found!r:.60}")
        return found

    def values(self) -> list[Any]:
        found = self.fields.get("values")
        if not isinstance(found, list):
            raise self.refuse(f"values must be a list, got {found!r:.60}")
        return found

    def log(self) -> bool:
        transform = self.fields.get("transform") or "none"
        if transform not in ("none", "log"):
            self.note(f"transform {transform!r} is unknown and was left out")
        return bool(transform == "log")


def read_baco(source: str | Path | Mapping[str, Any]) -> SpaceDescription:
    """Return the space of a scenario of BaCO or HyperMapper.

    Constraints in numexpr's dialect (``& | ~`` between parenthesised conditions) are translated; ``p_0`` is the element
    at position 0 of permutation p, ``p_i0`` the position of element 0. Unknown fields, unknown priors, defaults
    outside their domain and dependencies that do not fit the constraint's text are noted. All other members are in
    ``settings``.

    Args:
        source: The path of a file, or its parsed contents.

    Raises:
        SpaceError: Something is missing or wrong; the message names it.
        OSError: The file cannot be read.
    """
    data = json_object(source, "scenario")
    given = data.get("input_parameters")
    if not isinstance(given, Mapping) or not given:
        raise SpaceError("the scenario has no 'input_parameters'")
    notes: list[str] = []
    entries: list[_Entry] = []
    for name, fields in given.items():
        if not isinstance(fields, Mapping):
            raise SpaceError(f"parameter {name!r} must be an object, got {fields!r:.60}")
        entries.append(_Entry(name, fields, notes))
    parameters = {entry.name: _parameter(entry) for entry in entries}
    constraints = [text for entry in entries for text in _constraints(entry, parameters)]
    settings = {key: value for key, value in data.items() if key != "input_parameters"}
    return SpaceDescription(parameters, tuple(dict.fromkeys(constraints)), tuple(notes), settings)


def _parameter(entry: _Entry) -> Parameter:
    for key in entry.fields:
        if key not in _FIELDS:
            entry.note(f"field {key!r} is unknown and was left out")
    kind = entry.fields.get("parameter_type")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise entry.refuse(f"parameter_type {kind!r} is unknown; it is one of {', '.join(_KINDS)}")
    make = _KINDS[kind](entry)
    parameter = make(None)
    default = entry.fields.get("parameter_default")
    if isinstance(default, list) and _several(default, parameter):
        if len(default) > 1:
            entry.note(f"only the first of its {len(default)} defaults is used")
        default = default[0]
    if default is None:
        return parameter
    if not parameter.contains(default):
        entry.note(f"the default {default!r:.60} is not among its values and was left out")
        return parameter
    return make(default)


def _several(default: list[Any], parameter: Parameter) -> bool:
    """Whether it is HyperMapper 3's list of defaults; a single default of a permutation is a list, too."""
    return bool(default) and (
        not isinstance(parameter, Permutation) or isinstance(default[0], list)
    )


Make = Callable[[Any], Parameter]
"""Returns the parameter with a default or with None."""


def _real(entry: _Entry) -> Make:
    low, high = _ends(entry)
    log = entry.log()
    prior = _density(entry, log)
    return lambda default: make_named(
        entry.name, Real, low, high, log=log, default=default, prior=prior
    )


def _integer(entry: _Entry) -> Make:
    low, high = _ends(entry)
    log = entry.log()
    prior = _weights(entry) or _density(entry, log)
    return lambda default: make_named(
        entry.name, Integer, low, high, log=log, default=default, prior=prior
    )


def _ordinal(entry: _Entry) -> Make:
    values, log, prior = entry.values(), entry.log(), _weights(entry)
    return lambda default: make_named(
        entry.name, Ordinal, values, log=log, default=default, prior=prior
    )


def _categorical(entry: _Entry) -> Make:
    values, prior = entry.values(), _weights(entry)
    return lambda default: make_named(entry.name, Categorical, values, default=default, prior=prior)


def _permutation(entry: _Entry) -> Make:
    values = entry.values()
    if len(values) != 1 or type(values[0]) is not int or not 1 <= values[0] <= 64:
        raise entry.refuse(
            f"values of a permutation must be [n], its length up to 64, got {values!r:.60}"
        )
    metric = entry.fields.get("parametrization") or "spearman"
    return lambda default: make_named(
        entry.name, Permutation, range(values[0]), metric=metric, default=default
    )


_KINDS: Mapping[str, Callable[[_Entry], Make]] = {
    "real": _real,
    "integer": _integer,
    "ordinal": _ordinal,
    "categorical": _categorical,
    "permutation": _permutation,
}


def _ends(entry: _Entry) -> tuple[Any, Any]:
    values = entry.values()
    if len(values) != 2:
        raise entry.refuse(f"values must be [min, max], got {values!r:.60}")
    return values[0], values[1]


def _weights(entry: _Entry) -> Sequence[Any] | None:
    prior = entry.fields.get("prior")
    if isinstance(prior, list):
        return prior
    if prior not in (None, "uniform", "gaussian"):
        entry.note(f"prior {prior!r:.40} is unknown and was left out")
    return None


def _density(entry: _Entry, log: bool) -> Gaussian | PiecewiseLinear | None:
    prior = entry.fields.get("prior")
    if isinstance(prior, list):
        if log:
            entry.note("its prior was read on the logarithmic scale")
        return PiecewiseLinear(tuple(prior))
    if prior in (None, "uniform"):
        return None
    numbers = entry.fields.get("prior_parameters")
    if prior != "gaussian" or not isinstance(numbers, list) or len(numbers) != 2:
        entry.note(f"prior {prior!r:.40} is unknown or lacks its numbers, and was left out")
        return None
    try:
        mean, std = map(float, numbers)
        if not log:
            return Gaussian(mean, std)
        entry.note(
            "the standard deviation of its prior was converted to the logarithmic scale (divided by the mean)"
        )
        return Gaussian(mean, std / mean)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise entry.refuse(f"prior_parameters {numbers!r:.60}: {error}") from None


def _constraints(entry: _Entry, parameters: Mapping[str, Parameter]) -> list[str]:
    declared = set(entry.texts("dependencies"))
    for unknown in sorted(declared - set(parameters)):
        entry.note(f"dependency {unknown!r} is not a parameter")
    found: list[str] = []
    for text in entry.texts("constraints"):
        try:
            python, names = from_numexpr(text, parameters)
        except ExpressionError as error:
            raise entry.refuse(str(error)) from None
        for undeclared in sorted(set(names) - declared - {entry.name}):
            entry.note(
                f"constraint {text!r} reads {undeclared!r}, which is not among its dependencies"
            )
        found.append(python)
    return found


def from_numexpr(text: str, parameters: Mapping[str, Parameter]) -> tuple[str, tuple[str, ...]]:
    """Return a constraint of BaCO in the language of `Expression`, and the parameters it reads.

    A text that means the same in both languages is returned unchanged.

    Raises:
        ExpressionError: The text is in neither language.
    """
    aliases = _aliases(parameters)
    node = read(text, parameters, Dialect(bitwise=True, aliases=aliases))
    names = tree.names(node)
    try:
        if read(text, parameters) == node:
            return text, names
    except ExpressionError:
        pass
    elements = {name: p.elements for name, p in parameters.items() if isinstance(p, Permutation)}
    return write(node, elements), names


def _aliases(parameters: Mapping[str, Parameter]) -> Mapping[str, tree.Node]:
    aliases: dict[str, tree.Node] = {}
    for name, parameter in parameters.items():
        if isinstance(parameter, Permutation):
            for i in range(len(parameter.elements)):
                aliases[f"{name}_{i}"] = tree.At(name, i)
                aliases[f"{name}_i{i}"] = tree.Position(name, i)
    return aliases
