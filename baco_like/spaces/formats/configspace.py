"""Spaces of ConfigSpace, as used by SMAC3, auto-sklearn and ytopt.

Forbidden clauses become constraints. Conditional parameters are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from baco_like._optional import require
from baco_like.constraints.language.writer import write_name
from baco_like.exceptions import SpaceError
from baco_like.parameters.categorical import Categorical
from baco_like.parameters.integer import Integer
from baco_like.parameters.ordinal import Ordinal
from baco_like.parameters.priors import Gaussian
from baco_like.parameters.protocol import Parameter
from baco_like.parameters.real import Real
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
    parameters = {one.name: _parameter(package, one, notes) for one in source.values()}
    constraints = tuple(f"not ({_text(package, one)})" for one in source.forbidden_clauses)
    return SpaceDescription(parameters, constraints, tuple(notes))


def _parameter(package: Any, one: Any, notes: list[str]) -> Parameter:
    if isinstance(one, package.Constant):
        return parameter_from_values(one.name, [one.value])
    default = plain(one.default_value)
    if isinstance(one, package.CategoricalHyperparameter):
        return _categorical(one, default, notes)
    if isinstance(one, package.OrdinalHyperparameter):
        return _ordinal(one, default)
    floats = (package.UniformFloatHyperparameter, package.NormalFloatHyperparameter)
    wholes = (package.UniformIntegerHyperparameter, package.NormalIntegerHyperparameter)
    if isinstance(one, (*floats, package.BetaFloatHyperparameter)):
        kind: type[Real] | type[Integer] = Real
    elif isinstance(one, (*wholes, package.BetaIntegerHyperparameter)):
        kind = Integer
    else:
        raise SpaceError(f"parameter {one.name!r}: a {type(one).__name__} is not supported")
    bounds = (plain(one.lower), plain(one.upper))
    prior = _prior(package, one, notes)
    return make_named(one.name, kind, *bounds, log=bool(one.log), default=default, prior=prior)


def _categorical(one: Any, default: Any, notes: list[str]) -> Parameter:
    if one.weights is None:
        return make_named(one.name, Categorical, one.choices, default=default)
    weights = {choice: float(w) for choice, w in zip(one.choices, one.weights, strict=True)}
    never = [choice for choice, weight in weights.items() if weight == 0.0]
    if never:
        notes.append(f"parameter {one.name!r}: choices of weight 0 were left out: {never!r:.100}")
    kept = {choice: weight for choice, weight in weights.items() if choice not in never}
    default = None if default in never else default
    return make_named(one.name, Categorical, list(kept), default=default, prior=list(kept.values()))


def _ordinal(one: Any, default: Any) -> Parameter:
    values = [plain(value) for value in one.sequence]
    if all(map(is_number, values)) and values not in (sorted(values), sorted(values)[::-1]):
        raise SpaceError(
            f"parameter {one.name!r}: its numbers {values!r:.60} are not sorted, but the numbers of an Ordinal are; "
            "sort them, or make them strings"
        )
    return make_named(one.name, Ordinal, values, default=default)


def _prior(package: Any, one: Any, notes: list[str]) -> Gaussian | None:
    if isinstance(one, (package.UniformFloatHyperparameter, package.UniformIntegerHyperparameter)):
        return None
    normal = (package.NormalFloatHyperparameter, package.NormalIntegerHyperparameter)
    if isinstance(one, normal) and not one.log:
        return Gaussian(float(one.mu), float(one.sigma))
    notes.append(f"parameter {one.name!r}: the distribution of {one} was left out")
    return None


def _text(package: Any, clause: Any) -> str:
    """Return a forbidden clause as an expression."""
    if isinstance(clause, (package.ForbiddenAndConjunction, package.ForbiddenOrConjunction)):
        word = " and " if isinstance(clause, package.ForbiddenAndConjunction) else " or "
        return word.join(f"({_text(package, part)})" for part in clause.components)
    if isinstance(clause, package.ForbiddenInClause):
        values = [plain(value) for value in clause.values]
        return f"{write_name(clause.hyperparameter.name)} in {values!r}"
    sign = _sign(clause)
    if hasattr(clause, "left"):
        return f"{write_name(clause.left.name)} {sign} {write_name(clause.right.name)}"
    one, value = clause.hyperparameter, plain(clause.value)
    if sign != "==" and isinstance(one, package.OrdinalHyperparameter):
        return f"{write_name(one.name)} in {_beyond(one, sign, value)!r}"
    return f"{write_name(one.name)} {sign} {value!r}"


def _sign(clause: Any) -> str:
    kind = type(clause).__name__
    for word, sign in _SIGNS.items():
        if kind in (f"Forbidden{word}Clause", f"Forbidden{word}Relation"):
            return sign
    raise SpaceError(f"a {kind} is not supported: {clause}")


def _beyond(one: Any, sign: str, value: Any) -> list[Any]:
    """Return the values of an ordinal on one side of a value, by their order in the list."""
    values = [plain(each) for each in one.sequence]
    at = values.index(value)
    return {"<": values[:at], "<=": values[: at + 1], ">": values[at + 1 :], ">=": values[at:]}[
        sign
    ]
