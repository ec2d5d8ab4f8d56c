"""The command that exchanges results with other tools: ``export``."""

from __future__ import annotations

import os

from baco_like._output import print_line
from baco_like.cli import arguments
from baco_like.exceptions import RunFileError
from baco_like.results import read, write


def export(args: arguments.Export) -> None:
    """Write results in the format of another tool, and print their number."""
    if not os.path.exists(args.source) and os.path.exists(args.target):
        raise RunFileError(
            f"{args.source} does not exist and {args.target} does: write baco-like export SOURCE TARGET"
        )
    recording = read(args.source, args.objective, large=args.large)
    if os.path.exists(args.target):  # a link without a target is replaced
        raise RunFileError(f"{args.target} exists; name another file")
    try:
        recording = recording.of_task(args.task) if args.task else recording
        count = write(recording, args.target, args.format)
    except (ValueError, OSError) as error:
        raise RunFileError(f"{args.target} cannot be written: {error}") from error
    print_line("\n".join([*recording.notes, f"wrote {count} results to {args.target}"]))
