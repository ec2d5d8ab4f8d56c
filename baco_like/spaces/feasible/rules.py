"""Known constraints over the domains of one group, evaluated on positions instead of values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from baco_like._typing import Ints, Mask
from baco_like.constraints.protocol import Constraint
from baco_like.spaces.feasible.domain import Domain

TABLE_LIMIT = 2**15
"""Most combinations of values for which a constraint is evaluated once on all of them."""

_PROBES = 256
"""Combinations from which the share of a constraint without a table is estimated."""


@dataclass(frozen=True, eq=False)
class Rule:
    """A constraint of a group.

    Attributes:
        constraint: The known constraint.
        members: Indices of the domains of the group that it reads, increasing.
        share: The (estimated) share of all combinations of these domains for which it holds.
        table: Whether it holds for every combination of positions, one axis for each member, or None if there are too
            many.
    """

    constraint: Constraint
    members: tuple[int, ...]
    share: float = 1.0
    table: Mask | None = None


def bind(constraint: Constraint, domains: Sequence[Domain]) -> Rule:
    """Return the rule of a constraint over these domains, without its table and share."""
    names = set(constraint.parameters)
    return Rule(constraint, tuple(i for i, domain in enumerate(domains) if domain.name in names))


def tabulate(rule: Rule, domains: Sequence[Domain]) -> Rule:
    """Return the rule with its table, or with an estimated share if it has too many combinations."""
    sizes = [domains[i].size for i in rule.members]
    if math.prod(sizes) > TABLE_LIMIT:
        probes = {i: _spread(domains[i].size, j) for j, i in enumerate(rule.members)}
        held = int(holds(rule, domains, probes).sum())
        return replace(rule, share=(held + 0.5) / (_PROBES + 1))
    grids = np.indices(sizes).reshape(len(sizes), -1)
    table = holds(rule, domains, dict(zip(rule.members, grids, strict=True)))
    return replace(rule, share=float(table.mean()), table=table.reshape(sizes))


def tighten(domains: Sequence[Domain], rules: Sequence[Rule]) -> tuple[list[Domain], list[Rule]]:
    """Drop values that some table never allows, until every value is allowed by every table; merge tables.

    Returns:
        The smaller domains (empty ones if the rules contradict each other), and the rules over them.
    """
    tables: dict[tuple[int, ...], Rule] = {}
    for rule in rules:
        if rule.table is not None:
            same = tables.get(rule.members)
            both = rule.table if same is None or same.table is None else rule.table & same.table
            tables[rule.members] = replace(rule, table=both)
    kept = [np.ones(domain.size, dtype=np.bool_) for domain in domains]
    changed = True
    while changed:
        changed = False
        for rule in tables.values():
            changed |= _drop_unsupported(rule, kept)
    smaller = [domain.subset(mask) for domain, mask in zip(domains, kept, strict=True)]
    left = [_restrict(rule, kept) for rule in tables.values()]
    return smaller, left + [rule for rule in rules if rule.table is None]


def _drop_unsupported(rule: Rule, kept: Sequence[Mask]) -> bool:
    """Clear the masks of values that the rule's table allows with no kept values of the other members."""
    assert rule.table is not None
    alive = rule.table
    for axis, member in enumerate(rule.members):
        shape = [-1 if other == axis else 1 for other in range(alive.ndim)]
        alive = alive & kept[member].reshape(shape)
    changed = False
    for axis, member in enumerate(rule.members):
        found = alive.any(axis=tuple(other for other in range(alive.ndim) if other != axis))
        if not np.array_equal(found, kept[member]):
            kept[member][:] = found
            changed = True
    return changed


def _restrict(rule: Rule, kept: Sequence[Mask]) -> Rule:
    assert rule.table is not None
    table = rule.table[np.ix_(*(kept[member] for member in rule.members))]
    return replace(rule, table=table, share=float(table.mean()) if table.size else 0.0)


def evaluate(rule: Rule, domains: Sequence[Domain], positions: Mapping[int, Ints]) -> Mask:
    """Return whether a rule holds on n rows of positions, one ``(n,)`` array for each member; use its table if any."""
    if rule.table is None:
        return holds(rule, domains, positions)
    sizes = [domains[i].size for i in rule.members]
    key = mixed_radix([positions[i] for i in rule.members], sizes)
    return np.asarray(rule.table.ravel()[key])


def holds(rule: Rule, domains: Sequence[Domain], positions: Mapping[int, Ints]) -> Mask:
    """Return whether the constraint of a rule holds on n rows of positions, one ``(n,)`` array for each member."""
    columns = {domains[i].name: domains[i].column[positions[i]] for i in rule.members}
    return np.asarray(rule.constraint.holds(columns), dtype=np.bool_)


def number_keys(key: Ints, bound: int) -> tuple[Ints, Ints]:
    """Return the distinct keys in ``range(bound)``, increasing, and each key's number among them."""
    if bound > 8 * len(key) + 2**16:
        distinct, number = np.unique(key, return_inverse=True)
        return distinct, number
    marks = np.zeros(bound, dtype=np.bool_)
    marks[key] = True
    return np.flatnonzero(marks), (np.cumsum(marks) - 1)[key]


def mixed_radix(digits: Sequence[Ints], sizes: Sequence[int]) -> Ints:
    """Return the numbers with these digits, ``(n,)`` each, the first one being the most significant."""
    key = digits[0].astype(np.int64)
    for digit, size in zip(digits[1:], sizes[1:], strict=True):
        key = key * size + digit
    return key


def from_mixed_radix(numbers: Ints, sizes: Sequence[int]) -> list[Ints]:
    """Return the digits of numbers; the inverse of `mixed_radix`."""
    digits: list[Ints] = []
    for size in reversed(sizes):
        numbers, digit = np.divmod(numbers, size)
        digits.append(digit)
    return digits[::-1]


def _spread(size: int, axis: int) -> Ints:
    """Return evenly spread positions, one axis of a Kronecker sequence (multiples of a square root, modulo 1)."""
    irrational = math.sqrt((2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)[axis % 12])
    return (((0.5 + irrational * np.arange(1, _PROBES + 1)) % 1.0) * size).astype(np.int64)
