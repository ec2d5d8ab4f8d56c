"""Operators of population algorithms: known constraints, mutation, crossover and selection.

Known constraints (Willemsen et al., section IV): *aware*: the first population is feasible, and infeasible candidates
are repaired. *Penalty*: the first population is drawn without the constraints, and infeasible candidates are not
changed, so that they get the penalty.

A gene is a parameter that is not constant. Mutation: constraint-aware algorithms change a gene by a step to a random
feasible Hamming neighbour (Willemsen et al., section IV-D); others give it another value, feasible or not. A
permutation changes by a swap of two elements or by moving one element to another position, with equal probability. A
sequence changes by an insertion (35 %), deletion (15 %), replacement (22 %), swap (13 %) or moved block (15 %).

Crossover: two parents exchange genes. A permutation cannot be cut; its children are always made by order crossover
(Davis 1985): a child keeps a random stretch of the order of the parent whose gene it takes, and has the other elements
in the order of the other parent. A child of sequences begins as one parent and ends as the other. One-point, two-point
and uniform crossover are named in Willemsen et al., section IV-D, and in Schoonhoven et al. 2022, Table III; disruptive
uniform crossover in the former.

Perturbation: random changes whose number is a share of the bits of a configuration. Schoonhoven et al. 2022 encode a
configuration in bits, one for each value of each parameter. Their programs perturb it by as many random changes of one
parameter as the share of the bits says; the paper only says "perturbation size".

Selection: the members who mate, and the survivors among parents and children.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol, final

import numpy as np

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.parameters.protocol import Parameter, ParameterKind, is_permutation, is_sequence
from baco_like.spaces import Space, design, neighbourhoods
from baco_like.spaces.neighbourhoods import cascade, nearest
from baco_like.strategies.geometry import UnitBox

_NEIGHBOURS = 16
"""Number of neighbours from which one is drawn where single rows cannot be walked."""

_MOST_BITS = 64
"""Most bits of a parameter; the paper's parameters have at most half as many values."""

_TRIES = 16
"""Number of perturbed rows from which the first feasible one is taken; if all are infeasible, one is repaired."""


def draw_uniform(space: Space, n: int, rng: Rng) -> Codes:
    """Return at most n distinct feasible rows, uniformly drawn; fewer only if there are no more."""
    return design.uniform(space, n, rng, design.exclude_nothing)


def draw_latin_hypercube(space: Space, n: int, rng: Rng) -> Codes:
    """Return at most n distinct feasible rows of a Latin hypercube; fewer only if there are no more."""
    return design.latin_hypercube(space, n, rng, design.exclude_nothing)


def draw_anywhere(space: Space, n: int, rng: Rng) -> Codes:
    """Return n legal rows at uniform points of the unit box; they may be infeasible or equal."""
    box = UnitBox.of(space)
    return box.from_unit(rng.random((n, box.axes)))


def repair_by_nearest(space: Space, codes: Codes, rng: Rng) -> Codes:
    """Replace each infeasible row by the nearest feasible one by index-distance (section IV-B)."""
    infeasible = np.flatnonzero(~space.feasible.contains_few(codes))
    repaired = codes.copy()
    if len(infeasible):
        repaired[infeasible] = nearest(space, codes[infeasible], rng)
    return repaired


def repair_by_neighbour(space: Space, codes: Codes, rng: Rng) -> Codes:
    """Replace each infeasible row by a random feasible neighbour (Algorithm 3).

    Neighbours are strictly adjacent, adjacent or Hamming neighbours, by the first definition that has any; otherwise
    the nearest row by index-distance is taken. With permutations, reals or parameters of many values (see `SingleRows`)
    it is one of at most 16 random neighbours.
    """
    infeasible = np.flatnonzero(~space.feasible.contains_few(codes))
    repaired = codes.copy()
    if not len(infeasible):
        return repaired
    single_rows = space.feasible.single_rows
    if single_rows is None:
        near, owner = cascade(space, codes[infeasible], rng, _NEIGHBOURS)
        repaired[infeasible] = draw_one_per_owner(near, owner, codes[infeasible], rng)
        return repaired
    for i, row in zip(infeasible, codes[infeasible].tolist(), strict=True):
        repaired[i] = single_rows.repair(row, partial(single_rows.random_neighbour, row, rng))
    return repaired


