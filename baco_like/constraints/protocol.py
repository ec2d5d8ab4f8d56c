"""Known constraints: which parameters they read and, for many rows at once, whether they hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from baco_like._typing import Column, Mask
from baco_like.parameters.protocol import Parameter


@runtime_checkable
class Constraint(Protocol):
    """A predicate over some parameters of a space."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters it reads, without repetition."""

    @property
    def text(self) -> str:
        """How it is shown and, for expressions, written down."""

    def holds(self, columns: Mapping[str, Column]) -> Mask:
        """Return, for n rows, whether it holds; a row on which it cannot be computed (division by zero) does not.

        Args:
            columns: At least the columns of `parameters`, as made by `Parameter.column`.
        """

    def explain(self, config: Mapping[str, Any]) -> str:
        """Return the numbers of one configuration that decide it: ``4096`` for ``bx * by <= 1024``."""


def from_callable(function: Callable[..., Any], parameters: Mapping[str, Parameter]) -> Constraint:
    """Return the constraint that a callable's truth expresses.

    Its argument names are the parameters it reads. If its only argument is no parameter's name, it gets the whole
    configuration as a mapping, as Kernel Tuner's restrictions do; it then depends on the parameters that it reads as
    ``p["name"]``, if its code shows no other use of the mapping, else on all of them. Arguments with a default value
    that are no parameters keep it.

    Args:
        function: Called with plain Python values, once for each distinct combination of them.
        parameters: Those of the space.

    Raises:
        SpaceError: An argument is no parameter, or the arguments cannot be told.
    """
    from baco_like.constraints.callables import constraint_of

    return constraint_of(function, parameters)
