"""Known constraints that read the descriptors of a task: evaluated, and written as Python; `c_header` writes C.

A shipped file chooses a configuration for sizes that were not tuned. The values of the parameters are known when the
file is written, and those of the descriptors when it is used. So each entry gets its own condition, in which only
descriptors are left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from baco_like.constraints import Expression
from baco_like.constraints.language import exact, tree
from baco_like.constraints.language.analysis import where_known
from baco_like.constraints.language.reader import read
from baco_like.constraints.language.sequences import read_value
from baco_like.constraints.language.tree import Node
from baco_like.constraints.language.writer import write
from baco_like.exceptions import RunFileError
from baco_like.parameters import Categorical, Parameter, Real
from baco_like.parameters.protocol import is_permutation, is_sequence
from baco_like.parameters.values import is_number
from baco_like.spaces import Space

Task = Mapping[str, Any]


@dataclass(frozen=True)
class Condition:
    """A constraint in which the parameters have their values; only descriptors are left.

    Attributes:
        text: The constraint as the user wrote it.
        node: Its tree.
    """

    text: str
    node: Node

    def holds(self, task: Task) -> bool:
        """Return whether the condition is true for a task; False if it cannot be computed."""
        names = tree.names(self.node)
        try:
            return bool(exact.function(self.node, names)([task[name] for name in names]))
        except (KeyError, *exact.UNDEFINED):
            return False

    def to_python(self, names: Mapping[str, str]) -> str:
        """Return the condition as a Python expression.

        Args:
            names: The variable of each descriptor.
        """

        def rename(leaf: Node) -> Node:
            return tree.Name(names[leaf.name]) if isinstance(leaf, tree.Name) else leaf

        return write(_replace_leaves(self.node, rename), {})


def read_conditions(
    space: Space, descriptors: Mapping[str, Sequence[Any]], extra: Iterable[str] = ()
) -> tuple[Expression, ...]:
    """Return the known constraints that read descriptors: those of the space, and further ones.

    Args:
        space: The space of the runs.
        descriptors: The values of each descriptor.
        extra: Further constraints.

    Raises:
        ExpressionError: A further constraint cannot be read.
        RunFileError: A constraint that reads descriptors is no text.
    """
    texts = []
    for constraint in space.given_constraints:
        if not descriptors.keys() & set(constraint.parameters):
            continue
        if not isinstance(constraint, Expression):
            raise RunFileError(
                f"the constraint {constraint.text!r} reads a descriptor and is no text; write it as an expression"
            )
        texts.append(constraint.text)
    parameters = with_descriptors(space, descriptors)
    return tuple(Expression(text, parameters) for text in [*texts, *extra])


def with_descriptors(
    space: Space, descriptors: Mapping[str, Sequence[Any]]
) -> dict[str, Parameter]:
    """Return the parameters of a space and those that let constraints name descriptors.

    Args:
        space: The space.
        descriptors: The known values of each descriptor; other tasks have others.
    """
    stand_ins = {
        name: Real(0.0, 1.0)
        if all(map(is_number, values))
        else Categorical(list(dict.fromkeys(values)))
        for name, values in descriptors.items()
    }
    return {**space.parameters, **stand_ins}


def bind(
    expression: Expression, config: Mapping[str, Any], parameters: Mapping[str, Parameter]
) -> Condition:
    """Return a constraint with the values of a configuration.

    Args:
        expression: The constraint.
        config: The configuration.
        parameters: The parameters of the space and of the descriptors, by `with_descriptors`.
    """
    return Condition(
        expression.text, _substitute(read(expression.text, parameters), config, parameters)
    )


def bind_absence(
    name: str,
    expression: Expression,
    config: Mapping[str, Any],
    parameters: Mapping[str, Parameter],
    absent: Collection[str],
) -> Condition:
    """Return the condition under which a configuration needs no value of a parameter that it lacks.

    Args:
        name: The conditional parameter.
        expression: The condition under which it is active.
        config: The configuration.
        parameters: As for `bind`.
        absent: The parameters that the configuration lacks.
    """
    never = {name: tree.Literal(False) for name in absent}
    active = where_known(read(expression.text, parameters), never)
    node = tree.Operation("not", (_substitute(active, config, parameters),))
    return Condition(f"{name} is inactive unless {expression.text}", node)


def _substitute(node: Node, config: Mapping[str, Any], parameters: Mapping[str, Parameter]) -> Node:
    """Return a tree with the values of a configuration."""

    def fill(leaf: Node) -> Node:
        if not isinstance(leaf, (tree.Name, tree.Reading)) or leaf.name not in config:
            return leaf
        if isinstance(leaf, tree.Name):
            return tree.Literal(config[leaf.name])
        parameter = parameters[leaf.name]
        assert is_permutation(parameter) or is_sequence(parameter)
        codes = tuple(i for e in config[leaf.name] if (i := parameter.index(e)) is not None)
        found = read_value(leaf, codes)
        if leaf.function in ("at", "last"):  # no element is never compared as equal
            return tree.Literal(parameter.elements[found - 1] if found else "")
        return tree.Literal(found)

    return _replace_leaves(node, fill)


def _replace_leaves(node: Node, change: Callable[[Node], Node]) -> Node:
    if isinstance(node, (tree.Operation, tree.Comparison, tree.Listed)):
        return replace(node, parts=tuple(_replace_leaves(part, change) for part in node.parts))
    return change(node)
