"""``baco-like report``: write the report of a run as one HTML file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from threading import Timer

from baco_like._output import print_line
from baco_like.reporting import write_report

_SILENT_SECONDS = 2.0
"""A report that takes longer says what it is doing."""


def run(args: argparse.Namespace) -> None:
    """Write the file."""
    target = args.journal.with_suffix(".html") if args.output is None else args.output
    write_with_notes(args.journal, target, args.peak)


def write_with_notes(journal: Path, target: Path, peak: float | None = None) -> None:
    """Write the report and name the file; after `_SILENT_SECONDS` each step is named on standard error."""
    step = ""

    def print_step() -> None:
        print(f"report: {step}", file=sys.stderr, flush=True)

    def note(name: str) -> None:
        nonlocal step
        step = name
        if timer.finished.is_set():
            print_step()

    timer = Timer(_SILENT_SECONDS, print_step)
    timer.daemon = True
    timer.start()
    try:
        write_report(journal, target, peak=peak, note=note)
    finally:
        timer.cancel()
    print_line(f"the report is in {target}")
