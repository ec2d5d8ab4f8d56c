"""Compare the numbers in a file that a program has written with the correct ones."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco_like.evaluators.command.template import Template, Text
from baco_like.evaluators.comparison import (
    BFLOAT16,
    TOLERANCE_KEYS,
    Comparison,
    Expected,
)
from baco_like.evaluators.settings_table import TEXT, Key, Table, choice
from baco_like.exceptions import EvaluatorError

_TYPES = (
    *("text", "npy", "float32", "float64", "int32", "int64"),
    *("float16", "bfloat16", "complex64", "complex128", "bool"),
    *("int8", "int16", "uint8", "uint16", "uint32", "uint64"),
)

_TEXT_TOLERANCE = 1e-5
"""Default tolerance of texts: programs print six digits."""

REFERENCE_KEYS = (
    Key("output", TEXT, "file that the program writes, compared with `reference`"),
    Key("reference", TEXT, "file with the correct numbers; relative paths start at the run file"),
    *TOLERANCE_KEYS,
    Key(
        "dtype",
        choice(_TYPES),
        "format of both files: a text of numbers, an array of NumPy, or raw numbers of a type",
        default="text",
    ),
)


ERROR = "error"
"""Name of the metric that is the largest error of a correct result, relative as the tolerance."""


@dataclass(frozen=True)
class Reference:
    """A file with the correct numbers, and the file of the program that is compared with it.

    Attributes:
        output: Path of the file that the program writes: one word with placeholders.
        expected: The correct numbers.
        dtype: Format of both files: ``text`` (numbers between white space or commas), ``npy``, or raw numbers of a
            type.
        folder: Folder in which a relative path of an output begins.
    """

    output: Template
    expected: Expected
    dtype: str
    folder: Path

    @classmethod
    def from_table(cls, table: Table, names: Sequence[str], folder: Path) -> Reference | None:
        """Read the keys ``output``, ``reference``, ``dtype`` and the tolerances; None if all are absent.

        Args:
            table: The evaluator's table.
            names: The allowed placeholders.
            folder: Folder in which relative paths begin.

        Raises:
            RunFileError: A key is missing or wrong.
            EvaluatorError: The reference cannot be read, is empty or all NaN.
        """
        if not any(table.has(key.name) for key in REFERENCE_KEYS):
            return None
        values = table.values(REFERENCE_KEYS)
        output = Template.parse(table.text("output"), names, table.label("output"))
        if len(output.words) != 1:
            raise table.error("output", table.text("output"), "one path; quote one that has spaces")
        try:
            numbers = read_numbers(folder / table.text("reference"), values["dtype"])
        except (OSError, ValueError) as error:
            raise EvaluatorError(f"{table.label('reference')} cannot be read: {error}") from None
        expected = Expected(
            numbers,
            **{key.name: values[key.name] for key in TOLERANCE_KEYS},
            default=_TEXT_TOLERANCE if values["dtype"] == "text" else None,
            name=f"{table.label('reference')} = {table.text('reference')!r}",
        )
        return cls(output, expected, values["dtype"], folder)

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
        return self.expected.compare(output)


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
        with contextlib.suppress(ValueError, OverflowError):  # not whole, or beyond 64 bits
            whole = [int(word) for word in words]
            return np.array(whole, np.int64 if max(whole, default=0) < 2**63 else np.uint64)
        return np.array([float(word) for word in words])
    data, element = path.read_bytes(), BFLOAT16 if dtype == "bfloat16" else np.dtype(dtype)
    if len(data) % element.itemsize:
        raise ValueError(f"{len(data)} bytes are not a multiple of the size of {dtype}")
    return np.frombuffer(data, dtype=element)
