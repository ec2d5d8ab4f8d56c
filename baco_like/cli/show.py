"""``baco-like show``: the status of a run, its best trials and its failures, or one trial."""

from __future__ import annotations

import argparse
import shutil

from baco_like._output import print_line
from baco_like.running.findings import recommend_by_task, recommended_trial
from baco_like.running.journal_view import (
    JournalView,
    describe_outlook,
    describe_run,
    describe_trial,
)
from baco_like.running.telling import tell_recommendation


def run(args: argparse.Namespace) -> None:
    """Print the text."""
    view = JournalView(args.journal, with_constraints=args.trial is None)
    if args.trial is not None:
        print_line(describe_trial(view, view.find(args.trial)))
        return
    found = recommend_by_task(view)
    if args.task is not None:
        trial = recommended_trial(found, args.task, view.history)
        print_line(describe_trial(view, trial))
        return
    width = shutil.get_terminal_size((100, 24)).columns
    print_line("\n".join([describe_run(view, args.top, width), *tell_recommendation(found)]))
    outlook = describe_outlook(view)
    if outlook:
        print_line(f"\n{outlook}")
