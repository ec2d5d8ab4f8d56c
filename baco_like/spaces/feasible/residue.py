"""Which partial configurations leave the same choices.

A node of a tree represents all partial configurations with the same future. The future depends, for every constraint
that is not complete yet, on the slice of its table that the bound values select, if it has a table; on the values of
the bound parts of its expression (for example the product, not its factors); and otherwise on the bound values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from baco_like._typing import Ints
from baco_like.constraints.expression import Expression
from baco_like.constraints.language.partial_evaluation import Term
from baco_like.spaces.feasible.domain import Domain
from baco_like.spaces.feasible.rules import Rule, mixed_radix, number_keys

Numbering = tuple[Ints, int]
"""Numbers in ``range(k)``, ``(n,)``, and k."""

_WIDEST = 2**40

_WORTHWHILE = 2**9
"""Fewer partial configurations are distinguished by their values, which is faster."""


_BY_ROW = 2**16
"""Most partial configurations for which parts of expressions are computed row by row (a few microseconds each)."""


def number_futures(
    domains: Sequence[Domain], pending: Sequence[Rule], positions: Mapping[int, Ints], n: int
) -> Numbering:
    """Number n partial configurations: those with the same number have the same feasible completions.

    Args:
        domains: The domains of the group.
        pending: The rules that are not complete.
        positions: Positions in every bound domain that these rules read, ``(n,)``.
        n: Number of partial configurations.
    """
    if n < _WORTHWHILE:
        return _together([(column, domains[i].size) for i, column in positions.items()], n)
    raw: set[int] = set()
    terms: dict[Any, Term] = {}
    tables: list[Rule] = []
    for rule in pending:
        bound = [i for i in rule.members if i in positions]
        if rule.table is not None:
            tables.append(rule)
            continue
        found = _terms(rule, frozenset(domains[i].name for i in bound))
        if found is None or (n > _BY_ROW and any(term.by_row for term in found)):
            raw.update(bound)
        else:
            terms |= {term.node: term for term in found}
    by_name = {domains[i].name: i for i in positions}
    numberings = [(positions[i], domains[i].size) for i in sorted(raw)]
    for rule in tables:
        if not raw.issuperset(i for i in rule.members if i in positions):
            numberings.append(_slices(rule, domains, positions))
    for term in terms.values():
        if not raw.issuperset(by_name[name] for name in term.names):
            numberings += _values(term, domains, positions, by_name)
    return _together(numberings, n)


def _terms(rule: Rule, names: frozenset[str]) -> list[Term] | None:
    if not isinstance(rule.constraint, Expression):
        return None
    return rule.constraint.known_terms(names)


def _slices(rule: Rule, domains: Sequence[Domain], positions: Mapping[int, Ints]) -> Numbering:
    """Number the slices of a rule's table that the bound positions select; equal slices get the same number."""
    assert rule.table is not None
    bound = [i for i in rule.members if i in positions]
    if not bound:
        return np.zeros(1, dtype=np.int64), 1
    axes = [rule.members.index(i) for i in bound]
    sizes = [domains[i].size for i in bound]
    table = np.moveaxis(rule.table, axes, range(len(axes))).reshape(int(np.prod(sizes)), -1)
    packed = np.packbits(table, axis=1)
    distinct, number = np.unique(packed, axis=0, return_inverse=True)
    return number.ravel()[mixed_radix([positions[i] for i in bound], sizes)], len(distinct)


def _values(
    term: Term, domains: Sequence[Domain], positions: Mapping[int, Ints], by_name: Mapping[str, int]
) -> list[Numbering]:
    """Number the values of a bound part of an expression, and whether they are defined."""
    if len(term.names) == 1:  # at most as many values as the parameter has
        (i,) = (by_name[name] for name in term.names)
        everything = {i: np.arange(domains[i].size)}
        alone = _evaluated(term, domains, everything, by_name)
        return [(number[positions[i]], size) for number, size in alone]
    return _evaluated(term, domains, positions, by_name)


def _evaluated(
    term: Term, domains: Sequence[Domain], positions: Mapping[int, Ints], by_name: Mapping[str, int]
) -> list[Numbering]:
    read = [by_name[name] for name in term.names]
    n = len(positions[read[0]])
    with np.errstate(all="ignore"):
        value, undefined = term.vector.run(
            {domains[i].name: domains[i].column[positions[i]] for i in read}
        )
    value = np.broadcast_to(value, (n,))
    if undefined is None:
        return [_distinct(value)]
    undefined = np.broadcast_to(undefined, (n,))
    return [
        _distinct(np.where(undefined, value.dtype.type(), value)),
        (undefined.astype(np.int64), 2),
    ]


def _distinct(values: npt.NDArray[Any]) -> Numbering:
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
    found, number = np.unique(values, return_inverse=True)
    return number, len(found)


def _together(numberings: Sequence[Numbering], n: int) -> Numbering:
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
