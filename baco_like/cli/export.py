"""``baco-like export``: results in a format of another tool."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from baco_like.exceptions import RunFileError
from baco_like.running.output import say


def add_to(commands: Any) -> None:
    """Add the sub-command to argparse's."""
    parser = commands.add_parser(
        "export", help="write a journal, or results of another tool, in a format of another tool"
    )
    parser.add_argument(
        "source", type=Path, metavar="SOURCE", help="a journal, T4, Kernel Tuner, KTT, CSV"
    )
    parser.add_argument("target", type=Path, metavar="TARGET", help="no such file may exist")
    parser.add_argument(
        "--format",
        required=True,
        choices=("t4", "kernel_tuner", "ktt", "baco", "csv"),
        help="of the target; a name that ends in .gz is compressed",
    )
    parser.add_argument(
        "--objective", metavar="NAME", help="the measurement that counts (default: the file's)"
    )
    parser.set_defaults(command=export)


def export(args: argparse.Namespace) -> int:
    """Write the results and say how many there are."""
    from baco_like.results.formats import read, write

    found = read(args.source, args.objective)
    if args.target.exists():
        raise RunFileError(f"{args.target} exists; name another file")
    try:
        count = write(found, args.target, args.format)
    except (ValueError, OSError) as error:
        raise RunFileError(f"{args.target} cannot be written: {error}") from error
    say("\n".join([*found.notes, f"wrote {count} results to {args.target}"]))
    return 0
