"""Separate the lines of the protocol from all other output."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from baco_like.exceptions import RunFileError

Report = Callable[[str], None]
"""Writes one line that is not part of the protocol."""


@contextlib.contextmanager
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
        with contextlib.suppress(OSError):  # the client may have closed its end
            outgoing.close()
        sys.stdout.flush()
        os.dup2(stdout, 1)
        os.close(stdout)


def report_to_stderr(text: str) -> None:
    """Write a line to standard error.

    The line contains the word ``warning``: clients that read both streams as one skip such lines.
    """
    with contextlib.suppress(OSError):  # a closed terminal must not end the run
        print(f"baco-like: warning: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def report_to_log(log: Path | None, report: Report) -> Iterator[Report]:
    """Provide a function that reports a line and also appends it to a new log file, if there is one.

    Raises:
        RunFileError: The file cannot be created.
    """
    if log is None:
        yield report
        return
    with name_file_in_errors(log):
        log.parent.mkdir(parents=True, exist_ok=True)
        file = log.open("w", encoding="utf-8", buffering=1)

    def report_and_log(text: str) -> None:
        report(text)
        with contextlib.suppress(OSError):  # a full disk must not end the run
            file.write(text + "\n")

    with file:
        yield report_and_log


@contextlib.contextmanager
def name_file_in_errors(path: Path) -> Iterator[None]:
    """Turn an `OSError` within the ``with`` block into an error that names the file.

    Raises:
        RunFileError: The block raised an `OSError`.
    """
    try:
        yield
    except OSError as error:
        raise RunFileError(f"cannot write {error.filename or path}: {error.strerror}") from error
