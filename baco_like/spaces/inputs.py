"""What users may write for a parameter or a constraint, made into one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from baco_like.constraints.expression import Expression, parse
from baco_like.constraints.protocol import Constraint, from_callable
from baco_like.constraints.table import TableConstraint
from baco_like.exceptions import SpaceError, SpaceWarning
from baco_like.parameters.protocol import Parameter
from baco_like.spaces.formats.kernel_tuner import values_parameter

GivenParameter: TypeAlias = Parameter | Iterable[Any]
"""A parameter, or a list: of numbers for an `Ordinal`, of strings or booleans for a `Categorical`."""

GivenConstraint: TypeAlias = str | Callable[..., Any] | Constraint
"""An expression, a callable, or a constraint."""

_SHOWN = 300
"""Characters of a description that a message shows."""


def parameter(name: str, given: GivenParameter) -> Parameter:
    """Return the parameter that was given, or the one of a plain list of values.

    Raises:
        SpaceError: It is none; the message names the parameter.
    """
    if not isinstance(name, str) or not name:
        raise SpaceError(f"the name of a parameter must be a non-empty string, got {name!r}")
    if isinstance(given, Parameter):
        return given
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise SpaceError(
            f"parameter {name!r} must be a parameter or a list of values, got {given!r:.60}"
        )
    return values_parameter(name, given)


def several(constraints: GivenConstraint | Iterable[GivenConstraint]) -> list[GivenConstraint]:
    """Return the constraints that were given, of which a single one need not be in a list."""
    if isinstance(constraints, str | Constraint):
        return [constraints]
    if isinstance(constraints, Iterable):
        return list(constraints)
    return [constraints]


def constraint(given: GivenConstraint, parameters: Mapping[str, Parameter]) -> Constraint:
    """Return the constraint that was given, or the one of an expression or a callable.

    Raises:
        ExpressionError: The expression is not in the language of constraints.
        SpaceError: It is none, or reads a parameter that does not exist.
    """
    if isinstance(given, str):
        made: Constraint = parse(given, parameters)
    elif isinstance(given, Constraint):
        made = given
    elif callable(given):
        made = from_callable(given, parameters)
    else:
        raise SpaceError(f"a constraint must be an expression or a callable, got {given!r:.60}")
    unknown = [name for name in made.parameters if name not in parameters]
    if unknown:
        raise SpaceError(
            f"constraint {made.text!r} reads {unknown[0]!r}, which is no parameter; "
            f"the parameters are {', '.join(parameters)}"
        )
    return made


def warn_of_strangers(constraints: Iterable[Constraint]) -> None:
    """Warn of values that a constraint tests a parameter for and that the parameter never has."""
    for one in constraints:
        for name, value in one.strangers() if isinstance(one, Expression) else ():
            warnings.warn(
                f"constraint {one.text!r} tests {name} for {value!r}, which is none of its values; "
                "correct whichever is misspelt",
                SpaceWarning,
                stacklevel=3,
            )


def conjuncts(one: Constraint) -> list[Constraint]:
    """Return constraints that together say the same: the parts that ``and`` joins, or the columns of a table."""
    return list(one.conjuncts()) if isinstance(one, Expression | TableConstraint) else [one]


def constraint_to_json(one: Constraint) -> Any:
    """Return an expression's text or a table's rows; a callable is only described."""
    if isinstance(one, TableConstraint):
        return one.to_dict()
    return one.text if isinstance(one, Expression) else {"callable": one.text}


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return readable lines on how two spaces, as dictionaries, differ."""
    before, after = old["parameters"], new["parameters"]
    lines = [f"parameter {name!r} was removed" for name in before if name not in after]
    lines += [f"parameter {name!r} was added" for name in after if name not in before]
    lines += [
        f"parameter {name!r} was {_shown(before[name])}, now {_shown(after[name])}"
        for name in before
        if name in after and before[name] != after[name]
    ]
    rules, others = old["constraints"], new["constraints"]
    lines += [f"constraint {_shown(c)} was removed" for c in rules if c not in others]
    lines += [f"constraint {_shown(c)} was added" for c in others if c not in rules]
    if not lines and list(before) != list(after):
        lines.append(f"the order of the parameters was {list(before)}, now {list(after)}")
    return lines


def _shown(data: Any) -> str:
    text = repr(data)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
