"""Types of command-line arguments, and exit codes."""

from __future__ import annotations

import argparse
from collections.abc import Callable

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells use it."""


def whole_number(least: int, why: str = "") -> Callable[[str], int]:
    """Return an argument type for integers from ``least``.

    Args:
        least: The smallest accepted number.
        why: Reason of the limit, for the error message.
    """

    def parse(text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() else least - 1
        if number < least:
            raise argparse.ArgumentTypeError(
                f"needs a whole number from {least}{why}, not {text!r}"
            )
        return number

    return parse
