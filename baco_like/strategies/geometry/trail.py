"""One factor of a feasible set as a trail of choices, walked for one row at a time.

A walk that may take one of a few values at every step meets many dead ends. Every node knows which values occur
anywhere below it, as bits of one number: where none of those that a later step may take is among them, the walk turns
back at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import final

import numpy as np

from baco_like._typing import Array, Ints, Rng

Row = Sequence[float]
"""One row of codes of the space."""

Choice = tuple[float, float]
"""A code and what it costs."""

_WORD = 64

Words = np.ndarray[tuple[int, int], np.dtype[np.uint64]]


@final
@dataclass(frozen=True, eq=False)
class Step:
    """A level of the tree, or all of a single parameter's values.

    Attributes:
        column: Its column of codes in the space.
        ordered: Whether neighbouring codes are close values.
        codes: The code of every value.
        starts: The first edge of each node and, last, the number of edges.
        values: The value that each edge chooses.
        nodes: Where each edge leads to; 0 at the end.
        used: Codes that occur on some edge, increasing.
        known: The children of nodes that were asked for.
    """

    column: int
    ordered: bool
    codes: Array
    starts: Ints
    values: Ints
    nodes: Ints
    used: tuple[float, ...]
    known: dict[int, dict[float, int]] = field(default_factory=dict, repr=False)

    def children(self, node: int) -> dict[float, int]:
        """Return the codes that may be chosen at a node, increasing by value, and the node that each leads to."""
        found = self.known.get(node)
        if found is None:
            mine = slice(*self.starts[node : node + 2].tolist())
            codes = self.codes[self.values[mine]].tolist()
            found = dict(zip(codes, self.nodes[mine].tolist(), strict=True))
            self.known[node] = found
        return found

    def apart(self, code: float) -> Array:
        """Return the index-distance of a code from every value."""
        apart: Array = np.abs(self.codes - code)
        return apart if self.ordered else np.minimum(apart, 1.0)

    def adjacent(self, code: float) -> Sequence[float]:
        """Return the codes of strictly adjacent neighbours and the own one; all of a categorical parameter."""
        return (code, code - 1.0, code + 1.0) if self.ordered else self.used

    def nearest_used(self, code: float) -> Sequence[float]:
        """Return the own code and the nearest before and after it that are ever feasible; all of a categorical one."""
        if not self.ordered:
            return self.used
        below = [other for other in self.used if other < code]
        above = [other for other in self.used if other > code]
        return (code, *below[-1:], *above[:1])


@final
@dataclass(frozen=True, eq=False)
class Below:
    """Which values occur below each node, and which of them a walk may take: a field of bits for each step.

    A field has one bit more than its step has values. Adding all its other bits to a field that is not empty carries
    into that bit, so a single addition tells whether any field is empty.

    Attributes:
        bits: The bit of every code, by step.
        masks: Values that occur from a step on, below each of its nodes, ``(nodes, words)`` by step.
        carries: The highest bits of the fields from each step on.
        rests: Their other bits.
        known: Masks as numbers, by node, that were asked for.
    """

    bits: Sequence[dict[float, int]]
    masks: Sequence[Words]
    carries: Sequence[int]
    rests: Sequence[int]
    known: Sequence[dict[int, int]]

    @classmethod
    def of(cls, steps: Sequence[Step]) -> Below:
        """Return what is below the nodes of some steps."""
        ends = [*accumulate((len(step.codes) + 1 for step in steps), initial=0)]
        places = [begin + np.arange(end - 1 - begin) for begin, end in pairwise(ends)]
        words = -(-ends[-1] // _WORD)
        under, masks = np.zeros((1, words), dtype=np.uint64), []
        for step, place in zip(reversed(steps), reversed(places), strict=True):
            own = np.zeros((len(place), words), dtype=np.uint64)
            own[np.arange(len(place)), place // _WORD] = np.uint64(1) << (place % _WORD).astype(
                np.uint64
            )
            under = np.bitwise_or.reduceat(own[step.values] | under[step.nodes], step.starts[:-1])
            masks.append(under)
        tops = [1 << (end - 1) for end in ends[1:]]
        rests = [top - (1 << begin) for top, begin in zip(tops, ends, strict=False)]
        bits = [
            dict(zip(step.codes.tolist(), (1 << int(one) for one in place), strict=True))
            for step, place in zip(steps, places, strict=True)
        ]
        return cls(bits, masks[::-1], _sums_from(tops), _sums_from(rests), [{} for _ in steps])

    def allowed(self, choices: Sequence[Row]) -> int:
        """Return the bits of the codes that may be chosen at every step; codes that no value has are passed over."""
        both = zip(self.bits, choices, strict=True)
        return sum(bits.get(code, 0) for bits, codes in both for code in set(codes))

    def leads_on(self, number: int, node: int, allowed: int) -> bool:
        """Return False only where some step from this number on may take none of the values below the node."""
        mask = self.known[number].get(node)
        if mask is None:
            mask = int.from_bytes(self.masks[number][node].astype("<u8").tobytes(), "little")
            self.known[number][node] = mask
        carries = self.carries[number]
        return ((mask & allowed) + self.rests[number]) & carries == carries


def _sums_from(numbers: Sequence[int]) -> list[int]:
    """Return the sum of the numbers from each place on."""
    return [*accumulate(reversed(numbers))][::-1]


@final
@dataclass(frozen=True, eq=False)
class Trail:
    """The steps of one factor, from the root of its tree down.

    Attributes:
        steps: One for each column.
        below: What is below their nodes.
    """

    steps: tuple[Step, ...]
    below: Below

    @classmethod
    def of(cls, steps: Sequence[Step]) -> Trail:
        """Return the trail of some steps."""
        return cls(tuple(steps), Below.of(steps))

    def follows(self, row: Row, begin: int = 0, node: int | None = 0) -> bool:
        """Whether a row's codes lead from a node of a step to the end."""
        for step in self.steps[begin:] if begin else self.steps:
            if node is None:
                return False
            node = step.children(node).get(row[step.column])
        return node is not None

    def changes(self, row: Row) -> list[tuple[int, float]]:
        """Return the columns and codes of the single changes after which a row is feasible here."""
        found: list[tuple[int, float]] = []
        node: int | None = 0
        for number, step in enumerate(self.steps, 1):
            assert node is not None
            children, own = step.children(node), row[step.column]
            found += [
                (step.column, code)
                for code, child in children.items()
                if code != own and self.follows(row, number, child)
            ]
            node = children.get(own)
            if node is None:
                break
        return found

    def cheapest(self, choices: Sequence[Sequence[Choice]]) -> Row | None:
        """Return the codes of the feasible path whose costs add up to the least, one of the choices at every step.

        Dear choices are followed only as far as the path may still become the cheapest one.
        """
        steps, leads_on = self.steps, self.below.leads_on
        allowed = self.below.allowed([[code for code, _ in some] for some in choices])
        offered = [sorted(some, key=itemgetter(1)) for some in choices]
        least = [*accumulate((some[0][1] for some in reversed(offered)), initial=0.0)][-2::-1]
        last = len(steps) - 1
        seen: dict[tuple[int, int], float] = {}
        best: tuple[float, list[float] | None] = (math.inf, None)
        path: list[float] = []

        def follow(number: int, node: int, spent: float) -> None:
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
                place = (number, child)
                if total < seen.get(place, math.inf) and leads_on(number + 1, child, allowed):
                    seen[place] = total
                    path.append(code)
                    follow(number + 1, child, total)
                    path.pop()

        follow(0, 0, 0.0)
        return best[1]

    def random(self, choices: Sequence[Row], rng: Rng) -> Row | None:
        """Return the codes of a path, one of the choices at every step, each path being as likely; or None."""
        allowed, last = self.below.allowed(choices), len(self.steps) - 1
        counts, trail = {0: 1}, []
        for number, (step, offered) in enumerate(zip(self.steps, choices, strict=True)):
            reached: dict[int, int] = {}
            ways: dict[int, list[tuple[int, float, int]]] = {}
            for before, count in counts.items():
                children = step.children(before)
                for code in offered:
                    child = children.get(code)
                    if child is None:
                        continue
                    if child in reached:
                        reached[child] += count
                        ways[child].append((before, code, count))
                    elif number == last or self.below.leads_on(number + 1, child, allowed):
                        reached[child] = count
                        ways[child] = [(before, code, count)]
            counts = reached
            trail.append(ways)
        if not counts:
            return None
        total, node = counts[0], 0
        rank = min(int(rng.random() * total), total - 1)  # rounding, where there are very many
        path: list[float] = []
        for ways in reversed(trail):
            node, code, rank = _way(ways[node], rank)
            path.append(code)
        return path[::-1]

    def nearest(self, row: Row, rng: Rng) -> Row:
        """Return the codes of a path at the least index-distance from a row, a random one of equally near ones.

        What `baco_like.spaces.repair.nearest` does for many rows, by the same dynamic programming over the tree.
        """
        best, totals = np.zeros(1), []
        for step in reversed(self.steps):
            total = step.apart(row[step.column]).take(step.values)
            total += best.take(step.nodes)
            totals.append(total)
            best = np.minimum.reduceat(total, step.starts[:-1])
        path, node = [], 0
        for step, total in zip(self.steps, reversed(totals), strict=True):
            begin, end = step.starts[node : node + 2].tolist()
            mine = total[begin:end]
            tied = np.flatnonzero(mine == mine.min())
            edge = begin + int(tied[0] if len(tied) == 1 else rng.choice(tied))
            path.append(float(step.codes[step.values[edge]]))
            node = int(step.nodes[edge])
        return path


def _way(ways: Sequence[tuple[int, float, int]], rank: int) -> tuple[int, float, int]:
    """Return node and code of the way to which a rank belongs, and the rank among those that go this way."""
    for node, code, count in ways:
        if rank < count:
            return node, code, rank
        rank -= count
    raise IndexError(rank)
