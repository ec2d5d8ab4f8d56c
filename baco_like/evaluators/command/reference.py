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

from baco_like._tables import shown
from baco_like.evaluators.command.template import Template, Text
from baco_like.evaluators.comparison import (
    BFLOAT16,
    Comparison,
    Expected,
    Tolerances,
)
from baco_like.exceptions import EvaluatorError, RunFileError

TYPES = (
    *("text", "npy", "float32", "float64", "int32", "int64"),
    *("float16", "bfloat16", "complex64", "complex128", "bool"),
    *("int8", "int16", "uint8", "uint16", "uint32", "uint64"),
)
"""Formats of files, the values of ``dtype``."""

_TEXT_TOLERANCE = 1e-5
"""Default tolerance of texts: programs print six digits."""

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
    def parse(
        cls,
        output: str | None,
        reference: str | None,
        dtype: str,
        tolerances: Tolerances,
        names: Sequence[str],
        folder: Path,
    ) -> Reference | None:
        """Return what a run file says by ``output``, ``reference``, ``dtype`` and tolerances; None without them.

        Args:
            output: The file that the program writes, a text with placeholders.
            reference: The file with the correct numbers.
            dtype: Format of both files.
            tolerances: How far the numbers may be from each other.
            names: The allowed placeholders.
            folder: Folder in which relative paths begin.

        Raises:
            RunFileError: A key is missing or wrong.
            EvaluatorError: The reference cannot be read, is empty or all NaN.
        """
        accepted = {name: getattr(tolerances, name) for name in ("tolerance", "rtol", "atol")}
        if (output, reference, dtype, *accepted.values()) == (None, None, "text", None, None, None):
            return None
        if output is None or reference is None:
            absent = "output" if output is None else "reference"
            raise RunFileError(f"[evaluator] needs the key {absent!r}")
        template = Template.parse(output, names, "[evaluator] output")
        if len(template.words) != 1:
            raise RunFileError(
                f"[evaluator] output = {shown(output)}: expected one path; quote one that has spaces"
            )
        try:
            numbers = read_numbers(folder / reference, dtype)
        except (OSError, ValueError) as error:
            raise EvaluatorError(f"[evaluator] reference cannot be read: {error}") from None
        expected = Expected(
            numbers,
            **accepted,
            default=_TEXT_TOLERANCE if dtype == "text" else None,
            name=f"[evaluator] reference = {reference!r}",
        )
        return cls(template, expected, dtype, folder)

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
