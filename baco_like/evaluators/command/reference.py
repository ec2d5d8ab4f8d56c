"""Numbers that a program has written, against those that it should have written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco_like.evaluators.command.template import Template
from baco_like.evaluators.settings_table import Table
from baco_like.exceptions import EvaluatorError

KEYS = ("output", "reference", "tolerance", "dtype")

_TYPES = ("text", "npy", "float32", "float64", "int32", "int64")


def difference(output: NDArray[Any], reference: NDArray[Any], tolerance: float) -> str | None:
    """Return what is wrong with an output, or None where it agrees.

    It agrees where no element differs from the reference by more than ``tolerance`` times the largest magnitude in
    the reference, and where infinities and NaN stand where they stand there.

    Args:
        output: Any shape with as many elements as the reference.
        reference: What is right.
        tolerance: Relative to the largest finite magnitude of the reference (to 1 where that is 0).
    """
    if output.size != reference.size:
        return f"{output.size} numbers instead of {reference.size}"
    left = np.asarray(output, dtype=np.float64).ravel()
    right = np.asarray(reference, dtype=np.float64).ravel()
    finite = np.isfinite(right)
    strange = ~finite & ~((left == right) | (np.isnan(left) & np.isnan(right)))
    if not left.size:
        return None
    scale = float(np.abs(right[finite]).max(initial=0.0)) or 1.0
    with np.errstate(invalid="ignore"):
        errors = np.where(finite, np.abs(left - right), np.where(strange, np.inf, 0.0))
    errors = np.where(np.isnan(errors), np.inf, errors)
    worst = int(np.argmax(errors))
    if errors[worst] <= tolerance * scale:
        return None
    return (
        f"element {worst} is {left[worst]:.6g} instead of {right[worst]:.6g}; the tolerance is "
        f"{tolerance * scale:.3g}"
    )


@dataclass(frozen=True)
class Reference:
    """A file that must agree with another.

    Attributes:
        output: Path of the file that the program writes, one word with placeholders.
        reference: Path of the file with the right numbers.
        tolerance: As for `difference`.
        dtype: How both are written: ``text`` (numbers between white space or commas), ``npy``, or raw numbers of a
            type.
        folder: Where a relative path of an output begins.
    """

    output: Template
    reference: Path
    tolerance: float
    dtype: str
    folder: Path

    @classmethod
    def from_table(cls, table: Table, places: Sequence[str], folder: Path) -> Reference | None:
        """Read the keys ``output``, ``reference``, ``tolerance`` and ``dtype``; None where there is none of them.

        Raises:
            RunFileError: One is missing or wrong.
            EvaluatorError: The reference cannot be read.
        """
        given = [key for key in KEYS if table.has(key)]
        if not given:
            return None
        output = Template.parse(table.text("output"), places, table.at("output"))
        if len(output.words) != 1:
            raise table.wrong("output", table.text("output"), "one path; quote one that has spaces")
        made = cls(
            output=output,
            reference=folder / table.text("reference"),
            tolerance=table.positive("tolerance", 1e-5),
            dtype=table.choice("dtype", _TYPES, "text"),
            folder=folder,
        )
        try:
            numbers(made.reference, made.dtype)
        except (OSError, ValueError) as error:
            raise EvaluatorError(f"{table.at('reference')} cannot be read: {error}") from None
        return made

    def problem(self, texts: dict[str, str]) -> str | None:
        """Return what is wrong with a trial's output in one line, or None.

        Args:
            texts: The placeholders' texts.
        """
        place = self.folder / self.output.fill(texts)[0]
        try:
            output = numbers(place, self.dtype)
        except (OSError, ValueError) as error:
            return " ".join(f"the output {place.name} cannot be read: {error}".split())
        return difference(output, numbers(self.reference, self.dtype), self.tolerance)


def numbers(path: Path, dtype: str) -> NDArray[Any]:
    """Return the numbers of a file.

    Raises:
        OSError: It cannot be read.
        ValueError: It holds something else.
    """
    if dtype == "npy":
        found: NDArray[Any] = np.load(path)  # which refuses pickled objects
        return found
    if dtype == "text":
        words = path.read_text(encoding="utf-8").replace(",", " ").split()
        return np.array([float(word) for word in words])
    data = path.read_bytes()
    size = np.dtype(dtype).itemsize
    if len(data) % size:
        raise ValueError(f"{len(data)} bytes are no whole number of {dtype}")
    return np.frombuffer(data, dtype=dtype)
