"""Sparse tensors for taco_kernels.py: drawn from a seed, read from files, and stored in the layout of TACO."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from baco_like import EvaluatorError

MEAN_ENTRIES = 16  # of a row of a drawn tensor


@dataclass(frozen=True)
class Sparse:
    """A sparse tensor.

    Attributes:
        shape: Its dimensions.
        places: Coordinates of its entries, (entries, order), each once, in lexicographic order.
        values: The entries, (entries,).
    """

    shape: tuple[int, ...]
    places: np.ndarray
    values: np.ndarray


def from_entries(shape, places, values):
    """Return the tensor of entries in any order; of entries at the same place the first counts."""
    flat = np.ravel_multi_index(tuple(places.T), tuple(shape))
    _, first = np.unique(flat, return_index=True)
    shape = tuple(int(n) for n in shape)
    return Sparse(shape, places[first].astype(np.int32), values[first].astype(np.float64))


def draw(shape, rng):
    """Return a tensor whose rows have very different lengths: log-normal, with 16 entries on average.

    Args:
        shape: Its dimensions; the first is the number of rows.
        rng: Source of chance.
    """
    lengths = rng.lognormal(0.0, 1.5, shape[0])
    lengths = np.ceil(lengths * (MEAN_ENTRIES / lengths.mean())).astype(int)
    rows = np.repeat(np.arange(shape[0]), np.minimum(lengths, int(np.prod(shape[1:]))))
    others = [rng.integers(0, n, rows.size) for n in shape[1:]]
    places = np.stack([rows, *others], axis=1)
    return from_entries(shape, places, rng.uniform(-1.0, 1.0, rows.size))


def read(path):
    """Read a matrix from MatrixMarket's .mtx or a tensor from FROSTT's .tns.

    Raises:
        EvaluatorError: The file cannot be read.
    """
    path = Path(path)
    try:
        if path.suffix == ".mtx":
            return read_matrix(path)
        lines = np.loadtxt(path, comments="#", ndmin=2)
        places = lines[:, :-1].astype(np.int64) - 1
        return from_entries(places.max(axis=0) + 1, places, lines[:, -1])
    except (OSError, ValueError, IndexError) as error:
        raise EvaluatorError(f"tensor {str(path)!r} cannot be read: {error}") from None


def read_matrix(path):
    from scipy.io import mmread
    from scipy.sparse import coo_array

    try:
        matrix = coo_array(mmread(path, spmatrix=False))
    except TypeError:  # an older SciPy, without this argument
        matrix = coo_array(mmread(path))
    places = np.stack([matrix.row, matrix.col], axis=1)
    return from_entries(matrix.shape, places, np.asarray(matrix.data))


def write(path, tensor):
    """Write a matrix as .mtx or any tensor as .tns; `read` reads both, and so does taco (``-i=B:FILE``)."""
    columns = [*(tensor.places.T + 1), tensor.values]
    with path.open("w", encoding="ascii") as file:
        if path.suffix == ".mtx":
            file.write("%%MatrixMarket matrix coordinate real general\n")
            file.write(f"{tensor.shape[0]} {tensor.shape[1]} {tensor.values.size}\n")
        for row in zip(*(column.tolist() for column in columns), strict=True):
            file.write(" ".join(map(repr, row)) + "\n")


def store(tensor, formats):
    """Return a tensor's positions and coordinates (or None) for each mode, and its values, as TACO stores them.

    Args:
        tensor: The tensor.
        formats: A letter for each mode, ``d`` for dense and ``s`` for compressed.
    """
    parents, count = np.zeros(tensor.values.size, dtype=np.int64), 1
    levels = []
    for mode, letter in enumerate(formats):
        place = tensor.places[:, mode]
        if letter == "d":
            parents, count = parents * tensor.shape[mode] + place, count * tensor.shape[mode]
            levels.append(None)
            continue
        is_new = np.ones(place.size, dtype=bool)
        is_new[1:] = (np.diff(parents) != 0) | (np.diff(place) != 0)
        starts = np.concatenate([[0], np.cumsum(np.bincount(parents[is_new], minlength=count))])
        levels.append((starts.astype(np.int32), place[is_new]))
        parents, count = np.cumsum(is_new) - 1, int(is_new.sum())
    values = np.zeros(count)
    values[parents] = tensor.values
    return levels, values


def restore(shape, levels, values):
    """Return the tensor that `store` has stored; zeros of dense levels become entries."""
    columns, count = [], 1
    for size, level in zip(shape, levels, strict=True):
        if level is None:
            columns = [np.repeat(column, size) for column in columns]
            columns.append(np.tile(np.arange(size, dtype=np.int32), count))
            count *= size
        else:
            starts, coordinates = level
            columns = [np.repeat(column, np.diff(starts)) for column in columns]
            columns.append(coordinates)
            count = coordinates.size
    return Sparse(tuple(int(n) for n in shape), np.stack(columns, axis=1), values)
