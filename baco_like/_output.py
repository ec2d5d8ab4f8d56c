"""Print to streams that may be closed, open and replace files, and explain errors of files.

A closed pipe or terminal must never end a run.
"""

from __future__ import annotations

import errno
import gzip
import os
import re
import secrets
import stat
import sys
import unicodedata
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from html import escape
from pathlib import Path
from types import FrameType
from typing import BinaryIO, TextIO

from baco_like.exceptions import BacoError

JOURNAL_BEGINNING = b'{"crc":"'
"""The first bytes of a journal, a cache of results and the runs of a comparison."""

_EXACT = 1e15
"""Numbers without a fraction below this are shown with all digits: counters, sizes in bytes."""

_CANNOT_SYNC = (errno.EINVAL, errno.EOPNOTSUPP)
"""Some file systems of networks and virtual machines cannot write a folder to the disk; they keep names themselves."""


def print_line(text: str, control: str = "") -> None:
    """Print to standard output; if it is closed, discard this and all later output.

    Args:
        text: One or more lines. Control characters besides tabs are escaped: a journal could change the terminal.
        control: Printed before the text, unchanged.
    """
    parts = re.split(r"([\n\t])", text)  # logs of compilers have tabs
    parts[::2] = map(escape_control_characters, parts[::2])
    print_exactly(control + "".join(parts))


def print_exactly(text: str) -> None:
    """Print like `print_line`, with all control characters: for what another program reads."""
    try:
        print(text, flush=True)
    except OSError:
        silence(sys.stdout)


@contextmanager
def optional_output(name: str) -> Iterator[None]:
    """Show or write something beside a run; print any error in one line, because no plot or bar may end a run.

    Args:
        name: The output, such as ``convergence.png``.
    """
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        print_line(f"{name} is not shown or written: {reason[:300]}")


def silence(stream: TextIO) -> None:
    """Redirect a stream to the null device, including its buffered output."""
    with suppress(OSError, ValueError):  # not every stream is a file
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


@contextmanager
def open_protocol_streams() -> Iterator[tuple[TextIO, TextIO]]:
    """Reserve standard input and output for the protocol; other prints go to standard error meanwhile."""
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    incoming = open(os.dup(0), encoding="utf-8", errors="replace")  # noqa: SIM115
    outgoing = open(stdout, "w", encoding="utf-8", newline="\n", closefd=False)  # noqa: SIM115
    try:
        yield incoming, outgoing
    finally:
        incoming.close()
        with suppress(OSError):  # the client may have closed its end
            outgoing.close()
        sys.stdout.flush()
        os.dup2(stdout, 1)
        os.close(stdout)


def escape_control_characters(text: str) -> str:
    """Return a text in one line, with line ends, control characters and invalid characters written as escapes.

    For texts from files of other people, which could otherwise add lines to a log or change a terminal.
    """
    return "".join(
        c
        if c.isprintable() or unicodedata.category(c) == "Zs"  # spaces of other widths
        else c.encode("unicode_escape").decode("ascii")
        for c in text
    )


def open_regular_file(path: Path) -> BinaryIO:
    """Open a file to read. Opening a named pipe would wait for its other end, and a device may never end.

    Raises:
        OSError: It cannot be opened, or is a named pipe, a device or a folder.
        ValueError: The name has a null character.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def replace_file(path: Path, data: bytes, inputs: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Write a temporary file in the same folder, write it to the disk, then rename it.

    Every output of the package is written by this function. A file whose name ends in ``.gz`` is compressed; equal data
    gives equal bytes. A link is replaced, not followed.

    Args:
        path: The file.
        data: Its content.
        inputs: Files that must not be replaced, see `check_output`.

    Raises:
        OSError: The file cannot be written, or `check_output` refuses it; the existing one is unchanged.
    """
    packed = gzip.compress(data, mtime=0) if path.suffix == ".gz" else data
    check_output(path, inputs)
    # A new file of a random name: "x" follows no link that somebody has put there.
    other = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    file = other.open("xb")
    try:
        with file:
            file.write(packed)
            file.flush()
            os.fsync(file.fileno())
        os.replace(other, path)
        sync_folder(path.parent)
    finally:
        other.unlink(missing_ok=True)


