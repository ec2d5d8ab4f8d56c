"""Running values of constraints: all that the lower levels of a tree must know about the choices of the levels above.

A sum of 300 flags needs the sum so far, a table the number of its prefix. So a tree has one node for each running value
instead of one for each combination of choices, and a branch ends as soon as no choice below can satisfy the constraint.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from baco_like._typing import Column, Ints, Mask
from baco_like.constraints.conditions import GuardedConstraint
from baco_like.constraints.expression import Expression
from baco_like.constraints.language.operators import COMPARE
from baco_like.constraints.protocol import Constraint
from baco_like.constraints.table import TableConstraint, number_prefixes
from baco_like.spaces.feasible.rules import Rule
from baco_like.spaces.rows import concatenate_ranges

_EXACT = 2**52
"""Whole numbers up to this one are exact in both types of NumPy; larger ones are Python's."""

_HUGE = 10**300

_COMPUTE: Mapping[str, tuple[Any, Any, int]] = {
    "+": (np.add, operator.add, 0),
    "*": (np.multiply, operator.mul, 1),
    "min": (np.minimum, min, 2**62),
    "max": (np.maximum, max, -(2**62)),
}
"""The operation of a fold on arrays and on Python's numbers, and its neutral number."""

Step = tuple[Column, Mask, Mask]
"""The running values, where the constraint may still hold, and where it holds whatever follows; ``(n,)`` each."""


class Machine(Protocol):
    """The running value of one constraint, on the levels of one tree.

    Attributes:
        members: The domains that change it, in the order of the levels.
    """

    members: tuple[int, ...]

    def start(self) -> Column:
        """Return the running value of the root, ``(1,)``."""

    def follow(self, member: int, state: Column, value: Ints) -> Step:
        """Return the step to one more member.

        Args:
            member: Index of the domain.
            state: Running values, ``(n,)``.
            value: Positions in the domain, ``(n,)``.
        """

    def offer(self, member: int, state: Column) -> tuple[Ints, Ints] | None:
        """Return the only pairs of a node and a value worth trying, sorted, or None if they are not known."""


def is_table(rule: Rule) -> bool:
    """Whether a rule is a table of allowed combinations."""
    return isinstance(core(rule.constraint), TableConstraint)


def has_states(constraint: Constraint) -> bool:
    """Whether a constraint may have a running value."""
    own = core(constraint)
    is_fold = isinstance(own, Expression) and own.fold is not None
    return is_fold or isinstance(own, TableConstraint)


def core(constraint: Constraint) -> Constraint:
    """Return the constraint without the condition under which it applies."""
    return constraint.constraint if isinstance(constraint, GuardedConstraint) else constraint


def conditions_of(rule: Rule) -> frozenset[int]:
    """Return the members that decide whether a rule applies."""
    own = rule.constraint
    names = own.deciding if isinstance(own, GuardedConstraint) else ()
    members = zip(rule.members, rule.domains, strict=True)
    return frozenset(i for i, domain in members if domain.name in names)


def make_machine(rule: Rule, order: Sequence[int]) -> Machine | None:
    """Return the running value of a rule that has one, for this order of the members, or None."""
    own = core(rule.constraint)
    if rule.table is not None or rule.states is None:
        return None
    if isinstance(own, TableConstraint):
        return TablePrefix(own, rule, order)
    numbers = _numbers(rule)
    assert isinstance(own, Expression)
    return None if numbers is None else RunningFold(own, numbers, order)


def count_states(rule: Rule) -> float | None:
    """Return the log of a bound on the number of running values of a rule, or None if it has no running value."""
    own = core(rule.constraint)
    if isinstance(own, TableConstraint):
        return math.log(own.rows)
    numbers = _numbers(rule)
    if numbers is None:
        return None
    assert isinstance(own, Expression)
    assert own.fold is not None
    most = math.prod(len(set(some)) for some in numbers.values())
    if own.fold.sign in ("min", "max"):
        most = len({number for some in numbers.values() for number in some})
    elif own.fold.sign == "+":
        step = min(_step(some) for some in numbers.values())
        most = min(most, 1 + int(sum(max(some) - min(some) for some in numbers.values()) / step))
    limits = [own.fold.modulus, own.fold.multiple]
    limits += [int(number) for _, number in own.fold.limits if own.fold.sign == "*"]
    return math.log(min([most, *(max(2, abs(limit)) for limit in limits if limit)]))


