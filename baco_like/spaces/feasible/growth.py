"""Builds the tree of one group: chooses the order of its parameters and binds them in this order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from operator import or_

import numpy as np

from baco_like._typing import Ints, Mask
from baco_like.spaces.feasible.residue import number_futures
from baco_like.spaces.feasible.rules import (
    ParameterDomain,
    Rule,
    from_mixed_radix,
    mixed_radix,
    number_keys,
)
from baco_like.spaces.feasible.tree import Edges, Tree, finish_tree
from baco_like.spaces.feasible.work import CALL_COST, TooLarge, Work, row_cost

MAX_EDGES = 2**24
"""Most edges of one level."""

_EDGE_BYTES = 32
"""Memory of an edge in the finished tree, with the arrays from which its level is made."""

_GROWING_BYTES = 96
"""Memory of an edge of the newest level while the paths with equal futures are found, without its columns."""

MAX_CANDIDATES = 2**29
"""Most candidates that one level tests (about a minute if a constraint without a table is evaluated on all)."""

_CHUNK = 2**16
"""Candidates tested at a time; their arrays stay in the cache."""

_LOOKUP_LIMIT = 2**22
"""Most answers of a rule that are listed for one level, in bytes."""

_SAMPLE = 2**12
"""Edges in the sample that decides whether merging is worth the time."""

_STARTS = 4
"""Most first parameters that are tried; more gain little and cost time on spaces of many small groups."""

_STEP_COST = 2**7
"""Work for looking at one rule while an order is chosen: about 0.5 us."""

_CANDIDATE_COST = 0.1
"""Cost of looking a candidate up in a table, relative to evaluating a constraint on it."""

_Columns = dict[int, Ints]
"""For each parameter that constraints will still read, its position in every node (on one of the node's paths)."""

_Lookup = tuple[Mask, Ints]
"""Whether each value of the new parameter is allowed, for each combination of the other members of a rule,
``(k, size)``, and the combination of each node, ``(nodes,)``."""


def grow_tree(
    domains: Sequence[ParameterDomain],
    rules: Sequence[Rule],
    order: Sequence[int],
    work: Work | None = None,
) -> Tree | None:
    """Return the tree of the combinations that satisfy every rule, or None if there are none.

    Paths that leave the same choices share a node (see `residue`).

    Args:
        domains: The domains of the group.
        rules: Rules over these domains, each with at least one member.
        order: Index of the domain that each level binds.
        work: Work that may be spent; None sets no limit.

    Raises:
        TooLarge: The tree has too many edges or takes too long.
    """
    work = Work() if work is None else work
    memory = work.memory
    columns: _Columns = {}
    nodes, pending, bound = 1, list(rules), set[int]()
    levels: list[Edges] = []
    for new in order:
        bound.add(new)
        ready = [rule for rule in pending if bound.issuperset(rule.members)]
        pending = [rule for rule in pending if not bound.issuperset(rule.members)]
        # The columns of the nodes, of the edges and, at the end, of the children.
        width = sum(column.itemsize for column in columns.values()) + 1
        most = min(MAX_EDGES, memory / (_GROWING_BYTES + 3 * width))
        node, value = _extend(domains, ready, columns, nodes, new, work, most)
        if len(node) == 0:
            return None
        still_read = bound.intersection(i for rule in pending for i in rule.members)
        below = {i: value if i == new else columns[i][node] for i in sorted(still_read)}
        child, columns, after = _children(domains, pending, below, len(node), work)
        levels.append(Edges(nodes, domains[new].size, node, value, child))
        nodes = after
        memory -= len(node) * _EDGE_BYTES
    work.memory = memory
    return finish_tree(levels)


def _extend(
    domains: Sequence[ParameterDomain],
    ready: Sequence[Rule],
    columns: _Columns,
    nodes: int,
    new: int,
    work: Work,
    most: float,
) -> tuple[Ints, Ints]:
    """Return node and value of the edges that bind one more parameter; at most this many edges."""
    size = domains[new].size
    if nodes * size > (MAX_CANDIDATES if ready else most):
        raise TooLarge
    work.spend(nodes * size)
    lookups: list[_Lookup] = []
    asked: list[Rule] = []
    for rule in sorted(ready, key=lambda rule: rule.share):
        lookup = _list_answers(rule, columns, nodes, new, size, work)
        if lookup is None:
            asked.append(rule)
        else:
            lookups.append(lookup)
            work.spend(nodes * size + CALL_COST)
    parts: list[tuple[Ints, Ints]] = []
    edges = 0
    for rows in _chunks(nodes, size):
        allowed = np.ones((rows.stop - rows.start, size), dtype=np.bool_)
        for answers, combination in lookups:
            allowed &= answers[combination[rows]]
        local, value = np.nonzero(allowed)
        for rule in asked:
            held = _evaluate(rule, columns, rows, new, local, value, work)
            local, value = local[held], value[held]
        node = (local + rows.start).astype(np.int32)
        parts.append((node, value.astype(np.min_scalar_type(size))))
        edges += len(node)
        if edges > most:
            raise TooLarge
    return np.concatenate([n for n, _ in parts]), np.concatenate([v for _, v in parts])


def _list_answers(
    rule: Rule, columns: _Columns, nodes: int, new: int, size: int, work: Work
) -> _Lookup | None:
    """Return the look-up of a rule's table, or of the combinations that the nodes have if these are few."""
    others = [i for i in rule.members if i != new]
    sizes = [domain.size for i, domain in zip(rule.members, rule.domains, strict=True) if i != new]
    if rule.table is not None:
        table = np.moveaxis(rule.table, rule.members.index(new), -1).reshape(-1, size)
        if not others:
            return table, np.zeros(nodes, dtype=np.int64)
        return table, mixed_radix([columns[i] for i in others], sizes)
    if len(others) == len(columns) or math.prod(sizes) >= 2**62:
        return None  # every node has a different combination
    distinct, row = number_keys(mixed_radix([columns[i] for i in others], sizes), math.prod(sizes))
    if 2 * len(distinct) > nodes or len(distinct) * size > _LOOKUP_LIMIT:
        return None
    digits = dict(zip(others, from_mixed_radix(distinct, sizes), strict=True))
    allowed = np.empty((len(distinct), size), dtype=np.bool_)
    for rows in _chunks(len(distinct), size):
        local, value = np.indices((rows.stop - rows.start, size)).reshape(2, -1)
        allowed[rows] = _evaluate(rule, digits, rows, new, local, value, work).reshape(-1, size)
    return allowed, row


def _chunks(nodes: int, size: int) -> list[slice]:
    """Return consecutive slices of the nodes with about `_CHUNK` candidates each."""
    step = max(1, _CHUNK // size)
    return [slice(begin, min(nodes, begin + step)) for begin in range(0, nodes, step)]


def _evaluate(
    rule: Rule, columns: _Columns, rows: slice, new: int, local: Ints, value: Ints, work: Work
) -> Mask:
    """Return whether a rule holds on candidates: pairs of a node, counted from the first row, and a value."""
    work.spend(len(value) * row_cost(rule.constraint) + CALL_COST)
    values = {
        domain.name: domain.column[value] if i == new else domain.column[columns[i][rows]][local]
        for i, domain in zip(rule.members, rule.domains, strict=True)
    }
    return np.asarray(rule.constraint.holds(values), dtype=np.bool_)


def _children(
    domains: Sequence[ParameterDomain],
    pending: Sequence[Rule],
    below: _Columns,
    n: int,
    work: Work,
) -> tuple[Ints, _Columns, int]:
    """Return each edge's child, the columns of the children, and their number.

    Edges with the same future lead to the same child, which takes the columns of the first edge.
    """
    if n > 4 * _SAMPLE:
        some = np.arange(0, n, n // _SAMPLE)
        sampled = {i: column[some] for i, column in below.items()}
        _, futures = number_futures(domains, pending, sampled, len(some), work)
        # Of m edges with k futures, about m^2 / 2k share their future with another edge. Merging is worth the time
        # if the n edges seem to have fewer than n / 2 futures.
        if (len(some) - futures) * n <= len(some) ** 2:
            return np.arange(n, dtype=np.int32), below, n
    child, count = number_futures(domains, pending, below, n, work)
    first = np.empty(count, dtype=np.int64)
    first[child[::-1]] = np.arange(n - 1, -1, -1)
    return child.astype(np.int32), {i: column[first] for i, column in below.items()}, count


def choose_order(
    sizes: Sequence[int], rules: Sequence[Rule], work: Work | None = None
) -> list[int]:
    """Return the members of a group in the order in which a tree should bind them.

    A node of the tree represents one combination of the values that incomplete constraints will still read, so an
    order is good if few parameters are open at any time (the width of a vertex separation, weighted by domain sizes
    and by the shares that the constraints allow).

    Raises:
        TooLarge: More work is needed; without `work` there is no limit.
    """
    if work is not None:
        work.spend(_STARTS * len(sizes) ** 2 / 2 * (len(rules) + 1) * _STEP_COST)
    logs = [math.log(size) for size in sizes]
    weighed = [
        (sum(1 << i for i in rule.members), math.log(max(rule.share, 1e-9)), rule.table is not None)
        for rule in rules
    ]
    degree = [sum(bits >> i & 1 for bits, _, _ in weighed) for i in range(len(sizes))]
    starts = sorted(range(len(sizes)), key=lambda i: (degree[i], sizes[i]))[:_STARTS]
    return min((_greedy(logs, weighed, first) for first in starts), key=lambda order: order[0])[1]


_Weighed = Sequence[tuple[int, float, bool]]
"""For each rule its members as a bit set, the log of its share, and whether it has a table."""


def _greedy(logs: Sequence[float], rules: _Weighed, first: int) -> tuple[float, list[int]]:
    """Return the cost and the order that always binds the parameter with the fewest resulting nodes."""
    chosen: list[int] = []
    total, placed, nodes = 0.0, 0, 0.0
    left = set(range(len(logs)))
    options = [first]
    while left:
        steps = ((*_step(logs, rules, placed, nodes, i), i) for i in options)
        nodes, cost, best = min(
            steps, key=lambda step: (step[0] + 0.5 * math.log(step[1]), step[2])
        )
        chosen.append(best)
        left.remove(best)
        placed |= 1 << best
        total += cost
        near = reduce(or_, (bits for bits, _, _ in rules if bits & placed), 0)
        options = [i for i in left if near >> i & 1] or list(left)
    return total, chosen


def _step(
    logs: Sequence[float], rules: _Weighed, placed: int, nodes: float, new: int
) -> tuple[float, float]:
    """Return the log of the nodes after binding a parameter, and the cost of binding it."""
    bound = placed | 1 << new
    candidates = nodes + logs[new]
    survivors, evaluations = candidates, 0
    open_bits = 0
    for bits, share, tabled in rules:
        if bits & ~bound:
            open_bits |= bits & bound
        elif bits >> new & 1:
            survivors += share
            evaluations += not tabled
    width = sum(size for i, size in enumerate(logs) if open_bits >> i & 1)
    width += sum(share for bits, share, _ in rules if not bits & ~open_bits)
    cost = math.exp(min(candidates, 700.0)) * (_CANDIDATE_COST + evaluations)
    return max(0.0, min(survivors, width)), cost + math.exp(min(max(survivors, 0.0), 700.0))
