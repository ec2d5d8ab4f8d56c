"""Algorithms in stages, which `baco_like.strategies.direct.replay` makes strategies of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from baco_like._typing import Array, Rng
from baco_like.strategies.geometry.repaired_box import RepairedBox
from baco_like.strategies.protocol import Problem

C = TypeVar("C")

Objective = Callable[[Array], float]
"""The cost at a point of the box, ``(k,)``, in units of the first start's; defined everywhere and finite."""


class Program(Protocol[C]):
    """An algorithm in stages; a checkpoint C is a value."""

    @property
    def lookups(self) -> int:
        """So many answers in a row that were known already make it begin again elsewhere."""

    def begin(self, start: Array, cost: float, before: C | None) -> C:
        """Return the checkpoint at a start, ``(k,)``, of known cost; ``before`` is where it was, or None at first."""

    def stage(self, at: C, objective: Objective, rng: Rng) -> C | None:
        """Return the checkpoint after the next stage, or None where the algorithm is to begin again elsewhere.

        It is a pure function of its arguments and calls the objective at least once.
        """


class Recipe(Protocol[C]):
    """The settings of a program."""

    @property
    def name(self) -> str:
        """What stands in the tags of proposals."""

    def program(self, problem: Problem, box: RepairedBox) -> Program[C]:
        """Return the program for a problem."""
