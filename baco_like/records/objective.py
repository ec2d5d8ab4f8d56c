"""The objective of a run."""

from __future__ import annotations

from dataclasses import dataclass

from baco_like.records.direction import Direction


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
