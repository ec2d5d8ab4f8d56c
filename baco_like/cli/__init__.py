"""The command line: ``baco-like tune | serve | compare | repair | export | strategies``.

A mistake in the input ends with one line on standard error and exit code 2, before anything is written. A bug of this
package shows its traceback. Commands import their modules when they are called, so that ``baco-like --help`` is fast.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from baco_like.cli import compare, export, repair, serve, strategies, tune
from baco_like.cli.arguments import INTERRUPTED
from baco_like.exceptions import BacoError

__all__ = ["main"]

_COMMANDS = (tune, serve, strategies, compare, repair, export)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns:
        The exit code: 0, 2 for a mistake in the input, 130 after Ctrl-C.
    """
    parser = argparse.ArgumentParser(
        prog="baco-like", description="Tune compilers and kernels: decide what to run next."
    )
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(subparsers)
    args = parser.parse_args(argv)
    _handle_signals()
    try:
        code: int = args.command(args)
        return code
    except BacoError as error:
        print(f"baco-like: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED


def _handle_signals() -> None:
    """Treat SIGTERM and SIGHUP like Ctrl-C, which also ends child processes; keep a signal that nohup ignores."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
