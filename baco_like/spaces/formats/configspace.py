"""Spaces of ConfigSpace, as used by SMAC3, auto-sklearn and ytopt.

Forbidden clauses become constraints, and conditions those of conditional parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from baco_like._optional import require
from baco_like.constraints.expression import Expression
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

_CONDITIONS: Mapping[str, str] = {
    "EqualsCondition": "==",
    "NotEqualsCondition": "!=",
    "LessThanCondition": "<",
    "GreaterThanCondition": ">",
}

_NEGATED: Mapping[str, str] = {"==": "!=", "!=": "==", "<": ">=", ">": "<="}

_RANGES = {
    f"{prior}{kind}" for prior in ("Uniform", "Normal", "Beta") for kind in ("Float", "Integer")
}


def read_configspace(source: ConfigurationSpace) -> SpaceDescription:
    """Return the space of a ``ConfigSpace.ConfigurationSpace``.

    Defaults are kept; weights of categoricals and normal distributions become priors. Other distributions are left out
    with a note.

    Raises:
        SpaceError: It has members that no parameter, condition or constraint can represent.
        MissingExtra: ConfigSpace is not installed.
    """
    package = require("ConfigSpace", "configspace")
    if not isinstance(source, package.ConfigurationSpace):
        raise SpaceError(
            f"a ConfigurationSpace is needed, got {type(source).__name__}; read a file by ConfigurationSpace.from_json"
        )
    notes: list[str] = []
    parameters = {given.name: _parameter(given, notes) for given in source.values()}
    constraints = tuple(
        # An Expression may compare texts by order, as ConfigSpace does.
        Expression(f"not ({_text(part)})", parameters)
        for clause in source.forbidden_clauses
        for part in _parts(clause)
    )
    given = {each.child.name: each for each in source.conditions}
    # Expressions, not texts: a condition may hold nowhere in ConfigSpace.
    when = {name: Expression(_condition(each, given), parameters) for name, each in given.items()}
    return SpaceDescription(parameters, constraints, tuple(notes), when=when)


def _parts(clause: Any) -> list[Any]:
    """Return the clauses that an ``or`` joins: each rests alone where one of its parameters is inactive."""
    if type(clause).__name__ != "ForbiddenOrConjunction":
        return [clause]
    return [part for component in clause.components for part in _parts(component)]


def _condition(given: Any, every: Mapping[str, Any], negated: bool = False) -> str:
    """Return a condition, or its negation, as an expression.

    In ConfigSpace an inactive parameter differs from every value: its ``!=`` is true, and all else false. Here all its
    comparisons are false, so that the text says where the parameter is inactive.

    Args:
        given: The condition.
        every: The condition of each conditional parameter.
        negated: Whether to negate it.
    """
    kind = type(given).__name__
    if kind in ("AndConjunction", "OrConjunction"):
        word = " and " if (kind == "AndConjunction") != negated else " or "
        return word.join(f"({_condition(part, every, negated)})" for part in given.components)
    name, parent = write_name(given.parent.name), given.parent
    if kind == "InCondition":
        sign = "not in" if negated else "in"
        text = f"{name} {sign} {[plain(value) for value in given.values]!r}"
    elif kind in _CONDITIONS:
        sign = _CONDITIONS[kind]
        text = _compare(parent, _NEGATED[sign] if negated else sign, plain(given.value))
    else:
        raise SpaceError(f"a {kind} is not supported: {given}")
    if (kind == "NotEqualsCondition") == negated or parent.name not in every:
        return text
    return f"({text}) or ({_condition(every[parent.name], every, True)})"


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
    return _compare(clause.hyperparameter, sign, plain(clause.value))


def _compare(given: Any, sign: str, value: Any) -> str:
    """Return the comparison of a parameter with a value."""
    if sign in ("==", "!=") or not hasattr(given, "sequence"):
        return f"{write_name(given.name)} {sign} {value!r}"
    # An ordinal is compared by the order of its list.
    values = [plain(each) for each in given.sequence]
    at = values.index(value)
    sides = {"<": values[:at], "<=": values[: at + 1], ">": values[at + 1 :], ">=": values[at:]}
    return f"{write_name(given.name)} in {sides[sign]!r}"
