"""What every population algorithm has: candidates with their moves, and the steps from one generation to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, final

import numpy.typing as npt

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.strategies.protocol import Problem

Moves = tuple[npt.NDArray[Any], ...]
"""What an algorithm keeps beside each candidate, such as positions and velocities: arrays of n rows each."""


@final
@dataclass(frozen=True, eq=False)
class Candidates:
    """Configurations for the places of a population.

    Attributes:
        codes: Legal rows, ``(n, w)``; infeasible ones get the penalty.
        moves: What belongs to each.
    """

    codes: Codes
    moves: Moves = ()

    def __len__(self) -> int:
        return len(self.codes)

    def at(self, places: Ints, other: Candidates) -> Candidates:
        """Return the candidates with others, as many as there are places, at some places."""
        mine, theirs = (self.codes, *self.moves), (other.codes, *other.moves)
        changed = tuple(a.copy() for a in mine)
        for array, new in zip(changed, theirs, strict=True):
            array[places] = new
        return Candidates(changed[0], changed[1:])

    def chosen(self, places: Ints) -> Candidates:
        """Return those at some places."""
        return Candidates(self.codes[places], tuple(array[places] for array in self.moves))


M = TypeVar("M")


class Algorithm(Protocol[M]):
    """What makes a population algorithm; ``M`` is its population with all that it remembers of it."""

    def founders(self, problem: Problem, rng: Rng) -> Candidates:
        """Return the candidates of the first generation, at least one."""

    def placed(self, problem: Problem, candidates: Candidates, codes: Codes) -> Candidates:
        """Return the candidates, founders or bred ones, standing at given configurations instead, ``(n, w)``."""

    def gathered(self, problem: Problem, founders: Candidates, costs: Array) -> M:
        """Return the first population, the costs of its founders, ``(n,)``, being known."""

    def bred(self, problem: Problem, population: M, rng: Rng) -> Candidates:
        """Return the next candidates, at least one."""

    def replaced(
        self, problem: Problem, population: M, candidates: Candidates, costs: Array, rng: Rng
    ) -> M:
        """Return the population after the candidates' costs, ``(n,)``, are known."""

    def joined(self, problem: Problem, population: M, code: Array, cost: float) -> M:
        """Return the population after a configuration of other origin, ``(w,)``, was observed with a finite cost."""


@final
@dataclass(frozen=True, eq=False)
class Penalised:
    """Distinct infeasible candidates that were answered with the penalty; it grows as `ObservedCosts` does."""

    _places: dict[bytes, int] = field(default_factory=dict, repr=False)
    _length: int = 0

    def __len__(self) -> int:
        return self._length

    def grown(self, keys: Sequence[bytes]) -> Penalised:
        """Return it with more candidates, by their keys; known ones add nothing."""
        new = [key for key in dict.fromkeys(keys) if self._places.get(key, self._length) >= self._length]  # fmt: skip
        if not new:
            return self
        places = self._places
        if len(places) != self._length:
            places = {key: place for key, place in places.items() if place < self._length}
        places.update((key, self._length + i) for i, key in enumerate(new))
        return Penalised(places, self._length + len(new))
