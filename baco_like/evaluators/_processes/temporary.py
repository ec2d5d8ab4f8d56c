"""Temporary folders that are removed in any case, and a check for required programs.

The name of a folder contains the number of the process that made it. The next process removes the
folders of killed ones.
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
import time
import weakref
import zlib
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from baco_like.exceptions import EvaluatorError


def remove(folder: Path) -> None:
    """Remove a folder, even if a build has taken away the permission to write in it."""
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        return
    for subfolder, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):
            os.chmod(subfolder, stat.S_IRWXU)
    shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def _remove_own_at_exit(parent: str) -> None:
    """Remove this process's folders at its end: a signal may come between making a folder and remembering it."""

    def remove_own() -> None:
        for folder in Path(parent).glob(f"baco-{_system_name()}-{os.getpid()}-*"):
            remove(folder)

    atexit.register(remove_own)


@functools.cache
def _remove_orphans(parent: str) -> None:
    """Remove the folders of dead processes, once per process."""
    for folder in Path(parent).glob(f"baco-{_system_name()}-*-*"):
        number = folder.name.split("-")[2]
        with contextlib.suppress(OSError):
            is_ours = folder.lstat().st_uid == os.getuid() and not folder.is_symlink()
            if is_ours and folder.is_dir() and number.isdecimal() and not _is_alive(int(number)):
                remove(folder)


def _system_name() -> str:
    """Return a name, 8 hexadecimal digits, of the system in which process numbers are unique.

    A container or another machine that shares the temporary folder has other processes with the same numbers.
    """
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return f"{zlib.crc32(f'{platform.node()} {namespace}'.encode()):08x}"


def _is_alive(number: int) -> bool:
    try:
        os.kill(number, 0)  # signal 0 only checks that the process exists
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def hash_program(path: Path, *others: object) -> str | None:
    """Return a hash of a file and of the text of other things; None if the file cannot be read."""
    try:
        digest = sha256(path.read_bytes())
    except OSError:
        return None
    digest.update(repr(others).encode())
    return digest.hexdigest()[:32]


def require_program(program: str, folder: Path, purpose: str) -> str:
    """Return the path of a program.

    Args:
        program: A name on PATH, or a path relative to ``folder``.
        folder: The folder in which it will run.
        purpose: Start of the message, such as ``[evaluator] build``.

    Raises:
        EvaluatorError: It does not exist or is not executable.
    """
    path = shutil.which(str(folder / program) if os.sep in program else program)
    if path is None:
        where = "is not an executable file" if os.sep in program else "is not on PATH"
        raise EvaluatorError(
            f"{purpose}: the program {program!r} {where}; install it or name another"
        )
    return path


def locate_program(program: str, folder: Path) -> str:
    """Return a program as it can be started: a name on PATH, or a path relative to ``folder``."""
    return str(folder / program) if os.sep in program else program


_CLOCK_STEP = 0.01
"""Longest step of the clock of file times in seconds: Linux counts 100 to 1,000 steps in a second."""


class FolderSnapshot:
    """The contents of a folder at one time, which `restore` brings back.

    The files are copied: hard links would share what a program writes in place. Changes are found by the change times
    of files (``ctime``), which no program can set, so a folder without a change costs one look at each file.

    Args:
        folder: The folder.

    Raises:
        OSError: A file cannot be copied.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._copy = folder, LazyFolder()
        self._files = _read_file_times(folder)
        _copy_entries(_top_names(self._files), folder, self._copy.path)

    def restore(self) -> None:
        """Bring back the contents.

        Raises:
            OSError: A file cannot be removed or copied.
        """
        changed = _top_names(
            path for path, _ in _read_file_times(self._folder).items() ^ self._files.items()
        )
        if not changed and self._folder.exists():
            return
        self._folder.mkdir(exist_ok=True)
        self._folder.chmod(stat.S_IRWXU)
        for name in changed:
            path = self._folder / name
            if path.is_dir() and not path.is_symlink():
                remove(path)
            else:
                path.unlink(missing_ok=True)
        _copy_entries(changed & _top_names(self._files), self._copy.path, self._folder)
        self._files = _read_file_times(self._folder)

    def close(self) -> None:
        """Remove the copy."""
        self._copy.close()


def _top_names(paths: Iterable[str]) -> set[str]:
    return {path.split(os.sep)[0] for path in paths}


def _read_file_times(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the mode of each file and folder below a folder, by relative path, and what a write changes."""
    files: dict[str, tuple[int, ...]] = {}
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = os.path.join(parent, name)
            found = os.lstat(path)
            times = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            # The times of a folder change with each file in it, those of the copies too.
            known = () if stat.S_ISDIR(found.st_mode) else times
            files[os.path.relpath(path, folder)] = (found.st_mode, *known)
    return files


def _copy_entries(names: set[str], source: Path, target: Path) -> None:
    """Copy files, links and folders with their permissions; return when later writes have later times."""
    for name in names:
        if (source / name).is_dir() and not (source / name).is_symlink():
            shutil.copytree(source / name, target / name, symlinks=True)
        else:
            shutil.copy2(source / name, target / name, follow_symlinks=False)
    if names:
        time.sleep(_CLOCK_STEP)


class LazyFolder:
    """A temporary folder that is made when first used, and removed by `close` or when Python ends."""

    def __init__(self) -> None:
        self._finalizer: weakref.finalize[[Path], LazyFolder] | None = None
        self._path: Path | None = None

    @property
    def path(self) -> Path:
        """The folder; it exists."""
        if self._path is None:
            parent = tempfile.gettempdir()
            _remove_orphans(parent)
            _remove_own_at_exit(parent)
            prefix = f"baco-{_system_name()}-{os.getpid()}-"
            self._path = Path(tempfile.mkdtemp(prefix=prefix))
            self._finalizer = weakref.finalize(self, remove, self._path)
        return self._path

    def close(self) -> None:
        """Remove the folder; the next use makes a new one."""
        if self._finalizer is not None:
            self._finalizer()
        self._path = self._finalizer = None
