"""Growing the tree of one group, column by column, in chunks of bounded memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from baco_like._typing import Ints
from baco_like.spaces.feasible.domain import Domain
from baco_like.spaces.feasible.rules import Rule, evaluate, from_mixed_radix, mixed_radix
from baco_like.spaces.feasible.tree import Edges, Tree, finish

MAX_EDGES = 2**24
"""Edges of one level that are kept at most (some 30 bytes each while growing)."""

MAX_CANDIDATES = 2**29
"""Candidates that one level may test (a minute, if a constraint without a table is evaluated on all)."""

_CHUNK = 2**18
"""Candidates tested at a time; their arrays stay in the cache."""

_Columns = dict[int, Ints]
"""For each parameter that constraints will still read, its position in every node."""


class TooLarge(Exception):
    """The tree would not fit; the group must be handled without listing it."""


def grow(domains: Sequence[Domain], rules: Sequence[Rule], order: Sequence[int]) -> Tree | None:
    """Return the tree of the combinations that satisfy every rule, or None where there are none.

    A node is a combination of the values that rules not yet complete will read: everything else about its path
    makes no difference to what may follow.

    Args:
        domains: Those of the group.
        rules: All over these domains, each with at least one member.
        order: Which domain each level binds.

    Raises:
        TooLarge: The tree has too many edges or takes too long.
    """
    columns: _Columns = {}
    nodes, pending, bound = 1, list(rules), set[int]()
    levels: list[Edges] = []
    for new in order:
        bound.add(new)
        ready = [rule for rule in pending if bound.issuperset(rule.members)]
        pending = [rule for rule in pending if not bound.issuperset(rule.members)]
        node, value = _extended(domains, ready, columns, nodes, new)
        if len(node) == 0:
            return None
        still_read = sorted(bound.intersection(i for rule in pending for i in rule.members))
        child, columns, after = _children(domains, columns, new, node, value, still_read)
        levels.append(Edges(nodes, domains[new].size, node, value, child))
        nodes = after
    return finish(levels)


def _extended(
    domains: Sequence[Domain], ready: Sequence[Rule], columns: _Columns, nodes: int, new: int
) -> tuple[Ints, Ints]:
    """Return node and value of the edges that bind one more parameter."""
    size = domains[new].size
    if nodes * size > (MAX_CANDIDATES if ready else MAX_EDGES):
        raise TooLarge
    step = max(1, _CHUNK // size)
    found: list[tuple[Ints, Ints]] = []
    edges = 0
    for begin in range(0, nodes, step):
        rows = slice(begin, min(nodes, begin + step))
        node, value = _tested(domains, ready, {i: c[rows] for i, c in columns.items()}, rows, new)
        found.append((node.astype(np.int32), value.astype(np.min_scalar_type(size))))
        edges += len(node)
        if edges > MAX_EDGES:
            raise TooLarge
    if len(found) == 1:
        return found[0]
    return np.concatenate([n for n, _ in found]), np.concatenate([v for _, v in found])


def _tested(
    domains: Sequence[Domain], ready: Sequence[Rule], columns: _Columns, rows: slice, new: int
) -> tuple[Ints, Ints]:
    """Return the edges from some nodes: first what the tables leave, then what the other rules leave of that."""
    allowed = np.ones((rows.stop - rows.start, domains[new].size), dtype=np.bool_)
    for rule in ready:
        if rule.table is not None:
            allowed &= _table_rows(rule, domains, columns, new)
    local, value = np.nonzero(allowed)
    for rule in sorted((rule for rule in ready if rule.table is None), key=lambda rule: rule.share):
        positions = {i: value if i == new else columns[i][local] for i in rule.members}
        repeated = len(rule.members) <= len(columns)
        held = evaluate(rule, domains, positions, repeated)
        local, value = local[held], value[held]
    return local + rows.start, value


def _table_rows(
    rule: Rule, domains: Sequence[Domain], columns: _Columns, new: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return for every node which values of the new parameter a rule's table allows (or one row for all nodes)."""
    assert rule.table is not None
    others = [i for i in rule.members if i != new]
    table = np.moveaxis(rule.table, rule.members.index(new), -1).reshape(-1, domains[new].size)
    if not others:
        return table
    return np.asarray(
        table[mixed_radix([columns[i] for i in others], [domains[i].size for i in others])]
    )


def _children(
    domains: Sequence[Domain],
    columns: _Columns,
    new: int,
    node: Ints,
    value: Ints,
    still_read: Sequence[int],
) -> tuple[Ints, _Columns, int]:
    """Return each edge's child, the columns of the children, and how many there are."""
    below = {i: value if i == new else columns[i][node] for i in still_read}
    if len(still_read) == len(columns) + 1:  # nothing is forgotten, so no two edges meet
        return np.arange(len(node), dtype=np.int32), below, len(node)
    if not still_read:
        return np.zeros(len(node), dtype=np.int32), {}, 1
    sizes = [domains[i].size for i in still_read]
    if math.prod(sizes) >= 2**62:
        return (
            np.arange(len(node), dtype=np.int32),
            below,
            len(node),
        )  # merged later, with the equal subtrees
    key = mixed_radix([below[i] for i in still_read], sizes)
    distinct, child = _numbered(key, math.prod(sizes))
    digits = from_mixed_radix(distinct, sizes)
    compact = [d.astype(np.min_scalar_type(s)) for d, s in zip(digits, sizes, strict=True)]
    return child.astype(np.int32), dict(zip(still_read, compact, strict=True)), len(distinct)


def _numbered(key: Ints, bound: int) -> tuple[Ints, Ints]:
    """Return the distinct keys, increasing, and each key's number among them."""
    if bound > 8 * len(key) + 2**16:
        distinct, number = np.unique(key, return_inverse=True)
        return distinct, number
    marks = np.zeros(bound, dtype=np.bool_)
    marks[key] = True
    return np.flatnonzero(marks), (np.cumsum(marks) - 1)[key]
