"""``baco-like repair``: recover the undamaged events of a journal."""

from __future__ import annotations

import argparse

from baco_like._output import print_line
from baco_like.journal import repair


def run(args: argparse.Namespace) -> None:
    """Write the new journal and print the losses."""
    result = repair(args.old, args.new, args.header)
    print_line("\n".join([*result.notes, f"kept {result.kept} events in {args.new}"]))
