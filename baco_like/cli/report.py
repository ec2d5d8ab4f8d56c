"""``baco-like report``: write the report of a run as one HTML file."""

from __future__ import annotations

import argparse

from baco_like.reporting.report import write_with_notes


def run(args: argparse.Namespace) -> None:
    """Write the file."""
    target = args.journal.with_suffix(".html") if args.output is None else args.output
    write_with_notes(args.journal, target, args.peak)
