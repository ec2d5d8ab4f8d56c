"""Temporary folders that are gone afterwards, and programs that are there beforehand."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path

from baco_like.exceptions import EvaluatorError


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder for the time of a ``with`` block and remove it, whatever has been put there."""
    folder = Path(tempfile.mkdtemp(prefix="baco-"))
    try:
        yield folder
    finally:
        remove(folder)


def remove(folder: Path) -> None:
    """Remove a folder, also where a build has taken away its own permission to write."""
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        return
    for place, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):
            os.chmod(place, stat.S_IRWXU)
    shutil.rmtree(folder, ignore_errors=True)


def require_program(program: str, folder: Path, purpose: str) -> str:
    """Return the path of a program.

    Args:
        program: A name to be found on PATH, or a path, relative to ``folder``.
        folder: Where it will run.
        purpose: What messages say it is for, such as ``[evaluator] build``.

    Raises:
        EvaluatorError: It is not there or not executable.
    """
    place = str(folder / program) if os.sep in program else program
    found = shutil.which(place)
    if found is None:
        where = "is not an executable file" if os.sep in program else "is not on PATH"
        raise EvaluatorError(
            f"{purpose}: the program {program!r} {where}; install it or name another"
        )
    return found


class Workplace:
    """A temporary folder, made when first needed, removed by `close` or when Python ends."""

    def __init__(self) -> None:
        self._finalizer: weakref.finalize[[Path], Workplace] | None = None
        self._folder: Path | None = None

    @property
    def folder(self) -> Path:
        """The folder; it exists."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="baco-"))
            self._finalizer = weakref.finalize(self, remove, self._folder)
        return self._folder

    def close(self) -> None:
        """Remove the folder; the next use makes a new one."""
        if self._finalizer is not None:
            self._finalizer()
        self._folder = self._finalizer = None