def _step(numbers: Sequence[Any]) -> Any:
    distinct = sorted(set(numbers))
    return min((b - a for a, b in pairwise(distinct)), default=1)


def _numbers(rule: Rule) -> dict[int, list[Any]] | None:
    """Return for each member the numbers that its values add to the fold of a rule, if any order gives Python's result.

    They are whole numbers, or sums of fractions without rounding.
    """
    own = core(rule.constraint)
    if not isinstance(own, Expression) or own.fold is None:
        return None
    numbers: dict[int, list[Any]] = {}
    for i, domain in zip(rule.members, rule.domains, strict=True):
        if domain.name in own.fold.terms:
            found = own.fold_numbers(domain.name, domain.column)
            if found is None:
                return None
            numbers[i] = [int(n) if isinstance(n, bool) else n for n in found]
    every = {n for some in (*numbers.values(), own.fold.constants) for n in some}
    if {type(n) for n in every} <= {int, bool}:
        return numbers
    if not all(isinstance(n, int | float) and abs(n) < _EXACT for n in every):
        return None
    if own.fold.sign == "+":
        finest = max(n.as_integer_ratio()[1] for n in every)
        total = sum(max(map(abs, some)) for some in (*numbers.values(), own.fold.constants) if some)
        return numbers if total * finest <= _EXACT else None
    return numbers if own.fold.sign in ("min", "max") else None


def _merge_equivalent(
    numbers: Mapping[int, list[Any]], limits: Sequence[Any]
) -> dict[int, list[Any]]:
    """Return the numbers with one instead of all those between the same limits."""
    distinct = sorted({n for some in numbers.values() for n in some})
    least: dict[Any, Any] = {}
    for n in distinct:
        least.setdefault(tuple((n > limit) - (n < limit) for limit in limits), n)
    merged = {n: least[tuple((n > c) - (n < c) for c in limits)] for n in distinct}
    return {i: [merged[n] for n in some] for i, some in numbers.items()}


