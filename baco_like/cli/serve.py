"""``baco-like serve``: HyperMapper's and BaCO's client-server protocol."""

from __future__ import annotations

import argparse

from baco_like.integrations.hypermapper.server import serve_stdio


def run(args: argparse.Namespace) -> None:
    """Serve until the budget is spent or the client ends."""
    options = {"seed": args.seed, "strategy": args.strategy, "journal": args.journal}
    options |= {"allow_dirs": args.allow_dir, "large": args.large, "ahead": args.ahead}
    options |= {"priors": args.prior}
    serve_stdio(args.scenario, **options)
