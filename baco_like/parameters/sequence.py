"""A list of elements of bounded length, such as the passes of a compiler; and a set of elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Values
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, final

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Codes, Features, Ints, Mask, Rng
from baco_like.exceptions import SpaceError
from baco_like.parameters import distances
from baco_like.parameters.bases import ArrangedParameter, checked_default
from baco_like.parameters.permutation import Ranks, rank_dtype
from baco_like.parameters.protocol import ParameterKind, SequenceParameter
from baco_like.parameters.values import Lookup, Value, domain_values, shorten

END = -1.0
"""The code of a place behind the end."""


def counts_by_length(parameter: SequenceParameter) -> list[int]:
    """Return the number of sequences of each length from 0 to the longest, whatever the shortest is."""
    elements, lengths = len(parameter.elements), range(parameter.width + 1)
    if not parameter.ordered:
        return [math.comb(elements, length) for length in lengths]
    if parameter.distinct:
        return [math.perm(elements, length) for length in lengths]
    return [elements**length for length in lengths]


def lengths(codes: Codes) -> Ints:
    """Return the number of elements of each sequence, ``(n, m)`` -> ``(n,)``."""
    return np.asarray((codes >= 0).sum(axis=1))


def repeats(codes: Codes) -> Mask:
    """Return the places that repeat an element of an earlier place, ``(n, m)`` -> ``(n, m)``."""
    order = np.argsort(codes, axis=1, kind="stable")
    ordered = np.take_along_axis(codes, order, axis=1)
    same = np.zeros(codes.shape, dtype=np.bool_)
    same[:, 1:] = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    repeated = np.empty_like(same)
    np.put_along_axis(repeated, order, same, axis=1)
    return repeated


def close_gaps(codes: Codes) -> Codes:
    """Return rows in which the elements, in unchanged order, come before the ends."""
    order = np.argsort(codes < 0, axis=1, kind="stable")
    return np.take_along_axis(codes, order, axis=1)


def sequence_ranks(codes: Codes, parameter: SequenceParameter) -> Ranks:
    """Return the ranks of legal sequences, ``(n, m)`` -> ``(n,)``: by length, then in lexicographic order."""
    (n, m), elements = codes.shape, len(parameter.elements)
    shortest, distinct = parameter.min_length, parameter.distinct
    counts = counts_by_length(parameter)
    dtype = rank_dtype(sum(counts))
    before = [0, *accumulate(counts[shortest:])]
    length = lengths(codes)
    ranks: Ranks = np.zeros(n, dtype=dtype)
    if not parameter.ordered:
        for size in np.unique(length):
            own = np.flatnonzero(length == size)
            ranks[own] = _subset_ranks(codes[own, :size], elements, dtype)
        return ranks + np.array(before, dtype=dtype)[length - shortest]
    for place in range(m):
        digit = codes[:, place].astype(np.int64)
        if distinct:
            digit = digit - (codes[:, :place] < codes[:, place, None]).sum(axis=1)
        inside = place < length
        radix = max(1, elements - place) if distinct else elements
        ranks[inside] = ranks[inside] * radix + digit[inside].astype(dtype)
    return ranks + np.array(before, dtype=dtype)[length - shortest]


def sequences_from_ranks(ranks: Ranks, parameter: SequenceParameter) -> Codes:
    """Return the sequences with these ranks, ``(n,)`` -> ``(n, m)``; the inverse of `sequence_ranks`."""
    elements, longest = len(parameter.elements), parameter.width
    shortest, distinct = parameter.min_length, parameter.distinct
    counts = counts_by_length(parameter)
    before: Ranks = np.array([0, *accumulate(counts[shortest:])], dtype=rank_dtype(sum(counts)))
    length = np.searchsorted(before, ranks.astype(before.dtype), side="right") - 1
    ranks = ranks - before[length]
    length = length + shortest
    codes = np.full((len(ranks), longest), END)
    if not parameter.ordered:
        for size in np.unique(length):
            own = np.flatnonzero(length == size)
            codes[own, :size] = _subsets_from_ranks(ranks[own], int(size), elements)
        return codes
    for place in range(longest - 1, -1, -1):
        inside = np.flatnonzero(place < length)
        radix = max(1, elements - place) if distinct else elements
        codes[inside, place] = (ranks[inside] % radix).astype(np.float64)
        ranks[inside] = ranks[inside] // radix
    return from_choices(codes, elements) if distinct else codes


def _ways(elements: int, size: int, dtype: type) -> Ranks:
    """Return the numbers of subsets of this size of 0, 1, ... elements."""
    return np.array([math.comb(others, size) for others in range(elements)], dtype=dtype)


def _subset_ranks(codes: Codes, elements: int, dtype: type) -> Ranks:
    """Return the ranks of increasing rows of one length in lexicographic order, ``(n, l)`` -> ``(n,)``.

    The subsets behind one are those whose first different element is larger.
    """
    size = codes.shape[1]
    behind: Ranks = np.zeros(len(codes), dtype=dtype)
    for place in range(size):
        larger = (elements - 1 - codes[:, place]).astype(np.int64)
        behind = behind + _ways(elements, size - place, dtype)[larger]
    return math.comb(elements, size) - 1 - behind


def _subsets_from_ranks(ranks: Ranks, size: int, elements: int) -> Codes:
    """Return the increasing rows with these ranks, ``(n,)`` -> ``(n, l)``; the inverse of `_subset_ranks`."""
    behind = math.comb(elements, size) - 1 - ranks
    codes = np.empty((len(ranks), size))
    for place in range(size):
        ways = _ways(elements, size - place, ranks.dtype.type)
        larger = np.searchsorted(ways, behind, side="right") - 1
        codes[:, place] = elements - 1 - larger
        behind = behind - ways[larger]
    return codes


def from_choices(choices: Codes, elements: int) -> Codes:
    """Return distinct elements: each number counts the elements that are not used yet, ``(n, m)`` -> ``(n, m)``."""
    codes = choices.copy()
    used = np.zeros((len(codes), elements), dtype=np.bool_)
    for place in range(codes.shape[1]):
        inside = np.flatnonzero(choices[:, place] >= 0)
        order = np.argsort(used[inside], axis=1, kind="stable")
        chosen = order[np.arange(len(inside)), choices[inside, place].astype(np.int64)]
        codes[inside, place] = chosen
        used[inside, chosen] = True
    return codes


def draw_unused(codes: Codes, elements: int, rng: Rng) -> Array:
    """Return a random element that is not in each sequence, ``(n, m)`` -> ``(n,)``; any if all are in it."""
    keys = rng.random((len(codes), elements + 1))
    row = np.arange(len(codes))[:, None]
    keys[row, np.where(codes < 0, elements, codes).astype(np.int64)] += 1.0
    return np.asarray(keys[:, :elements].argmin(axis=1), dtype=np.float64)


def insert(codes: Codes, place: Ints, element: Array) -> Codes:
    """Return sequences with one more element, ``(n, m)``; the last one is lost if there is no end."""
    here = np.arange(codes.shape[1])
    at = place[:, None]
    shifted = np.concatenate([codes[:, :1], codes[:, :-1]], axis=1)
    return np.where(here < at, codes, np.where(here == at, element[:, None], shifted))


def remove(codes: Codes, place: Ints) -> Codes:
    """Return sequences without the element at a place, ``(n, m)``."""
    shifted = np.concatenate([codes[:, 1:], np.full((len(codes), 1), END)], axis=1)
    return np.where(np.arange(codes.shape[1]) < place[:, None], codes, shifted)


def replace(codes: Codes, place: Ints, element: Array) -> Codes:
    """Return sequences with another element at a place, ``(n, m)``."""
    return np.where(np.arange(codes.shape[1]) == place[:, None], element[:, None], codes)


def swap(codes: Codes, first: Ints, second: Ints) -> Codes:
    """Return sequences in which the elements at two places are exchanged, ``(n, m)``."""
    row = np.arange(len(codes))
    return replace(replace(codes, first, codes[row, second]), second, codes[row, first])


def move_block(codes: Codes, start: Ints, size: Ints, place: Ints) -> Codes:
    """Return sequences in which a block of elements has moved, ``(n, m)``.

    Args:
        codes: The sequences.
        start: The first place of the block, ``(n,)``.
        size: Its number of elements, ``(n,)``.
        place: Its first place afterwards, ``(n,)``; the block must fit in front of the end.
    """
    here = np.arange(codes.shape[1])
    start, size, place = start[:, None], size[:, None], place[:, None]
    inside = (here >= place) & (here < place + size)
    rest = here - np.where(here >= place + size, size, 0)  # number among the other elements
    source = np.where(inside, here - place + start, rest + np.where(rest >= start, size, 0))
    return np.take_along_axis(codes, source, axis=1)


MAX_LENGTH = 1024
"""Longest sequence; a code column for each place."""

_MOVES = (0.30, 0.05, 0.15, 0.22, 0.13, 0.15)
"""Shares of insert, duplicate, delete, replace, swap and move, which made the best hill climber on pass pipelines."""

_TRIES = 4
"""Moves that are tried until a sequence differs: equal elements may be exchanged."""


@dataclass(frozen=True, init=False)
class Sequence(ArrangedParameter):
    """A list of elements; a value is a tuple of at most ``max_length`` of them, the first one first.

    Its code is one column for each place: the index of the element there, and -1 behind the end.

    Random draws of designs and strategies draw the length uniformly, then the elements: nearly all sequences have the
    greatest length. `Space.sample` draws uniformly from all feasible configurations.

    Attributes:
        elements: Distinct strings or numbers.
        max_length: Most elements of a value, 1 to 1,024.
        min_length: Fewest elements of a value.
        distinct: Whether a value has each element at most once: an ordered subset.
        default: Value in the default configuration, or None.

    Raises:
        SpaceError: The list is empty, an element occurs twice, the lengths do not fit, or the default is not
            such a sequence.
    """

    kind = ParameterKind.SEQUENCE
    ordered = True

    elements: tuple[Value, ...]
    max_length: int
    min_length: int = 0
    distinct: bool = False
    default: tuple[Value, ...] | None = None
    _lookup: Lookup = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        elements: Iterable[Any],
        max_length: int,
        min_length: int = 0,
        distinct: bool = False,
        default: Iterable[Any] | None = None,
    ) -> None:
        listed = domain_values(elements, "elements")
        if not isinstance(distinct, bool):
            raise SpaceError(f"distinct must be true or false, got {distinct!r:.40}")
        for name, length in (("max_length", max_length), ("min_length", min_length)):
            if not isinstance(length, int) or isinstance(length, bool):
                raise SpaceError(f"{name} must be a whole number, got {length!r:.40}")
        if not 0 <= min_length <= max_length or not 1 <= max_length <= MAX_LENGTH:
            raise SpaceError(
                f"min_length = {min_length}, max_length = {max_length}: expected "
                f"0 <= min_length <= max_length and 1 <= max_length <= {MAX_LENGTH}"
            )
        if distinct and max_length > len(listed):
            raise SpaceError(
                f"max_length = {max_length}, but there are only {len(listed)} distinct elements; "
                f"write max_length = {len(listed)}"
            )
        vars(self).update(elements=listed, max_length=max_length, min_length=min_length)
        vars(self).update(distinct=distinct, _lookup=Lookup(listed))
        vars(self).update(default=checked_default(self, default))

    @property
    @override
    def width(self) -> int:
        """One code column for each place."""
        return self.max_length

    @property
    def code_range(self) -> tuple[float, float]:
        """The end and the index of the last element."""
        return END, len(self.elements) - 1.0

    @property
    def cardinality(self) -> int:
        """Number of sequences, as an exact int."""
        return sum(counts_by_length(self)[self.min_length :])

    @property
    @override
    def _description(self) -> str:
        unique = " distinct" if self.distinct else ""
        lengths = f"{self.min_length} to {self.max_length}"
        return f"a sequence of {lengths}{unique} elements of {shorten(self.elements)}"

    @override
    def _codes_of(self, value: Values[Any]) -> list[int] | None:
        """Return the index of every element, or None if it is not a value."""
        indices = [index for element in value if (index := self.index(element)) is not None]
        fits = len(indices) == len(value) and self.min_length <= len(value) <= self.max_length
        is_unique = not self.distinct or len(set(indices)) == len(indices)
        return indices if fits and is_unique else None

    @override
    def decode(self, codes: Codes) -> list[Any]:
        """Return tuples of elements."""
        rows = codes.astype(np.int64).tolist()
        return [tuple(self.elements[index] for index in row if index >= 0) for row in rows]

    def legal(self, codes: Codes) -> Mask:
        """Whether each row is the code of a sequence."""
        low, high = self.code_range
        good = ((codes >= low) & (codes <= high) & (codes == np.floor(codes))).all(axis=1)
        good &= ~((codes[:, :-1] < 0) & (codes[:, 1:] >= 0)).any(axis=1)
        good &= lengths(codes) >= self.min_length
        if self.distinct:
            good &= ~repeats(codes).any(axis=1)
        return np.asarray(good)

    @override
    def sample_uniform(self, n: int, rng: Rng) -> Codes:
        """Return n sequences: each length is equally likely, and each sequence of a length."""
        return self.from_unit(rng.random((n, self.width)))

    def sample_long(self, shares: Array, rng: Rng) -> Codes:
        """Return random sequences whose lengths are these shares, ``(n,)``, of the way from half to all of it."""
        half = max(self.min_length, self.max_length // 2)
        length = half + np.floor(shares * (self.max_length - half + 1))
        ends = self._ends
        points = ends + (1.0 - ends) * rng.random((len(shares), self.width))
        points[np.arange(self.width) >= length[:, None]] = 0.0
        return self.from_unit(points)

    @property
    def _ends(self) -> Array:
        """The probability that a sequence whose length is uniform ends at each place that it reaches, ``(m,)``."""
        place = np.arange(self.max_length)
        return np.where(place < self.min_length, 0.0, 1.0 / (self.max_length - place + 1.0))

    def _choices(self) -> Array:
        """The number of elements to choose from at each place, ``(m,)``."""
        used = np.arange(self.max_length) if self.distinct else 0
        return np.full(self.max_length, float(len(self.elements))) - used

    def to_unit(self, codes: Codes) -> Array:
        """Return the middle of each code's interval: one for the end, then one for each element that may follow."""
        choice = codes
        if self.distinct:
            smaller = codes[:, None, :] < codes[:, :, None]  # place, then earlier place
            earlier = np.tri(self.width, k=-1, dtype=np.bool_)
            choice = codes - (smaller & earlier & (codes >= 0)[:, :, None]).sum(axis=2)
        ends = self._ends
        inside = ends + (1.0 - ends) * (choice + 0.5) / self._choices()
        return np.where(codes < 0, 0.5 * ends, inside)

    def from_unit(self, points: Array) -> Codes:
        """Return the sequences of the intervals that contain the points, ``(n, m)`` -> ``(n, m)``.

        The lengths of uniform points are uniform, and so are the sequences of each length.
        """
        ends, choices = self._ends, self._choices()
        share = (points - ends) / (1.0 - ends)
        codes = np.asarray(np.clip(np.floor(share * choices), 0.0, choices - 1.0))
        codes[np.logical_or.accumulate(share < 0.0, axis=1)] = END
        return self._arrange(from_choices(codes, len(self.elements)) if self.distinct else codes)

    def _arrange(self, codes: Codes) -> Codes:
        """Return the code of each row of elements: here the row itself."""
        return codes

    def neighbours(self, codes: Codes) -> tuple[Codes, Ints]:
        """Return each other sequence after one move, ``(k, m)``, and the row of each, ``(k,)``.

        One element is inserted, deleted, replaced or moved, or two elements are exchanged.
        """
        parts = [self._neighbours_of(row[None, :]) for row in codes]
        owner = np.repeat(np.arange(len(codes)), [len(part) for part in parts])
        return np.concatenate([codes[:0], *parts]), owner

    def _neighbours_of(self, row: Codes) -> Codes:
        length, (_, m) = int(lengths(row)[0]), row.shape
        element, place = (
            part.ravel() for part in np.meshgrid(np.arange(float(len(self.elements))), np.arange(m))
        )
        first, second = np.nonzero(~np.eye(length, dtype=np.bool_))
        inserted, replaced = place <= length, place < length
        one = np.ones_like(first)
        parts = [
            remove(np.tile(row, (length, 1)), np.arange(length)),
            replace(row, place[replaced], element[replaced]),
            swap(np.tile(row, (len(first), 1)), first, second),
            move_block(np.tile(row, (len(first), 1)), first, one, second),
        ]
        if length < m:
            parts.append(insert(row, place[inserted], element[inserted]))
        rows = np.unique(self._arrange(np.concatenate(parts)), axis=0)
        return np.asarray(rows[self.legal(rows) & (rows != row).any(axis=1)])

    def change(self, codes: Codes, rng: Rng) -> Codes:
        """Return sequences after one random move, ``(n, m)``, different ones if a few tries find any.

        An element is inserted, duplicated, deleted or replaced, two are exchanged, or a block moves.
        """
        changed = codes.copy()
        for _ in range(_TRIES):
            same = np.flatnonzero((changed == codes).all(axis=1))
            if len(same):
                changed[same] = self._arrange(self._move_once(codes[same], rng))
        return changed

    def _move_once(self, codes: Codes, rng: Rng) -> Codes:
        n, k, length = len(codes), len(self.elements), lengths(codes)
        grows, some = length < self.width, length > 0
        two = (length > 1) & self.ordered
        can = np.stack(
            [
                grows,
                grows & some & (not self.distinct),
                length > self.min_length,
                some & (length < k if self.distinct else k > 1),
                two,
                two,
            ]
        )
        odds = np.cumsum(np.array(_MOVES)[:, None] * can, axis=0)
        kind = (rng.random(n) * odds[-1] >= odds).sum(axis=0)  # 6 if there is no move

        def below(count: Any) -> Ints:
            return np.asarray(np.floor(rng.random(n) * count), dtype=np.int64)

        place, gap = below(length), below(length + 1)
        own, second = (
            codes[np.arange(n), place],
            (place + 1 + below(length - 1)) % np.maximum(1, length),
        )
        anything = below(k).astype(np.float64)
        other = (own + 1.0 + below(k - 1)) % k
        if self.distinct:
            anything = other = draw_unused(codes, k, rng)
        size = 1 + np.floor(rng.random(n) ** 2 * (length - 1)).astype(np.int64)
        makers: list[Callable[[Codes, Ints], Codes]] = [
            lambda rows, at: insert(rows, gap[at], anything[at]),
            lambda rows, at: insert(rows, gap[at], own[at]),
            lambda rows, at: remove(rows, place[at]),
            lambda rows, at: replace(rows, place[at], other[at]),
            lambda rows, at: swap(rows, place[at], second[at]),
            lambda rows, at: move_block(rows, start[at], size[at], goal[at]),
        ]
        start, goal = below(length - size + 1), below(length - size + 1)
        moved = codes.copy()
        for number, make in enumerate(makers):
            at = np.flatnonzero(kind == number)
            moved[at] = make(codes[at], at)
        return moved

    def cross(self, keeping: Codes, filling: Codes, rng: Rng) -> Codes:
        """Return children, ``(n, m)``: the start of one sequence, then the end of another.

        With probability 1/2 the cuts are behind an element that both have; else both cuts are at the same place.
        """
        n, m = keeping.shape
        row, here = np.arange(n), np.arange(m)
        cut = np.floor(rng.random(n) * (lengths(keeping) + 1)).astype(np.int64)
        last = keeping[row, np.maximum(cut - 1, 0)]
        wanted: Mask = np.asarray((cut > 0) & (rng.random(n) < 0.5))
        common: Mask = np.asarray((filling == last[:, None]) & wanted[:, None])
        behind = (common * rng.random((n, m))).argmax(axis=1) + 1
        other = np.where(common.any(axis=1), behind, np.minimum(cut, lengths(filling)))
        source = here + (other - cut)[:, None]
        tail = np.where(
            source < m, np.take_along_axis(filling, np.clip(source, 0, m - 1), axis=1), END
        )
        return self.nearest(np.where(here < cut[:, None], keeping, tail), rng)

    def nearest(self, codes: Codes, rng: Rng) -> Codes:
        """Return legal sequences close to rows of any numbers, ``(n, m)``: repeats and gaps are closed."""
        codes = np.asarray(np.clip(np.rint(codes), *self.code_range))
        codes[np.logical_or.accumulate(codes < 0, axis=1)] = END
        if self.distinct:
            codes[repeats(codes)] = END
            codes = close_gaps(codes)
        for place in range(self.min_length):
            short = np.flatnonzero(codes[:, place] < 0)
            if len(short):
                codes[short, place] = draw_unused(codes[short], len(self.elements), rng)
        return self._arrange(codes)

    def distance(self, a: Codes, b: Codes) -> Array:
        """Return the Euclidean distance of the features of all rows, ``(n, m)`` and ``(k, m)`` -> ``(n, k)``.

        `distances.levenshtein` is the least number of insertions, deletions and replacements, and
        `distances.permutation_hamming` the number of places with different elements.
        """
        return np.asarray(np.sqrt(distances.squared_euclidean(self.features(a), self.features(b))))

    def features(self, codes: Codes) -> Features:
        """Return the columns that models see, ``(n, m)`` -> ``(n, 3 k + 1)``; two sequences are at most 1 apart.

        For all elements, whether each occurs, the root of its number, and how near to the start it occurs first; and
        the length. Sequences that agree in all of these have the distance 0.
        """
        (n, m), k = codes.shape, len(self.elements)
        row, place = np.nonzero(codes >= 0)
        cell = row * k + codes[row, place].astype(np.int64)
        counts = np.bincount(cell, minlength=n * k).reshape(n, k)
        first = np.zeros(n * k)
        first[cell[::-1]] = 1.0 - place[::-1] / m  # the first place is written last
        parts = [
            counts > 0,
            np.sqrt(counts / m),
            first.reshape(n, k),
            counts.sum(axis=1, keepdims=True) / m,
        ]
        # Two sequences without a common element differ in at most 2 m elements.
        features = np.concatenate(parts, axis=1) / math.sqrt(3.0 * min(k, 2 * m) + 1.0)
        return features[:, :0] if self.cardinality == 1 else features