def check_output(path: Path, inputs: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Refuse to replace an input, a journal or a device, also by a symbolic link to it or another name (hard link).

    Args:
        path: The output. Call this before the work whose result it gets.
        inputs: The files that the work reads; they need not exist.

    Raises:
        OSError: The output is refused.
    """
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "its name has a null character", str(path))
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return  # there is nothing, or opening the temporary file explains it
    if not stat.S_ISREG(mode):  # root could replace /dev/null for the whole machine
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    if any(_is_same_file(path, file) for file in inputs):
        raise OSError(errno.EEXIST, "it is an input here, or a file of the run", str(path))
    with open_regular_file(path) as file:
        if file.read(len(JOURNAL_BEGINNING)) == JOURNAL_BEGINNING:
            raise OSError(errno.EEXIST, "the results of a run are in it", str(path))


def _is_same_file(path: Path, other: str | os.PathLike[str]) -> bool:
    with suppress(OSError, ValueError):  # there is no other file, or it cannot have this name
        return os.path.samefile(path, other)
    return False


def sync_folder(folder: Path) -> None:
    """Write the folder to the disk, so that new file names survive a power cut."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(fd)


def in_percent(share: float, digits: int = 0) -> str:
    """Return a share as a text, such as 0.05 as ``5 %``; NaN is ``-``."""
    return "-" if share != share else f"{100.0 * share:.{digits}f} %"


def is_wide(values: Collection[float], ratio: float = 5.0) -> bool:
    """Whether values need a logarithmic scale: they are positive, and the largest is many times the smallest."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return bool(low > 0.0 and high / low > ratio)


def wrap_items(items: Iterable[str], width: int, separator: str = " ") -> list[str]:
    """Return lines of at most ``width`` characters with the items; an item is never broken."""
    lines: list[str] = []
    for item in items:
        if lines and len(lines[-1]) + len(separator) + len(item) <= width:
            lines[-1] += separator + item
        else:
            lines.append(item)
    return lines


def show(value: object) -> str:
    """Return a value for a reader: four digits of a number, the elements of a list."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) < _EXACT else f"{value:.4g}"
    return " ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def format_table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as text, with a line under its head."""
    lines = align_cells([list(map(show, row)) for row in (head, *rows)])
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def align_cells(rows: Iterable[Sequence[str]], left: int = 0) -> list[str]:
    """Return a line for each row of a table; the first ``left`` columns are aligned to the left, others to the right.

    Control characters are escaped.
    """
    cells = [[escape_control_characters(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    formats = [f"{'<' if i < left else '>'}{width}" for i, width in enumerate(widths)]
    return ["  ".join(map(format, row, formats)).rstrip() for row in cells]


@contextmanager
def explain_os_error(
    error_type: type[BacoError], action: str, path: Path, hint: str = ""
) -> Iterator[None]:
    """Turn an `OSError`, or a null character in the file's name, into an error that names the file.

    Args:
        error_type: Type of the error.
        action: What cannot be done with the file, such as ``write``.
        path: The file, unless the `OSError` names another one.
        hint: End of the message, such as the way to continue.

    Raises:
        BacoError: The block raised an `OSError`, or the name is impossible.
    """
    try:
        yield
    except OSError as error:
        reason = f"{error.strerror}; {hint}" if hint else error.strerror
        raise error_type(f"cannot {action} {error.filename or path}: {reason}") from error
    except ValueError as error:
        if "\0" not in str(path):
            raise
        raise error_type(f"cannot {action} {str(path)!r}: its name has a null character") from error


def warn_caller(message: str, category: type[Warning]) -> None:
    """Issue a warning that points to the nearest caller outside this package."""
    package, level = __name__.partition(".")[0], 1
    frame: FrameType | None = sys._getframe()
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def html_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return an HTML table, for notebooks; all texts are escaped."""

    def line(kind: str, cells: Iterable[object]) -> str:
        return "<tr>" + "".join(f"<{kind}>{escape(str(c))}</{kind}>" for c in cells) + "</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><caption>{escape(caption)}</caption>{line('th', head)}{body}</table>"
