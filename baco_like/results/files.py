"""Read whole files, compressed or not, and write JSON documents."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from baco_like._output import open_regular_file
from baco_like.exceptions import RunFileError

MOST_BYTES = 64 * 2**20
"""Most bytes of a file, unpacked, unless the user allows more with ``large``."""

MOST_RESULTS, MOST_CELLS = 150_000, 8_000_000
"""Most results of a file, and most cells of a table or values of a JSON text, unless the user allows more.

A result takes about 2 KB of memory and 0.1 ms, and short rows make 3 million results in 64 MiB. An empty object of JSON
takes 24 times the memory of its text.
"""

_ALLOW = (
    "if it is the right file, allow it: --large on the command line, large=True in Python, large = true in the table "
    "of a run file"
)

_BLOCK = 2**20
_GZIP = b"\x1f\x8b"

_MEMBER = b"\x1f\x8b\x08"
_MOST_MEMBERS = 10_000
"""Most parts of a compressed file. An empty part of 20 bytes takes as long as one of 10 KB."""


def is_packed(path: Path) -> bool:
    """Return whether a file is compressed by gzip.

    Raises:
        OSError: The file cannot be read.
    """
    with open_regular_file(path) as file:
        return file.read(2) == _GZIP


@contextmanager
def _open_unpacked(path: Path, large: bool) -> Iterator[BinaryIO | gzip.GzipFile]:
    """Open a file that may be compressed by gzip, and explain errors within the ``with`` block."""
    try:
        with open_regular_file(path) as file:
            is_gzip = file.read(2) == _GZIP
            file.seek(0)
            if is_gzip:
                if not large:
                    _check_members(file)
                with gzip.open(file) as stream:
                    yield stream
            else:
                yield file
    except (OSError, EOFError, ValueError, zlib.error) as error:  # ValueError: a null in the name
        raise RunFileError(f"{path}: cannot be read: {error}") from None


def _check_members(file: BinaryIO) -> None:
    """Refuse a compressed file that is too large or has too many parts, which the limit of unpacked bytes misses.

    Raises:
        OSError: It is; the position is the start otherwise.
    """
    size = members = 0
    while block := file.read(_BLOCK):
        size += len(block)
        members += block.count(_MEMBER)
        if size > MOST_BYTES or members > _MOST_MEMBERS:
            raise OSError(
                f"more than {MOST_BYTES // 2**20} MiB or {_MOST_MEMBERS} parts, compressed; {_ALLOW}"
            )
    file.seek(0)


def read_beginning(path: Path, size: int, large: bool = False) -> bytes:
    """Return the first bytes of a file, unpacked if it is compressed by gzip.

    Raises:
        RunFileError: The file cannot be read or unpacked.
    """
    with _open_unpacked(path, large) as stream:
        return stream.read(size)


def read_bytes(path: Path, large: bool = False) -> bytes:
    """Return the content of a file, unpacked if it is compressed by gzip.

    A packed file is unpacked in blocks. The memory is therefore bounded by the limit, whatever the file unpacks to.

    Args:
        path: The file.
        large: Whether it may have more than `MOST_BYTES` bytes.

    Raises:
        RunFileError: The file cannot be read or unpacked, or is too large.
    """
    with _open_unpacked(path, large) as stream:
        data = stream.read(-1 if large else MOST_BYTES + 1)
    if not large and len(data) > MOST_BYTES:
        raise RunFileError(f"{path} has more than {MOST_BYTES // 2**20} MiB (unpacked); {_ALLOW}")
    return data


def read_text(path: Path, large: bool = False) -> str:
    """Return the text of a file, unpacked if it is compressed by gzip.

    Raises:
        RunFileError: The file cannot be read or unpacked, or has more than `MOST_BYTES` bytes and is not ``large``.
    """
    return read_bytes(path, large).decode("utf-8-sig", errors="replace")


def check_number(results: int, large: bool, what: str = "results") -> None:
    """Refuse files of too many results, which would take gigabytes of memory.

    Raises:
        RunFileError: There are more than `MOST_RESULTS`, and ``large`` is false.
    """
    if not large and results > MOST_RESULTS:
        raise RunFileError(f"it has {results} {what}, more than {MOST_RESULTS}; {_ALLOW}")


def check_table(text: str, large: bool) -> None:
    """Refuse CSV files of too many rows or cells before they are parsed.

    Raises:
        RunFileError: There are more than `MOST_RESULTS` lines or `MOST_CELLS` commas, and ``large`` is false.
    """
    check_number(text.count("\n") + text.count("\r") - text.count("\r\n"), large, "lines")
    check_cells(text, large, "cells")


def check_cells(text: str, large: bool, what: str) -> None:
    """Refuse a text with more than `MOST_CELLS` commas before it is parsed.

    Raises:
        RunFileError: It has more, and ``large`` is false.
    """
    if not large and text.count(",") > MOST_CELLS:
        raise RunFileError(f"it has more than {MOST_CELLS} {what}; {_ALLOW}")


def hash_of_files(paths: Iterable[Path]) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of the contents of files, which are read in blocks.

    Raises:
        OSError: A file cannot be read, or is a named pipe or a device.
        ValueError: A name has a null character.
    """
    digest = hashlib.sha256()
    for path in paths:
        with open_regular_file(path) as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()[:16]


def json_bytes(document: Any, what: str) -> bytes:
    """Return a document as JSON with one line per part and per row of a part.

    Args:
        document: The document.
        what: Name of the file in messages.

    Raises:
        ValueError: A value has no JSON form (a number that is not finite, an object).
    """
    try:
        parts = [f"{json.dumps(key)}:{_lines(part)}" for key, part in document.items()]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} cannot hold this: {error}; use JSON values") from error
    return ("{\n" + ",\n".join(parts) + "\n}\n").encode()


def _lines(part: Any) -> str:
    """Return JSON with one line per element of a list of objects, or of an object of objects."""
    inner = list(part.values()) if isinstance(part, dict) else part
    if not isinstance(inner, list) or not inner or not all(isinstance(row, dict) for row in inner):
        return _dump(part)
    if isinstance(part, dict):
        return "{\n" + ",\n".join(f"{json.dumps(k)}:{_dump(v)}" for k, v in part.items()) + "\n}"
    return "[\n" + ",\n".join(map(_dump, part)) + "\n]"


def _dump(part: Any) -> str:
    return json.dumps(part, allow_nan=False, separators=(",", ":"))
