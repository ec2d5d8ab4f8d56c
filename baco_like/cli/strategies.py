"""``baco-like strategies``: list the strategies."""

from __future__ import annotations

import argparse

from baco_like._output import print_line
from baco_like.strategies import STRATEGIES, default_settings, describe_strategy


def run(args: argparse.Namespace) -> None:
    """Print one line for each strategy."""
    width = max(map(len, STRATEGIES))
    for name in STRATEGIES:
        settings = ", ".join(f"{k}={v!r}" for k, v in default_settings(name).items())
        line = f"{name:<{width}}  {describe_strategy(name)}"
        print_line(line + (f"  [{settings}]" if settings else ""))