class RunningFold:
    """The value of the terms of a fold so far (see `language.analysis`)."""

    def __init__(
        self, expression: Expression, numbers: Mapping[int, list[Any]], order: Sequence[int]
    ) -> None:
        assert expression.fold is not None
        self.fold = fold = expression.fold
        self._apply, compute, neutral = _COMPUTE[fold.sign]
        self._start = reduce(compute, fold.constants, neutral)
        self.members = tuple(i for i in order if i in numbers)
        self._rest: dict[int, tuple[Any, Any]] = {}
        low = high = neutral
        for i in reversed(
            self.members
        ):  # the least and the greatest value of the terms that follow
            self._rest[i] = (low, high)
            ends = [compute(a, b) for a in (low, high) for b in (min(numbers[i]), max(numbers[i]))]
            low, high = min(ends), max(ends)
        if fold.sign in ("min", "max") and fold.limits:
            numbers = _merge_equivalent(numbers, [number for _, number in fold.limits])
        every = [self._start, *(n for some in numbers.values() for n in some)]
        dtype: Any = np.int64 if all(isinstance(n, int) for n in every) else np.float64
        self._exact_type: Any = np.float64
        if dtype == np.int64 and self._greatest(list(numbers.values())) > _EXACT:
            dtype = self._exact_type = object
        self._numbers = {i: np.array(some, dtype=dtype) for i, some in numbers.items()}

    def _greatest(self, numbers: Sequence[Sequence[int]]) -> int:
        """Return a bound on the absolute running values, and on the numbers that they are compared with."""
        fold, start = self.fold, abs(self._start)
        sizes = [max(1, *map(abs, some)) for some in numbers]
        if fold.sign in ("min", "max"):
            return max(min(start, _EXACT), *sizes)
        given = [abs(n) for n in (fold.modulus, fold.multiple, *(n for _, n in fold.limits)) if n]
        total = start + sum(sizes) if fold.sign == "+" else math.prod([start, *sizes])
        positive = start > 0 and all(n > 0 for some in numbers for n in some)
        most = [n for sign, n in fold.limits if sign in ("<", "<=")] if positive else []
        kept = [abs(n) for n in (fold.modulus, fold.multiple, *most) if n is not None]
        if kept and (fold.sign == "*" or fold.modulus):
            grown = max(start, *map(math.ceil, kept))
            total = min(total, grown + max(sizes) if fold.sign == "+" else grown * max(sizes))
        return max([total, *map(math.ceil, given)])

    def start(self) -> Column:
        """Return the value of the constant terms."""
        return np.array([self._start], dtype=self._numbers[self.members[0]].dtype)

    def offer(self, member: int, state: Column) -> None:
        """Return None: every value may be possible."""

    def follow(self, member: int, state: Column, value: Ints) -> Step:
        """Return the step to one more parameter."""
        fold = self.fold
        after = self._apply(state, self._numbers[member][value])
        if fold.modulus is not None:
            after = after % fold.modulus
        if member == self.members[-1]:
            holds = self._holds(after)
            return after, holds, holds
        possible = np.ones(len(after), dtype=np.bool_)
        sure = np.full(len(after), bool(fold.limits))
        if fold.multiple is not None:
            divisor = np.where(after == 0, 2 * abs(fold.multiple), after)
            possible &= np.asarray(fold.multiple % divisor == 0, dtype=np.bool_)
        if fold.limits:
            ends = [self._end(after, number) for number in self._rest[member]]
            lowest, highest = np.minimum(*ends), np.maximum(*ends)
            for sign, number in fold.limits:
                near, far = (lowest, highest) if sign in ("<", "<=") else (highest, lowest)
                possible &= np.asarray(COMPARE[sign](near, number), dtype=np.bool_)
                sure &= np.asarray(COMPARE[sign](far, number), dtype=np.bool_)
        return after, possible, sure

    def _end(self, value: Column, rest: Any) -> Column:
        """Return the value with the least or the greatest value of the rest."""
        if self._exact_type is not object:
            value, rest = value.astype(np.float64), float(max(-_HUGE, min(_HUGE, rest)))
        with np.errstate(over="ignore"):
            return np.asarray(self._apply(value, rest))

    def _holds(self, value: Column) -> Mask:
        if self.fold.limits:
            held = [COMPARE[sign](value, number) for sign, number in self.fold.limits]
            return np.asarray(np.all(held, axis=0), dtype=np.bool_)
        distinct, number = np.unique(value, return_inverse=True)
        return np.array([self.fold.holds(v) for v in distinct.tolist()], dtype=np.bool_)[number]


class TablePrefix:
    """The number of a prefix among the distinct prefixes of a table's rows, in the order of the levels."""

    def __init__(self, table: TableConstraint, rule: Rule, order: Sequence[int]) -> None:
        by_name = dict(zip((domain.name for domain in rule.domains), rule.members, strict=True))
        domains = dict(zip(rule.members, rule.domains, strict=True))
        positions: dict[int, Ints] = {}
        begin = 0
        for name in table.parameters:
            domain = domains[by_name[name]]
            codes = table.codes[:, begin : begin + domain.width].astype(np.float64)
            positions[by_name[name]] = domain.positions(codes)
            begin += domain.width
        inside = np.logical_and.reduce([column >= 0 for column in positions.values()])
        self.members = tuple(i for i in order if i in positions)
        self._sizes = {i: domains[i].size for i in self.members}
        rows = [positions[i][inside] for i in self.members]
        keys = number_prefixes(rows, self._sizes.values())
        self._keys = dict(zip(self.members, keys, strict=True))

    def start(self) -> Column:
        """Return the number of the empty prefix."""
        return np.zeros(1, dtype=np.int64)

    def offer(self, member: int, state: Column) -> tuple[Ints, Ints]:
        """Return the values that follow each prefix."""
        keys, size = self._keys[member], self._sizes[member]
        start = np.searchsorted(keys, state * size)
        length = np.searchsorted(keys, (state + 1) * size) - start
        return np.repeat(np.arange(len(state)), length), keys[
            concatenate_ranges(start, length)
        ] % size

    def follow(self, member: int, state: Column, value: Ints) -> Step:
        """Return the step to one more parameter."""
        keys, key = self._keys[member], state * self._sizes[member] + value
        after = np.minimum(np.searchsorted(keys, key), max(0, len(keys) - 1))
        found = keys[after] == key if len(keys) else np.zeros(len(key), dtype=np.bool_)
        is_last = member == self.members[-1]
        return after, found, found if is_last else np.zeros(len(key), dtype=np.bool_)
