"""A bound on the work of building a feasible set.

Work is counted, not timed, so that a space is built in the same way on every machine. The unit is one operation of a
constraint on one combination of values in a NumPy column; it takes 3 to 5 ns (measured with the products and
remainders of `tests/spaces/test_hostile.py`). Without a bound, a condition of 3,000 words whose integers exceed 64 bits
takes an hour.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from baco_like.constraints.callables import CallableConstraint
from baco_like.constraints.conditions import GuardedConstraint
from baco_like.constraints.expression import Expression
from baco_like.constraints.protocol import Constraint

LISTING = 2**29
"""Most work for listing tables and trees: about 3 s; the recorded spaces need far less."""

DRAWING = 2**29
"""Most work for finding random configurations in groups that cannot be listed."""

EXPLAINING = 2**28
"""Most work for finding out which constraints contradict each other."""

MEMORY = 2**29
"""Most bytes for the trees of one build, with the arrays that are needed while they grow."""

CALL_COST = 2**12
"""Work of a few calls of NumPy on short arrays: about 15 us."""

_OTHER_COST = 32
"""Work of a table or of the rule of a condition, per row."""


class TooLarge(Exception):
    """A tree or table is too large or takes too much work; the group must be handled without listing it."""


@dataclass(eq=False)
class Work:
    """The work that is left in one stage of one build.

    Attributes:
        left: Operations.
        memory: Bytes for trees.
    """

    left: float = math.inf
    memory: float = math.inf

    def spend(self, operations: float) -> None:
        """Count operations before they are done.

        Raises:
            TooLarge: They are more than are left.
        """
        if operations > self.left:
            self.left = 0
            raise TooLarge
        self.left -= operations

    @contextmanager
    def half(self) -> Iterator[Work]:
        """Lend half of the work; what is left of it comes back."""
        lent = Work(self.left / 2, self.memory)
        self.left -= lent.left
        try:
            yield lent
        finally:
            self.left += lent.left
            self.memory = lent.memory


UNLIMITED = Work()
"""Work without a limit."""


@dataclass(frozen=True)
class BuildWork:
    """The work that is left in the stages of one build."""

    listing: Work
    drawing: Work
    explaining: Work

    @classmethod
    def full(cls) -> BuildWork:
        """Return the work of a new build."""
        return cls(Work(LISTING, MEMORY), Work(DRAWING), Work(EXPLAINING))


def row_cost(constraint: Constraint) -> int:
    """Return the operations of a constraint on one row."""
    if isinstance(constraint, GuardedConstraint):
        return max(_OTHER_COST, row_cost(constraint.constraint))
    if isinstance(constraint, Expression | CallableConstraint):
        return constraint.cost
    return _OTHER_COST
