"""``baco-like serve``: HyperMapper's and BaCO's client-server protocol."""

from __future__ import annotations

import argparse

from baco_like.integrations.hypermapper.server import serve_stdio


def run(args: argparse.Namespace) -> None:
    """Serve until the budget is spent or the client ends."""
    serve_stdio(args.scenario, args.seed, args.strategy, args.journal, args.allow_dir, args.large)
