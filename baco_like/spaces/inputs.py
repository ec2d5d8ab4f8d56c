"""Parameters and constraints from everything that users may write for them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar
from unicodedata import normalize

import numpy as np

from baco_like.constraints.callables import from_callable
from baco_like.constraints.conditions import Conditions
from baco_like.constraints.expression import Expression
from baco_like.constraints.protocol import Constraint
from baco_like.constraints.table import TableConstraint
from baco_like.exceptions import ConfigError, SpaceError
from baco_like.parameters.listed import Categorical, Ordinal
from baco_like.parameters.protocol import Parameter, listed_values
from baco_like.parameters.values import are_numbers, in_order, make_plain

GivenParameter: TypeAlias = Parameter | Iterable[Any]
"""A parameter, or a list: of numbers for an `Ordinal`, of strings or booleans for a `Categorical`."""

GivenConstraint: TypeAlias = str | Callable[..., Any] | Constraint
"""An expression, a callable, or a constraint."""

Made = TypeVar("Made")


def make_parameter(name: str, given: GivenParameter) -> Parameter:
    """Return the given parameter, or the parameter of a plain list of values.

    Raises:
        SpaceError: It is neither; the message names the parameter.
    """
    if not isinstance(name, str) or not name:
        raise SpaceError(f"the name of a parameter must be a non-empty string, got {name!r}")
    return given if isinstance(given, Parameter) else parameter_from_values(name, given)


def check_names(names: Iterable[str]) -> None:
    """Check that constraints can tell the parameters apart: Python reads names in Unicode's normal form NFKC.

    Raises:
        SpaceError: Two names have the same normal form.
    """
    spelled: dict[str, str] = {}
    for name in names:
        other = spelled.setdefault(normalize("NFKC", name), name)
        if other != name:
            raise SpaceError(
                f"the parameters {other!a} and {name!a} are the same name in a constraint (Unicode's normal form "
                f"NFKC: {normalize('NFKC', name)!r}); rename one"
            )


def check_mappings(configs: Iterable[Any]) -> None:
    """Check that configurations are mappings.

    Raises:
        ConfigError: One is something else.
    """
    for config in configs:
        if not isinstance(config, Mapping):
            raise ConfigError(
                f"{config!r:.80} is not a configuration; give one mapping of names to values, such as {{'tile': 16}}"
            )


def parameter_from_values(name: str, values: Iterable[Any]) -> Parameter:
    """Return an `Ordinal` if all values are numbers, else a `Categorical`.

    Raises:
        SpaceError: The values are not a list or not valid for the parameter; the message names the parameter.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise SpaceError(
            f"parameter {name!r} must be a parameter or a list of values, got {values!r:.60}"
        )
    plain_values = make_plain(in_order(values))
    numeric = bool(plain_values) and are_numbers(plain_values)
    make: Callable[..., Parameter] = Ordinal if numeric else Categorical
    return make_named(name, make, plain_values)


def make_named(name: str, make: Callable[..., Made], *args: Any, **kwargs: Any) -> Made:
    """Return ``make(*args, **kwargs)`` for a parameter; errors name it.

    Raises:
        SpaceError: ``make`` raised it.
    """
    try:
        return make(*args, **kwargs)
    except SpaceError as error:
        raise SpaceError(f"parameter {name!r}: {error}") from None


