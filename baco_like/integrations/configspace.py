"""Convert spaces to ConfigSpace, for SMAC3 and ytopt; `Space.from_configspace` converts the other way.

ConfigSpace forbids values, combinations of values, and comparisons of two parameters. It has no arithmetic, so any
other constraint is written as the list of combinations that violate it, or raises an error; a condition of a
conditional parameter is written as the list of values for which it is true.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from baco_like._optional import needs_extra
from baco_like.constraints import Constraint, Expression
from baco_like.exceptions import SpaceError
from baco_like.integrations._shared import order_texts, read_permutations, write_permutations
from baco_like.parameters import (
    Categorical,
    Integer,
    Ordinal,
    Parameter,
    Permutation,
    Real,
    SteppedReal,
)
from baco_like.parameters.values import plain
from baco_like.spaces import Space
from baco_like.spaces.inputs import split_constraint

with needs_extra("ConfigSpace", "configspace"):
    import ConfigSpace as cs

__all__ = [
    "MAX_ALTERNATIVES",
    "MAX_CLAUSES",
    "from_configuration",
    "to_configspace",
    "to_configuration",
]

MAX_CLAUSES = 5000
"""Largest number of forbidden combinations per constraint: ConfigSpace tests each of them for every draw."""

MAX_ALTERNATIVES = 40
"""Largest number of alternatives in the condition of a parameter. ConfigSpace compares all of them with each other:
this took 0.02 s for 10 alternatives, 0.15 s for 20 and 1.7 s for 40, with ConfigSpace 1.2."""

_MAX_TESTED = 1_000_000
"""Largest number of combinations that are tested for violations of one constraint."""

_COMPARISON = re.compile(r"\s*([^\W\d]\w*)\s*(<=|<|>=|>|!=)\s*([^\W\d]\w*)\s*")

_FORBIDDEN_RELATIONS: Mapping[str, Any] = {
    "<=": cs.ForbiddenGreaterThanRelation,
    "<": cs.ForbiddenGreaterThanEqualsRelation,
    ">=": cs.ForbiddenLessThanRelation,
    ">": cs.ForbiddenLessThanEqualsRelation,
    "!=": cs.ForbiddenEqualsRelation,
}

_RANGES = {Real: cs.UniformFloatHyperparameter, Integer: cs.UniformIntegerHyperparameter}


def to_configspace(space: Space, seed: int | None = None) -> cs.ConfigurationSpace:
    """Convert a space to ConfigSpace.

    A permutation becomes a categorical parameter of texts such as ``"i,j,k"``. An infeasible default configuration is
    replaced by a random feasible one, because ConfigSpace rejects a forbidden default.

    Args:
        space: Each constraint must be a comparison of two parameters, or at most `MAX_CLAUSES` combinations violate
            it. Each comparison of a condition must read listed values, or be a bound of one number. Between two numbers
            of n values it takes up to n alternatives, of at most `MAX_ALTERNATIVES`.
        seed: Seed of ConfigSpace's own sampling.

    Raises:
        SpaceError: ConfigSpace cannot express a constraint, a condition or a prior, or a permutation is too long; the
            message names it.
    """
    default = space.default_config
    if default is None or not space.contains(default):
        (default,) = space.sample(1)
    defaults = write_permutations(space.activity.complete(default), space)
    converted = {n: _hyperparameter(n, p, defaults[n]) for n, p in space.parameters.items()}
    target = cs.ConfigurationSpace(seed=seed)
    members = list(converted.values())
    for name, expression in space.conditions.expressions.items():
        joined = expression.joins_active(space.conditions.expressions)
        condition = _condition(converted[name], joined, space, converted)
        if condition is False:
            raise SpaceError(
                f"the condition {expression.text!r:.100} of {name!r} is true for 0 combinations of values; remove the "
                "parameter"
            )
        if condition is not True:
            members.append(condition)
    for constraint in space.constraints:
        # A constraint rests as a whole where one of its parameters is inactive.
        is_guarded = any(name in space.conditions.expressions for name in constraint.parameters)
        for part in [constraint] if is_guarded else split_constraint(constraint):
            members += _forbidden_clauses(part, space, converted)
    target.add(*members)  # at once, because the defaults are checked after each call
    return target


def from_configuration(values: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return a ``Configuration`` of ConfigSpace as a configuration of the space, in the space's own values."""
    config = read_permutations({name: plain(value) for name, value in values.items()}, space)
    for name, value in config.items():
        own = space.parameters[name]
        if own.contains(value):  # ConfigSpace has 2.0 for the 2 of [0.5, 2]
            config[name] = own.decode(own.encode([value]))[0]
    return config


