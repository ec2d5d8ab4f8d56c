"""``baco-like report``: write the report of a run as one HTML file."""

from __future__ import annotations

import argparse

from baco_like._output import print_line
from baco_like.reporting import write_report


def run(args: argparse.Namespace) -> None:
    """Write the file."""
    target = args.journal.with_suffix(".html") if args.output is None else args.output
    write_report(args.journal, target, peak=args.peak)
    print_line(f"the report is in {target}")
