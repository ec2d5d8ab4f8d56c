"""The objectives of a run, whether smaller or larger values are better, and the sign that turns values into costs."""

from __future__ import annotations

from collections.abc import Mapping
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
    """

    name: str = "value"
    unit: str = ""
    direction: Direction = "minimize"

    @property
    def label(self) -> str:
        """The name with the unit in brackets, for tables and axes."""
        return self.name + (f" ({self.unit})" if self.unit else "")


def read_objectives(objectives: Mapping[str, Direction]) -> tuple[Objective, ...]:
    """Return the objectives of a mapping from names to directions, in its order.

    Raises:
        ValueError: It is not a mapping, is empty, or a name or a direction is wrong.
    """
    if not isinstance(objectives, Mapping) or not objectives:
        raise ValueError(
            f"objectives = {objectives!r:.80}: expected names with directions, as in "
            "{'time': 'minimize', 'energy': 'minimize'}"
        )
    for name, direction in objectives.items():
        if not isinstance(name, str) or not name:
            raise ValueError(f"objectives: {name!r:.80} is not the name of a value")
        if direction not in get_args(Direction):
            allowed = " or ".join(map(repr, get_args(Direction)))
            raise ValueError(f"objectives[{name!r}] = {direction!r:.80}: expected {allowed}")
    return tuple(Objective(name, direction=direction) for name, direction in objectives.items())
