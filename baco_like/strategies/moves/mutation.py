"""Mutation: small random changes of configurations.

A gene is a parameter that is not constant. Constraint-aware algorithms change a gene by a step to a random feasible
Hamming neighbour (Willemsen et al., section IV-D); others give it another value, feasible or not. A permutation changes
by a swap of two elements or by moving one element to another position, with equal probability.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from baco_like._typing import Codes, Ints, Mask, Rng
from baco_like.parameters.protocol import Parameter, ParameterKind
from baco_like.spaces.neighbourhoods import hamming
from baco_like.spaces.space import Space


class Mutation(Protocol):
    """Selects the genes that change."""

    def genes(self, n: int, genes: int, rng: Rng) -> Mask:
        """Return the genes of n rows that change, ``(n, genes)``."""


@final
@dataclass(frozen=True)
class OneIn:
    """One row in ``chance`` changes, in one gene (Willemsen et al., Table IV: one in 5).

    Attributes:
        chance: At least 1.
    """

    chance: int = 5

    def genes(self, n: int, genes: int, rng: Rng) -> Mask:
        """Return one random gene of one in ``chance`` rows."""
        changes = rng.integers(0, self.chance, n) == 0
        gene = rng.integers(0, max(1, genes), n)
        return np.asarray(changes[:, None] & (np.arange(genes) == gene[:, None]))


@final
@dataclass(frozen=True)
class PerGene:
    """Every gene of every row changes with the same probability (Schoonhoven et al. 2022, Table III).

    Attributes:
        rate: The probability, from 0 to 1.
    """

    rate: float = 0.02

    def genes(self, n: int, genes: int, rng: Rng) -> Mask:
        """Return independent draws."""
        return rng.random((n, genes)) < self.rate


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
    near, owner = hamming(space, rows, rng)
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
    return [space.columns[name] for name in space.active if space.parameters[name].width > 1]


def change_genes(space: Space, rows: Codes, genes: Mask, rng: Rng) -> Codes:
    """Return legal rows, feasible or not, in which the selected genes, ``(n, genes)``, have other random values."""
    rows = rows.copy()
    for gene, name in enumerate(space.active):
        selected = np.flatnonzero(genes[:, gene])
        if len(selected):
            at = space.columns[name]
            rows[selected, at] = _draw_other_values(space.parameters[name], rows[selected, at], rng)
    return rows


def _draw_other_values(parameter: Parameter, codes: Codes, rng: Rng) -> Codes:
    """Return a random other value of a parameter for each row, ``(n, width)``."""
    if parameter.width > 1:
        return move_elements(codes, rng)
    if parameter.kind is ParameterKind.CONTINUOUS:
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
