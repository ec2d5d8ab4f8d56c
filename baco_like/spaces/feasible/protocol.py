"""The feasible set: the operations that strategies and acquisition optimizers may use on feasible configurations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.spaces.feasible.factor import Factor
from baco_like.spaces.feasible.ranking import Ranks
from baco_like.spaces.feasible.single_rows import SingleRows


class FeasibleSet(Protocol):
    """All feasible configurations of a space (or of one group of co-dependent parameters), as rows of codes."""

    @property
    def count(self) -> int | None:
        """Exact number of configurations, or None if it is infinite or unknown (reals, rejection)."""

    @property
    def factors(self) -> Sequence[Factor]:
        """Independent sets of parameters; together they have every code column once."""

    @property
    def acceptance(self) -> float:
        """Estimated share of draws that `sample` keeps: 1.0, or less with rejection."""

    @property
    def uses_every_value(self) -> bool:
        """Whether every value of every ordered parameter occurs in some row, as far as that is known."""

    @property
    def listed(self) -> Codes:
        """All rows in the order of their ranks, read-only; they are kept, so use it only for small sets.

        Raises:
            SpaceError: `count` is None.
        """

    @property
    def single_rows(self) -> SingleRows | None:
        """Operations on single rows, or None if a parameter is not a scalar of a few values."""

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is a legal code and satisfies every constraint, ``(n, w)`` -> ``(n,)``."""

    def contains_few(self, codes: Codes) -> Mask:
        """Return `contains`, faster for up to 24 rows; the first call prepares `single_rows`."""

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n rows drawn independently and uniformly over the feasible configurations (with repetition)."""

    def walk(self, n: int, rng: Rng) -> Codes:
        """Return n rows drawn by walks from root to leaf, choosing children uniformly (biased)."""

    def index(self, codes: Codes) -> list[int]:
        """Return each feasible row's rank in ``range(count)``.

        Raises:
            SpaceError: `count` is None.
            ConfigError: A row is not feasible.
        """

    def ranks(self, codes: Codes) -> Ranks:
        """Return ranks as an array, or -1 for infeasible rows.

        Raises:
            SpaceError: `count` is None.
        """

    def unindex(self, indices: Sequence[int] | Ranks) -> Codes:
        """Return the rows with these ranks; the inverse of `index`.

        Raises:
            SpaceError: `count` is None.
            IndexError: A rank is not in ``range(count)``.
        """

    def iterate(self, chunk: int = 65536) -> Iterator[Codes]:
        """Yield all rows in the order of their ranks, at most ``chunk`` at a time.

        Raises:
            SpaceError: `count` is None.
        """

    def used(self, column: int) -> Array | None:
        """Return the codes that occur in a column of some row, increasing, or None (reals, wide integers).

        With rejection, codes that no feasible row has may be among them.
        """

    def nearest(self, codes: Codes, rng: Rng) -> Codes:
        """Return for each row, legal or not, a feasible row at the least distance; ties are broken at random."""

    def closest_others(self, codes: Codes) -> tuple[Codes, Ints]:
        """Return all feasible rows at the least positive distance of each row, ``(n, w)``, and their owners."""
