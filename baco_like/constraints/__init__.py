"""Known constraints on a space: expressions, callables and tables; `language` reads and evaluates expressions."""

from baco_like.constraints.callables import CallableConstraint, from_callable
from baco_like.constraints.conditions import Conditions
from baco_like.constraints.expression import Expression
from baco_like.constraints.protocol import Constraint
from baco_like.constraints.table import TableConstraint

__all__ = [
    "CallableConstraint",
    "Conditions",
    "Constraint",
    "Expression",
    "TableConstraint",
    "from_callable",
]
