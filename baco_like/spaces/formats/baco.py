"""Scenario files of BaCO and HyperMapper, read by one lenient reader."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baco_like.constraints.language import tree
from baco_like.constraints.language.reader import read
from baco_like.constraints.language.writer import write
from baco_like.exceptions import ExpressionError, SpaceError
from baco_like.parameters import Categorical, Integer, Ordinal, Parameter, Permutation, Real
from baco_like.parameters.priors import Gaussian, PiecewiseLinear
from baco_like.spaces.formats.description import SpaceDescription, json_object, with_default
from baco_like.spaces.inputs import make_named

_DOMAIN_FIELDS = {"parameter_type", "values", "parameter_default", "transform", "parametrization"}
_OTHER_FIELDS = {"constraints", "dependencies", "prior", "prior_parameters"}


@dataclass(frozen=True)
class _Entry:
    """One parameter of the file."""

    name: str
    fields: Mapping[str, Any]
    notes: list[str]

    def note(self, text: str) -> None:
        self.notes.append(f"parameter {self.name!r}: {text}")

    def texts(self, key: str) -> list[str]:
        texts = self.fields.get(key) or []
        if isinstance(texts, str):
            return [texts]
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise SpaceError(f"{key} must be a list of strings, got {texts!r:.60}")
        return texts

    def values(self) -> list[Any]:
        values = self.fields.get("values")
        if not isinstance(values, list):
            raise SpaceError(f"values must be a list, got {values!r:.60}")
        return values

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
    entries = [_Entry(name, fields, notes) for name, fields in given.items()]
    parameters = {entry.name: make_named(entry.name, _parameter, entry) for entry in entries}
    texts = [make_named(entry.name, _constraints, entry, parameters) for entry in entries]
    constraints = tuple(dict.fromkeys(itertools.chain(*texts)))
    settings = {key: value for key, value in data.items() if key != "input_parameters"}
    return SpaceDescription(parameters, constraints, tuple(notes), settings)


def _parameter(entry: _Entry) -> Parameter:
    if not isinstance(entry.fields, Mapping):
        raise SpaceError(f"its description must be an object, got {entry.fields!r:.60}")
    for key in entry.fields:
        if key not in _DOMAIN_FIELDS | _OTHER_FIELDS:
            entry.note(f"field {key!r} is unknown and was left out")
    parameter = _without_default(entry)
    default = entry.fields.get("parameter_default")
    # HyperMapper 3 has lists of defaults; a single default of a permutation is a list, too.
    is_order = isinstance(parameter, Permutation)
    if isinstance(default, list) and default and (not is_order or isinstance(default[0], list)):
        if len(default) > 1:
            entry.note(f"only the first of its {len(default)} defaults is used")
        default = default[0]
    return with_default(entry.name, parameter, default, entry.notes)


def _without_default(entry: _Entry) -> Parameter:
    kind = entry.fields.get("parameter_type")
    match kind:
        case "real" | "integer":
            if len(values := entry.values()) != 2:
                raise SpaceError(f"values must be [min, max], got {values!r:.60}")
            log = entry.log()
            make: Callable[..., Parameter] = Real if kind == "real" else Integer
            return make(*values, log=log, prior=_prior(entry, kind, log))
        case "ordinal":
            log = entry.log()
            return Ordinal(entry.values(), log=log, prior=_prior(entry, kind, log))
        case "categorical":
            return Categorical(entry.values(), prior=_prior(entry, kind, log=False))
        case "permutation":
            values = entry.values()
            if len(values) != 1 or type(values[0]) is not int or not 1 <= values[0] <= 64:
                raise SpaceError(f"its values must be [n] with n up to 64, got {values!r:.60}")
            metric = entry.fields.get("parametrization") or "spearman"
            return Permutation(range(values[0]), metric=metric)
    raise SpaceError(
        f"parameter_type {kind!r} is unknown; it is real, integer, ordinal, categorical or permutation"
    )


def _prior(entry: _Entry, kind: str, log: bool) -> Any:
    """Return the weights or the density of a parameter, or None."""
    prior = entry.fields.get("prior")
    if isinstance(prior, list):
        if kind != "real":
            return prior
        if log:
            entry.note("its prior was read on the logarithmic scale")
        return PiecewiseLinear(tuple(prior))
    if prior in (None, "uniform"):
        return None
    numbers = entry.fields.get("prior_parameters")
    is_range = kind in ("real", "integer")
    if prior != "gaussian" or not (is_range and isinstance(numbers, list) and len(numbers) == 2):
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
        raise SpaceError(f"prior_parameters {numbers!r:.60}: {error}") from None


def _constraints(entry: _Entry, parameters: Mapping[str, Parameter]) -> list[str]:
    declared = set(entry.texts("dependencies"))
    for unknown in sorted(declared - set(parameters)):
        entry.note(f"dependency {unknown!r} is not a parameter")
    constraints: list[str] = []
    for text in entry.texts("constraints"):
        python, names = from_numexpr(text, parameters)
        for undeclared in sorted(set(names) - declared - {entry.name}):
            entry.note(
                f"constraint {text!r} reads {undeclared!r}, which is not among its dependencies"
            )
        constraints.append(python)
    return constraints


def from_numexpr(text: str, parameters: Mapping[str, Parameter]) -> tuple[str, tuple[str, ...]]:
    """Return a constraint of BaCO in the language of `Expression`, and the parameters it reads.

    A text that means the same in both languages is returned unchanged.

    Raises:
        ExpressionError: The text is in neither language.
    """
    permutations = {n: p.elements for n, p in parameters.items() if isinstance(p, Permutation)}
    aliases: dict[str, tree.Node] = {}
    for name, elements in permutations.items():
        aliases |= {f"{name}_{i}": tree.Reading(name, "at", (i,)) for i in range(len(elements))}
        aliases |= {f"{name}_i{i}": tree.Reading(name, "pos", (i,)) for i in range(len(elements))}
    node = read(text, parameters, aliases)
    with contextlib.suppress(ExpressionError):
        if read(text, parameters) == node:
            return text, tree.names(node)
    return write(node, permutations), tree.names(node)
