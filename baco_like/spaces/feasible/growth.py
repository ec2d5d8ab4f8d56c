"""Builds the tree of one group, column by column, in chunks of bounded memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from baco_like._typing import Ints, Mask
from baco_like.spaces.feasible.domain import Domain
from baco_like.spaces.feasible.residue import number_futures
from baco_like.spaces.feasible.rules import Rule, from_mixed_radix, mixed_radix, number_keys
from baco_like.spaces.feasible.tree import Edges, Tree, finish_tree

MAX_EDGES = 2**24
"""Most edges of one level (about 30 bytes each while the tree grows)."""

MAX_CANDIDATES = 2**29
"""Most candidates that one level tests (about a minute if a constraint without a table is evaluated on all)."""

_CHUNK = 2**16
"""Candidates tested at a time; their arrays stay in the cache."""

_LOOKUP_LIMIT = 2**22
"""Most answers of a rule that are listed for one level, in bytes."""

_SAMPLE = 2**12
"""Edges in the sample that decides whether merging is worth the time."""

_Columns = dict[int, Ints]
"""For each parameter that constraints will still read, its position in every node (on one of the node's paths)."""


class TooLarge(Exception):
    """The tree is too large; the group must be handled without listing it."""


def grow_tree(
    domains: Sequence[Domain], rules: Sequence[Rule], order: Sequence[int]
) -> Tree | None:
    """Return the tree of the combinations that satisfy every rule, or None if there are none.

    Paths that leave the same choices share a node (see `residue`).

    Args:
        domains: The domains of the group.
        rules: Rules over these domains, each with at least one member.
        order: Index of the domain that each level binds.

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
        node, value = _extend(domains, ready, columns, nodes, new)
        if len(node) == 0:
            return None
        still_read = bound.intersection(i for rule in pending for i in rule.members)
        below = {i: value if i == new else columns[i][node] for i in sorted(still_read)}
        child, columns, after = _children(domains, pending, below, len(node))
        levels.append(Edges(nodes, domains[new].size, node, value, child))
        nodes = after
    return finish_tree(levels)


@dataclass(frozen=True, eq=False)
class _Lookup:
    """A rule with its answers for all values of the new parameter.

    Attributes:
        allowed: Whether each value is allowed, for each combination of the other members, ``(k, size)``.
        row: The combination of each node, ``(nodes,)``.
    """

    allowed: Mask
    row: Ints


def _extend(
    domains: Sequence[Domain], ready: Sequence[Rule], columns: _Columns, nodes: int, new: int
) -> tuple[Ints, Ints]:
    """Return node and value of the edges that bind one more parameter."""
    size = domains[new].size
    if nodes * size > (MAX_CANDIDATES if ready else MAX_EDGES):
        raise TooLarge
    lookups = [(rule, _lookup(rule, domains, columns, nodes, new)) for rule in ready]
    listed = [lookup for _, lookup in lookups if lookup is not None]
    asked = sorted((r for r, lookup in lookups if lookup is None), key=lambda rule: rule.share)
    found: list[tuple[Ints, Ints]] = []
    edges = 0
    for rows in _chunks(nodes, size):
        allowed = np.ones((rows.stop - rows.start, size), dtype=np.bool_)
        for lookup in listed:
            allowed &= lookup.allowed[lookup.row[rows]]
        local, value = np.nonzero(allowed)
        for rule in asked:
            held = _evaluate_rule(rule, domains, columns, rows, new, local, value)
            local, value = local[held], value[held]
        found.append(
            ((local + rows.start).astype(np.int32), value.astype(np.min_scalar_type(size)))
        )
        edges += len(local)
        if edges > MAX_EDGES:
            raise TooLarge
    if len(found) == 1:
        return found[0]
    return np.concatenate([n for n, _ in found]), np.concatenate([v for _, v in found])


def _lookup(
    rule: Rule, domains: Sequence[Domain], columns: _Columns, nodes: int, new: int
) -> _Lookup | None:
    """Return the look-up of a rule's table, or of the combinations that the nodes have if these are few."""
    others = [i for i in rule.members if i != new]
    sizes = [domains[i].size for i in others]
    size = domains[new].size
    if rule.table is not None:
        table = np.moveaxis(rule.table, rule.members.index(new), -1).reshape(-1, size)
        if not others:
            return _Lookup(table, np.zeros(nodes, dtype=np.int64))
        return _Lookup(table, mixed_radix([columns[i] for i in others], sizes))
    if len(others) == len(columns) or math.prod(sizes) >= 2**62:
        return None  # every node has a different combination
    distinct, row = number_keys(mixed_radix([columns[i] for i in others], sizes), math.prod(sizes))
    if 2 * len(distinct) > nodes or len(distinct) * size > _LOOKUP_LIMIT:
        return None
    digits = dict(zip(others, from_mixed_radix(distinct, sizes), strict=True))
    allowed = np.empty((len(distinct), size), dtype=np.bool_)
    for rows in _chunks(len(distinct), size):
        count = rows.stop - rows.start
        local, value = np.repeat(np.arange(count), size), np.tile(np.arange(size), count)
        held = _evaluate_rule(rule, domains, digits, rows, new, local, value)
        allowed[rows] = held.reshape(count, size)
    return _Lookup(allowed, row)


def _chunks(nodes: int, size: int) -> list[slice]:
    """Return consecutive slices of the nodes with about `_CHUNK` candidates each."""
    step = max(1, _CHUNK // size)
    return [slice(begin, min(nodes, begin + step)) for begin in range(0, nodes, step)]


def _evaluate_rule(
    rule: Rule,
    domains: Sequence[Domain],
    columns: _Columns,
    rows: slice,
    new: int,
    local: Ints,
    value: Ints,
) -> Mask:
    """Return whether a rule holds on candidates: pairs of a node, counted from the first one, and a value."""
    values = {
        domains[i].name: domains[i].column[value]
        if i == new
        else domains[i].column[columns[i][rows]][local]
        for i in rule.members
    }
    return np.asarray(rule.constraint.holds(values), dtype=np.bool_)


def _children(
    domains: Sequence[Domain], pending: Sequence[Rule], below: _Columns, n: int
) -> tuple[Ints, _Columns, int]:
    """Return each edge's child, the columns of the children, and their number.

    Edges with the same future lead to the same child, which takes the columns of the first edge.
    """
    if n > 4 * _SAMPLE and not _worth_merging(domains, pending, below, n):
        return np.arange(n, dtype=np.int32), below, n
    child, count = number_futures(domains, pending, below, n)
    first = np.empty(count, dtype=np.int64)
    first[child[::-1]] = np.arange(n - 1, -1, -1)
    return child.astype(np.int32), {i: column[first] for i, column in below.items()}, count


def _worth_merging(
    domains: Sequence[Domain], pending: Sequence[Rule], below: _Columns, n: int
) -> bool:
    """Whether n edges seem to have fewer than n / 2 futures, by a sample.

    Of m edges with k futures, about m^2 / 2k share their future with another edge.
    """
    some = np.arange(0, n, n // _SAMPLE)
    m = len(some)
    _, distinct = number_futures(
        domains, pending, {i: column[some] for i, column in below.items()}, m
    )
    return (m - distinct) * n > m * m
