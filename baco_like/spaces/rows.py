"""Rows of codes: without repetition, and lists of different lengths for each row.

Such lists are held as flat arrays with an owner for each entry.
"""

from __future__ import annotations

import numpy as np

from baco_like._typing import Codes, Ints, Rng


def drop_duplicates(rows: Codes) -> Codes:
    """Return the distinct rows in the order of their first appearance, ``(n, w)`` -> ``(m, w)``."""
    return rows[find_first_rows(rows)]


def find_first_rows(rows: Codes) -> Ints:
    """Return the index of every distinct row's first appearance, increasing; 0.0 and -0.0 are the same."""
    raw = np.ascontiguousarray(rows + 0.0)
    keys = raw.view(np.dtype((np.void, raw.itemsize * raw.shape[1]))).ravel().tolist()
    first = dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True))
    return np.sort(np.fromiter(first.values(), np.int64, len(first)))


def concatenate_ranges(start: Ints, length: Ints) -> Ints:
    """Return the concatenation of ``arange(start[i], start[i] + length[i])``."""
    before = np.cumsum(length) - length
    return np.asarray(np.arange(length.sum()) + np.repeat(start - before, length))


def as_slice(columns: Ints) -> slice | Ints:
    """Return columns that follow each other as a slice, which takes no copy of an array."""
    is_range = len(columns) > 0 and bool((np.diff(columns) == 1).all())
    return slice(int(columns[0]), int(columns[-1]) + 1) if is_range else columns


def pair_by_owner(left: Ints, right: Ints, n: int) -> tuple[Ints, Ints]:
    """Return all pairs of entries with the same owner.

    Args:
        left: Owners in ``range(n)`` of the left entries, in any order.
        right: Owners of the right entries, increasing.
        n: Number of owners.

    Returns:
        Indices into the left and into the right entries; the left ones are increasing.
    """
    if n == 1:  # many strategies ask for one row at a time
        indices = np.arange(len(left)), np.arange(len(right))
        return np.repeat(indices[0], len(right)), np.tile(indices[1], len(left))
    length = np.bincount(right, minlength=n)
    start = np.cumsum(length) - length
    pairs = length[left]
    return np.repeat(np.arange(len(left)), pairs), concatenate_ranges(start[left], pairs)


def sort_by_owner(rows: Codes, owner: Ints) -> tuple[Codes, Ints]:
    """Return the entries sorted by owner, in unchanged order otherwise."""
    order = np.argsort(owner, kind="stable")
    return rows[order], owner[order]


def replace_columns(codes: Codes, owner: Ints, columns: Ints, values: Codes) -> Codes:
    """Return the owners' rows with other values in some columns.

    Args:
        codes: Rows, ``(n, w)``.
        owner: Index of the row, ``(m,)``.
        columns: The columns to replace, ``(k,)``.
        values: The new values, ``(m, k)``.

    Returns:
        New rows, ``(m, w)``.
    """
    rows = codes[owner]
    rows[:, columns] = values
    return rows


def thin(owner: Ints, rng: Rng, limit: int | None) -> Ints:
    """Return the indices, increasing, of at most ``limit`` random entries of each owner; owners must be increasing."""
    if limit is None or len(owner) <= limit:
        return np.arange(len(owner))
    length = np.bincount(owner)
    if length.max() <= limit:
        return np.arange(len(owner))
    order = np.lexsort((rng.random(len(owner)), owner))
    number = np.arange(len(owner)) - np.repeat(np.cumsum(length) - length, length)
    return np.sort(order[number < limit])
