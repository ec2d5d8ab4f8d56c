"""Recombination of two parents: which genes their two children exchange.

A gene is a parameter that is not constant. The children of a permutation are made by order crossover (Davis 1985) in
every method, since a permutation cannot be cut: the child keeps a random stretch of the order of the parent whose gene
it takes and has the other elements in the order of the other parent.

All have the same shape, ``crossover(space, mothers, fathers, rng) -> (children, other children)``, each ``(n, w)``:
legal rows, perhaps infeasible. Named in Willemsen et al., section IV-D; one- and two-point, uniform also in
Schoonhoven et al. 2022, Table III.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from baco_like._typing import Codes, Ints, Mask, Rng
from baco_like.spaces.space import Space

Crossover = Callable[[Space, Codes, Codes, Rng], tuple[Codes, Codes]]


def one_point(space: Space, mothers: Codes, fathers: Codes, rng: Rng) -> tuple[Codes, Codes]:
    """Exchange the genes behind one random cut between two genes."""
    genes = len(space.active)
    cuts = rng.integers(1, max(2, genes), (len(mothers), 1))
    return _exchanged(space, mothers, fathers, np.arange(genes) >= cuts, rng)


def two_point(space: Space, mothers: Codes, fathers: Codes, rng: Rng) -> tuple[Codes, Codes]:
    """Exchange the genes between two random cuts: at least one gene, and not all of them where there are several."""
    genes, n = len(space.active), len(mothers)
    length = rng.integers(1, max(2, genes), (n, 1))
    start = np.floor(rng.random((n, 1)) * (genes - length + 1))
    place = np.arange(genes)
    return _exchanged(space, mothers, fathers, (place >= start) & (place < start + length), rng)


def uniform(space: Space, mothers: Codes, fathers: Codes, rng: Rng) -> tuple[Codes, Codes]:
    """Exchange every gene by the toss of a coin."""
    mask = rng.random((len(mothers), len(space.active))) < 0.5
    return _exchanged(space, mothers, fathers, mask, rng)


def disruptive_uniform(
    space: Space, mothers: Codes, fathers: Codes, rng: Rng
) -> tuple[Codes, Codes]:
    """Exchange half of the genes in which the parents differ, chosen at random, rounded up.

    So the children differ from both parents wherever these differ in two genes or more.
    """
    differ = np.stack(
        [
            (mothers[:, space.columns[name]] != fathers[:, space.columns[name]]).any(axis=1)
            for name in space.active
        ]
        or [np.zeros(len(mothers), dtype=np.bool_)],
        axis=1,
    )[:, : len(space.active)]
    keys = np.where(differ, rng.random(differ.shape), 2.0)
    place = np.argsort(np.argsort(keys, axis=1), axis=1)
    mask = place < (differ.sum(axis=1, keepdims=True) + 1) // 2
    return _exchanged(space, mothers, fathers, mask & differ, rng)


CROSSOVERS: Mapping[str, Crossover] = {
    "one_point": one_point,
    "two_point": two_point,
    "uniform": uniform,
    "disruptive_uniform": disruptive_uniform,
}
"""Names of crossovers, for settings."""


def cross_pairs(
    space: Space, rows: Codes, pairs: tuple[Ints, Ints], crossover: Crossover, rng: Rng
) -> Codes:
    """Return the children of n pairs of rows, both children of a pair in sequence, ``(2 n, w)``."""
    children = crossover(space, rows[pairs[0]], rows[pairs[1]], rng)
    return np.stack(children, axis=1).reshape(-1, space.width)


def _exchanged(
    space: Space, mothers: Codes, fathers: Codes, mask: Mask, rng: Rng
) -> tuple[Codes, Codes]:
    """Return both children; the first has the father's genes where the mask says so, ``(n, genes)``."""
    columns, owner = _genes(space)
    taken = mask[:, owner]
    one, other = mothers.copy(), fathers.copy()
    one[:, columns] = np.where(taken, fathers[:, columns], mothers[:, columns])
    other[:, columns] = np.where(taken, mothers[:, columns], fathers[:, columns])
    for at in _permutations(space):
        ours, theirs = one[:, at], other[:, at]
        one[:, at], other[:, at] = (
            order_crossover(ours, theirs, rng),
            order_crossover(theirs, ours, rng),
        )
    return one, other


def _genes(space: Space) -> tuple[Ints, Ints]:
    """Return the code columns of the active parameters, and which of these each column belongs to."""
    slices = [space.columns[name] for name in space.active]
    columns = [np.arange(at.start, at.stop) for at in slices]
    owner = [np.full(at.stop - at.start, i) for i, at in enumerate(slices)]
    none = np.empty(0, dtype=np.int64)
    return np.concatenate([none, *columns]), np.concatenate([none, *owner])


def _permutations(space: Space) -> list[slice]:
    return [space.columns[name] for name in space.active if space.parameters[name].width > 1]


def order_crossover(keeping: Codes, filling: Codes, rng: Rng) -> Codes:
    """Return children of permutations: a random stretch of one parent's order, the rest in the other's order.

    Davis's order crossover: the elements that are missing follow behind the stretch, and on from the start, in the
    order in which the second parent has them behind the end of the stretch.

    Args:
        keeping: Positions of the elements in the parent whose stretch is kept, ``(n, m)``.
        filling: Those in the other parent, ``(n, m)``.
        rng: Chance; the stretch is uniform among those between two of the m + 1 cuts.
    """
    n, m = keeping.shape
    cuts = np.sort(rng.random((n, m + 1)).argsort(axis=1)[:, :2], axis=1)
    return order_crossed(keeping, filling, cuts[:, 0], cuts[:, 1])


def order_crossed(keeping: Codes, filling: Codes, start: Ints, stop: Ints) -> Codes:
    """Return order crossover's children with the positions ``start`` to ``stop - 1`` kept, ``(n,)`` each."""
    m = keeping.shape[1]
    turned = (np.arange(m) + stop[:, None]) % m  # from behind the stretch, so that it comes last
    kept_order = np.take_along_axis(np.argsort(keeping, axis=1), turned, axis=1)
    other_order = np.take_along_axis(np.argsort(filling, axis=1), turned, axis=1)
    inside = (keeping >= start[:, None]) & (keeping < stop[:, None])
    known = np.take_along_axis(inside, other_order, axis=1)
    missing_first = np.take_along_axis(
        other_order, np.argsort(known, axis=1, kind="stable"), axis=1
    )
    stretch = np.arange(m) >= m - (stop - start)[:, None]
    order = np.where(stretch, kept_order, missing_first)
    children = np.empty_like(keeping)
    np.put_along_axis(children, order, turned.astype(np.float64), axis=1)
    return children
