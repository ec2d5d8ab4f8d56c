"""Spaces of ConfigSpace, as used by SMAC3, auto-sklearn and ytopt.

Forbidden clauses become constraints. Conditional parameters are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from baco_like._optional import require
from baco_like.constraints.language.writer import write_name
from baco_like.exceptions import SpaceError
from baco_like.parameters import Categorical, Gaussian, Integer, Ordinal, Parameter, Real
from baco_like.parameters.values import is_number, plain
from baco_like.spaces.formats.description import SpaceDescription
from baco_like.spaces.inputs import make_named, parameter_from_values

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

_SIGNS: Mapping[str, str] = {
    "LessThanEquals": "<=",
    "LessThan": "<",
    "GreaterThanEquals": ">=",
    "GreaterThan": ">",
    "Equals": "==",
}

_RANGES = {
    f"{prior}{kind}" for prior in ("Uniform", "Normal", "Beta") for kind in ("Float", "Integer")
}


def read_configspace(source: ConfigurationSpace) -> SpaceDescription:
    """Return the space of a ``ConfigSpace.ConfigurationSpace``.

    Defaults are kept; weights of categoricals and normal distributions become priors. Other distributions are left out
    with a note.

    Raises:
        SpaceError: It has conditional parameters, or members that no parameter or constraint can represent.
        MissingExtra: ConfigSpace is not installed.
    """
    package = require("ConfigSpace", "configspace")
    if not isinstance(source, package.ConfigurationSpace):
        raise SpaceError(
            f"a ConfigurationSpace is needed, got {type(source).__name__}; read a file by ConfigurationSpace.from_json"
        )
    if source.conditions:
        first = source.conditions[0]
        raise SpaceError(
            f"{len(source.conditions)} conditions, such as {str(first)!r:.100}: parameters that are active only "
            "sometimes are not supported; make a space for each case, or keep them always active"
        )
    notes: list[str] = []
    parameters = {given.name: _parameter(given, notes) for given in source.values()}
    constraints = tuple(f"not ({_text(clause)})" for clause in source.forbidden_clauses)
    return SpaceDescription(parameters, constraints, tuple(notes))


def _parameter(given: Any, notes: list[str]) -> Parameter:
    name, kind = given.name, type(given).__name__.removesuffix("Hyperparameter")
    if kind == "Constant":
        return parameter_from_values(name, [given.value])
    default = plain(given.default_value)
    if kind == "Categorical":
        return _categorical(given, default, notes)
    if kind == "Ordinal":
        values = [plain(value) for value in given.sequence]
        if all(map(is_number, values)) and values not in (sorted(values), sorted(values)[::-1]):
            raise SpaceError(
                f"parameter {name!r}: its numbers {values!r:.60} are not sorted, but the numbers of an Ordinal are; "
                "sort them, or make them strings"
            )
        return make_named(name, Ordinal, values, default=default)
    if kind not in _RANGES:
        raise SpaceError(f"parameter {name!r}: a {type(given).__name__} is not supported")
    prior = None
    if kind.startswith("Normal") and not given.log:
        prior = Gaussian(float(given.mu), float(given.sigma))
    elif not kind.startswith("Uniform"):
        notes.append(f"parameter {name!r}: the distribution of {given} was left out")
    bounds = (plain(given.lower), plain(given.upper))
    make: Callable[..., Parameter] = Real if kind.endswith("Float") else Integer
    return make_named(name, make, *bounds, log=bool(given.log), default=default, prior=prior)


def _categorical(given: Any, default: Any, notes: list[str]) -> Parameter:
    if given.weights is None:
        return make_named(given.name, Categorical, given.choices, default=default)
    weights = {choice: float(w) for choice, w in zip(given.choices, given.weights, strict=True)}
    never = [choice for choice, weight in weights.items() if weight == 0.0]
    if never:
        notes.append(f"parameter {given.name!r}: choices of weight 0 were left out: {never!r:.100}")
    kept = {choice: weight for choice, weight in weights.items() if choice not in never}
    default = None if default in never else default
    prior = list(kept.values())
    return make_named(given.name, Categorical, list(kept), default=default, prior=prior)


def _text(clause: Any) -> str:
    """Return a forbidden clause as an expression."""
    kind = type(clause).__name__.removeprefix("Forbidden")
    if kind in ("AndConjunction", "OrConjunction"):
        word = " and " if kind == "AndConjunction" else " or "
        return word.join(f"({_text(part)})" for part in clause.components)
    if kind == "InClause":
        values = [plain(value) for value in clause.values]
        return f"{write_name(clause.hyperparameter.name)} in {values!r}"
    sign = _SIGNS.get(kind.removesuffix("Clause").removesuffix("Relation"))
    if sign is None:
        raise SpaceError(f"a {type(clause).__name__} is not supported: {clause}")
    if kind.endswith("Relation"):
        return f"{write_name(clause.left.name)} {sign} {write_name(clause.right.name)}"
    given, value = clause.hyperparameter, plain(clause.value)
    if sign == "==" or not hasattr(given, "sequence"):
        return f"{write_name(given.name)} {sign} {value!r}"
    # An ordinal is compared by the order of its list.
    values = [plain(each) for each in given.sequence]
    at = values.index(value)
    sides = {"<": values[:at], "<=": values[: at + 1], ">": values[at + 1 :], ">=": values[at:]}
    return f"{write_name(given.name)} in {sides[sign]!r}"
