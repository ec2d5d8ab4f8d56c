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
    from baco_like.strategies.registry import STRATEGIES, settings_of, summary

    width = max(map(len, STRATEGIES))
    for name in STRATEGIES:
        settings = ", ".join(f"{k}={v!r}" for k, v in settings_of(name).items())
        say(f"{name:<{width}}  {summary(name)}" + (f"  [{settings}]" if settings else ""))
    return 0
