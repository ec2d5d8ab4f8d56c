"""The command line, ``baco-like COMMAND``; `build_parser` lists the commands.

A mistake in the input ends with one line on standard error and exit code 2, before anything is written. A bug of this
package shows its traceback. The module of a command is imported when it is called, so that ``baco-like --help`` is
fast.
"""

from __future__ import annotations

import importlib
import io
import signal
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TextIO

from baco_like._output import escape_control_characters
from baco_like.cli.arguments import build_parser
from baco_like.exceptions import BacoError

__all__ = ["main"]

_INTERRUPTED = 130  # exit code after Ctrl-C, as shells use it


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns:
        The exit code: 0, 1 for a run without any success, 2 for a mistake in the input, 130 after Ctrl-C.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A character that the encoding of the terminal lacks must not end a run.
        sys.stdout.reconfigure(errors="backslashreplace")
    # SIGTERM and SIGHUP act like Ctrl-C, which also ends child processes; a signal that nohup ignores stays ignored.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = partial(_show_warning, set())
            args = build_parser().parse_args(argv)  # asks plug-ins for their names
            module, _, name = args.function.partition(".")
            command = getattr(importlib.import_module(f"baco_like.cli.{module}"), name)
            return command(args) or 0
    except BacoError as error:
        print(f"baco-like: error: {escape_control_characters(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return _INTERRUPTED


def _show_warning(
    shown: set[str],
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning in one line, without the file and the line of code that raised it.

    A text in ``shown`` is not printed again: two lines of code may raise it, a check and the run itself.
    """
    text = escape_control_characters(" ".join(str(message).split()))
    if text in shown:
        return
    shown.add(text)
    with suppress(OSError):  # a closed stream must not end a run
        print(f"baco-like: warning: {text}", file=sys.stderr, flush=True)
