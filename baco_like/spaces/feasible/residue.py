"""Which partial configurations leave the same choices.

A node of a tree represents all partial configurations with the same future. The future depends, for every constraint
that is not complete yet, on the slice of its table that the bound values select, if it has a table; on the values of
the bound parts of its expression (for example the product, not its factors); and otherwise on the bound values.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from baco_like._typing import Column, Ints, Mask
from baco_like.constraints.expression import Expression
from baco_like.constraints.language.partial_evaluation import Term
from baco_like.spaces.feasible.rules import ParameterDomain, Rule, mixed_radix, number_keys
from baco_like.spaces.feasible.work import CALL_COST, Work

Numbering = tuple[Ints, int]
"""Numbers in ``range(k)``, ``(n,)``, and k."""

_WIDEST = 2**40

_WORTHWHILE = 2**9
"""Fewer partial configurations are distinguished by their values, which is faster."""


_SORT_COST = 32
"""Operations for distinguishing one value among millions by sorting."""

_BY_ROW = 2**16
"""Most partial configurations for which parts of expressions are computed row by row (a few microseconds each)."""


def number_futures(
    domains: Sequence[ParameterDomain],
    pending: Sequence[Rule],
    deciding: Collection[int],
    positions: Mapping[int, Column],
    n: int,
    work: Work | None = None,
) -> Numbering:
    """Number n partial configurations: those with the same number have the same feasible completions.

    Args:
        domains: The domains of the group.
        pending: The rules that are not complete.
        deciding: Domains that decide whether rules with a running value apply.
        positions: Positions in every bound domain that these rules read, ``(n,)``; further keys have running values.
        n: Number of partial configurations.
        work: Work that may be spent; None sets no limit.

    Raises:
        TooLarge: More work is needed.
    """
    work = Work() if work is None else work
    states = [_distinct(column) for i, column in positions.items() if i >= len(domains)]
    positions = {i: column for i, column in positions.items() if i < len(domains)}
    if n < _WORTHWHILE:
        own = [(column, domains[i].size) for i, column in positions.items()]
        return _together([*own, *states], n)
    raw = set(deciding)
    terms: dict[Any, Term] = {}
    for rule in pending:
        if rule.table is None:
            bound = [i for i in rule.members if i in positions]
            names = frozenset(domains[i].name for i in bound)
            constraint = rule.constraint
            known = constraint.known_terms(names) if isinstance(constraint, Expression) else None
            if known is None or (n > _BY_ROW and any(term.by_row for term in known)):
                raw.update(bound)
            else:
                terms |= {term.node: term for term in known}
    numberings = _numberings(domains, pending, positions, raw, terms, n, work)
    return _together(chain(numberings, states), n)


def _numberings(
    domains: Sequence[ParameterDomain],
    pending: Sequence[Rule],
    positions: Mapping[int, Ints],
    raw: set[int],
    terms: Mapping[Any, Term],
    n: int,
    work: Work,
) -> Iterator[Numbering]:
    """Yield what the futures depend on, one at a time: an array may have 100 MB.

    Args:
        domains: As in `number_futures`, like `pending`, `positions`, `n` and `work`.
        pending: The rules.
        positions: The positions.
        raw: Domains whose positions matter.
        terms: Parts of expressions whose values matter.
        n: The number.
        work: The work.
    """
    for i in sorted(raw):
        work.spend(n + CALL_COST)
        yield positions[i], domains[i].size
    for rule in pending:
        if rule.table is not None and not raw.issuperset(set(rule.members) & positions.keys()):
            yield _slices(rule, rule.table, positions, work)
    by_name = {domains[i].name: (domains[i].column, positions[i]) for i in positions}
    named = {domains[i].name for i in raw}
    for term in terms.values():
        if not term.names <= named:
            rows = min(len(by_name[name][0]) for name in term.names) if len(term.names) == 1 else n
            work.spend(rows * term.cost + n * _SORT_COST)
            yield from _values(term, by_name)


def _slices(rule: Rule, table: Mask, positions: Mapping[int, Ints], work: Work) -> Numbering:
    """Number the slices of a rule's table that the bound positions select; equal slices get the same number."""
    axes = [axis for axis, member in enumerate(rule.members) if member in positions]
    sizes = [rule.sizes[axis] for axis in axes]
    rows = len(positions[rule.members[axes[0]]]) if axes else 0
    work.spend(table.size + math.prod(sizes) * _SORT_COST + rows * len(axes) + CALL_COST)
    table = np.moveaxis(table, axes, range(len(axes))).reshape(math.prod(sizes), -1)
    distinct, number = np.unique(np.packbits(table, axis=1), axis=0, return_inverse=True)
    selected = mixed_radix([positions[rule.members[axis]] for axis in axes], sizes)
    return number.ravel()[selected], len(distinct)


def _values(term: Term, by_name: Mapping[str, tuple[Column, Ints]]) -> list[Numbering]:
    """Number the values of a bound part of an expression, and whether they are defined.

    Args:
        term: The part.
        by_name: The values of each bound parameter, and their positions in the partial configurations, ``(n,)``.
    """
    # A part that reads one parameter has at most as many values as the parameter.
    alone = len(term.names) == 1
    read = {name: by_name[name] for name in term.names}
    columns = {name: values if alone else values[at] for name, (values, at) in read.items()}
    with np.errstate(all="ignore"):
        value, undefined = term.vector.run(columns)
    shape = next(iter(columns.values())).shape[:1]
    value = np.broadcast_to(value, shape)
    if undefined is None:
        numberings = [_distinct(value)]
    else:
        undefined = np.broadcast_to(undefined, shape)
        value = np.where(undefined, value.dtype.type(), value)
        numberings = [_distinct(value), (undefined.astype(np.int64), 2)]
    if alone:
        ((_, at),) = read.values()
        return [(number[at], size) for number, size in numberings]
    return numberings


def _distinct(values: Column) -> Numbering:
    """Number values; equal values get the same number."""
    if values.dtype.kind in "biu":
        numbers = values.astype(np.int64)
        low = int(numbers.min(initial=0))
        span = int(numbers.max(initial=0)) - low + 1
        if span < _WIDEST:
            distinct, number = number_keys(numbers - low, span)
            return number, len(distinct)
    if values.dtype == object:  # mixed types have no common order
        numbers_of: dict[Any, int] = {}
        assigned = [numbers_of.setdefault((type(v), v), len(numbers_of)) for v in values.tolist()]
        return np.array(assigned, dtype=np.int64), len(numbers_of)
    unique, number = np.unique(values, return_inverse=True)
    return number, len(unique)


def _together(numberings: Iterable[Numbering], n: int) -> Numbering:
    """Number the combinations of several numberings."""
    key, size = np.zeros(n, dtype=np.int64), 1
    for number, count in numberings:
        if size * count > _WIDEST:
            distinct, key = number_keys(key, size)
            size = len(distinct)
        key = key * count + number
        size *= count
    distinct, key = number_keys(key, size)
    return key, len(distinct)
