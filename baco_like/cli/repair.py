"""``baco-like repair``: recover the undamaged records of a journal."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from baco_like._output import print_line


def add_parser(commands: Any) -> None:
    """Add the command to ``argparse``."""
    parser = commands.add_parser(
        "repair", help="write the undamaged records of a journal into a new one"
    )
    parser.add_argument("old", type=Path, metavar="OLD", help="damaged journal; it is not changed")
    parser.add_argument("new", type=Path, metavar="NEW", help="new journal; must not exist")
    parser.add_argument(
        "--header",
        type=Path,
        metavar="FILE",
        help="another journal of the same run, if record 0 is damaged",
    )
    parser.set_defaults(command=repair)


def repair(args: argparse.Namespace) -> int:
    """Write the new journal and print the losses."""
    from baco_like.journal import repair as repair_journal

    result = repair_journal(args.old, args.new, args.header)
    print_line("\n".join([*result.notes, f"kept {result.kept} records in {args.new}"]))
    return 0
