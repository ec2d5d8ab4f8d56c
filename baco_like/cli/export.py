"""``baco-like export``: write results in the format of another tool."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from baco_like._output import print_line
from baco_like.exceptions import RunFileError


def add_parser(commands: Any) -> None:
    """Add the command to ``argparse``."""
    parser = commands.add_parser(
        "export", help="write a journal, or results of another tool, in a format of another tool"
    )
    parser.add_argument(
        "source", type=Path, metavar="SOURCE", help="a journal, T4, Kernel Tuner, KTT, CSV"
    )
    parser.add_argument("target", type=Path, metavar="TARGET", help="new file; must not exist")
    parser.add_argument(
        "--format",
        required=True,
        choices=("t4", "kernel_tuner", "ktt", "baco", "csv"),
        help="of the target; a name that ends in .gz is compressed",
    )
    parser.add_argument(
        "--objective", metavar="NAME", help="the measurement to optimize (default: the file's)"
    )
    parser.set_defaults(command=export)


def export(args: argparse.Namespace) -> int:
    """Write the results and print their number."""
    from baco_like.results.formats import read, write

    recording = read(args.source, args.objective)
    if args.target.exists():
        raise RunFileError(f"{args.target} exists; name another file")
    try:
        count = write(recording, args.target, args.format)
    except (ValueError, OSError) as error:
        raise RunFileError(f"{args.target} cannot be written: {error}") from error
    print_line("\n".join([*recording.notes, f"wrote {count} results to {args.target}"]))
    return 0
