"""The objective of a run, whether smaller or larger values are better, and the sign that turns values into costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Direction = Literal["minimize", "maximize"]
"""Which values are better: small ones (``minimize``) or large ones (``maximize``)."""


def sign_of(direction: Direction) -> float:
    """Return the factor between a value in the user's unit and its cost, which is always minimised.

    The factor is its own inverse: ``cost = sign * value`` and ``value = sign * cost``.
    """
    return 1.0 if direction == "minimize" else -1.0


@dataclass(frozen=True)
class Objective:
    """The measured value.

    Attributes:
        name: Its name, such as ``time``.
        unit: Its unit, such as ``ms``; may be empty.
        direction: ``minimize`` or ``maximize``.
    """

    name: str = "value"
    unit: str = ""
    direction: Direction = "minimize"
