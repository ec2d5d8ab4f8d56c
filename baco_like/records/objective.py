"""What is measured."""

from __future__ import annotations

from dataclasses import dataclass

from baco_like.records.direction import Direction


@dataclass(frozen=True)
class Objective:
    """What is measured.

    Attributes:
        name: Such as ``time``.
        unit: Such as ``ms``; may be empty.
        direction: ``minimize`` or ``maximize``.
    """

    name: str = "value"
    unit: str = ""
    direction: Direction = "minimize"
