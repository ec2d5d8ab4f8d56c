"""Factors with a sequence: all values by closed formulas, or those that constraints allow as a tree of their places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.constraints.conditions import GuardedConstraint, RestingConstraint
from baco_like.constraints.expression import Expression
from baco_like.constraints.language import sequences
from baco_like.constraints.language.tree import Reading
from baco_like.constraints.protocol import Constraint
from baco_like.parameters import sequence_codes
from baco_like.parameters.permutation_codes import Ranks
from baco_like.parameters.protocol import SequenceParameter
from baco_like.spaces.feasible.factor import FactorDefaults
from baco_like.spaces.feasible.group import TreeGroup
from baco_like.spaces.feasible.rules import mixed_radix
from baco_like.spaces.feasible.tree import Edges, Tree, finish_tree, one_level, random_ranks
from baco_like.spaces.feasible.work import TooLarge, Work

MAX_EDGES = 2**22
"""Most edges of the places of one sequence: about half a second and 150 MB."""

_STEP_COST = 8
"""Operations of one running value at one edge."""


@dataclass(frozen=True, eq=False)
class FreeSequence(FactorDefaults):
    """All values of a sequence, never listed."""

    columns: Ints
    parameter: SequenceParameter

    @property
    def count(self) -> int:
        """Exact number of sequences."""
        return int(self.parameter.cardinality)

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is a sequence."""
        return self.parameter.legal(codes)

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n independent uniform rows; nearly all have the greatest length."""
        return self.unrank(random_ranks(self.count, n, rng))

    @override
    def spread(self, n: int, rng: Rng) -> Codes:
        """Return n independent rows whose length is uniform."""
        return self.parameter.sample_uniform(n, rng)

    def rank(self, codes: Codes) -> Ranks:
        """Return ranks by length, then in lexicographic order, or -1."""
        good, p = self.contains(codes), self.parameter
        ranks = sequence_codes.sequence_ranks(
            np.where(good[:, None], codes, p.nearest(codes, np.random.default_rng(0))),
            len(p.elements),
            p.min_length,
            p.distinct,
        )
        return np.where(good, ranks, -1)

    def unrank(self, ranks: Ranks) -> Codes:
        """Return the rows with these ranks."""
        p = self.parameter
        return sequence_codes.sequences_from_ranks(
            ranks, len(p.elements), p.min_length, p.width, p.distinct
        )

    def used(self, column: int) -> Array:
        """Return all codes."""
        first = 0 if column < self.parameter.min_length else -1
        return np.arange(first, len(self.parameter.elements), dtype=np.float64)

    def nearest(self, codes: Codes, rng: Rng) -> Codes:
        """Return sequences close to rows of any numbers."""
        return self.parameter.nearest(codes, rng)

    def closest_others(self, codes: Codes) -> tuple[Codes, Ints, Array]:
        """Return the sequences after one move; rows that are no sequences have none."""
        legal = np.flatnonzero(self.contains(codes))
        rows, owner = self.parameter.neighbours(codes[legal])
        distance = np.full(len(codes), np.inf)
        distance[legal[owner]] = 1.0
        return rows, legal[owner], distance


@dataclass(frozen=True, eq=False)
class SequenceGroup(TreeGroup):
    """The values of a sequence and of parameters that share constraints with it.

    The levels of the tree are the places of the sequence, the last one first, and then the other parameters. So the
    ranks begin with the shortest sequences.
    """

    chooses_values = False

    @property
    def places(self) -> int:
        """Number of places of the sequence."""
        return sum(domain is self.domains[0] for domain in self.domains)

    @cached_property
    def _ranks_by_length(self) -> list[tuple[int, int]]:
        """The first rank of each length that occurs, and the first rank behind it."""
        ranges, behind, node = [], self.count, np.zeros(1, dtype=np.int64)
        for level in self.tree.levels[: self.places]:
            (end,) = level.edge(node, np.zeros(1, dtype=np.int64)).tolist()
            shorter = 0
            if end >= 0:
                shorter = int(level.leaves_before(end + 1) - level.leaves_before(end))
            ranges.append((shorter, behind))
            if end < 0:
                break
            behind, node = shorter, level.child[[end]].astype(np.int64)
        else:
            ranges.append((0, behind))
        return [(low, high) for low, high in ranges if low < high]

    @override
    def spread(self, n: int, rng: Rng) -> Codes:
        """Return n independent rows whose lengths are uniform among those that occur."""
        ranges = self._ranks_by_length
        drawn = rng.integers(len(ranges), size=n)
        rows = np.empty((n, len(self.columns)))
        for i, (low, high) in enumerate(ranges):
            own = np.flatnonzero(drawn == i)
            if len(own):
                rows[own] = self.unrank(random_ranks(high - low, len(own), rng) + low)
        return rows

    @override
    def steps(self) -> None:
        """Return None: the places of a sequence are no parameters."""


def find_readings(constraint: Constraint, name: str) -> list[Reading] | None:
    """Return what a constraint reads of a sequence; None if it may read everything."""
    if name not in constraint.parameters:
        return []
    if isinstance(constraint, Expression):
        return constraint.readings(name)
    read: list[Reading] | None = []
    if isinstance(constraint, GuardedConstraint):
        read = find_readings(constraint.constraint, name)
    elif not isinstance(constraint, RestingConstraint) or constraint.name == name:
        return None
    conditions = constraint.conditions.expressions.values()
    shared = [node for condition in conditions for node in condition.readings(name)]
    return None if read is None else [*read, *shared]


@dataclass(frozen=True, eq=False)
class PlaceRule:
    """A constraint on a sequence alone, as the fewest running values that decide it.

    Attributes:
        tree: The places, the last one first.
        symbols: The value in each level that stands for a code; the last one for the end, ``(k + 1,)``.
    """

    tree: Tree
    symbols: Ints


def make_rule(
    name: str, parameter: SequenceParameter, constraint: Constraint, work: Work
) -> PlaceRule | None:
    """Return the rule of a constraint that reads nothing but a sequence; None if no sequence satisfies it.

    The elements that it does not name are alike, so one of them stands for all.

    Raises:
        TooLarge: There are too many combinations of running values.
    """
    readings = find_readings(constraint, name) or []
    k = len(parameter.elements)
    by_place = any(node.function in ("at", "last") for node in readings)
    named = {*range(k)} if by_place else {code for node in readings for code in node.arguments}
    other = [code for code in range(k) if code not in named][:1]
    codes = np.array([-1, *sorted(named), *other])
    places, rows = grow_places(parameter, readings, (), codes, work, distinct=False)
    good = np.flatnonzero(constraint.holds({name: parameter.column(rows)}))
    tree = join_trees(places, good, one_level(len(good))) if len(good) else None
    symbols = np.full(k + 1, len(codes) - 1)
    symbols[codes] = np.arange(len(codes))
    return None if tree is None else PlaceRule(tree, symbols)


def grow_places(
    parameter: SequenceParameter,
    readings: Sequence[Reading],
    rules: Sequence[PlaceRule],
    codes: Ints,
    work: Work,
    *,
    distinct: bool,
) -> tuple[list[Edges], Codes]:
    """Return the levels of the places of a sequence, the last one first, and one value for each leaf.

    Each node is a combination of running values, so the values below it are alike for every constraint.

    Args:
        parameter: The sequence.
        readings: What constraints on several parameters read of it.
        rules: The constraints on it alone.
        codes: The codes to choose from, the end first.
        work: Work that may be spent.
        distinct: Whether an element occurs at most once.

    Raises:
        TooLarge: There are too many combinations of running values.
    """
    if distinct and len(parameter.elements) > 62:
        raise TooLarge
    rows = np.full((1, parameter.width), sequence_codes.END)
    zero = np.zeros(1, dtype=np.int64)
    states = [zero, zero, *(zero for _ in rules), *(zero for _ in readings)]
    levels: list[Edges] = []
    edges = 0
    for place in range(parameter.width - 1, -1, -1):
        work.spend(len(rows) * len(codes) * _STEP_COST * len(states))
        begun, used, *running = states
        allowed = np.ones((len(rows), len(codes)), dtype=np.bool_)
        allowed[:, 0] = (begun == 0) & (place >= parameter.min_length)
        if distinct:
            allowed[:, 1:] = (used[:, None] >> codes[1:]) & 1 == 0
        followed = []
        for rule, state in zip(rules, running, strict=False):
            level = rule.tree.levels[parameter.width - 1 - place]
            edge = level.edge(state[:, None], rule.symbols[codes][None, :])
            allowed &= edge >= 0
            followed.append(level.child[edge].astype(np.int64))
        node, value = np.nonzero(allowed)
        edges += len(node)
        if edges > MAX_EDGES:
            raise TooLarge
        code = codes[value]
        used = used[node] | np.where(code >= 0, np.int64(1) << np.maximum(code, 0), 0)
        states = [(code >= 0).astype(np.int64), used if distinct else np.zeros_like(node)]
        states += [child[node, value] for child in followed]
        states += [
            sequences.step(reading, state[node], code, place)
            for reading, state in zip(readings, running[len(rules) :], strict=True)
        ]
        sizes = [int(state.max(initial=0)) + 1 for state in states]
        if math.prod(sizes) >= 2**62:
            raise TooLarge
        _, first, child = np.unique(
            mixed_radix(states, sizes), return_index=True, return_inverse=True
        )
        levels.append(Edges(len(rows), len(codes), node, value, child))
        rows = rows[node[first]]
        rows[:, place] = code[first]
        states = [state[first] for state in states]
    return levels, rows


def join_trees(places: Sequence[Edges], kept: Ints, tree: Tree) -> Tree | None:
    """Return the tree of the places of a sequence, followed by the other levels of a tree; None if it is empty.

    Args:
        places: The levels of `grow_places`.
        kept: The leaf of the places that each value of the first level of the tree stands for.
        tree: Its first level chooses one of these leaves.
    """
    first, *others = tree.levels
    below = np.full(int(places[-1].child.max(initial=0)) + 1, -1, dtype=np.int64)
    below[kept[first.value]] = first.child
    last = places[-1]
    child = below[last.child]
    alive = child >= 0
    levels = [
        *places[:-1],
        Edges(last.nodes, last.size, last.node[alive], last.value[alive], child[alive]),
    ]
    for level in others:
        node = level.key // level.size
        levels.append(Edges(len(level.start) - 1, level.size, node, level.value, level.child))
    return finish_tree(levels)
