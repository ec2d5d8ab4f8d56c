"""Kinds of numbers on the command line, and what a command returns."""

from __future__ import annotations

import argparse

INTERRUPTED = 130
"""Exit code after Ctrl-C, as a shell has it."""


def count(text: str) -> int:
    """Read a number from 1.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"needs a whole number from 1, not {text!r}")
    return number


def seed(text: str) -> int:
    """Read a number from 0.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"needs a whole number from 0, not {text!r}")
    return int(text)
