"""Which members of a population have children, and which of old and young make the next generation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng


class Selection(Protocol):
    """How costs decide; the least is the best, infinite ones are the worst."""

    def mates(self, costs: Array, pairs: int, rng: Rng) -> tuple[Ints, Ints]:
        """Return both parents of so many pairs, ``(pairs,)`` each, two different members where there are two."""

    def survivors(self, old: Array, young: Array, rng: Rng) -> Ints:
        """Return as many as there are young, by their numbers among the old, ``(n,)``, followed by the young."""


@final
@dataclass(frozen=True)
class BetaRank:
    """The better its rank the likelier a member mates; the young replace all of the old (Willemsen et al., IV-D).

    The rank is drawn as ``floor(n * Beta(alpha, beta))``, so that only the order of the costs counts.

    Attributes:
        alpha: Of the beta distribution.
        beta: Likewise; 2.5 as in the authors' program (the paper only shows the curves).
    """

    alpha: float = 1.0
    beta: float = 2.5

    def mates(self, costs: Array, pairs: int, rng: Rng) -> tuple[Ints, Ints]:
        """Return both parents of so many pairs."""
        order, n = np.argsort(costs, kind="stable"), len(costs)
        first, second = self._ranks(n, pairs, rng), self._ranks(n, pairs, rng)
        while n > 1 and (same := first == second).any():
            second[same] = self._ranks(n, int(same.sum()), rng)
        return order[first], order[second]

    def survivors(self, old: Array, young: Array, rng: Rng) -> Ints:
        """Return the young."""
        return np.arange(len(young)) + len(old)

    def _ranks(self, n: int, count: int, rng: Rng) -> Ints:
        drawn = (n * rng.beta(self.alpha, self.beta, count)).astype(np.int64)
        return np.minimum(drawn, n - 1)


@final
@dataclass(frozen=True)
class Tournament:
    """All mate alike; randomly picked ones of old and young compete for every spot of the next generation.

    Schoonhoven et al. 2022, section III-C1 ("tour8", "tour4" in Table III).

    Attributes:
        size: How many compete for a spot.
    """

    size: int = 8

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"tournament {self.size} is too small; at least 1 must compete")

    def mates(self, costs: Array, pairs: int, rng: Rng) -> tuple[Ints, Ints]:
        """Return both parents of so many pairs: the members in random order, again and again."""
        n = len(costs)
        even = max(1, n - n % 2)  # so that a pair is never cut in two
        rounds = -(-2 * pairs // even)
        order = rng.permuted(np.tile(np.arange(n), (rounds, 1)), axis=1)[:, :even]
        drawn = order.reshape(-1)[: 2 * pairs]
        return drawn[::2], drawn[1::2]

    def survivors(self, old: Array, young: Array, rng: Rng) -> Ints:
        """Return the winners, who may win several spots."""
        costs = np.concatenate([old, young])
        size = min(self.size, len(costs))
        keys = rng.random((len(young), len(costs)))
        picked = keys.argpartition(size - 1, axis=1)[:, :size]
        winners = costs[picked].argmin(axis=1)
        return np.asarray(picked[np.arange(len(young)), winners], dtype=np.int64)


def replace_worst(
    rows: Codes, costs: Array, row: Array, cost: float
) -> tuple[Codes, Array, int | None]:
    """Return a population in which a better configuration replaces the worst member.

    Args:
        rows: The members, ``(n, w)``.
        costs: Their costs, ``(n,)``.
        row: The configuration, ``(w,)``.
        cost: Its cost.

    Returns:
        The members, their costs and the index of the replaced member. The index is None, and nothing changes, if the
        configuration is not better than the worst member or is a member already.
    """
    worst = int(costs.argmax())
    if cost >= costs[worst] or (rows == row).all(axis=1).any():
        return rows, costs, None
    rows, costs = rows.copy(), costs.copy()
    rows[worst], costs[worst] = row, cost
    return rows, costs, worst
