"""Known constraints on a space: expressions, callables and tables; `language` reads and evaluates expressions."""

from baco_like.constraints.expression import Expression
from baco_like.constraints.protocol import Constraint

__all__ = [
    "Constraint",
    "Expression",
]
