"""Known constraints: which parameters they read and, for many rows at once, whether they hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from baco_like._typing import Column, Mask


@runtime_checkable
class Constraint(Protocol):
    """A predicate over some parameters of a space."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters it reads, without repetition."""

    @property
    def text(self) -> str:
        """The text that messages show; of an expression also the stored form."""

    def holds(self, columns: Mapping[str, Column]) -> Mask:
        """Return, for n rows, whether it holds; False for rows on which it cannot be computed (division by zero).

        Args:
            columns: At least the columns of `parameters`, as made by `Parameter.column`.
        """

    def explain(self, config: Mapping[str, Any]) -> str:
        """Return the deciding numbers of one configuration: ``4096`` for ``bx * by <= 1024``."""


def describe_values(names: tuple[str, ...], config: Mapping[str, Any]) -> str:
    """Return the values of some parameters for a message."""
    return ", ".join(
        f"{name} = {config[name]!r}" if name in config else f"{name} is inactive" for name in names
    )
