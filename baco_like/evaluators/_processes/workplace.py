"""Temporary folders that are gone afterwards, and programs that are there beforehand.

A folder's name tells the process that made it, so that what a killed one has left can be removed by the next.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import platform
import shutil
import stat
import tempfile
import weakref
import zlib
from collections.abc import Iterator
from pathlib import Path

from baco_like.evaluators.settings_table import Table
from baco_like.exceptions import EvaluatorError


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder for the time of a ``with`` block and remove it, whatever has been put there."""
    folder = _made()
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


def _made() -> Path:
    place = tempfile.gettempdir()
    _sweep(place)
    _remove_own_at_exit(place)
    return Path(tempfile.mkdtemp(prefix=f"baco-{_system()}-{os.getpid()}-"))


@functools.cache
def _remove_own_at_exit(place: str) -> None:
    """Remove what a signal has left behind that came while a folder was made or removed."""

    def own() -> None:
        for folder in Path(place).glob(f"baco-{_system()}-{os.getpid()}-*"):
            remove(folder)

    atexit.register(own)


@functools.cache
def _sweep(place: str) -> None:
    """Remove the folders of processes that are dead, once per process."""
    for folder in Path(place).glob(f"baco-{_system()}-*-*"):
        number = folder.name.split("-")[2]
        with contextlib.suppress(OSError):
            ours = folder.lstat().st_uid == os.getuid() and folder.is_dir()
            if ours and not folder.is_symlink() and number.isdecimal() and not _lives(int(number)):
                remove(folder)


def _system() -> str:
    """Return a name for the system in which process numbers mean what they mean here, 8 hexadecimal digits.

    A container or another machine that shares the folder has other processes by the same numbers.
    """
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return f"{zlib.crc32(f'{platform.node()} {space}'.encode()):08x}"


def _lives(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


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


def program_from_table(table: Table, key: str, default: str, folder: Path) -> str:
    """Read a key that names a program: by its name, or by a path that begins at ``folder``."""
    program = table.text(key, default)
    return str(folder / program) if os.sep in program else program


class Workplace:
    """A temporary folder, made when first needed, removed by `close` or when Python ends."""

    def __init__(self) -> None:
        self._finalizer: weakref.finalize[[Path], Workplace] | None = None
        self._folder: Path | None = None

    @property
    def folder(self) -> Path:
        """The folder; it exists."""
        if self._folder is None:
            self._folder = _made()
            self._finalizer = weakref.finalize(self, remove, self._folder)
        return self._folder

    def close(self) -> None:
        """Remove the folder; the next use makes a new one."""
        if self._finalizer is not None:
            self._finalizer()
        self._folder = self._finalizer = None
