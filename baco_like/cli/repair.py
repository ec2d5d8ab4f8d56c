"""``baco-like repair``: what is whole of a damaged journal."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from baco_like.running.output import say


def add_to(commands: Any) -> None:
    """Add the sub-command to argparse's."""
    parser = commands.add_parser(
        "repair", help="write what is whole of a damaged journal into a new one"
    )
    parser.add_argument(
        "old", type=Path, metavar="OLD", help="the damaged journal; it stays as it is"
    )
    parser.add_argument("new", type=Path, metavar="NEW", help="the new one; no such file may exist")
    parser.add_argument(
        "--header",
        type=Path,
        metavar="FILE",
        help="another journal of the same run, for a damaged record 0",
    )
    parser.set_defaults(command=mend)


def mend(args: argparse.Namespace) -> int:
    """Write the new journal and say what is lost."""
    from baco_like.journal.repair import repair

    found = repair(args.old, args.new, args.header)
    say("\n".join([*found.notes, f"kept {found.kept} records in {args.new}"]))
    return 0
