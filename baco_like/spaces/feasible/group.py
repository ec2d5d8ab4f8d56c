"""The factor held as a tree: several co-dependent parameters, or the listed values of one."""

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
from baco_like.parameters.permutation import Ranks
from baco_like.parameters.protocol import ParameterKind, SequenceParameter
from baco_like.parameters.sequence import END
from baco_like.spaces.feasible.feasible_set import Factor, FactorDefaults
from baco_like.spaces.feasible.rules import (
    FEW_SEQUENCES,
    ParameterDomain,
    mixed_radix,
    whole_numbers,
)
from baco_like.spaces.feasible.single_rows import ValueStep, is_small
from baco_like.spaces.feasible.tree import (
    Edges,
    Tree,
    finish_tree,
    nearest_paths,
    one_level,
    random_ranks,
    value_costs,
)
from baco_like.spaces.feasible.work_limit import TooLarge, Work
from baco_like.spaces.rows import thin

_LOOKED_UP = 2**20
"""Most entries of a table of positions; larger domains are searched."""

_SURPLUS = 16
"""Values of one level that are followed for each requested one: many lead to no feasible row."""


@dataclass(frozen=True, eq=False)
class TreeGroup(FactorDefaults):
    """The feasible combinations of co-dependent parameters.

    Attributes:
        columns: Code columns of the space, domain by domain.
        domains: The values that each level of the tree chooses from.
        tree: Feasible positions in the domains.
        drawn: Draws the rows of strategies, in which a conditional sequence is as often inactive as its condition is
            false; None if there is none.
    """

    columns: Ints
    domains: tuple[ParameterDomain, ...]
    tree: Tree
    drawn: Factor | None = None
    chooses_values = True  # each level chooses the value of one parameter

    @property
    def count(self) -> int:
        """Exact number of combinations."""
        return self.tree.count

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is in the tree."""
        return self.tree.contains(self.positions(codes))

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n independent uniform rows."""
        return self.unrank(random_ranks(self.count, n, rng))

    @override
    def spread(self, n: int, rng: Rng) -> Codes:
        """Return n independent rows for a strategy."""
        if self.drawn is None:
            return self.sample(n, rng)
        return self.drawn.spread(n, rng)[:, np.searchsorted(self.drawn.columns, self.columns)]

    @override
    def walk(self, n: int, rng: Rng) -> Codes:
        """Return n rows from root to leaf (biased)."""
        return self.codes(self.tree.walk(n, rng))

    def rank(self, codes: Codes) -> Ranks:
        """Return ranks, or -1."""
        return self.tree.rank(self.positions(codes))

    def unrank(self, ranks: Ranks) -> Codes:
        """Return the rows with these ranks."""
        return self.codes(self.tree.unrank(ranks))

    def used(self, column: int) -> Array | None:
        """Return the codes that occur in a column."""
        return self._used[column]

    @cached_property
    def _used(self) -> list[Array]:
        return [
            np.unique(domain.codes[used, column])
            for domain, used in zip(self.domains, self.tree.used, strict=True)
            for column in range(domain.width)
        ]

    @property
    @override
    def uses_every_value(self) -> bool:
        """Whether every value of every ordered parameter occurs in some row."""
        used = zip(self.domains, self.tree.used, strict=True)
        return all(len(u) == d.total for d, u in used if d.ordered and d.width == 1)

    @override
    def steps(self) -> Sequence[ValueStep] | None:
        """Return the levels of the tree as steps, or None for permutations or parameters of too many values."""
        if not all(d.width == 1 and is_small(d.size, d.ordered) for d in self.domains):
            return None
        levels = zip(self.columns, self.domains, self.tree.levels, self._used, strict=True)
        return [
            ValueStep(int(column), domain, level, used) for column, domain, level, used in levels
        ]

    def nearest(self, codes: Codes, rng: Rng) -> Codes:
        """Return for each row, legal or not, a feasible row at the least distance."""
        return self.codes(nearest_paths(self.tree, self._edge_costs, codes, rng))

    def _edge_costs(self, codes: Codes) -> list[Array]:
        return [
            value_costs(domain, codes[:, at])[:, level.value]
            for level, domain, at in zip(self.tree.levels, self.domains, self.slices, strict=True)
        ]

    @cached_property
    def slices(self) -> Sequence[slice]:
        """The columns of each domain within the group."""
        ends = np.cumsum([domain.width for domain in self.domains]).tolist()
        return [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]

    def codes(self, positions: Ints) -> Codes:
        """Return the codes at these positions, ``(n, d)`` -> ``(n, w)``."""
        chosen = zip(self.domains, positions.T, strict=True)
        return np.concatenate([domain.codes[position] for domain, position in chosen], axis=1)

    def positions(self, codes: Codes) -> Ints:
        """Return positions in the domains, ``(n, w)`` -> ``(n, d)``, or -1."""
        if self._lookup is not None:
            low, span, start, table = self._lookup
            whole = whole_numbers(codes - low, span)
            return np.asarray(table[np.where(whole >= 0, whole + start, -1)])
        own = zip(self.domains, self.slices, strict=True)
        return np.stack([domain.positions(codes[:, at]) for domain, at in own], axis=1)

    @cached_property
    def _lookup(self) -> tuple[Array, Ints, Ints, Ints] | None:
        """One table of the positions of all domains' codes; None with permutations, fractions, or wide ranges.

        Returns:
            The least code of each domain, ``(d,)``; the greatest minus the least, plus 1, ``(d,)``; the first entry of
            each domain in the table, ``(d,)``; the position of every whole number from the least to the greatest code
            of each domain, or -1, then one more -1.
        """
        keys = [domain.keys for domain in self.domains]
        low = np.array([key[0] for key in keys])
        spans = np.array([key[-1] - key[0] + 1 for key in keys])
        scalars = all(domain.width == 1 for domain in self.domains)
        whole = all((key == np.rint(key)).all() for key in keys)
        if not (scalars and whole and spans.sum() <= _LOOKED_UP):
            return None
        span = spans.astype(np.int64)
        start = np.cumsum(span) - span
        table = np.full(int(span.sum()) + 1, -1, dtype=np.int64)
        for key, least, begin in zip(keys, low, start, strict=True):
            table[(key - least).astype(np.int64) + begin] = np.arange(len(key))
        return low, span, start, table

    def one_changes(self, codes: Codes, rng: Rng, limit: int | None) -> tuple[Codes, Ints, Mask]:
        """Return the feasible rows in which one parameter has another value, or two elements of a permutation swapped.

        All levels are changed in the same walk from the root to the leaves: a row's prefix offers only values with a
        path below, and rows that were changed above follow their own values.

        Args:
            codes: Rows, feasible or not, ``(n, w)``.
            rng: Random numbers.
            limit: Most random values of one parameter for a row; None means all.

        Returns:
            The rows, ``(m, w)``, their owners (not sorted), and which of the given rows are feasible, ``(n,)``.
        """
        n = len(codes)
        positions = self.positions(codes)
        # Unchanged rows come first, then the rows that were changed above, with the changed level and its new value.
        unchanged, owner = n, np.arange(n)
        depth, value, node = (np.zeros(n, dtype=np.int64) for _ in range(3))
        for i, (level, domain) in enumerate(zip(self.tree.levels, self.domains, strict=True)):
            own = positions[owner, i]
            edge, who = level.edges_of(node[:unchanged])
            new = level.value[edge] != own[who]
            if domain.kind is ParameterKind.PERMUTATION:  # they differ by one swap
                moved = domain.codes[level.value[edge]] != codes[owner[who], self.slices[i]]
                new &= moved.sum(axis=1) == 2
            edge, who = edge[new], who[new]
            if limit is not None and len(who) > _SURPLUS * limit:
                few = thin(who, rng, _SURPLUS * limit)
                edge, who = edge[few], who[few]
            unchanged_edge = level.edge(node, own)
            on = np.flatnonzero(unchanged_edge >= 0)
            unchanged = int(np.searchsorted(on, unchanged))
            node = level.child[np.concatenate([unchanged_edge[on], edge])].astype(np.int64)
            depth = np.concatenate([depth[on], np.full(len(who), i)])
            value = np.concatenate([value[on], level.value[edge]])
            owner = np.concatenate([owner[on], owner[who]])
        feasible = np.zeros(n, dtype=np.bool_)
        feasible[owner[:unchanged]] = True
        owner, depth, value = owner[unchanged:], depth[unchanged:], value[unchanged:]
        kept = thin(depth * n + owner, rng, limit)
        owner, depth, value = owner[kept], depth[kept], value[kept]
        rows = codes[owner]
        ends = np.searchsorted(depth, np.arange(len(self.domains) + 1)).tolist()
        for domain, at, begin, end in zip(self.domains, self.slices, ends, ends[1:], strict=False):
            rows[begin:end, at] = domain.codes[value[begin:end]]
        return rows, owner, feasible