def step_to_neighbours(space: Space, rows: Codes, genes: Mask, rng: Rng) -> Codes:
    """Return feasible rows after random steps to feasible Hamming neighbours.

    The number of steps is the number of selected genes, ``(n, genes)``; the constraints decide which genes can change.
    A row without neighbours stays.
    """
    rows = rows.copy()
    steps = genes.sum(axis=1)
    single_rows = space.feasible.single_rows
    for step in range(int(steps.max(initial=0))):
        moving = np.flatnonzero(steps > step)
        if single_rows is None:
            rows[moving] = _step_to_neighbour(space, rows[moving], rng)
        elif len(moving):
            rows[moving] = [single_rows.mutate(row, rng) for row in rows[moving].tolist()]
    return rows


def draw_one_per_owner(rows: Codes, owner: Ints, otherwise: Codes, rng: Rng) -> Codes:
    """Return one random row for each owner, or another row for an owner without rows.

    Args:
        rows: The rows, ``(m, w)``.
        owner: Their owners, ``(m,)``, increasing.
        otherwise: The other rows, one for each owner, ``(n, w)``.
        rng: Random generator.
    """
    length = np.bincount(owner, minlength=len(otherwise))
    start = np.cumsum(length) - length
    has_rows = length > 0
    drawn = otherwise.copy()
    drawn[has_rows] = rows[start[has_rows] + rng.integers(0, length[has_rows])]
    return drawn


def _step_to_neighbour(space: Space, rows: Codes, rng: Rng) -> Codes:
    # Among all neighbours of a sequence there are hardly any deletions, so some random moves are drawn.
    has_sequence = any(is_sequence(parameter) for parameter in space.parameters.values())
    near, owner = neighbourhoods.hamming(space, rows, rng, _NEIGHBOURS if has_sequence else None)
    stepped = draw_one_per_owner(near, owner, rows, rng)
    # Hamming neighbours swap two elements of a permutation; half of the swaps become insertions if these are feasible.
    for at in permutation_columns(space):
        swaps = (stepped[:, at] != rows[:, at]).any(axis=1) & (rng.random(len(rows)) < 0.5)
        other = stepped.copy()
        other[:, at] = insert_element(rows[:, at], rng)
        chosen = swaps & space.feasible.contains(other)
        stepped[chosen] = other[chosen]
    return stepped


def permutation_columns(space: Space) -> list[slice]:
    """Return the code columns of each permutation that is not constant."""
    return [space.columns[name] for name in space.active if is_permutation(space.parameters[name])]


def change_genes(space: Space, rows: Codes, genes: Mask, rng: Rng) -> Codes:
    """Return legal rows, feasible or not, in which the selected genes, ``(n, genes)``, have other random values."""
    rows = rows.copy()
    for gene, name in enumerate(space.active):
        selected = np.flatnonzero(genes[:, gene])
        if len(selected):
            at = space.columns[name]
            rows[selected, at] = _draw_other_values(space.parameters[name], rows[selected, at], rng)
    return space.activity.at_rest(rows)


def _draw_other_values(parameter: Parameter, codes: Codes, rng: Rng) -> Codes:
    """Return a random other value of a parameter for each row, ``(n, width)``."""
    if is_permutation(parameter):
        return move_elements(codes, rng)
    if is_sequence(parameter):
        return parameter.change(codes, rng)
    if parameter.kind is ParameterKind.CONTINUOUS or parameter.width > 1:
        return parameter.sample(len(codes), rng)
    count = int(parameter.cardinality)
    return np.asarray((codes + rng.integers(1, count, codes.shape)) % count)


def move_elements(codes: Codes, rng: Rng) -> Codes:
    """Return permutations after one random swap or insertion, ``(n, m)`` positions, m > 1."""
    swap = rng.random((len(codes), 1)) < 0.5
    return np.where(swap, swap_elements(codes, rng), insert_element(codes, rng))


def swap_elements(codes: Codes, rng: Rng) -> Codes:
    """Return permutations in which two random elements have changed places, ``(n, m)`` positions, m > 1."""
    rows, (first, second) = np.arange(len(codes)), _draw_two_positions(codes, rng)
    other = codes.copy()
    other[rows, first], other[rows, second] = codes[rows, second], codes[rows, first]
    return other


