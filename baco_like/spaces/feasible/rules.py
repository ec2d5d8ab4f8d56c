"""The parameters and the known constraints of one group, with values numbered 0, 1, ... ("positions")."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from baco_like._typing import Array, Codes, Column, Ints, Mask
from baco_like.constraints.protocol import Constraint
from baco_like.parameters.permutation import (
    Ranks,
    are_permutations,
    permutation_ranks,
    permutations_from_ranks,
    rank_dtype,
)
from baco_like.parameters.protocol import Parameter, ParameterKind, is_permutation, is_sequence
from baco_like.parameters.sequence import sequences_from_ranks
from baco_like.spaces.feasible.work_limit import CALL_COST, UNLIMITED, Work, row_cost

TABLE_LIMIT = 2**15
"""Most combinations of values for which a constraint is evaluated once on all of them."""

FEW_SEQUENCES = 2**12
"""Most values of a conditional sequence that is counted: of more, uniform draws would hardly meet the inactive one."""

_PROBES = 256
"""Combinations from which the share of a constraint without a table is estimated."""


@dataclass(frozen=True, eq=False)
class ParameterDomain:
    """Some values of one parameter, in the order of their `keys`.

    Attributes:
        name: The parameter.
        codes: Their codes, ``(size, width)``.
        column: Their values as constraints see them, ``(size,)`` or ``(size, m)``.
        kind: How the values are related.
        total: Number of the parameter's values before constraints removed some.
        numbers: Returns a number for each row of codes, ``(n, width)`` -> ``(n,)``: increasing ones for the values.
    """

    name: str
    codes: Codes
    column: Column
    kind: ParameterKind
    total: int
    numbers: Callable[[Codes], Array]

    @property
    def ordered(self) -> bool:
        """Whether neighbouring codes are similar values."""
        return self.kind not in (ParameterKind.UNORDERED, ParameterKind.SEQUENCE)

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.codes)

    @property
    def width(self) -> int:
        """Number of code columns."""
        return int(self.codes.shape[1])

    @cached_property
    def keys(self) -> Array:
        """Increasing numbers of the values, ``(size,)``."""
        return self.numbers(self.codes)

    def subset(self, mask: Mask) -> ParameterDomain:
        """Return the domain of the values where ``mask``, ``(size,)``, is True."""
        return replace(self, codes=self.codes[mask], column=self.column[mask])

    def positions(self, codes: Codes) -> Ints:
        """Return the position of each row of codes, ``(n, width)`` -> ``(n,)``, or -1 if it has none."""
        keys = self.numbers(codes)
        low, high = self.keys[0], self.keys[-1]
        if high - low + 1 == self.size:  # no gaps, so no search
            return whole_numbers(keys - low, self.size)
        position = np.minimum(np.searchsorted(self.keys, keys), self.size - 1)
        return np.where(self.keys[position] == keys, position, -1)


def whole_numbers(numbers: Array, size: int | Ints) -> Ints:
    """Return whole numbers in ``range(size)`` as integers, and -1 for other numbers."""
    inside = (numbers >= 0) & (numbers < size)
    whole = np.where(inside, numbers, -1).astype(np.int64)
    return np.where(whole == numbers, whole, -1)


def can_list(parameter: Parameter, most: int) -> bool:
    """Whether `list_domain` can list a parameter, with at most this number of values.

    Several code columns do not say what the values are, except for permutations and sequences; a custom type lists its
    `values`.
    """
    if is_sequence(parameter):
        return parameter.cardinality <= min(most, FEW_SEQUENCES)
    known = parameter.width == 1 or parameter.values is not None
    return parameter.cardinality <= most and (known or is_permutation(parameter))


def list_domain(name: str, parameter: Parameter) -> ParameterDomain:
    """Return all values of a parameter that `can_list` accepts."""
    count = int(parameter.cardinality)
    numbers: Callable[[Codes], Array] = first_column
    if is_sequence(parameter):
        return list_values(name, parameter, sequences_from_ranks(np.arange(count), parameter))
    if parameter.width == 1:
        codes = parameter.code_range[0] + np.arange(count, dtype=np.float64)[:, None]
    elif is_permutation(parameter):
        codes = permutations_from_ranks(np.arange(count), parameter.width).astype(np.float64)
        numbers = _permutation_numbers
    else:
        return list_values(name, parameter, parameter.encode(parameter.values or ()))
    return ParameterDomain(name, codes, parameter.column(codes), parameter.kind, count, numbers)


def list_values(name: str, parameter: Parameter, codes: Codes) -> ParameterDomain:
    """Return some rows of codes of a parameter as its values."""
    numbers = partial(_row_numbers, {key: i for i, key in enumerate(_row_bytes(codes))})
    column = parameter.column(codes)
    return ParameterDomain(name, codes, column, parameter.kind, len(codes), numbers)


def first_column(codes: Codes) -> Array:
    """Return the codes of a scalar as numbers."""
    return codes[:, 0]


def _permutation_numbers(codes: Codes) -> Array:
    return np.where(are_permutations(codes), permutation_ranks(codes), -1)


def _row_numbers(known: Mapping[bytes, int], codes: Codes) -> Array:
    return np.array([known.get(key, -1) for key in _row_bytes(codes)], dtype=np.int64)


def _row_bytes(codes: Codes) -> list[bytes]:
    return [row.tobytes() for row in codes + 0.0]  # -0.0 is 0.0


@dataclass(frozen=True, eq=False)
class Rule:
    """A constraint of a group.

    Attributes:
        constraint: The known constraint.
        members: Indices of the domains of the group that it reads, increasing.
        domains: These domains.
        share: The (estimated) share of all combinations of these domains for which it holds.
        table: Whether it holds for every combination of positions, one axis for each member, or None if there are too
            many.
        states: The log of a bound on the number of its running values, or None if it has none (see `machines`).
        work: Work that `holds` may spend.
    """

    constraint: Constraint
    members: tuple[int, ...]
    domains: tuple[ParameterDomain, ...]
    share: float = 1.0
    table: Mask | None = None
    states: float | None = None
    work: Work = field(default=UNLIMITED, repr=False)

    @property
    def sizes(self) -> list[int]:
        """Number of values of each member."""
        return [domain.size for domain in self.domains]

    def holds(self, positions: Mapping[int, Ints]) -> Mask:
        """Return whether it holds on n rows of positions, one ``(n,)`` array for each member.

        Raises:
            TooLarge: More work is needed than is left.
        """
        rows = len(positions[self.members[0]])
        self.work.spend(rows * row_cost(self.constraint) + CALL_COST)
        members = zip(self.members, self.domains, strict=True)
        columns = {domain.name: domain.column[positions[i]] for i, domain in members}
        return np.asarray(self.constraint.holds(columns), dtype=np.bool_)

    def tabulated(self) -> Rule:
        """Return the rule with its table, or with an estimated share if it has too many combinations."""
        if math.prod(self.sizes) > TABLE_LIMIT:
            probes = {i: _spread(self.sizes[j], j) for j, i in enumerate(self.members)}
            return replace(self, share=(int(self.holds(probes).sum()) + 0.5) / (_PROBES + 1))
        grids = np.indices(self.sizes).reshape(len(self.sizes), -1)
        table = self.holds(dict(zip(self.members, grids, strict=True)))
        return replace(self, share=float(table.mean()), table=table.reshape(self.sizes))


def bind(
    constraint: Constraint, domains: Sequence[ParameterDomain], work: Work = UNLIMITED
) -> Rule:
    """Return the rule of a constraint over these domains, without its table and share."""
    members = [i for i, domain in enumerate(domains) if domain.name in constraint.parameters]
    return Rule(constraint, tuple(members), tuple(domains[i] for i in members), work=work)


def tighten(
    domains: Sequence[ParameterDomain], rules: Sequence[Rule], work: Work = UNLIMITED
) -> tuple[list[ParameterDomain], list[Rule]]:
    """Drop values that some table never allows, until every value is allowed by every table; merge tables.

    Returns:
        The smaller domains (empty ones if the rules contradict each other), and the rules over them.

    Raises:
        TooLarge: More work is needed.
    """
    work.spend(len(rules) * CALL_COST)
    tables: dict[tuple[int, ...], Mask] = {}
    for rule in rules:
        if rule.table is not None:
            tables[rule.members] = rule.table & tables.get(rule.members, True)
    kept = [np.ones(domain.size, dtype=np.bool_) for domain in domains]
    changed = True
    while changed:
        changed = False
        for members, table in tables.items():
            work.spend(table.size + CALL_COST)
            alive = table[np.ix_(*(kept[member] for member in members))]
            for axis, member in enumerate(members):
                supported = alive.any(axis=tuple(i for i in range(alive.ndim) if i != axis))
                kept[member][np.flatnonzero(kept[member])] = supported
                changed |= not supported.all()
    smaller = [domain.subset(mask) for domain, mask in zip(domains, kept, strict=True)]
    tabled = {rule.members: rule for rule in rules if rule.table is not None}
    remaining: list[Rule] = []
    for rule in [*tabled.values(), *(rule for rule in rules if rule.table is None)]:
        rule = replace(rule, domains=tuple(smaller[member] for member in rule.members))
        if rule.table is not None:
            table = tables[rule.members][np.ix_(*(kept[member] for member in rule.members))]
            rule = replace(rule, table=table, share=float(table.mean()) if table.size else 0.0)
        remaining.append(rule)
    return smaller, remaining


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


def join_ranks(ranks: Sequence[Ranks], counts: Sequence[int]) -> Ranks:
    """Return the ranks in a product of sets, the first one being the most significant digit; -1 where any is -1."""
    good = np.logical_and.reduce([own >= 0 for own in ranks])
    total: Ranks = np.zeros(len(good), dtype=rank_dtype(math.prod(counts)))
    for own, count in zip(ranks, counts, strict=True):
        total = total * count + own.astype(total.dtype)
    return np.where(good, total, -1)


def split_ranks(ranks: Ranks, counts: Sequence[int]) -> list[Ranks]:
    """Return the ranks in each set of a product; the inverse of `join_ranks`."""
    ranks = ranks.astype(rank_dtype(math.prod(counts)), copy=False)
    own: list[Ranks] = []
    for count in reversed(counts):
        own.append((ranks % count).astype(rank_dtype(count)))
        ranks = ranks // count
    return own[::-1]


def _spread(size: int, axis: int) -> Ints:
    """Return evenly spread positions, one axis of a Kronecker sequence (multiples of a square root, modulo 1)."""
    irrational = math.sqrt((2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)[axis % 12])
    return (((0.5 + irrational * np.arange(1, _PROBES + 1)) % 1.0) * size).astype(np.int64)