@final
@dataclass(frozen=True, init=False)
class Subset(Sequence):
    """A set of elements; a value is a tuple of them, in the order in which the parameter lists them.

    A configuration may give the elements in any order, also as a Python set. Its code is a sequence of
    increasing elements, so a subset has all that a sequence has: counts, moves, ``len``, ``count`` and ``in``.

    Attributes:
        elements: Distinct strings or numbers.
        max_size: Most elements of a value; all if None is given.
        min_size: Fewest elements of a value.
        default: Value in the default configuration, or None.

    Raises:
        SpaceError: The list is empty, an element occurs twice, the sizes do not fit, or the default is not such a set.
    """

    ordered = False

    def __init__(
        self,
        elements: Iterable[Any],
        max_size: int | None = None,
        min_size: int = 0,
        default: Iterable[Any] | None = None,
    ) -> None:
        listed = domain_values(elements, "elements")
        most = len(listed) if max_size is None else max_size
        try:
            super().__init__(listed, most, min_size, distinct=True, default=default)
        except SpaceError as error:
            raise SpaceError(str(error).replace("_length", "_size")) from None

    @property
    def max_size(self) -> int:
        """Most elements of a value."""
        return self.max_length

    @property
    def min_size(self) -> int:
        """Fewest elements of a value."""
        return self.min_length

    @property
    @override
    def _description(self) -> str:
        return f"a subset of {self.min_size} to {self.max_size} of {shorten(self.elements)}"

    @override
    def _read(self, value: Any) -> list[int] | None:
        return super()._read(list(value) if isinstance(value, set | frozenset) else value)

    @override
    def _codes_of(self, value: Values[Any]) -> list[int] | None:
        indices = super()._codes_of(value)
        return None if indices is None else sorted(indices)

    @override
    def legal(self, codes: Codes) -> Mask:
        """Whether each row is the code of a subset: its elements increase."""
        increasing = (codes[:, 1:] > codes[:, :-1]) | (codes[:, 1:] < 0)
        return np.asarray(super().legal(codes) & increasing.all(axis=1))

    @override
    def _arrange(self, codes: Codes) -> Codes:
        """Return the rows with increasing elements."""
        ordered = np.sort(np.where(codes < 0, np.inf, codes), axis=1)
        return np.where(np.isinf(ordered), END, ordered)

    @override
    def cross(self, keeping: Codes, filling: Codes, rng: Rng) -> Codes:
        """Return children, ``(n, m)``: for each element, one of the two parents says whether it is in the set."""
        chosen = rng.random((len(keeping), len(self.elements))) < 0.5
        present = np.where(chosen, self._presence(keeping), self._presence(filling))
        keys = np.where(present, rng.random(present.shape), 1.0)
        some = np.argsort(keys, axis=1)[:, : self.width].astype(np.float64)
        kept = np.sort(keys, axis=1)[:, : self.width] < 1.0
        return self.nearest(np.where(kept, some, END), rng)

    @override
    def features(self, codes: Codes) -> Features:
        """Return for all elements whether each occurs, and the size, ``(n, m)`` -> ``(n, k + 1)``."""
        present, m = self._presence(codes), self.width
        size = present.sum(axis=1, keepdims=True) / m
        most = min(len(self.elements), 2 * m) + 1.0
        features = np.concatenate([present, size], axis=1) / math.sqrt(most)
        return features[:, :0] if self.cardinality == 1 else features

    def _presence(self, codes: Codes) -> Mask:
        """Whether each element occurs, ``(n, m)`` -> ``(n, k)``."""
        row, place = np.nonzero(codes >= 0)
        present = np.zeros((len(codes), len(self.elements)), dtype=np.bool_)
        present[row, codes[row, place].astype(np.int64)] = True
        return present
