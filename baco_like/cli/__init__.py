"""The command line: ``baco-like tune | serve | compare | repair | export | strategies``.

Whatever a user can get wrong ends with one line on standard error and exit code 2, before anything is written. A bug
of ours is not dressed up so: its traceback is shown.
Commands import what they need when they are called, so that ``baco-like --help`` answers at once.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from baco_like.cli import compare, export, repair, serve, strategies, tune
from baco_like.cli.arguments import INTERRUPTED
from baco_like.exceptions import BacoError

_COMMANDS = (tune, serve, strategies, compare, repair, export)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 2 for a mistake in the input, 130 after Ctrl-C."""
    args = _parser().parse_args(argv)
    _end_by_signals()
    try:
        code: int = args.command(args)
        return code
    except BacoError as error:
        print(f"baco-like: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED


def _end_by_signals() -> None:
    """End as Ctrl-C does, children and all; nohup's wish that SIGHUP is ignored is respected."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="baco-like", description="Tune compilers and kernels: decide what to run next."
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for one in _COMMANDS:
        one.add_to(commands)
    return parser
