"""The feasible set: everything that strategies and searches may know about what satisfies the known constraints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from baco_like._typing import Codes, Mask, Rng


class FeasibleSet(Protocol):
    """All feasible configurations of a space (or of one group of co-dependent parameters), as rows of codes."""

    @property
    def count(self) -> int | None:
        """Exact number of configurations, or None where it is infinite or unknown (reals, rejection)."""

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is a legal code and satisfies every constraint."""

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n rows drawn independently and uniformly over the feasible configurations (with repetition)."""

    def index(self, codes: Codes) -> list[int]:
        """Return each feasible row's rank in ``range(count)``.

        Raises:
            SpaceError: `count` is None.
            ConfigError: A row is not feasible.
        """

    def unindex(self, indices: Sequence[int]) -> Codes:
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
