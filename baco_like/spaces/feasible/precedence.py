"""Which constraints on one permutation are rules on the order or the place of single elements."""

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
    """A constraint that can say which elements of a permutation it asks the position of."""

    def elements(self, name: str) -> frozenset[object] | None:
        """Return the elements of parameter ``name`` whose positions are read, or None for any of them."""


def order_rules(
    name: str, parameter: Parameter, constraints: Sequence[Constraint]
) -> tuple[OrderRules, list[Constraint]]:
    """Return what constraints on one permutation say on single elements and pairs, and the constraints that say more.

    What a rule says is found by evaluating it on all places of the elements that it reads, so every way of writing
    "a before b" or "a not first" is recognised.
    """
    m = parameter.width
    rules = OrderRules(np.zeros((m, m), dtype=np.bool_), np.ones((m, m), dtype=np.bool_))
    left = [c for c in constraints if not _applied(rules, name, parameter, c)]
    return rules, left


def _applied(rules: OrderRules, name: str, parameter: Parameter, constraint: Constraint) -> bool:
    """Enter the constraint into the rules if it is one of order or place; otherwise return False."""
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
    """Return permutations in which one or two elements take all places that they can, ``(m or m(m-1), m)``."""
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
