"""Selection: the members who mate, and the survivors among parents and children."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng


class Selection(Protocol):
    """Selects members by their costs; the least cost is the best, infinity the worst."""

    def mates(self, costs: Array, pairs: int, rng: Rng) -> tuple[Ints, Ints]:
        """Return both parents of a number of pairs, ``(pairs,)`` each; different ones if there are two members."""

    def survivors(self, parents: Array, children: Array, rng: Rng) -> Ints:
        """Return as many survivors as there are children, as indices into the parents followed by the children."""


@final
@dataclass(frozen=True)
class BetaRank:
    """Better members mate with a higher probability; the children replace all parents (Willemsen et al., IV-D).

    The rank is drawn as ``floor(n * Beta(alpha, beta))``, so that only the order of the costs counts.

    Attributes:
        alpha: First parameter of the beta distribution.
        beta: Second parameter; 2.5 as in the authors' program (the paper only shows the curves).
    """

    alpha: float = 1.0
    beta: float = 2.5

    def mates(self, costs: Array, pairs: int, rng: Rng) -> tuple[Ints, Ints]:
        """Return both parents of a number of pairs, ``(pairs,)`` each."""
        order, n = np.argsort(costs, kind="stable"), len(costs)
        first, second = self._draw_ranks(n, pairs, rng), self._draw_ranks(n, pairs, rng)
        while n > 1 and (same := first == second).any():
            second[same] = self._draw_ranks(n, int(same.sum()), rng)
        return order[first], order[second]

    def survivors(self, parents: Array, children: Array, rng: Rng) -> Ints:
        """Return the children."""
        return np.arange(len(children)) + len(parents)

    def _draw_ranks(self, n: int, count: int, rng: Rng) -> Ints:
        ranks = (n * rng.beta(self.alpha, self.beta, count)).astype(np.int64)
        return np.minimum(ranks, n - 1)


@final
@dataclass(frozen=True)
class Tournament:
    """All members mate equally often; random parents and children compete for every place in the next generation.

    Schoonhoven et al. 2022, section III-C1 ("tour8", "tour4" in Table III).

    Attributes:
        size: Number of competitors for a place, at least 1.
    """

    size: int = 8

    def mates(self, costs: Array, pairs: int, rng: Rng) -> tuple[Ints, Ints]:
        """Return both parents of a number of pairs: the members in random order, as often as necessary."""
        n = len(costs)
        even = max(1, n - n % 2)  # so that a pair is never cut in two
        rounds = -(-2 * pairs // even)
        order = rng.permuted(np.tile(np.arange(n), (rounds, 1)), axis=1)[:, :even]
        drawn = order.reshape(-1)[: 2 * pairs]
        return drawn[::2], drawn[1::2]

    def survivors(self, parents: Array, children: Array, rng: Rng) -> Ints:
        """Return the winners; a member may win several places."""
        costs = np.concatenate([parents, children])
        size = min(self.size, len(costs))
        keys = rng.random((len(children), len(costs)))
        picked = keys.argpartition(size - 1, axis=1)[:, :size]
        winners = costs[picked].argmin(axis=1)
        return np.asarray(picked[np.arange(len(children)), winners], dtype=np.int64)


SELECTIONS: Mapping[str, Selection] = {"beta_rank": BetaRank(), "tournament": Tournament()}
"""Selections by name, for the setting ``selection``."""


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
