"""Crossover: two parents exchange genes.

A gene is a parameter that is not constant. A permutation cannot be cut; its children are always made by order crossover
(Davis 1985): a child keeps a random stretch of the order of the parent whose gene it takes, and has the other elements
in the order of the other parent.

One-point, two-point and uniform crossover are named in Willemsen et al., section IV-D, and in Schoonhoven et al. 2022,
Table III; disruptive uniform crossover in the former.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from baco_like._typing import Codes, Ints, Mask, Rng
from baco_like.spaces.space import Space
from baco_like.strategies.moves.mutation import permutation_columns

Crossover = Callable[[Space, Codes, Codes, Rng], tuple[Codes, Codes]]
"""Returns both children of n pairs of parents, ``(n, w)`` each: legal rows, feasible or not."""


def one_point(space: Space, mothers: Codes, fathers: Codes, rng: Rng) -> tuple[Codes, Codes]:
    """Exchange the genes behind one random cut between two genes."""
    genes = len(space.active)
    cuts = rng.integers(1, max(2, genes), (len(mothers), 1))
    return _exchange(space, mothers, fathers, np.arange(genes) >= cuts, rng)


def two_point(space: Space, mothers: Codes, fathers: Codes, rng: Rng) -> tuple[Codes, Codes]:
    """Exchange the genes between two random cuts: at least one gene, and not all of several genes."""
    genes, n = len(space.active), len(mothers)
    length = rng.integers(1, max(2, genes), (n, 1))
    start = np.floor(rng.random((n, 1)) * (genes - length + 1))
    gene = np.arange(genes)
    return _exchange(space, mothers, fathers, (gene >= start) & (gene < start + length), rng)


def uniform(space: Space, mothers: Codes, fathers: Codes, rng: Rng) -> tuple[Codes, Codes]:
    """Exchange every gene with probability 1/2."""
    mask = rng.random((len(mothers), len(space.active))) < 0.5
    return _exchange(space, mothers, fathers, mask, rng)


def disruptive_uniform(
    space: Space, mothers: Codes, fathers: Codes, rng: Rng
) -> tuple[Codes, Codes]:
    """Exchange a random half, rounded up, of the genes in which the parents differ.

    If the parents differ in two genes or more, the children differ from both of them.
    """
    slices = [space.columns[name] for name in space.active]
    differ = np.zeros((len(mothers), len(slices)), dtype=np.bool_)
    for gene, at in enumerate(slices):
        differ[:, gene] = (mothers[:, at] != fathers[:, at]).any(axis=1)
    keys = np.where(differ, rng.random(differ.shape), 2.0)
    ranks = np.argsort(np.argsort(keys, axis=1), axis=1)
    mask = ranks < (differ.sum(axis=1, keepdims=True) + 1) // 2
    return _exchange(space, mothers, fathers, mask & differ, rng)


CROSSOVERS: Mapping[str, Crossover] = {
    "one_point": one_point,
    "two_point": two_point,
    "uniform": uniform,
    "disruptive_uniform": disruptive_uniform,
}
"""Crossovers by name, for settings."""


def cross_pairs(
    space: Space, rows: Codes, pairs: tuple[Ints, Ints], crossover: Crossover, rng: Rng
) -> Codes:
    """Return the children of n pairs of rows, both children of a pair in sequence, ``(2 n, w)``."""
    children = crossover(space, rows[pairs[0]], rows[pairs[1]], rng)
    return np.stack(children, axis=1).reshape(-1, space.width)


def _exchange(
    space: Space, mothers: Codes, fathers: Codes, mask: Mask, rng: Rng
) -> tuple[Codes, Codes]:
    """Return both children; the first has the father's genes selected by a mask, ``(n, genes)``."""
    slices = [space.columns[name] for name in space.active]
    columns = [column for at in slices for column in range(at.start, at.stop)]
    selected = np.repeat(mask, [at.stop - at.start for at in slices], axis=1)
    one, other = mothers.copy(), fathers.copy()
    one[:, columns] = np.where(selected, fathers[:, columns], mothers[:, columns])
    other[:, columns] = np.where(selected, mothers[:, columns], fathers[:, columns])
    for at in permutation_columns(space):
        first, second = one[:, at], other[:, at]
        one[:, at], other[:, at] = (
            order_crossover(first, second, rng),
            order_crossover(second, first, rng),
        )
    return one, other


def order_crossover(keeping: Codes, filling: Codes, rng: Rng) -> Codes:
    """Return children of permutations: a random stretch of one parent's order, the rest in the other's order.

    Davis's order crossover: the missing elements follow behind the stretch, continuing from the start, in the order in
    which the second parent has them behind the end of the stretch.

    Args:
        keeping: Positions of the elements in the parent whose stretch is kept, ``(n, m)``.
        filling: Positions in the other parent, ``(n, m)``.
        rng: Random generator; the stretch lies between two of the m + 1 cuts, all pairs being equally likely.
    """
    n, m = keeping.shape
    cuts = np.sort(rng.random((n, m + 1)).argsort(axis=1)[:, :2], axis=1)
    return cross_orders(keeping, filling, cuts[:, 0], cuts[:, 1])


def cross_orders(keeping: Codes, filling: Codes, start: Ints, stop: Ints) -> Codes:
    """Return order crossover's children with the positions ``start`` to ``stop - 1`` kept, ``(n,)`` each."""
    m = keeping.shape[1]
    turned = (
        np.arange(m) + stop[:, None]
    ) % m  # from behind the stretch, so that the stretch is last
    kept_order = np.take_along_axis(np.argsort(keeping, axis=1), turned, axis=1)
    other_order = np.take_along_axis(np.argsort(filling, axis=1), turned, axis=1)
    inside = (keeping >= start[:, None]) & (keeping < stop[:, None])
    kept = np.take_along_axis(inside, other_order, axis=1)
    missing_first = np.take_along_axis(other_order, np.argsort(kept, axis=1, kind="stable"), axis=1)
    stretch = np.arange(m) >= m - (stop - start)[:, None]
    order = np.where(stretch, kept_order, missing_first)
    children = np.empty_like(keeping)
    np.put_along_axis(children, order, turned.astype(np.float64), axis=1)
    return children
