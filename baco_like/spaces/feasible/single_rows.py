"""Fast operations on one row at a time, by walks through the trees of a feasible set.

The neighbourhoods of `baco_like.spaces` treat many rows at a time; the population algorithms repair and mutate a few.
For a few rows, dictionaries of the values that may follow are several times faster than arrays, and the result is
exact for any number of neighbours.

A walk that may take one of a few values at every step meets many dead ends. Every node knows which values occur
anywhere below it, as bits of one number: if a later step may take none of them, the walk turns back at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import final

import numpy as np

from baco_like._typing import Array, Codes, Mask, Rng
from baco_like.spaces.feasible.rules import ParameterDomain
from baco_like.spaces.feasible.tree import Level

Row = Sequence[float]
"""One row of codes of the space."""

_ORDERED_VALUES = 1024
"""Most values of an ordered parameter that is walked in dictionaries."""

_UNORDERED_VALUES = 64
"""Most values of an unordered parameter: all of them count as adjacent."""

_TRIES = 32
"""Single changes that are tried before the feasible ones are listed."""

_REPAIRED_ROWS = 20_000
"""Rows without neighbours whose repaired row is remembered."""


def is_small(count: float, ordered: bool) -> bool:
    """Whether a parameter has few enough values for single rows."""
    return count <= (_ORDERED_VALUES if ordered else _UNORDERED_VALUES)


@final
class ValueStep:
    """The choice of one parameter's value: a level of a tree.

    Attributes:
        column: The parameter's code column in the space.
        ordered: Whether neighbouring codes are similar values.
        codes: The code of every value.
        starts: The first edge of each node and, last, the number of edges.
        values: The value that each edge chooses.
        nodes: The node that each edge leads to; 0 at the end.
        used: Codes that occur on some edge, increasing.
        known: The children of nodes that were visited.
    """

    def __init__(self, column: int, domain: ParameterDomain, level: Level, used: Array) -> None:
        self.column, self.ordered = column, domain.ordered
        self.codes = domain.codes[:, 0]
        self.starts, self.values = level.start, level.value
        self.nodes = level.child.astype(np.intp)  # `take` reads this type without conversion
        self.used = tuple(used.tolist())
        self.known: dict[int, dict[float, int]] = {}

    def children(self, node: int) -> dict[float, int]:
        """Return the codes that may be chosen at a node, increasing by value, and the node that each leads to."""
        children = self.known.get(node)
        if children is None:
            edges = slice(*self.starts[node : node + 2].tolist())
            codes = self.codes[self.values[edges]].tolist()
            children = dict(zip(codes, self.nodes[edges].tolist(), strict=True))
            self.known[node] = children
        return children

    def adjacent(self, code: float) -> Sequence[float]:
        """Return the row's own code and its strictly adjacent codes; all used ones if unordered."""
        return (code, code - 1.0, code + 1.0) if self.ordered else self.used

    def nearest_used(self, code: float) -> Sequence[float]:
        """Return the row's own code and the nearest used codes below and above it; all used ones if unordered."""
        if not self.ordered:
            return self.used
        below = [other for other in self.used if other < code]
        above = [other for other in self.used if other > code]
        return (code, *below[-1:], *above[:1])


Definition = Callable[[ValueStep, float], Sequence[float]]
"""Returns the codes of a step that make a neighbour of a row with the given code."""


