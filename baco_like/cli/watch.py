"""``baco-like watch``: a page that follows a run of another process."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable

from baco_like._output import optional_output, print_line
from baco_like.running.journal_view import JournalView, describe_progress, describe_run

_CLEAR = "\x1b[H\x1b[2J\x1b[3J"
"""Move the cursor to the upper left corner; clear the screen and its history."""


def run(args: argparse.Namespace, sleep: Callable[[float], None] = time.sleep) -> None:
    """Show the page until the run ends or the user presses Ctrl-C.

    It is printed once where there is no terminal, and for a run that has ended: no process runs `tune` on it, and no
    trial is pending. A program that asks and tells without `tune` has pending trials while it measures.
    """
    view = JournalView(args.journal)
    if not sys.stdout.isatty():
        print_line(_page(view, args.top))
        return
    was_running = False
    while True:
        view.refresh()
        is_running = bool(view.find_runner())
        if not is_running:
            view.refresh()  # the last events may have come between the two calls
        has_ended = not is_running and (was_running or not view.history.pending)
        columns, lines = shutil.get_terminal_size()
        page = _page(view, args.top).splitlines()[: lines - 2]
        end = "Ctrl-C ends the watch, not the run"
        if has_ended:
            end = "the run has ended"
        text = "\n".join(line[:columns] for line in [*page, "", end])
        print_line(text, _CLEAR)
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
