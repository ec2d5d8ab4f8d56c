"""Print to streams that may be closed: a closed pipe or terminal must never end a run."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO


def print_line(text: str) -> None:
    """Print to standard output; if it is closed, discard this and all later output."""
    try:
        print(text, flush=True)
    except OSError:
        silence(sys.stdout)


def silence(stream: TextIO) -> None:
    """Redirect a stream to the null device, including its buffered output."""
    with suppress(OSError, ValueError):  # not every stream is a file
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