def to_configuration(
    config: Mapping[str, Any], space: Space, target: cs.ConfigurationSpace
) -> cs.Configuration:
    """Return a configuration as one of ConfigSpace; the inverse of `from_configuration`.

    Raises:
        ConfigSpace.exceptions.IllegalValueError: The target does not have a value.
        ConfigSpace.exceptions.ForbiddenValueError: The target forbids the configuration.
    """
    return cs.Configuration(target, values=write_permutations(config, space))


def _hyperparameter(name: str, parameter: Parameter, default: Any) -> Any:
    if getattr(parameter, "prior", None) is not None and not isinstance(parameter, Categorical):
        raise SpaceError(
            f"parameter {name!r}: ConfigSpace supports priors of categorical parameters only; remove the prior"
        )
    if isinstance(parameter, Permutation):
        texts = order_texts(name, parameter, "ConfigSpace")
        return cs.CategoricalHyperparameter(name, texts, default)
    if parameter.cardinality == 1:
        return cs.Constant(name, default)
    if isinstance(parameter, Real | Integer):
        make = _RANGES[type(parameter)]
        return make(name, parameter.low, parameter.high, default, log=parameter.log)
    if isinstance(parameter, Ordinal | SteppedReal) and parameter.values is not None:
        return cs.OrdinalHyperparameter(name, parameter.values, default)
    if isinstance(parameter, Categorical):
        return cs.CategoricalHyperparameter(
            name, parameter.values, default, weights=parameter.prior
        )
    raise SpaceError(
        f"parameter {name!r}: ConfigSpace has no {type(parameter).__name__}; keep the space by Space.to_dict"
    )


def _forbidden_clauses(
    part: Constraint, space: Space, converted: Mapping[str, Any]
) -> Iterator[Any]:
    """Yield clauses that forbid all violations of a constraint (of one operand, if ``and`` joins several)."""
    comparison = _COMPARISON.fullmatch(part.text)
    if comparison and all(_is_comparable(space.parameters.get(comparison[i])) for i in (1, 3)):
        forbid = _FORBIDDEN_RELATIONS[comparison[2]]
        yield forbid(converted[comparison[1]], converted[comparison[3]])
        return
    problem = (
        f"constraint {part.text!r:.100} cannot be expressed in ConfigSpace, which has no arithmetic"
    )
    parameters = {name: space.parameters[name] for name in part.parameters}
    count = math.prod(parameter.cardinality for parameter in parameters.values())
    if count > _MAX_TESTED:
        raise SpaceError(f"{problem}: there are {count} combinations to list")
    _, violations = _split_configs(part, parameters)
    if len(violations) > MAX_CLAUSES:
        raise SpaceError(
            f"{problem}: {len(violations)} combinations violate it (at most {MAX_CLAUSES} can be listed)"
        )
    for violation in violations:
        values = write_permutations(violation, space)
        equal = [cs.ForbiddenEqualsClause(converted[n], v) for n, v in values.items()]
        yield cs.ForbiddenAndConjunction(*equal) if len(equal) > 1 else equal[0]


