"""``baco-like rebuild``: print or run the exact build and run commands of a trial."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from baco_like._output import explain_os_error, print_exactly, print_line
from baco_like.evaluators.command.evaluator import ProgramCommands
from baco_like.exceptions import RunFileError
from baco_like.records import Trial
from baco_like.records.confirmation import winner_of
from baco_like.running.commands import trial_commands
from baco_like.running.findings import best_by_task, recommend_by_task, recommended_trial
from baco_like.running.journal_view import JournalView


def run(args: argparse.Namespace) -> int:
    """Print the commands; with ``--run`` execute them until one fails.

    Returns:
        The exit code: 0, or the exit code of the command that failed.

    Raises:
        TrialError: Each task has its own configuration, and no task is named.
        RunFileError: The journal is not of ``baco-like tune``, has no success, or its evaluator runs no commands.
    """
    view = JournalView(args.journal)
    if args.trial is not None:
        trial: Trial | None = view.find(args.trial)
    elif args.task is not None or best_by_task(view.history):
        trial = recommended_trial(recommend_by_task(view), args.task, view.history)
    else:
        trial = winner_of(view.history)[0]
    if trial is None:
        raise RunFileError(f"{args.journal} has no successful trial; name one by --trial")
    commands = trial_commands(view, trial, args.folder, args.workdir, args.trust)
    script = commands.to_script()
    # A terminal would obey the control characters of a value; a shell needs them.
    (print_line if sys.stdout.isatty() else print_exactly)(script)
    return _execute(commands) if args.execute else 0


def _execute(commands: ProgramCommands) -> int:
    """Run the commands with their output on the terminal; return the first exit code that is not 0, or 0."""
    workdir = Path(commands.workdir)
    with explain_os_error(RunFileError, "make", workdir, "choose another folder by --workdir"):
        workdir.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **commands.environment}
    for stage, words in commands.stages.items():
        with explain_os_error(RunFileError, f"start the {stage} command", Path(words[0])):
            code = subprocess.run(
                words, cwd=commands.folder, env=environment, check=False
            ).returncode
        if code:
            print_line(f"the {stage} command ended with exit code {code}")
            return code if code > 0 else 1
    return 0