@final
class FactorWalk:
    """The steps of one factor, from the root of its tree down, with the values that occur below each node.

    A set of values has a field of bits for each step, with one bit more than the step has values. Adding all its other
    bits to a field that is not empty carries into that bit, so a single addition tells whether any field is empty.

    Attributes:
        steps: One for each column.
        bits: The bit of every code, by step.
        masks: Values that occur from a step on, below each of its nodes, by step; none at the end.
        carries: The highest bits of the fields from each step on.
        rests: Their other bits.
    """

    def __init__(self, steps: Sequence[ValueStep]) -> None:
        self.steps = steps
        ends = [*accumulate((len(step.codes) + 1 for step in steps), initial=0)]
        self.bits = [
            {code: 1 << bit for bit, code in enumerate(step.codes.tolist(), begin)}
            for step, begin in zip(steps, ends, strict=False)
        ]
        below = np.array([0], dtype=object)
        self.masks: list[list[int]] = [below.tolist()]
        for step, bits in zip(reversed(steps), reversed(self.bits), strict=True):
            own = np.array([*bits.values()], dtype=object)[step.values]
            below = np.bitwise_or.reduceat(own | below[step.nodes], step.starts[:-1])
            self.masks.insert(0, below.tolist())
        tops = [1 << (end - 1) for end in ends[1:]]
        rests = [top - (1 << begin) for top, begin in zip(tops, ends, strict=False)]
        self.carries = [sum(tops[number:]) for number in range(len(steps) + 1)]
        self.rests = [sum(rests[number:]) for number in range(len(steps) + 1)]

    def allowed(self, choices: Sequence[Row]) -> int:
        """Return the bits of the codes that may be chosen at every step; unknown codes are ignored."""
        both = zip(self.bits, choices, strict=True)
        return sum(bits.get(code, 0) for bits, codes in both for code in set(codes))

    def may_continue(self, number: int, node: int, allowed: int) -> bool:
        """Return False only if some step from this number on may take none of the values below the node."""
        carries = self.carries[number]
        return ((self.masks[number][node] & allowed) + self.rests[number]) & carries == carries

    def is_feasible(self, row: Row, begin: int = 0, node: int | None = 0) -> bool:
        """Whether a row's codes lead from a node of a step to the end."""
        for step in self.steps[begin:] if begin else self.steps:
            if node is None:
                return False
            node = step.children(node).get(row[step.column])
        return node is not None

    def single_changes(self, row: Row) -> list[tuple[int, float]]:
        """Return the columns and codes of the single changes after which this factor's part of a row is feasible."""
        changes: list[tuple[int, float]] = []
        node = 0
        for number, step in enumerate(self.steps, 1):
            children, own = step.children(node), row[step.column]
            changes += [
                (step.column, code)
                for code, child in children.items()
                if code != own and self.is_feasible(row, number, child)
            ]
            if own not in children:
                break
            node = children[own]
        return changes

    def cheapest(self, choices: Sequence[Sequence[tuple[float, float]]]) -> Row | None:
        """Return the codes of the feasible path with the least total cost, or None.

        Expensive choices are followed only while the path may still become the cheapest one.

        Args:
            choices: The codes that each step may take, with their costs.
        """
        steps, may_continue = self.steps, self.may_continue
        allowed = self.allowed([[code for code, _ in some] for some in choices])
        offered = [sorted(some, key=itemgetter(1)) for some in choices]
        least = [*accumulate((some[0][1] for some in reversed(offered)), initial=0.0)][-2::-1]
        last = len(steps) - 1
        seen: dict[tuple[int, int], float] = {}
        best: tuple[float, list[float] | None] = (math.inf, None)
        path: list[float] = []

        def follow(number: int, node: int, spent: float) -> None:
            """Extend the path from a node of a step, reached at a cost, by each choice that may still be the best."""
            nonlocal best
            children = steps[number].children(node)
            for code, cost in offered[number]:
                total = spent + cost
                if total + least[number] >= best[0]:
                    return
                child = children.get(code)
                if child is None:
                    continue
                if number == last:
                    best = (total, [*path, code])
                    return
                key = (number, child)
                if total < seen.get(key, math.inf) and may_continue(number + 1, child, allowed):
                    seen[key] = total
                    path.append(code)
                    follow(number + 1, child, total)
                    path.pop()

        follow(0, 0, 0.0)
        return best[1]

    def random(self, choices: Sequence[Row], rng: Rng) -> Row | None:
        """Return the codes of a uniformly drawn path that takes one of the choices at every step, or None."""
        allowed = self.allowed(choices)
        counts = {0: 1}
        layers: list[dict[int, list[tuple[int, float, int]]]] = []
        for number, (step, offered) in enumerate(zip(self.steps, choices, strict=True), 1):
            ways: dict[int, list[tuple[int, float, int]]] = {}
            reached: dict[int, int] = {}
            for before, count in counts.items():
                children = step.children(before)
                for code in offered:
                    child = children.get(code)
                    if child is None:
                        continue
                    if child in ways or self.may_continue(number, child, allowed):
                        reached[child] = reached.get(child, 0) + count
                        ways.setdefault(child, []).append((before, code, count))
            counts = reached
            layers.append(ways)
        if not counts:
            return None
        node = 0
        rank = min(int(rng.random() * counts[0]), counts[0] - 1)  # rounding, for huge counts
        path: list[float] = []
        for ways in reversed(layers):
            options = iter(ways[node])
            node, code, count = next(options)
            while rank >= count:
                rank -= count
                node, code, count = next(options)
            path.append(code)
        return path[::-1]

    def nearest(self, row: Row, rng: Rng) -> Row:
        """Return the codes of a path at the least index-distance from a row; ties are broken at random.

        The same dynamic programming as `FeasibleSet.nearest`, for a single row.
        """
        best, totals = np.zeros(1), []
        for step in reversed(self.steps):
            difference = np.abs(step.codes - row[step.column])
            distance = difference if step.ordered else np.minimum(difference, 1.0)
            total = distance.take(step.values)
            total += best.take(step.nodes)
            totals.append(total)
            best = np.minimum.reduceat(total, step.starts[:-1])
        path, node = [], 0
        for step, total in zip(self.steps, reversed(totals), strict=True):
            begin, end = step.starts[node : node + 2].tolist()
            own = total[begin:end]
            tied = np.flatnonzero(own == own.min())
            edge = begin + int(tied[0] if len(tied) == 1 else rng.choice(tied))
            path.append(float(step.codes[step.values[edge]]))
            node = int(step.nodes[edge])
        return path


