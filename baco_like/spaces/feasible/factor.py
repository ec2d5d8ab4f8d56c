"""A factor of the feasible set: parameters that no constraint ties to the others."""

from __future__ import annotations

from typing import Protocol

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.spaces.feasible.ranking import Ranks


class Factor(Protocol):
    """The feasible codes of some parameters; every array has only their code columns."""

    @property
    def columns(self) -> Ints:
        """Which code columns of the space they are."""

    @property
    def count(self) -> int | None:
        """Exact number of rows, or None where it is infinite or unknown."""

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is legal and feasible."""

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n independent uniform rows."""

    def walk(self, n: int, rng: Rng) -> Codes:
        """Return n rows from root to leaf, a child being chosen uniformly at every node (biased)."""

    def rank(self, codes: Codes) -> Ranks:
        """Return ranks in ``range(count)``, or -1 where a row is not feasible; only where `count` is known."""

    def unrank(self, ranks: Ranks) -> Codes:
        """Return the rows with these ranks; only where `count` is known."""

    def used(self, column: int) -> Array | None:
        """Return the codes that occur in one of the columns, increasing, or None where they are not listed."""

    def nearest(self, codes: Codes, rng: Rng) -> Codes:
        """Return for each row, legal or not, a feasible row at the least distance (see `distance`)."""

    def closest_others(self, codes: Codes) -> tuple[Codes, Ints, Array]:
        """Return all feasible rows at the least positive distance of each row, their owners, and the distances.

        Where a factor is not listed, those at distance 1 (an adjacent value or swap) stand for all.
        """
