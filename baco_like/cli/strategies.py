"""``baco-like strategies``: list the strategies."""

from __future__ import annotations

import argparse
from typing import Any

from baco_like._output import print_line


def add_parser(commands: Any) -> None:
    """Add the command to ``argparse``."""
    parser = commands.add_parser("strategies", help="list the strategies and their settings")
    parser.set_defaults(command=strategies)


def strategies(args: argparse.Namespace) -> int:
    """Print one line for each strategy."""
    from baco_like.strategies import STRATEGIES, default_settings, describe_strategy

    width = max(map(len, STRATEGIES))
    for name in STRATEGIES:
        settings = ", ".join(f"{k}={v!r}" for k, v in default_settings(name).items())
        line = f"{name:<{width}}  {describe_strategy(name)}"
        print_line(line + (f"  [{settings}]" if settings else ""))
    return 0
