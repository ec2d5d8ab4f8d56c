"""The order in which a tree binds its parameters, chosen for the fewest nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from baco_like.spaces.feasible.rules import Rule

_STARTS = 4
"""Most first parameters that are tried; more gain little and cost time on spaces of many small groups."""

_CANDIDATE_COST = 0.1
"""Cost of looking a candidate up in a table, relative to evaluating a constraint on it."""


@dataclass(frozen=True)
class _Group:
    """Sizes and rules with the members of each rule as a bit set."""

    logs: tuple[float, ...]
    rules: tuple[tuple[int, float, bool], ...]  # members, log of the share, tabled


def choose_order(sizes: Sequence[int], rules: Sequence[Rule]) -> list[int]:
    """Return the members of a group in the order in which a tree should bind them.

    A node of the tree represents one combination of the values that incomplete constraints will still read, so an
    order is good if few parameters are open at any time (the width of a vertex separation, weighted by domain sizes
    and by the shares that the constraints allow).
    """
    if len(sizes) <= 1:
        return list(range(len(sizes)))
    group = _Group(
        tuple(math.log(size) for size in sizes),
        tuple(
            (
                sum(1 << i for i in rule.members),
                math.log(max(rule.share, 1e-9)),
                rule.table is not None,
            )
            for rule in rules
        ),
    )
    degree = [
        sum(bits.bit_count() for bits, _, _ in group.rules if bits >> i & 1)
        for i in range(len(sizes))
    ]
    starts = sorted(range(len(sizes)), key=lambda i: (degree[i], sizes[i]))[:_STARTS]
    return min((_greedy(group, first) for first in starts), key=lambda found: found[0])[1]


def _greedy(group: _Group, first: int) -> tuple[float, list[int]]:
    """Return the cost and the order that always binds the parameter with the fewest resulting nodes."""
    chosen: list[int] = []
    total, placed, nodes = 0.0, 0, 0.0
    left = set(range(len(group.logs)))
    while left:
        options = [first] if not chosen else _connected(group, placed, left)
        steps = ((*_step(group, placed, nodes, i), i) for i in options)
        after, cost, best = min(
            steps, key=lambda step: (step[0] + 0.5 * math.log(step[1]), step[2])
        )
        chosen.append(best)
        left.remove(best)
        placed |= 1 << best
        nodes = after
        total += cost
    return total, chosen


def _connected(group: _Group, placed: int, left: set[int]) -> list[int]:
    """Return the parameters that share a constraint with the placed ones."""
    near = 0
    for bits, _, _ in group.rules:
        if bits & placed:
            near |= bits
    return [i for i in left if near >> i & 1] or list(left)


def _step(group: _Group, placed: int, nodes: float, new: int) -> tuple[float, float]:
    """Return the log of the nodes after binding a parameter, and the cost of binding it."""
    bound = placed | 1 << new
    candidates = nodes + group.logs[new]
    survivors, evaluations = candidates, 0
    open_bits = 0
    for bits, share, tabled in group.rules:
        if bits & ~bound:
            open_bits |= bits & bound
        elif bits >> new & 1:
            survivors += share
            evaluations += not tabled
    width = sum(size for i, size in enumerate(group.logs) if open_bits >> i & 1)
    width += sum(share for bits, share, _ in group.rules if not bits & ~open_bits)
    cost = math.exp(min(candidates, 700.0)) * (_CANDIDATE_COST + evaluations)
    return max(0.0, min(survivors, width)), cost + math.exp(min(max(survivors, 0.0), 700.0))
