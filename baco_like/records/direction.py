"""An objective, whether smaller or larger values are better, and the sign that turns values into costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Direction = Literal["minimize", "maximize"]
"""Which values are better: small ones (``minimize``) or large ones (``maximize``)."""


def sign_of(direction: Direction) -> float:
    """Return the factor between a value in the user's unit and its cost, which is always minimised.

    The factor is its own inverse: ``cost = sign * value`` and ``value = sign * cost``.
    """
    return 1.0 if direction == "minimize" else -1.0


@dataclass(frozen=True)
class Objective:
    """A measured value that is minimised or maximised.

    Attributes:
        name: Its name, such as ``time``.
        unit: Its unit, such as ``ms``; may be empty.
        direction: ``minimize`` or ``maximize``.
        exact: Whether each measurement of a configuration gives the same value, as for sizes and counts. Then nothing
            is measured again.

    Raises:
        ValueError: The name or the direction is wrong.
    """

    name: str = "value"
    unit: str = ""
    direction: Direction = "minimize"
    exact: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"objectives: {self.name!r:.80} is not the name of a value")
        if self.direction not in get_args(Direction):
            allowed = " or ".join(map(repr, get_args(Direction)))
            raise ValueError(
                f"objectives[{self.name!r}] = {self.direction!r:.80}: expected {allowed}"
            )

    @property
    def label(self) -> str:
        """The name with the unit in brackets, for tables and axes."""
        return self.name + (f" ({self.unit})" if self.unit else "")
