"""Compare the numbers that a program has written with the correct ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baco_like.evaluators.command.template import Template, Text
from baco_like.evaluators.settings_table import POSITIVE, TEXT, Key, Table, choice
from baco_like.exceptions import EvaluatorError

_TYPES = ("text", "npy", "float32", "float64", "int32", "int64")

REFERENCE_KEYS = (
    Key("output", TEXT, "file that the program writes, compared with `reference`"),
    Key("reference", TEXT, "file with the correct numbers; relative paths start at the run file"),
    Key(
        "tolerance",
        POSITIVE,
        "largest error, relative to the largest magnitude in the reference",
        default=1e-5,
    ),
    Key("dtype", choice(_TYPES), "format of both files", default="text"),
)


ERROR = "error"
"""Name of the metric that is the largest error of a correct result, relative as the tolerance."""


class Comparison(NamedTuple):
    """How far numbers are from the correct ones.

    Attributes:
        error: Largest error, relative to the largest finite magnitude of the reference (to 1 if that is 0); infinity if
            infinities or NaN are in other places than in the reference, or if the sizes differ.
        problem: A description of the largest error if it exceeds the tolerance, else None.
    """

    error: float
    problem: str | None


def compare_numbers(output: NDArray[Any], reference: NDArray[Any], tolerance: float) -> Comparison:
    """Return how far an output is from the reference.

    Args:
        output: Any shape with as many elements as the reference.
        reference: The correct numbers.
        tolerance: Largest accepted relative error.
    """
    if output.size != reference.size:
        return Comparison(math.inf, f"{output.size} numbers instead of {reference.size}")
    if not output.size:
        return Comparison(0.0, None)
    left = np.asarray(output, dtype=np.float64).ravel()
    right = np.asarray(reference, dtype=np.float64).ravel()
    finite = np.isfinite(right)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    scale = float(np.abs(right[finite]).max(initial=0.0)) or 1.0
    with np.errstate(invalid="ignore"):
        errors = np.where(finite, np.abs(left - right), np.where(same, 0.0, np.inf))
    errors = np.where(np.isnan(errors), np.inf, errors)
    worst = int(np.argmax(errors))
    error = float(errors[worst])
    if error <= tolerance * scale:
        return Comparison(error / scale, None)
    problem = (
        f"element {worst} is {left[worst]:.6g} instead of {right[worst]:.6g}; the tolerance is "
        f"{tolerance * scale:.3g}"
    )
    return Comparison(error / scale, problem)


@dataclass(frozen=True)
class Reference:
    """A file with the correct numbers, and the file of the program that is compared with it.

    Attributes:
        output: Path of the file that the program writes: one word with placeholders.
        reference: Path of the file with the correct numbers.
        tolerance: As for `compare_numbers`.
        dtype: Format of both files: ``text`` (numbers between white space or commas), ``npy``, or raw numbers of a
            type.
        folder: Folder in which a relative path of an output begins.
    """

    output: Template
    reference: Path
    tolerance: float
    dtype: str
    folder: Path

    @classmethod
    def from_table(cls, table: Table, names: Sequence[str], folder: Path) -> Reference | None:
        """Read the keys ``output``, ``reference``, ``tolerance`` and ``dtype``; None if all are absent.

        Args:
            table: The evaluator's table.
            names: The allowed placeholders.
            folder: Folder in which relative paths begin.

        Raises:
            RunFileError: A key is missing or wrong.
            EvaluatorError: The reference cannot be read.
        """
        if not any(table.has(key.name) for key in REFERENCE_KEYS):
            return None
        values = table.values(REFERENCE_KEYS)
        output = Template.parse(table.text("output"), names, table.label("output"))
        if len(output.words) != 1:
            raise table.error("output", table.text("output"), "one path; quote one that has spaces")
        reference = cls(
            output=output,
            reference=folder / table.text("reference"),
            tolerance=values["tolerance"],
            dtype=values["dtype"],
            folder=folder,
        )
        try:
            read_numbers(reference.reference, reference.dtype)
        except (OSError, ValueError) as error:
            raise EvaluatorError(f"{table.label('reference')} cannot be read: {error}") from None
        return reference

    def check(self, texts: Mapping[str, Text]) -> Comparison:
        """Return how far a trial's output is from the reference; the problem is one line.

        Args:
            texts: The text of each placeholder.
        """
        path = self.folder / self.output.fill(texts)[0]
        try:
            output = read_numbers(path, self.dtype)
        except (OSError, ValueError) as error:
            problem = " ".join(f"the output {path.name} cannot be read: {error}".split())
            return Comparison(math.inf, problem)
        return compare_numbers(output, read_numbers(self.reference, self.dtype), self.tolerance)


def read_numbers(path: Path, dtype: str) -> NDArray[Any]:
    """Return the numbers of a file.

    Args:
        path: The file.
        dtype: Its format, as for `Reference`.

    Raises:
        OSError: It cannot be read.
        ValueError: It does not have this format.
    """
    if dtype == "npy":
        array: NDArray[Any] = np.load(path)  # np.load refuses pickled objects
        return array
    if dtype == "text":
        words = path.read_text(encoding="utf-8").replace(",", " ").split()
        return np.array([float(word) for word in words])
    data = path.read_bytes()
    size = np.dtype(dtype).itemsize
    if len(data) % size:
        raise ValueError(f"{len(data)} bytes are not a multiple of the size of {dtype}")
    return np.frombuffer(data, dtype=dtype)
