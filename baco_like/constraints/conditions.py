"""Conditional parameters: which parameters are active in a configuration, and the constraints that follow.

A parameter with a condition, such as ``unroll`` when ``schedule == 'tiled'``, has a value only where the condition is
true. Elsewhere it is *inactive*: the configuration does not have it, and its codes hold one fixed legal value, the
*resting value*. So each configuration has exactly one row of codes, and sampling, counting and the search for
duplicates need no special case: "inactive, or any value" is one more known constraint, `RestingConstraint`.

A comparison that contains an inactive parameter is unknown, and so is what depends on it (`language.analysis`). A
parameter is active where its condition is true, not where it is unknown. For conditions of ``and`` and ``or`` this is
the rule of ConfigSpace, where such a comparison is false (Lindauer et al. 2019, "BOAH", section 3). As there, a known
constraint that reads an inactive parameter is not applied (`GuardedConstraint`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np
from typing_extensions import override

from baco_like._typing import Codes, Column, Mask
from baco_like.constraints.expression import Expression
from baco_like.constraints.protocol import Constraint, describe_values
from baco_like.constraints.table import TableConstraint
from baco_like.exceptions import ExpressionError, SpaceError
from baco_like.parameters.protocol import Parameter
from baco_like.parameters.values import ColumnKind


@final
@dataclass(frozen=True, eq=False)
class Conditions:
    """The conditions of a space.

    Attributes:
        expressions: The condition of each conditional parameter; those that a condition reads come first.
        resting: Codes of the resting value of each conditional parameter, ``(1, width)``: its default or, without one,
            the middle of its scale.
    """

    expressions: Mapping[str, Expression]
    resting: Mapping[str, Codes]
    _parameters: Mapping[str, Parameter] = field(repr=False)

    @classmethod
    def of(
        cls, given: Mapping[str, str | Expression] | None, parameters: Mapping[str, Parameter]
    ) -> Conditions:
        """Return the conditions of parameters.

        Args:
            given: The text of each condition; None for no conditions.
            parameters: All parameters of the space.

        Raises:
            ExpressionError: A text is not in the language of constraints.
            SpaceError: A name is unknown, a condition reads no parameter, or conditions depend on each other.
        """
        given = {} if given is None else given
        if not isinstance(given, Mapping):
            raise SpaceError(
                f"when = {given!r:.80}: expected the condition of each conditional parameter, such as "
                "{'unroll': \"schedule == 'tiled'\"}"
            )
        read: dict[str, Expression] = {}
        for name, text in given.items():
            if name not in parameters:
                raise SpaceError(
                    f"when: {name!r} is not a parameter; the parameters are {', '.join(parameters)}"
                )
            read[name] = _read_condition(name, text, parameters)
        for name in read:
            if parameters[name].contains(None):
                raise SpaceError(
                    f"when: {name!r} has the value None, which means that a conditional parameter is inactive; write a "
                    "text, such as 'none'"
                )
        resting = {name: _resting_codes(parameters[name]) for name in read}
        return cls({name: read[name] for name in _in_order(read)}, resting, parameters)

    def __bool__(self) -> bool:
        return bool(self.expressions)

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return Conditions, (self.expressions, self.resting, self._parameters)

    @cached_property
    def ancestors(self) -> Mapping[str, tuple[str, ...]]:
        """For each conditional parameter, all parameters that decide whether it is active."""
        found: dict[str, tuple[str, ...]] = {}
        for name, expression in self.expressions.items():
            own = expression.parameters
            above = [other for parent in own for other in found.get(parent, ())]
            found[name] = tuple(dict.fromkeys([*own, *above]))
        return found

    def active(self, name: str, columns: Mapping[str, Column]) -> Mask:
        """Return where a conditional parameter is active, ``(n,)``.

        Args:
            name: The parameter.
            columns: At least the columns of its `ancestors`, as made by `Parameter.column`.
        """
        return self._activity(columns, [name])[name]

    def activity(self, columns: Mapping[str, Column]) -> dict[str, Mask]:
        """Return where each conditional parameter is active, ``(n,)``, from the columns of all parameters."""
        return self._activity(columns, self.expressions)

    def _activity(self, columns: Mapping[str, Column], names: Any) -> dict[str, Mask]:
        known: dict[str, Mask] = {}
        needed = {*names, *(above for name in names for above in self.ancestors[name])}
        for name, expression in self.expressions.items():
            if name in needed:
                read = {other: columns[other] for other in expression.parameters}
                flags = self._flags(expression)
                read.update((flag, known[other]) for other, flag in flags.items())
                known[name] = self._where_known[name].holds(read)
        return known

    def _flags(self, expression: Expression) -> dict[str, str]:
        """Return, for each conditional parameter that a condition reads, the column that tells where it is active."""
        read = expression.parameters
        # A text that is not the name of another parameter.
        return {name: f"\0{name} is active" for name in read if name in self.expressions}

    @cached_property
    def _where_known(self) -> dict[str, Expression]:
        """For each conditional parameter, where its condition is true; expressions also of the flags."""
        return {
            name: expression.where_known(flags)
            if (flags := self._flags(expression))
            else expression
            for name, expression in self.expressions.items()
        }

    @cached_property
    def texts(self) -> dict[str, str]:
        """The text of each condition."""
        return {name: expression.text for name, expression in self.expressions.items()}

    @cached_property
    def rules(self) -> list[RestingConstraint]:
        """For each conditional parameter, the constraint that it has its resting value where it is inactive."""
        read = ((name, self._parameters[name]) for name in self.expressions)
        return [RestingConstraint(self, n, p, p.column(self.resting[n])) for n, p in read]

    def guard(self, part: Constraint, whole: Constraint) -> Constraint:
        """Return a part of a known constraint, applied only where all parameters that the whole reads are active.

        A table whose rows may lack parameters is always applied.
        """
        if isinstance(whole, TableConstraint) and whole.has_inactive:
            return part
        guards = tuple(name for name in whole.parameters if name in self.expressions)
        return GuardedConstraint(self, part, guards) if guards else part


@dataclass(frozen=True, eq=False)
class ActiveConstraint:
    """Holds where a conditional parameter is active.

    Attributes:
        conditions: The conditions of the space.
        name: The parameter.
    """

    conditions: Conditions
    name: str

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters that decide."""
        return self.conditions.ancestors[self.name]

    @property
    def text(self) -> str:
        """The condition."""
        return self.conditions.expressions[self.name].text

    def holds(self, columns: Mapping[str, Column]) -> Mask:
        """Return, for n rows, whether the parameter is active."""
        return self.conditions.active(self.name, columns)

    def explain(self, config: Mapping[str, Any]) -> str:
        """Return the values that decide."""
        return describe_values(self.conditions.expressions[self.name].parameters, config)