# Sequences ----------------------------------------------------------------------------------------------------------
#
# The values of a sequence that constraints allow, as a tree of its places.


MAX_EDGES = 2**22
"""Most edges of the places of one sequence: about half a second and 150 MB."""

_STEP_COST = 8
"""Operations of one running value at one edge."""


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
        if self.drawn is not None:
            return super().spread(n, rng)
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
    elif not isinstance(constraint, RestingConstraint):
        return None
    elif constraint.name == name:
        has_few = constraint.parameter.cardinality <= FEW_SEQUENCES
        read = [Reading(name, "differs", tuple(constraint.rest[0].tolist()))] if has_few else None
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
    if distinct and parameter.ordered and len(parameter.elements) > 62:
        raise TooLarge
    rows = np.full((1, parameter.width), END)
    zero = np.zeros(1, dtype=np.int64)
    states = [zero, zero, *(zero for _ in rules), *(zero for _ in readings)]
    levels: list[Edges] = []
    edges = 0
    for place in range(parameter.width - 1, -1, -1):
        work.spend(len(rows) * len(codes) * _STEP_COST * len(states))
        begun, used, *running = states
        allowed = np.ones((len(rows), len(codes)), dtype=np.bool_)
        allowed[:, 0] = (begun == 0) & (place >= parameter.min_length)
        if distinct and parameter.ordered:
            allowed[:, 1:] = (used[:, None] >> codes[1:]) & 1 == 0
        elif distinct:  # the element at the next place is larger
            allowed[:, 1:] = (used[:, None] == 0) | (codes[1:] < used[:, None] - 1)
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
        states = [(code >= 0).astype(np.int64), np.zeros_like(node)]
        if distinct and parameter.ordered:
            states[1] = used[node] | np.where(code >= 0, np.int64(1) << np.maximum(code, 0), 0)
        elif distinct:
            states[1] = code + 1
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
