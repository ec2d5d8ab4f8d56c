"""``baco-like simplify``: return parameters of the winner of a run to their defaults where that changes nothing."""

from __future__ import annotations

import argparse
from dataclasses import replace

from baco_like.cli.run_file import read
from baco_like.cli.runs import folder_to_resume, run_and_report
from baco_like.exceptions import RunFileError
from baco_like.running.confirming import SIMPLIFY, Confirm
from baco_like.running.journal_view import JOURNAL, JournalView


def run(args: argparse.Namespace) -> int:
    """Confirm the winner if it is not, simplify it, and write the results of the run again.

    Returns:
        The exit code: 0, or 1 if no evaluation has succeeded.

    Raises:
        RunFileError: No run file is named.
        JournalError: The journal is missing, damaged, or belongs to another run file.
        KeyboardInterrupt: The user interrupted it; the same command continues.
    """
    file, folder = args.run_file or args.run, args.run
    if file.suffix != ".toml":
        raise RunFileError(
            f"the evaluator is in the run file; name it: baco-like simplify {args.run} --run-file FILE.toml"
        )
    run_file, given = read(file), None if file is args.run else args.run
    folder = folder_to_resume(given.parent if given and given.name == JOURNAL else given, file.stem)
    confirm = run_file.measuring.confirm or Confirm(0 if run_file.aim.is_exact else 3)
    confirm = replace(confirm, simplify=args.budget or confirm.simplify or SIMPLIFY)
    measuring = replace(run_file.measuring, confirm=confirm)
    done = max(1, JournalView(folder).history.searched)
    run_file = replace(run_file, evaluations=done, seconds=None, rules=(), measuring=measuring)
    return run_and_report(run_file, folder, resume=True)[0]
