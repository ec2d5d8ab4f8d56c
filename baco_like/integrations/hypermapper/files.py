"""The file of samples that a scenario writes: inside permitted folders, and never in place of another file."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TextIO

from baco_like._output import explain_os_error
from baco_like.exceptions import RunFileError
from baco_like.integrations.hypermapper.messages import Report, split_cells
from baco_like.records import Trial
from baco_like.results.hypermapper_csv import Layout, csv_text, write_csv

_MAX_PATH = 4096
"""Bytes of the longest path, with its final zero (PATH_MAX of Linux)."""

# A named pipe does not wait for its other end.
_NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def is_inside(path: Path, folders: Iterable[Path]) -> bool:
    """Return whether a file would be created inside one of the folders, after all links in its path are followed."""
    if path.name in ("", "..") or not is_valid(path):
        return False
    parents = (Path(os.path.realpath(path.parent)) / path.name).parents
    return any(Path(os.path.realpath(folder)) in parents for folder in folders)


def is_valid(path: Path) -> bool:
    """Return whether the system accepts the characters and the length of a path."""
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return b"\0" not in encoded and len(encoded) < _MAX_PATH


def check_permitted(path: Path, allow_dirs: Sequence[Path]) -> None:
    """Refuse a file outside the current folder and the permitted folders, before anything is written.

    Raises:
        RunFileError: The file would be created elsewhere.
    """
    if not is_inside(path, (Path.cwd(), *allow_dirs)):
        place = os.path.realpath(path.parent)
        raise RunFileError(
            f"the scenario writes {path.name!r} to {place!r}, outside the current folder; "
            f"if it may, pass --allow-dir {place!r}"
        )


@contextlib.contextmanager
def open_samples(
    path: Path, layout: Layout, trials: Sequence[Trial], report: Report
) -> Iterator[TextIO]:
    """Write the observed trials to the file of samples and open it for appending.

    The file is continued if its rows are the first of these trials. A file of samples of another run is renamed.

    Raises:
        RunFileError: The file cannot be written, or an existing one is not a file of samples.
    """
    check_samples(path, layout)
    with explain_os_error(RunFileError, "write", path):
        text = csv_text(trials, layout).encode()
        if os.path.lexists(path) and not _is_continued(path, text):
            number = 1
            while os.path.lexists(free := path.with_name(f"{path.name}.{number}")):
                number += 1
            path.rename(free)
            report(f"{path} of an earlier run is now {free}")
        write_csv(path, trials, layout)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | _NO_LINK)
        file = os.fdopen(descriptor, "a", 1, encoding="utf-8", newline="")
    with file:
        yield file


def check_samples(path: Path, layout: Layout) -> None:
    """Refuse to write the file of samples in place of another file, before anything is written.

    Raises:
        RunFileError: The file exists and is not a file of samples, or cannot be read.
    """
    if not os.path.lexists(path):
        return
    with explain_os_error(RunFileError, "read", path):
        first = b""
        if stat.S_ISREG(path.lstat().st_mode):  # no link, folder or pipe
            with _open_to_read(path) as file:
                first = file.readline(2**20)
    if not _is_header(first, layout):
        raise RunFileError(
            f"{path} exists and is not a file of samples (its first line has no column {layout.timestamp!r}); "
            "move it, or name another output_data_file"
        )


def _open_to_read(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDONLY | _NO_LINK), "rb")


def _is_continued(path: Path, text: bytes) -> bool:
    """Return whether the complete rows of a file begin the text of this run."""
    with _open_to_read(path) as file:
        earlier = file.read(len(text) + 2**20)
        is_whole = not file.read(1)
    return is_whole and text.startswith(earlier[: earlier.rfind(b"\n") + 1])


def _is_header(line: bytes, layout: Layout) -> bool:
    """Return whether a line names a column of time stamps, or the parameters and the objectives of this run."""
    if not line.endswith(b"\n"):
        return False
    names = {name.strip() for name in split_cells(line.decode("utf-8", "replace"))}
    columns = {*layout.parameters, *layout.objectives}
    return columns <= names or layout.timestamp.casefold() in map(str.casefold, names)