def insert_element(codes: Codes, rng: Rng) -> Codes:
    """Return permutations in which a random element has moved to another position, ``(n, m)`` positions, m > 1."""
    begin, end = (p.astype(np.float64)[:, None] for p in _draw_two_positions(codes, rng))
    between = (codes > np.minimum(begin, end)) & (codes < np.maximum(begin, end))
    shifted = codes - np.sign(end - begin) * (between | (codes == end))
    return np.where(codes == begin, end, shifted)


def _draw_two_positions(codes: Codes, rng: Rng) -> tuple[Ints, Ints]:
    """Return two different random numbers below m for each row, ``(n,)`` each."""
    n, m = codes.shape
    first = rng.integers(0, m, (n,))
    return first, (first + rng.integers(1, m, (n,))) % m


def number_of_changes(space: Space, share: float) -> int:
    """Return the number of random changes for a share of the bits, at least 1.

    A permutation counts one bit per element, a sequence one per place, another parameter one per value but 64 at most.
    A parameter whose values cannot be listed counts as many bits as it has neighbours.
    """
    return max(1, int(share * sum(map(_bits, neighbourhoods.locate_parameters(space)))))


def _has_moves(parameter: Parameter) -> bool:
    return is_permutation(parameter) or is_sequence(parameter)


def _bits(place: neighbourhoods.ParameterLocation) -> int:
    if _has_moves(place.parameter):
        return place.parameter.width
    listed = place.choices()
    return neighbourhoods.DRAWS if listed is None else min(len(listed), _MOST_BITS)


def perturb(space: Space, row: Array, count: int, rng: Rng) -> Array:
    """Return a feasible row after a number of random changes in random parameters, ``(w,)`` -> ``(w,)``.

    A change gives a parameter any other value, or makes one move in a permutation or a sequence. The first feasible of
    16 such rows is returned, or the feasible row nearest to the first one. If every parameter would change, and every
    permutation as often as it has elements, the row is a uniform draw.

    Args:
        space: The space.
        row: Codes of the row.
        count: Number of changes.
        rng: Random generator.
    """
    genes = neighbourhoods.locate_parameters(space)
    if not genes:
        return row
    times = rng.multinomial(count, np.full(len(genes), 1.0 / len(genes)))
    widths = np.array([p.width if _has_moves(p := place.parameter) else 1 for place in genes])
    if (times >= widths).all() and len(genes) > 1:
        return np.asarray(space.feasible.spread(1, rng)[0])
    rows = np.tile(row, (_TRIES, 1))
    for place, changes in zip(genes, times.tolist(), strict=True):
        if changes:
            at = place.columns
            rows[:, at] = _draw_used_values(place, rows[:, at], changes, rng)
    rows = space.activity.at_rest(rows)
    feasible = np.flatnonzero(space.feasible.contains(rows))
    return np.asarray(rows[feasible[0]] if len(feasible) else nearest(space, rows[:1], rng)[0])


def _draw_used_values(
    place: neighbourhoods.ParameterLocation, own: Codes, changes: int, rng: Rng
) -> Codes:
    """Return other values of one parameter, ``(n, width)`` -> ``(n, width)``."""
    parameter = place.parameter
    if _has_moves(parameter):
        for _ in range(min(changes, parameter.width)):
            own = parameter.change(own, rng) if is_sequence(parameter) else move_elements(own, rng)
        return own
    listed = place.used_codes()
    if listed is None:
        return place.parameter.sample(len(own), rng)
    if len(listed) == 1:
        return own
    indices = rng.integers(0, len(listed) - 1, own.shape)
    # Skip the own value, so that every other value is equally likely.
    return listed[indices + (indices >= np.searchsorted(listed, own))]


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
    first, second = mothers.copy(), fathers.copy()
    first[:, columns] = np.where(selected, fathers[:, columns], mothers[:, columns])
    second[:, columns] = np.where(selected, mothers[:, columns], fathers[:, columns])
    for at in permutation_columns(space):
        crossed = order_crossover(first[:, at], second[:, at], rng)
        second[:, at] = order_crossover(second[:, at], first[:, at], rng)
        first[:, at] = crossed
    for name in space.active:
        parameter, at = space.parameters[name], space.columns[name]
        if is_sequence(parameter):
            crossed = parameter.cross(first[:, at], second[:, at], rng)
            second[:, at] = parameter.cross(second[:, at], first[:, at], rng)
            first[:, at] = crossed
    return space.activity.at_rest(first), space.activity.at_rest(second)


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
    # From behind the stretch, so that the stretch is last.
    turned = (np.arange(m) + stop[:, None]) % m
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
