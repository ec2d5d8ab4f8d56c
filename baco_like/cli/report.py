"""``baco-like report``: write the report of a run as one HTML file."""

from __future__ import annotations

import argparse

from baco_like.reporting.report import write_with_notes
from baco_like.running.journal_view import journal_of


def run(args: argparse.Namespace) -> None:
    """Write the file."""
    journal = journal_of(args.journal)
    target = journal.with_suffix(".html") if args.out is None else args.out
    write_with_notes(journal, target, args.peak)
