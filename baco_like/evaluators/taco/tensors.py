"""Sparse tensors: made from a seed, read from files that the program taco reads too, laid out as its kernels want."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco_like._typing import Rng
from baco_like.exceptions import EvaluatorError

_MEAN_ENTRIES = 16
"""Entries in a row of a made tensor, on average."""


@dataclass(frozen=True)
class Sparse:
    """A sparse tensor.

    Attributes:
        shape: Its dimensions.
        places: Coordinates of its entries, ``(entries, order)``, each once, in lexicographic order.
        values: The entries, ``(entries,)``.
    """

    shape: tuple[int, ...]
    places: NDArray[np.int32]
    values: NDArray[np.float64]

    @classmethod
    def of(cls, shape: Sequence[int], places: NDArray[Any], values: NDArray[Any]) -> Sparse:
        """Return the tensor of entries in any order; those that are there twice count once, as they come first."""
        flat = np.ravel_multi_index(tuple(places.T), tuple(shape))
        _, kept = np.unique(flat, return_index=True)
        return cls(
            tuple(int(n) for n in shape),
            places[kept].astype(np.int32),
            values[kept].astype(np.float64),
        )


def made(shape: Sequence[int], rng: Rng) -> Sparse:
    """Return a tensor whose rows differ much in length, by a log-normal distribution with 16 entries on average.

    Args:
        shape: Its dimensions; the first counts the rows.
        rng: Source of chance.
    """
    lengths = rng.lognormal(0.0, 1.5, shape[0])
    lengths = np.ceil(lengths * (_MEAN_ENTRIES / lengths.mean())).astype(int)
    rows = np.repeat(np.arange(shape[0]), np.minimum(lengths, int(np.prod(shape[1:]))))
    others = [rng.integers(0, n, rows.size) for n in shape[1:]]
    return Sparse.of(shape, np.stack([rows, *others], axis=1), rng.uniform(-1.0, 1.0, rows.size))


def read(path: Path) -> Sparse:
    """Read a matrix from MatrixMarket's ``.mtx`` or a tensor from FROSTT's ``.tns``.

    Raises:
        EvaluatorError: It cannot be read.
    """
    try:
        if path.suffix == ".mtx":
            return _read_matrix(path)
        lines = np.loadtxt(path, comments="#", ndmin=2)
        places = lines[:, :-1].astype(np.int64) - 1
        return Sparse.of(places.max(axis=0) + 1, places, lines[:, -1])
    except (OSError, ValueError, IndexError) as error:
        raise EvaluatorError(f"tensor {str(path)!r} cannot be read: {error}") from None


def _read_matrix(path: Path) -> Sparse:
    from scipy.io import mmread
    from scipy.sparse import coo_array

    matrix = coo_array(mmread(path))
    places = np.stack([matrix.row, matrix.col], axis=1)
    return Sparse.of(matrix.shape, places, np.asarray(matrix.data))


def write(path: Path, tensor: Sparse) -> None:
    """Write a matrix as ``.mtx``, any tensor as ``.tns``; `read` reads both, and so does taco (``-i=B:FILE``)."""
    columns = [*(tensor.places.T + 1), tensor.values]
    with path.open("w", encoding="ascii") as file:
        if path.suffix == ".mtx":
            file.write("%%MatrixMarket matrix coordinate real general\n")
            file.write(f"{tensor.shape[0]} {tensor.shape[1]} {tensor.values.size}\n")
        for row in zip(*(column.tolist() for column in columns), strict=True):
            file.write(" ".join(map(repr, row)) + "\n")


@dataclass(frozen=True)
class Stored:
    """A tensor as taco keeps it.

    Attributes:
        shape: Its dimensions.
        levels: For each mode positions and coordinates, or None where it is dense.
        values: The values, of all levels together.
    """

    shape: tuple[int, ...]
    levels: tuple[tuple[NDArray[np.int32], NDArray[np.int32]] | None, ...]
    values: NDArray[np.float64]

    def to_bytes(self) -> bytes:
        """Return what the harness reads: whole numbers of 8 bytes, index arrays of 4, values of 8."""
        parts = [np.array([len(self.shape), *self.shape], dtype=np.int64).tobytes()]
        for level in self.levels:
            pair = level or (np.empty(0, np.int32), np.empty(0, np.int32))
            parts.append(np.array([level is not None, *(a.size for a in pair)], np.int64).tobytes())
            parts += [array.tobytes() for array in pair]
        parts.append(np.array([self.values.size], dtype=np.int64).tobytes())
        return b"".join([*parts, self.values.tobytes()])


def stored(tensor: Sparse, formats: str) -> Stored:
    """Lay a tensor out.

    Args:
        tensor: The tensor.
        formats: A letter for each mode, ``d`` for dense and ``s`` for compressed.
    """
    parents, count = np.zeros(tensor.values.size, dtype=np.int64), 1
    levels: list[tuple[NDArray[np.int32], NDArray[np.int32]] | None] = []
    for mode, letter in enumerate(formats):
        place = tensor.places[:, mode]
        if letter == "d":
            parents, count = parents * tensor.shape[mode] + place, count * tensor.shape[mode]
            levels.append(None)
            continue
        new = np.ones(place.size, dtype=bool)
        new[1:] = (np.diff(parents) != 0) | (np.diff(place) != 0)
        starts = np.concatenate([[0], np.cumsum(np.bincount(parents[new], minlength=count))])
        levels.append((starts.astype(np.int32), place[new]))
        parents, count = np.cumsum(new) - 1, int(new.sum())
    values = np.zeros(count)
    values[parents] = tensor.values
    return Stored(tensor.shape, tuple(levels), values)


def dense(array: NDArray[np.float64]) -> Stored:
    """Return a dense tensor."""
    return Stored(array.shape, (None,) * array.ndim, np.ascontiguousarray(array).ravel())
