"""Sequences as codes: the index of the element at each place, then -1 behind the end; ranks and moves.

The empty sequence is a row of -1. An element never follows an end, so equal sequences have equal rows.
"""

from __future__ import annotations

import math
from itertools import accumulate

import numpy as np

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.parameters.permutation_codes import Ranks, rank_dtype

END = -1.0
"""The code of a place behind the end."""


def counts_by_length(elements: int, longest: int, distinct: bool) -> list[int]:
    """Return the number of sequences of each length from 0 to the longest."""
    if distinct:
        return [math.perm(elements, length) for length in range(longest + 1)]
    return [elements**length for length in range(longest + 1)]


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


def sequence_ranks(codes: Codes, elements: int, shortest: int, distinct: bool) -> Ranks:
    """Return the ranks of legal sequences, ``(n, m)`` -> ``(n,)``: by length, then in lexicographic order."""
    n, m = codes.shape
    counts = counts_by_length(elements, m, distinct)
    dtype = rank_dtype(sum(counts))
    before = [0, *accumulate(counts[shortest:])]
    length = lengths(codes)
    ranks: Ranks = np.zeros(n, dtype=dtype)
    for place in range(m):
        digit = codes[:, place].astype(np.int64)
        if distinct:
            digit = digit - (codes[:, :place] < codes[:, place, None]).sum(axis=1)
        inside = place < length
        radix = max(1, elements - place) if distinct else elements
        ranks[inside] = ranks[inside] * radix + digit[inside].astype(dtype)
    return ranks + np.array(before, dtype=dtype)[length - shortest]


def sequences_from_ranks(
    ranks: Ranks, elements: int, shortest: int, longest: int, distinct: bool
) -> Codes:
    """Return the sequences with these ranks, ``(n,)`` -> ``(n, m)``; the inverse of `sequence_ranks`."""
    counts = counts_by_length(elements, longest, distinct)
    before: Ranks = np.array([0, *accumulate(counts[shortest:])], dtype=rank_dtype(sum(counts)))
    length = np.searchsorted(before, ranks.astype(before.dtype), side="right") - 1
    ranks = ranks - before[length]
    length = length + shortest
    codes = np.full((len(ranks), longest), END)
    for place in range(longest - 1, -1, -1):
        inside = np.flatnonzero(place < length)
        radix = max(1, elements - place) if distinct else elements
        codes[inside, place] = (ranks[inside] % radix).astype(np.float64)
        ranks[inside] = ranks[inside] // radix
    return from_choices(codes, elements) if distinct else codes


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