@final
class SingleRows:
    """A feasible set in which every parameter is a scalar of a few values: at most 1,024, an unordered one 64.

    Attributes:
        walks: One for each factor.
        definitions: Strictly adjacent and adjacent codes; a single definition if every value is used, because both
            are then the same.
        values: All values of all parameters: their walk, column and code.
        repaired: The replacements of rows without neighbours; only a cache.
    """

    def __init__(self, factors: Sequence[Sequence[ValueStep]], every_value_used: bool) -> None:
        self.walks = [FactorWalk(steps) for steps in factors]
        self.definitions: list[Definition] = [ValueStep.adjacent]
        if not every_value_used:
            self.definitions.append(ValueStep.nearest_used)
        steps = [(walk, step) for walk in self.walks for step in walk.steps]
        self.values = [(walk, step.column, code) for walk, step in steps for code in step.used]
        self.repaired: dict[Row, Row] = {}

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is feasible, ``(n, w)`` -> ``(n,)``."""
        return np.fromiter((self.is_feasible(row) for row in codes.tolist()), bool, len(codes))

    def is_feasible(self, row: Row) -> bool:
        """Whether a row is feasible."""
        return all(walk.is_feasible(row) for walk in self.walks)

    def single_changes(self, row: Row) -> list[tuple[int, float]]:
        """Return the columns and codes of the single changes after which a row is feasible."""
        infeasible = [walk for walk in self.walks if not walk.is_feasible(row)]
        if len(infeasible) > 1:
            return []
        return [change for walk in infeasible or self.walks for change in walk.single_changes(row)]

    def random_change(self, row: Row, rng: Rng) -> Row | None:
        """Return a row after a random single change that makes it feasible, each as likely, or None."""
        changes = self.single_changes(row)
        return change_code(row, *changes[rng.integers(len(changes))]) if changes else None

    def mutate(self, row: Row, rng: Rng) -> Row:
        """Return a random Hamming neighbour of a feasible row, each as likely; the row itself if it has none."""
        for number in rng.integers(0, len(self.values), _TRIES).tolist():
            walk, column, code = self.values[number]
            new = change_code(row, column, code)
            if code != row[column] and walk.is_feasible(new):
                return new
        return self.random_change(row, rng) or row

    def random_neighbour(self, row: Row, rng: Rng) -> Row | None:
        """Return a random neighbour of an infeasible row, each as likely, by the first definition that has any."""

        def choose(walk: FactorWalk, definition: Definition) -> Row | None:
            """Return random codes of one factor."""
            return walk.random([definition(step, row[step.column]) for step in walk.steps], rng)

        return self._first_neighbour(choose) or self.random_change(row, rng)

    def nearest_neighbour(self, row: Row, distance: Callable[[int, float], float]) -> Row | None:
        """Return the neighbour of an infeasible row nearest to a point, by the first definition that has any, or None.

        Args:
            row: The row whose codes are nearest to the point.
            distance: Squared distance of a code of a column from the point. Distances of columns add up, so each factor
                is minimised separately, and feasible factors keep the codes of the row.
        """

        def choose(walk: FactorWalk, definition: Definition) -> Row | None:
            """Return the nearest codes of one factor."""
            if walk.is_feasible(row):
                return [row[step.column] for step in walk.steps]
            choices = [
                [(code, distance(step.column, code)) for code in definition(step, row[step.column])]
                for step in walk.steps
            ]
            return walk.cheapest(choices)

        neighbour = self._first_neighbour(choose)
        if neighbour is not None:
            return neighbour
        changes = self.single_changes(row)
        nearest = min(changes, key=lambda c: distance(*c) - distance(c[0], row[c[0]]), default=None)
        return None if nearest is None else change_code(row, *nearest)

    def _first_neighbour(
        self, choose: Callable[[FactorWalk, Definition], Row | None]
    ) -> Row | None:
        """Return the choices of all factors by the first definition with which each of them has one, or None."""
        neighbours = (
            self.join(choose(walk, definition) for walk in self.walks)
            for definition in self.definitions
        )
        return next((new for new in neighbours if new is not None), None)

    def repair(self, row: Row, find_neighbour: Callable[[], Row | None]) -> Row:
        """Return a neighbour of an infeasible row, or the nearest feasible row if it has none."""
        key = tuple(row)
        if key not in self.repaired:
            neighbour = find_neighbour()
            if neighbour is not None:
                return neighbour
            if len(self.repaired) >= _REPAIRED_ROWS:
                self.repaired.clear()
            self.repaired[key] = self.nearest(row)
        return self.repaired[key]

    def nearest(self, row: Row) -> Row:
        """Return a feasible row at the least index-distance; ties are broken by the row's own bits."""
        rng = np.random.default_rng(np.array(row).view(np.uint32))
        nearest = self.join(walk.nearest(row, rng) for walk in self.walks)
        assert nearest is not None
        return nearest

    def join(self, parts: Iterable[Row | None]) -> Row | None:
        """Return the row made of one path of each factor, or None at the first missing path."""
        row = [0.0] * sum(len(walk.steps) for walk in self.walks)
        for walk, path in zip(self.walks, parts, strict=False):
            if path is None:
                return None
            for step, code in zip(walk.steps, path, strict=True):
                row[step.column] = code
        return row


def change_code(row: Row, column: int, code: float) -> list[float]:
    """Return a row with another code in one column."""
    new = list(row)
    new[column] = code
    return new