@final
@dataclass(frozen=True, eq=False)
class RestingConstraint(ActiveConstraint):
    """Holds where a conditional parameter is active, or has its resting value.

    Attributes:
        parameter: Its type.
        rest: The resting value as a constraint sees it, with one row.
    """

    parameter: Parameter
    rest: Column = field(repr=False)

    @property
    @override
    def parameters(self) -> tuple[str, ...]:
        """The parameter, and those that decide whether it is active."""
        return self.name, *super().parameters

    @property
    @override
    def text(self) -> str:
        """The condition."""
        return f"{self.name} only when {super().text}"

    @override
    def holds(self, columns: Mapping[str, Column]) -> Mask:
        """Return, for n rows, whether it holds."""
        return super().holds(columns) | self._rests(columns[self.name])

    def _rests(self, column: Column) -> Mask:
        if column.ndim > 1:  # the positions of a permutation
            return np.asarray((column == self.rest).all(axis=1))
        if self.parameter.extent.kind is ColumnKind.OBJECT:  # 1, 1.0 and True are different values
            rest = self.rest[0]
            same = [type(value) is type(rest) and value == rest for value in column]
            return np.array(same, dtype=np.bool_)
        return np.asarray(column == self.rest)


@final
@dataclass(frozen=True, eq=False)
class GuardedConstraint:
    """A known constraint that is not applied where a parameter that it reads is inactive.

    Attributes:
        conditions: The conditions of the space.
        constraint: The constraint, or a part of it.
        guards: The conditional parameters that the whole constraint reads.
    """

    conditions: Conditions
    constraint: Constraint
    guards: tuple[str, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters it reads, and those that decide whether these are active."""
        return tuple(dict.fromkeys([*self.constraint.parameters, *self.deciding]))

    @property
    def deciding(self) -> tuple[str, ...]:
        """The parameters that decide whether it is applied."""
        above = (name for guard in self.guards for name in self.conditions.ancestors[guard])
        return tuple(dict.fromkeys(above))

    @property
    def text(self) -> str:
        """The constraint's text."""
        return self.constraint.text

    def holds(self, columns: Mapping[str, Column]) -> Mask:
        """Return, for n rows, whether it holds or is not applied."""
        read = {name: columns[name] for name in self.constraint.parameters}
        return self.constraint.holds(read) | ~self.applies(columns)

    def applies(self, columns: Mapping[str, Column]) -> Mask:
        """Return, for n rows, whether it is applied, from the columns of the `deciding` parameters."""
        # Equal conditions need only one evaluation.
        guards = {self.conditions.texts[guard]: guard for guard in self.guards}
        active = [self.conditions.active(guard, columns) for guard in guards.values()]
        return np.asarray(np.logical_and.reduce(active), dtype=np.bool_)

    def explain(self, config: Mapping[str, Any]) -> str:
        """Return the deciding numbers of one configuration."""
        return self.constraint.explain(config)


def _read_condition(
    name: str, given: str | Expression, parameters: Mapping[str, Parameter]
) -> Expression:
    text = given.text if isinstance(given, Expression) else given
    if not isinstance(text, str):
        raise SpaceError(f"when: the condition of {name!r} must be an expression, got {text!r:.60}")
    try:
        expression = Expression(text, parameters)
    except ExpressionError as error:
        raise ExpressionError(
            f"in the condition of {name!r}: {error.message}", error.text, error.position
        ) from None
    if not expression.parameters:
        raise SpaceError(f"when: the condition {text!r} of {name!r} reads no parameter")
    return expression


def _resting_codes(parameter: Parameter) -> Codes:
    if parameter.default is not None:
        return parameter.encode([parameter.default])
    if parameter.cardinality == parameter.width == 1:
        return np.full((1, parameter.width), parameter.code_range[0])
    return parameter.from_unit(np.full((1, parameter.width), 0.5))


def _in_order(conditions: Mapping[str, Expression]) -> list[str]:
    """Return the names so that every parameter follows those that its condition reads.

    Raises:
        SpaceError: The conditions form a cycle; the message names the way around the cycle.
    """
    order: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        """Append a parameter after those that its condition reads; ``path`` leads to it."""
        if name in path:
            way = " -> ".join([*path[path.index(name) :], name])
            raise SpaceError(
                f"when: the conditions depend on each other ({way}); no parameter may decide about itself"
            )
        if name not in order:
            for parent in conditions[name].parameters:
                if parent in conditions:
                    visit(parent, (*path, name))
            order.append(name)

    for name in conditions:
        visit(name, ())
    return order
