"""``baco-like serve``: HyperMapper's and BaCO's client-server protocol."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from baco_like.cli.arguments import whole_number


def add_parser(commands: Any) -> None:
    """Add the command to ``argparse``."""
    parser = commands.add_parser(
        "serve", help="speak HyperMapper's and BaCO's client-server protocol over stdin and stdout"
    )
    parser.add_argument("scenario", type=Path, metavar="SCENARIO.json", help="of either program")
    parser.add_argument(
        "--seed", type=whole_number(0), default=0, metavar="S", help="the run's only seed"
    )
    parser.add_argument("--strategy", metavar="NAME", help="use this instead of the scenario's")
    parser.add_argument(
        "--journal", type=Path, metavar="FILE", help="keep the run in a journal, or resume from it"
    )
    parser.set_defaults(command=serve)


def serve(args: argparse.Namespace) -> int:
    """Serve until the budget is spent or the client ends."""
    from baco_like.integrations.hypermapper.server import serve_stdio

    serve_stdio(args.scenario, args.seed, args.strategy, args.journal)
    return 0
