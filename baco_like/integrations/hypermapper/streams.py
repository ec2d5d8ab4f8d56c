"""Where the lines of the protocol go, and where everything else goes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from baco_like.exceptions import RunFileError

Report = Callable[[str], None]
"""Takes one line that is not for the client."""


@contextlib.contextmanager
def protocol_streams() -> Iterator[tuple[TextIO, TextIO]]:
    """Lend standard input and output to the protocol alone; whatever else prints goes to standard error."""
    sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    incoming = open(os.dup(0), encoding="utf-8", errors="replace")  # noqa: SIM115
    outgoing = open(own, "w", encoding="utf-8", newline="\n", closefd=False)  # noqa: SIM115
    try:
        yield incoming, outgoing
    finally:
        incoming.close()
        with contextlib.suppress(OSError):  # nobody may be there to read what is left
            outgoing.close()
        sys.stdout.flush()
        os.dup2(own, 1)
        os.close(own)


def to_stderr(text: str) -> None:
    """Write a line to standard error.

    It has the word ``warning``: a client that reads both streams as one skips such lines.
    """
    with contextlib.suppress(OSError):  # a closed terminal ends no run
        print(f"baco-like: warning: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def also_in(log: Path | None, report: Report) -> Iterator[Report]:
    """Lend a function that reports and writes the same to a new file.

    Raises:
        RunFileError: The file cannot be made.
    """
    if log is None:
        yield report
        return
    with named_errors(log):
        log.parent.mkdir(parents=True, exist_ok=True)
        file = log.open("w", encoding="utf-8", buffering=1)

    def both(text: str) -> None:
        report(text)
        with contextlib.suppress(OSError):  # nor does a full disk
            file.write(text + "\n")

    with file:
        yield both


@contextlib.contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Turn errors of the system within a ``with`` block into one that names the file.

    Raises:
        RunFileError: There was one.
    """
    try:
        yield
    except OSError as error:
        raise RunFileError(f"cannot write {error.filename or path}: {error.strerror}") from error