def _split_configs(
    constraint: Constraint, parameters: Mapping[str, Parameter]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the combinations of values that satisfy a constraint, and those that violate it."""
    free = Space(parameters)
    (codes,) = free.feasible.iterate(_MAX_TESTED)
    columns = {n: p.column(codes[:, free.columns[n]]) for n, p in parameters.items()}
    holds = np.asarray(constraint.holds(columns))
    return free.decode(codes[holds]), free.decode(codes[~holds])


def _condition(
    child: Any, expression: Expression, space: Space, converted: Mapping[str, Any]
) -> Any:
    """Return the condition of a parameter; False if no values satisfy it, True for a constant that is true.

    Raises:
        SpaceError: ConfigSpace cannot express it.
    """
    if expression.junction is not None:
        word, parts = expression.junction
        decides = word == "or"
        different: list[Any] = []  # ConfigSpace 1.2 misreads a junction that repeats a condition
        for part in parts:
            condition = _condition(child, part, space, converted)
            if condition is decides:
                return decides
            if not isinstance(condition, bool) and condition not in different:
                different.append(condition)
        if not different:
            return not decides
        join = cs.AndConjunction if word == "and" else cs.OrConjunction
        return different[0] if len(different) == 1 else join(*different)
    if not expression.parameters:
        return bool(expression.holds({})[0])
    parameters = {name: space.parameters[name] for name in expression.parameters}
    if math.prod(p.cardinality for p in parameters.values()) > _MAX_TESTED:
        return _bounds(child, expression, parameters, converted)
    configs, _ = _split_configs(expression, parameters)
    if not configs:
        return False
    boxes = _boxes([write_permutations(config, space) for config in configs])
    if len(boxes) > MAX_ALTERNATIVES:
        raise SpaceError(
            f"the condition {expression.text!r:.100} of {child.name!r} is true for {len(configs)} combinations of "
            f"values, in {len(boxes)} alternatives; at most {MAX_ALTERNATIVES} are written, because ConfigSpace "
            "compares all of them with each other; compare with constants, or use fewer values"
        )
    every = []
    for box in boxes:
        values_in = [_is_one_of(child, converted[n], values) for n, values in box.items()]
        every.append(values_in[0] if len(values_in) == 1 else cs.AndConjunction(*values_in))
    return every[0] if len(every) == 1 else cs.OrConjunction(*every)


def _is_one_of(child: Any, parent: Any, values: list[Any]) -> Any:
    if len(values) == 1:
        return cs.EqualsCondition(child, parent, values[0])
    return cs.InCondition(child, parent, values)


def _boxes(configs: list[dict[str, Any]]) -> list[dict[str, list[Any]]]:
    """Return some values of each parameter, several times, whose combinations are these configurations."""
    names = list(configs[0])
    values = {repr(value): value for config in configs for value in config.values()}
    # Texts as keys, because 1, 1.0 and True are different values.
    boxes: list[tuple[tuple[str, ...], ...]] = [
        tuple((repr(config[name]),) for name in names) for config in configs
    ]
    for i in range(len(names)):
        merged: dict[Any, tuple[str, ...]] = {}
        for box in boxes:
            others = box[:i], box[i + 1 :]
            merged[others] = merged.get(others, ()) + box[i]
        boxes = [(*before, own, *after) for (before, after), own in merged.items()]
    return [
        {name: [values[text] for text in texts] for name, texts in zip(names, box, strict=True)}
        for box in boxes
    ]


def _bounds(
    child: Any,
    expression: Expression,
    parameters: Mapping[str, Parameter],
    converted: Mapping[str, Any],
) -> Any:
    """Return the condition that a number is above or below constants.

    Raises:
        SpaceError: The expression says something else.
    """
    name, parameter = next(iter(parameters.items()))
    low, high = expression.bounds(name)
    if (
        len(parameters) > 1
        or not isinstance(parameter, Real | Integer)
        or low == -high == -math.inf
    ):
        raise SpaceError(
            f"the condition {expression.text!r:.100} of {child.name!r} cannot be expressed in ConfigSpace: it compares "
            "a number of many values with something else than a constant"
        )
    parts = []
    for bound, make, way in ((low, cs.GreaterThanCondition, -1), (high, cs.LessThanCondition, 1)):
        if not math.isfinite(bound) or not parameter.low <= bound <= parameter.high:
            continue
        is_allowed = bool(expression.holds({name: parameter.column(parameter.encode([bound]))})[0])
        strict = bound
        if is_allowed:  # ConfigSpace has strict comparisons only
            is_real = isinstance(parameter, Real)
            strict = math.nextafter(bound, way * math.inf) if is_real else bound + way
        parts.append(make(child, converted[name], strict, check_condition_legality=False))
    return parts[0] if len(parts) == 1 else cs.AndConjunction(*parts)


def _is_comparable(parameter: Parameter | None) -> bool:
    """Return whether ConfigSpace can compare the parameter: it must be a number with several values."""
    if isinstance(parameter, Ordinal) and isinstance(parameter.values[0], str):
        return False
    return (
        isinstance(parameter, Real | SteppedReal | Integer | Ordinal) and parameter.cardinality != 1
    )
