"""Finds the constraints on one permutation that are rules on the order or position of single elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from baco_like._typing import Ints
from baco_like.constraints.protocol import Constraint
from baco_like.parameters.protocol import Parameter, is_permutation
from baco_like.spaces.feasible.extensions import OrderRules


@runtime_checkable
class ReadsElements(Protocol):
    """A constraint that knows the elements of a permutation whose positions it reads."""

    def elements(self, name: str) -> frozenset[object] | None:
        """Return the elements of parameter ``name`` whose positions are read, or None for any of them."""


def find_order_rules(
    name: str, parameter: Parameter, constraints: Sequence[Constraint]
) -> tuple[OrderRules, list[Constraint]]:
    """Return the rules on single elements and pairs of one permutation, and the constraints that are not such rules.

    A rule is recognised by evaluating it on all positions of the elements that it reads, so it can be written in any
    way.
    """
    m = parameter.width
    rules = OrderRules(np.zeros((m, m), dtype=np.bool_), np.ones((m, m), dtype=np.bool_))
    left = [c for c in constraints if not _applied(rules, name, parameter, c)]
    return rules, left


def _applied(rules: OrderRules, name: str, parameter: Parameter, constraint: Constraint) -> bool:
    """Add the constraint to the rules if it is a rule on order or position; otherwise return False."""
    read = constraint.elements(name) if isinstance(constraint, ReadsElements) else None
    if read is None or not 1 <= len(read) <= 2:
        return False
    elements = [_number(parameter, element) for element in read]
    rows = _all_places(elements, parameter.width)
    held = np.asarray(constraint.holds({name: parameter.column(rows.astype(np.float64))}))
    if len(elements) == 1:
        rules.places[elements[0]] &= held
        return True
    a, b = elements
    first = rows[:, a] < rows[:, b]
    if np.array_equal(held, first):
        rules.before[a, b] = True
    elif np.array_equal(held, ~first):
        rules.before[b, a] = True
    else:
        return False
    return True


def _number(parameter: Parameter, element: object) -> int:
    assert is_permutation(parameter)
    return parameter.elements.index(element)


def _all_places(elements: Sequence[int], m: int) -> Ints:
    """Return permutations with all possible positions of one or two elements, ``(m or m(m-1), m)``."""
    places = np.indices((m,) * len(elements)).reshape(len(elements), -1).T
    if len(elements) == 2:
        places = places[places[:, 0] != places[:, 1]]
    rows = np.empty((len(places), m), dtype=np.int64)
    rows[:, elements] = places
    free = np.ones(rows.shape, dtype=np.bool_)
    np.put_along_axis(free, places, False, axis=1)
    others = [e for e in range(m) if e not in elements]
    rows[:, others] = np.nonzero(free)[1].reshape(len(rows), len(others))
    return rows
