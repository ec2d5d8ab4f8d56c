"""The commands that read a journal: ``show``, ``watch``, ``report``, ``rebuild`` and ``repair``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from baco_like._output import explain_os_error, optional_output, print_exactly, print_line
from baco_like.cli import arguments
from baco_like.evaluators.command.evaluator import ProgramCommands
from baco_like.exceptions import RunFileError
from baco_like.journal import RemoteJournal
from baco_like.journal import repair as repair_journal
from baco_like.journal.remote import is_url
from baco_like.records import Trial
from baco_like.records.confirmation import winner_of
from baco_like.running.commands import trial_commands
from baco_like.running.findings import best_by_task, recommend_by_task, recommended_trial
from baco_like.running.journal_view import (
    JournalView,
    describe_outlook,
    describe_progress,
    describe_run,
    describe_trial,
    journal_of,
)
from baco_like.running.sentences import tell_recommendation

_CLEAR = "\x1b[H\x1b[2J\x1b[3J"
"""Move the cursor to the upper left corner; clear the screen and its history."""


def _run_of(args: arguments.Show | arguments.Watch | arguments.Report) -> Path | RemoteJournal:
    """Return the path of a run, or the run on a server."""
    if not is_url(args.journal):
        return Path(args.journal)
    token = None
    if args.token_file is not None:
        with explain_os_error(RunFileError, "read", args.token_file):
            token = args.token_file.read_text(encoding="utf-8")
    return RemoteJournal(args.journal, token)


def show(args: arguments.Show) -> None:
    """Print the status of a run, its best trials and its failures, or one trial."""
    view = JournalView(_run_of(args), with_constraints=args.trial is None)
    if args.trial is not None:
        print_line(describe_trial(view, view.find(args.trial)))
        return
    found = recommend_by_task(view)
    if args.task is not None:
        print_line(describe_trial(view, recommended_trial(found, args.task, view.history)))
        return
    width = shutil.get_terminal_size((100, 24)).columns
    print_line("\n".join([describe_run(view, args.top, width), *tell_recommendation(found)]))
    if outlook := describe_outlook(view):
        print_line(f"\n{outlook}")


def watch(args: arguments.Watch, sleep: Callable[[float], None] = time.sleep) -> None:
    """Show a page that follows a run of another process, until it ends or the user presses Ctrl-C.

    It is printed once where there is no terminal, and for a run that has ended: no process runs `tune` on it (a server
    has ended it by its rule), and no trial is pending. A program that asks and tells without `tune` has pending trials
    while it measures.
    """
    view = JournalView(_run_of(args))
    if not sys.stdout.isatty():
        print_line(_page(view, args.top))
        return
    was_running = False
    while True:
        view.refresh()
        is_running = view.find_end() is None
        if not is_running:
            view.refresh()  # the last events may have come between the two calls
        has_ended = not is_running and (was_running or not view.history.pending)
        columns, lines = shutil.get_terminal_size()
        end = "the run has ended" if has_ended else "Ctrl-C ends the watch, not the run"
        page = [*_page(view, args.top).splitlines()[: lines - 2], "", end]
        print_line("\n".join(line[:columns] for line in page), _CLEAR)
        if has_ended:
            return
        was_running = is_running
        try:
            sleep(args.interval)
        except KeyboardInterrupt:
            return


def _page(view: JournalView, top: int) -> str:
    width = shutil.get_terminal_size().columns
    parts: list[str] = []
    with optional_output("the status"):
        parts.append(describe_run(view, top, width))
    with optional_output("the bar"):
        parts.append(describe_progress(view, width))
    return "\n\n".join(filter(None, parts))


def report(args: arguments.Report) -> None:
    """Write the report of a run as one HTML file."""
    from baco_like.reporting.report import write_with_notes

    journal = _run_of(args)
    if isinstance(journal, Path):
        journal = journal_of(journal)
        out = journal.with_suffix(".html")
    else:  # in this folder
        out = Path(journal.url.rpartition("/")[2] + ".html")
    write_with_notes(journal, args.out or out, args.peak)


def rebuild(args: arguments.Rebuild) -> int:
    """Print the exact build and run commands of a trial; with ``--run`` execute them until one fails.

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
    # A terminal would obey the control characters of a value; a shell needs them.
    (print_line if sys.stdout.isatty() else print_exactly)(commands.to_script())
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


def repair(args: arguments.Repair) -> None:
    """Write the undamaged events of a journal into a new one, and print the losses."""
    result = repair_journal(args.old, args.new, args.header)
    print_line("\n".join([*result.notes, f"kept {result.kept} events in {args.new}"]))
