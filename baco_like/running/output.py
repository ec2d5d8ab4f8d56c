"""Printing to somebody who may have gone: a closed pipe or terminal must never end a run."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO


def say(text: str) -> None:
    """Print to standard output; once nobody reads it, to nowhere."""
    try:
        print(text, flush=True)
    except OSError:
        silence(sys.stdout)


def silence(stream: TextIO) -> None:
    """Let a stream lead to nowhere from now on, with what it still holds."""
    with suppress(OSError, ValueError):  # it may be no file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
