"""Build and write the report of a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Timer

from baco_like._optional import require_installed
from baco_like._output import check_output, explain_os_error, print_line, replace_file
from baco_like.exceptions import JournalError
from baco_like.journal import RemoteJournal
from baco_like.journal.lock import files_of_run
from baco_like.reporting import summary, understanding
from baco_like.reporting.facts import RunFacts
from baco_like.reporting.page import render_page

_SILENT_SECONDS = 2.0
"""A report that takes longer names its present step."""

_SECTIONS = (
    summary.winner_section,
    summary.search_section,
    summary.end_section,
    understanding.importance_section,
    understanding.choices_section,
    summary.failure_section,
    summary.peak_section,
    summary.metrics_section,
    understanding.trust_section,
    understanding.reproduction_section,
)


def build_report(
    journal: str | os.PathLike[str] | RemoteJournal,
    *,
    peak: float | None = None,
    note: Callable[[str], None] = lambda step: None,
) -> str:
    """Return the report of a run as one HTML page, which loads nothing else.

    The journal is only read, so the run may be going on.

    Args:
        journal: Path of the journal, or a run on a server.
        peak: The best value that the machine allows, in the unit of the values; None: as in the journal.
        note: Called before each step with its name.

    Raises:
        JournalError: The journal is missing or damaged.
        MissingExtra: vl-convert is not installed.
    """
    require_installed("vl_convert", "report")
    source = journal if isinstance(journal, RemoteJournal) else Path(journal)
    note(f"reading {journal}")
    facts = RunFacts(source, peak)
    options = facts.options
    name = options.strategy.get("name") or "a strategy object"
    begun = facts.created or "at an unknown time"
    about = f"{facts.path}, begun {begun}; strategy {name}, seed {options.seed}"
    note(f"explaining {len(facts.history)} observations: importance, outlook, calibration")
    _ = facts.explained  # computed here, kept for the sections
    note("drawing the charts")
    sections = [make(facts) for make in _SECTIONS]
    note("joining the page")
    return render_page(f"Tuning of {facts.title}", about, sections)


def write_report(
    journal: str | os.PathLike[str] | RemoteJournal,
    target: str | os.PathLike[str],
    *,
    peak: float | None = None,
    note: Callable[[str], None] = lambda step: None,
) -> None:
    """Write the report of a run; arguments and errors as for `build_report`.

    Args:
        journal: Path of the journal, or a run on a server.
        target: The HTML file; an existing one is replaced. A link is replaced, not followed.
        peak: The best value that the machine allows.
        note: Called before each step with its name.

    Raises:
        JournalError: The file cannot be written, or is a journal or another file of the run.
    """
    target = Path(target)
    inputs = () if isinstance(journal, RemoteJournal) else files_of_run(Path(journal))
    with explain_os_error(JournalError, "write", target, "name another file for the report"):
        check_output(target, inputs)
    page = build_report(journal, peak=peak, note=note)
    with explain_os_error(JournalError, "write", target):
        replace_file(target, page.encode("utf-8"), inputs)


def write_with_notes(
    journal: Path | RemoteJournal, target: Path, peak: float | None = None
) -> None:
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
