"""``baco-like strategies``: what there is to choose from."""

from __future__ import annotations

import argparse
from typing import Any

from baco_like.running.output import say


def add_to(commands: Any) -> None:
    """Add the sub-command to argparse's."""
    parser = commands.add_parser("strategies", help="list the strategies and their settings")
    parser.set_defaults(command=strategies)


def strategies(args: argparse.Namespace) -> int:
    """Print a line for each."""
    from baco_like.strategies import STRATEGIES, default_settings, describe_strategy

    width = max(map(len, STRATEGIES))
    for name in STRATEGIES:
        settings = ", ".join(f"{k}={v!r}" for k, v in default_settings(name).items())
        say(f"{name:<{width}}  {describe_strategy(name)}" + (f"  [{settings}]" if settings else ""))
    return 0
