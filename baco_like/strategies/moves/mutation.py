"""Small random changes of configurations: which genes change, and what they become.

A gene is a parameter that is not constant. Inside the feasible set a change is a step to a random feasible Hamming
neighbour (Willemsen et al., section IV-D); without regard of constraints it is another value of the gene. A permutation
changes by a swap of two elements or by the insertion of one element at another place, one as likely as the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from baco_like._typing import Codes, Ints, Mask, Rng
from baco_like.parameters.protocol import Parameter, ParameterKind
from baco_like.spaces.neighbourhoods import hamming
from baco_like.spaces.space import Space

Step = Callable[[Space, Codes, Mask, Rng], Codes]
"""Changes the marked genes, ``(n, genes)``, of rows, ``(n, w)``: `feasible_steps` or `any_steps`."""


class Mutation(Protocol):
    """Decides which genes change."""

    def genes(self, n: int, genes: int, rng: Rng) -> Mask:
        """Return which genes of n rows are to change, ``(n, genes)``."""


@final
@dataclass(frozen=True)
class OneIn:
    """One row in ``chance`` changes, in one gene (Willemsen et al., Table IV: one in 5).

    Attributes:
        chance: At least 1.
    """

    chance: int = 5

    def __post_init__(self) -> None:
        if self.chance < 1:
            raise ValueError(f"mutation_chance {self.chance} is too small; 1 changes every child")

    def genes(self, n: int, genes: int, rng: Rng) -> Mask:
        """Return one random gene of one in ``chance`` rows."""
        changed = rng.integers(0, self.chance, n) == 0
        which = rng.integers(0, max(1, genes), n)
        return np.asarray(changed[:, None] & (np.arange(genes) == which[:, None]))


@final
@dataclass(frozen=True)
class PerGene:
    """Every gene of every row changes with the same probability (Schoonhoven et al. 2022, Table III).

    Attributes:
        rate: The probability.
    """

    rate: float = 0.02

    def __post_init__(self) -> None:
        if not 0.0 <= self.rate <= 1.0:
            raise ValueError(f"mutation {self.rate} is no probability; give one from 0 to 1")

    def genes(self, n: int, genes: int, rng: Rng) -> Mask:
        """Return independent tosses."""
        return rng.random((n, genes)) < self.rate


def feasible_steps(space: Space, rows: Codes, genes: Mask, rng: Rng) -> Codes:
    """Return feasible rows after as many steps to random feasible Hamming neighbours as genes are marked.

    Which genes change is up to the constraints; a row without neighbours stays.
    """
    rows = rows.copy()
    steps = genes.sum(axis=1)
    single_rows = space.feasible.single_rows
    for step in range(int(steps.max(initial=0))):
        mine = np.flatnonzero(steps > step)
        if single_rows is None:
            rows[mine] = _feasible_step(space, rows[mine], rng)
        elif len(mine):
            rows[mine] = [single_rows.mutate(row, rng) for row in rows[mine].tolist()]
    return rows


def one_of_each(rows: Codes, owner: Ints, otherwise: Codes, rng: Rng) -> Codes:
    """Return one random entry of each owner, and another row where there is none.

    Args:
        rows: The entries, ``(m, w)``.
        owner: Their owners, ``(m,)``, increasing.
        otherwise: One row for each owner, ``(n, w)``.
        rng: Chance.
    """
    length = np.bincount(owner, minlength=len(otherwise))
    start = np.cumsum(length) - length
    some = length > 0
    chosen = otherwise.copy()
    chosen[some] = rows[start[some] + rng.integers(0, length[some])]
    return chosen


def _feasible_step(space: Space, rows: Codes, rng: Rng) -> Codes:
    near, owner = hamming(space, rows, rng)
    stepped = one_of_each(near, owner, rows, rng)
    for at in _permutations(space):
        swapped = (stepped[:, at] != rows[:, at]).any(axis=1) & (rng.random(len(rows)) < 0.5)
        other = stepped.copy()
        other[:, at] = inserted(rows[:, at], rng)
        chosen = swapped & space.feasible.contains(other)
        stepped[chosen] = other[chosen]
    return stepped


def _permutations(space: Space) -> list[slice]:
    return [space.columns[name] for name in space.active if space.parameters[name].width > 1]


def any_steps(space: Space, rows: Codes, genes: Mask, rng: Rng) -> Codes:
    """Return legal rows, perhaps infeasible, in which the marked genes have other random values."""
    rows = rows.copy()
    for gene, name in enumerate(space.active):
        mine = np.flatnonzero(genes[:, gene])
        if len(mine):
            at = space.columns[name]
            rows[mine, at] = _other_values(space.parameters[name], rows[mine, at], rng)
    return rows


def _other_values(parameter: Parameter, codes: Codes, rng: Rng) -> Codes:
    """Return a random other value of a parameter for each row, ``(n, width)``."""
    if parameter.width > 1:
        swap = rng.random((len(codes), 1)) < 0.5
        return np.where(swap, swapped(codes, rng), inserted(codes, rng))
    if parameter.kind is ParameterKind.CONTINUOUS:
        return parameter.sample(len(codes), rng)
    count = int(parameter.cardinality)
    return np.asarray((codes + rng.integers(1, count, codes.shape)) % count)


def swapped(codes: Codes, rng: Rng) -> Codes:
    """Return permutations in which two random elements have changed places, ``(n, m)`` positions, m > 1."""
    rows, (first, second) = np.arange(len(codes)), _two_places(codes, rng)
    other = codes.copy()
    other[rows, first], other[rows, second] = codes[rows, second], codes[rows, first]
    return other


def inserted(codes: Codes, rng: Rng) -> Codes:
    """Return permutations in which a random element has moved to another random place, ``(n, m)`` positions, m > 1."""
    begin, end = (two.astype(np.float64)[:, None] for two in _two_places(codes, rng))
    between = (codes > np.minimum(begin, end)) & (codes < np.maximum(begin, end))
    shifted = codes - np.sign(end - begin) * (between | (codes == end))
    return np.where(codes == begin, end, shifted)


def _two_places(codes: Codes, rng: Rng) -> tuple[Ints, Ints]:
    """Return two different random numbers below m for each row."""
    n, m = codes.shape
    first = rng.integers(0, m, (n,))
    return first, (first + rng.integers(1, m, (n,))) % m
