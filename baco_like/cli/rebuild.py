"""``baco-like rebuild``: print or run the exact build and run commands of a trial."""

from __future__ import annotations

import argparse
import os
import subprocess
from pathlib import Path
from typing import Any

from baco_like._output import explain_os_error, print_line
from baco_like.evaluators import Evaluator, registry
from baco_like.evaluators.command import ProgramCommands, program_commands
from baco_like.evaluators.settings_table import Table
from baco_like.exceptions import RunFileError
from baco_like.records import Trial
from baco_like.running.journal_view import JournalView
from baco_like.spaces import Space

_TABLE = "[evaluator] "


def run(args: argparse.Namespace) -> int:
    """Print the commands; with ``--run`` execute them until one fails.

    Returns:
        The exit code: 0, or that of the command that has failed.

    Raises:
        RunFileError: The journal is not of ``baco-like tune``, has no success, or its evaluator runs no commands.
    """
    view = JournalView(args.journal)
    trial = view.winner() if args.trial is None else view.find(args.trial)
    if trial is None:
        raise RunFileError(f"{args.journal} has no successful trial; name one by --trial")
    commands = _commands(view, trial, args.folder, args.workdir)
    print_line(commands.to_script())
    return _execute(commands) if args.execute else 0


def _commands(
    view: JournalView, trial: Trial, folder: Path | None, workdir: Path | None
) -> ProgramCommands:
    context = view.header.options.context
    entries = {k.removeprefix(_TABLE): v for k, v in context.items() if k.startswith(_TABLE)}
    if not entries:
        raise RunFileError(f"{view.path} has no commands; only journals of 'baco-like tune' do")
    place = folder or Path(context.get("folder") or ".")
    evaluator = _evaluator(entries, view, place)
    made = program_commands(
        evaluator, trial.config, str((workdir or Path(f"trial-{trial.id}")).absolute())
    )
    if made is None:
        raise RunFileError(
            f"[evaluator] kind = {entries.get('kind')!r} runs no commands that can be printed; the configuration of "
            f"trial {trial.id} is {dict(trial.config)}"
        )
    return made


def _evaluator(entries: dict[str, Any], view: JournalView, folder: Path) -> Evaluator:
    # Constraints in Python are not in the journal, and commands do not depend on them.
    space = Space.from_dict({**view.header.space, "constraints": []})
    entries = {k: v for k, v in entries.items() if k not in registry.CACHE_KEYS}
    evaluator = registry.create(Table("evaluator", entries), space, view.objective.unit, folder)
    evaluator.close()
    return evaluator


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
