"""The objectives of a run, whether smaller or larger values are better, and the sign that turns values into costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
    """

    name: str = "value"
    unit: str = ""
    direction: Direction = "minimize"
    exact: bool = False

    @property
    def label(self) -> str:
        """The name with the unit in brackets, for tables and axes."""
        return self.name + (f" ({self.unit})" if self.unit else "")


GivenObjectives = Mapping[str, Direction] | Sequence[Objective]
"""Directions of objectives by name, or a list of objectives."""


def read_objectives(objectives: GivenObjectives) -> tuple[Objective, ...]:
    """Return the objectives of a mapping from names to directions, or of a list, in its order.

    Raises:
        ValueError: It is neither, is empty, or a name or a direction is wrong.
    """
    listed = () if isinstance(objectives, (Mapping, str)) else tuple(objectives)
    if listed and all(isinstance(each, Objective) for each in listed):
        directions = {each.name: each.direction for each in listed}
        if len(directions) < len(listed):
            raise ValueError(f"objectives = {listed!r:.200}: two have the same name")
        checked = read_objectives(directions)
        return tuple(
            replace(a, direction=b.direction) for a, b in zip(listed, checked, strict=True)
        )
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