def defaults_of(parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """Return the default of each parameter that has one: of a constant its value, and None where it is a value."""
    defaults = {}
    for name, parameter in parameters.items():
        if parameter.default is not None or parameter.contains(None):
            defaults[name] = parameter.default
        elif parameter.cardinality == 1:
            first = np.full((1, parameter.width), parameter.code_range[0])
            defaults[name] = parameter.decode(first)[0]
    return defaults


def list_constraints(
    constraints: GivenConstraint | Iterable[GivenConstraint],
) -> list[GivenConstraint]:
    """Return the given constraints as a list; a single one is accepted without a list."""
    if isinstance(constraints, str | Constraint) or not isinstance(constraints, Iterable):
        return [constraints]
    return list(constraints)


def make_constraint(given: GivenConstraint, parameters: Mapping[str, Parameter]) -> Constraint:
    """Return the given constraint, or the constraint of an expression or a callable.

    Only a text is checked for values that a parameter never has. An `Expression` may come from a journal that was
    written before this check, or from a space with more values.

    Raises:
        ExpressionError: The expression is not in the language of constraints.
        SpaceError: It is not a constraint, reads an unknown parameter, or compares a parameter with a value that it
            never has.
    """
    if isinstance(given, str):
        made: Constraint = (expression := Expression(given, parameters))
        _check_literals(f"constraint {given!r}", expression, parameters)
    elif isinstance(given, Constraint):
        made = given
    elif callable(given):
        made = from_callable(given, parameters)
    else:
        raise SpaceError(f"a constraint must be an expression or a callable, got {given!r:.60}")
    unknown = [name for name in made.parameters if name not in parameters]
    if unknown:
        raise SpaceError(
            f"constraint {made.text!r} reads {unknown[0]!r}, which is not a parameter; "
            f"the parameters are {', '.join(parameters)}"
        )
    return made


def check_conditions(
    given: Mapping[str, str | Expression],
    conditions: Conditions,
    parameters: Mapping[str, Parameter],
) -> None:
    """Check that the conditions that were given as texts compare parameters, and only with values that they may have.

    An `Expression` is not checked, as in `make_constraint`.

    Raises:
        SpaceError: A parameter never has a value that it is compared with, or is not compared and always true.
    """
    for name, text in given.items():
        if isinstance(text, str):
            subject = f"when: the condition {text!r} of {name!r}"
            _check_literals(subject, conditions.expressions[name], parameters)
            _check_truths(subject, conditions.expressions[name], parameters)


def _check_literals(
    subject: str, expression: Expression, parameters: Mapping[str, Parameter]
) -> None:
    """Check that an expression compares parameters only with values that they may have.

    Args:
        subject: The expression's name in the message.
        expression: The expression.
        parameters: All parameters of the space.

    Raises:
        SpaceError: A parameter never has a value that it is compared with: usually a misspelling. Or an ordinal of
            texts is compared by order, and it is not in alphabetical order, in which texts are compared.
    """
    for name, value in expression.unmatched_literals():
        raise SpaceError(
            f"{subject}: parameter {name!r} never has the value {value!r}; "
            f"{_describe_values(value, parameters[name])}; correct the text or the values"
        )
    for name in expression.ordered_names():
        own = parameters[name]
        texts = [value for value in own.values or () if isinstance(value, str)]
        if isinstance(own, Ordinal) and texts != sorted(texts):
            raise SpaceError(
                f"{subject}: texts are compared in the order of the alphabet, and the values of {name!r} have another "
                f"order; list the values that it may have, as in: {name} in {own.values[:2]}"
            )


def _check_truths(
    subject: str, expression: Expression, parameters: Mapping[str, Parameter]
) -> None:
    """Check that no parameter is used as a truth although all its values are true.

    Raises:
        SpaceError: The comparison was forgotten.
    """
    for name in expression.truths():
        values = parameters[name].values
        if values is not None and all(values):
            raise SpaceError(
                f"{subject}: {name!r} alone is true for all of its values {list(values)!r:.200}; "
                f'compare it, as in "{name} == {values[0]!r:.60}"'
            )


def _describe_values(value: object, parameter: Parameter) -> str:
    """Return the values of a parameter for a message, with the closest one to a value that it does not have."""
    domain = listed_values(parameter)
    if domain is None:
        return f"its values are numbers: {parameter!r}"
    shown = f"its values are {list(domain)!r:.200}"
    by_text = {str(own).lower(): own for own in domain}
    near = difflib.get_close_matches(str(value)[:100].lower(), by_text, 1)
    return f"{shown}; did you mean {by_text[near[0]]!r}?" if near else shown


def split_constraint(constraint: Constraint) -> list[Constraint]:
    """Return equivalent constraints: the parts that ``and`` joins."""
    return list(constraint.conjuncts()) if isinstance(constraint, Expression) else [constraint]


def split_constraints(
    constraints: Iterable[Constraint], conditions: Conditions
) -> list[Constraint]:
    """Return equivalent constraints, each applied only where all parameters that the whole one reads are active."""
    return [
        conditions.guard(part, constraint)
        for constraint in constraints
        for part in split_constraint(constraint)
    ]


def constraint_to_json(constraint: Constraint) -> Any:
    """Return an expression's text or a table's rows; a callable is only described."""
    if isinstance(constraint, TableConstraint):
        return constraint.to_dict()
    if isinstance(constraint, Expression):
        return constraint.text
    return {"callable": constraint.text}


def describe_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return readable lines on how two spaces, as dictionaries, differ."""
    lines = _describe_entries("parameter", old["parameters"], new["parameters"])
    rules, others = old["constraints"], new["constraints"]
    lines += [f"constraint {c!r:.300} was removed" for c in rules if c not in others]
    lines += [f"constraint {c!r:.300} was added" for c in others if c not in rules]
    lines += _describe_entries("the condition of", old.get("when", {}), new.get("when", {}))
    fidelities = old.get("fidelity"), new.get("fidelity")
    if fidelities[0] != fidelities[1]:
        lines.append(f"the fidelity was {fidelities[0]!r:.80}, now {fidelities[1]!r:.80}")
    tasks = old.get("tasks"), new.get("tasks")
    if tasks[0] != tasks[1]:
        lines.append(f"the tasks were {tasks[0]!r:.300}, now {tasks[1]!r:.300}")
    names = list(old["parameters"]), list(new["parameters"])
    if not lines and names[0] != names[1]:
        lines.append(f"the order of the parameters was {names[0]}, now {names[1]}")
    return lines


def _describe_entries(kind: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    lines = [f"{kind} {name!r} was removed" for name in before if name not in after]
    lines += [f"{kind} {name!r} was added" for name in after if name not in before]
    return lines + [
        f"{kind} {name!r} was {before[name]!r:.300}, now {after[name]!r:.300}"
        for name in before
        if name in after and before[name] != after[name]
    ]
