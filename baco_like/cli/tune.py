"""``baco-like tune``: run or resume the run that a run file describes."""

from __future__ import annotations

import argparse
from dataclasses import replace

from baco_like.cli.run_file import read
from baco_like.cli.runs import run_and_report
from baco_like.exceptions import RunFileError


def run(args: argparse.Namespace) -> int:
    """Run or resume a run.

    Returns:
        The exit code: 0, or 1 if no evaluation has succeeded.

    Raises:
        KeyboardInterrupt: The user interrupted the run; its results are written.
    """
    run_file = read(args.file, large=args.large, slots=args.slots)
    if args.budget is not None:
        run_file = replace(run_file, evaluations=args.budget)
    own = {"task": args.task, "worker": args.worker, "lease": args.lease}
    try:
        run_file = replace(run_file, sharing=replace(run_file.sharing, **own))
    except ValueError as error:
        raise RunFileError(f"[optimizer] {error}") from None
    return run_and_report(
        run_file, args.out, seed=args.seed, resume=args.resume, report=args.report
    )[0]
