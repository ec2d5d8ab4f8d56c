"""A factor of the feasible set: the configurations of some parameters, independent of all others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.parameters.permutation_codes import Ranks
from baco_like.spaces.feasible.single_rows import ValueStep


class Factor(Protocol):
    """The feasible codes of some parameters; every array has only their code columns."""

    @property
    def columns(self) -> Ints:
        """Their code columns in the space."""

    @property
    def count(self) -> int | None:
        """Exact number of rows, or None if it is infinite or unknown."""

    @property
    def acceptance(self) -> float:
        """Estimated share of draws that `sample` keeps: 1.0, or less with rejection."""

    @property
    def uses_every_value(self) -> bool:
        """Whether every value of every ordered parameter occurs in some row, as far as that is known."""

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is legal and feasible."""

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n independent uniform rows."""

    def spread(self, n: int, rng: Rng) -> Codes:
        """Return n independent rows for a strategy: as `sample`, but the length of a sequence is uniform."""

    def walk(self, n: int, rng: Rng) -> Codes:
        """Return n rows drawn from root to leaf, choosing children uniformly at every node (biased)."""

    def rank(self, codes: Codes) -> Ranks:
        """Return ranks in ``range(count)``, or -1 for infeasible rows; only if `count` is known."""

    def unrank(self, ranks: Ranks) -> Codes:
        """Return the rows with these ranks; only if `count` is known."""

    def used(self, column: int) -> Array | None:
        """Return the codes that occur in one of the columns, increasing, or None if they are not listed."""

    def nearest(self, codes: Codes, rng: Rng) -> Codes:
        """Return for each row, legal or not, a feasible row at the least distance (see `distance`)."""

    def closest_others(self, codes: Codes) -> tuple[Codes, Ints, Array]:
        """Return all feasible rows at the least positive distance of each row, their owners, and the distances.

        If a factor is not listed, only rows at distance 1 (an adjacent value or swap) are returned.
        """

    def steps(self) -> Sequence[ValueStep] | None:
        """Return one step for each column, or None if a parameter is not a scalar of a few values."""


class FactorDefaults:
    """Members of most factors."""

    @property
    def acceptance(self) -> float:
        """Return 1.0: every draw is kept."""
        return 1.0

    @property
    def uses_every_value(self) -> bool:
        """Return True: every value occurs in some row."""
        return True

    def spread(self: Factor, n: int, rng: Rng) -> Codes:
        """Return n uniform rows: there is no sequence."""
        return self.sample(n, rng)

    def walk(self: Factor, n: int, rng: Rng) -> Codes:
        """Return n uniform rows: the tree has one level, or equally many children at every node."""
        return self.sample(n, rng)

    def steps(self) -> Sequence[ValueStep] | None:
        """Return None: the rows are treated with arrays only."""
        return None
