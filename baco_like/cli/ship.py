"""``baco-like ship``: write the winners of runs as a file that another program loads."""

from __future__ import annotations

import argparse

from baco_like._output import explain_os_error, print_line
from baco_like.exceptions import RunFileError
from baco_like.journal.lock import files_of_run
from baco_like.running.journal_view import JournalView, journal_of
from baco_like.shipping import ShippedTable, make_table, read_table, ship
from baco_like.shipping.table import describe_task


def run(args: argparse.Namespace) -> None:
    """Write the file, and print its entries.

    Raises:
        RunFileError: A journal has no success, the numbers of journals and tasks differ, or the format cannot hold the
            table.
        JournalError: A journal is missing or damaged.
    """
    table = _read_sources(args)
    with explain_os_error(RunFileError, "write", args.out, "choose another file by --out"):
        inputs = [file for path in args.sources for file in files_of_run(journal_of(path))]
        path = ship(table, args.format, args.out, args.name, inputs)
    for entry in table.entries:
        evidence = entry.evidence
        text = f"{table.stamp.objective} = {evidence.value:.6g}"
        text += f" {table.stamp.unit}" if table.stamp.unit else ""
        if table.default is not None and dict(entry.config) == dict(table.default):
            text += ", the default configuration"
        elif evidence.speedup is not None:
            text += f", {evidence.speedup:.3g} times better than the default"
        if evidence.low is not None:
            text += f" ({evidence.low:.3g} to {evidence.high:.3g})"
        number = evidence.measurements
        counted = "1 measurement" if number == 1 else f"{number or 'no'} measurements"
        print_line(f"{describe_task(entry.task)}: {text}; {counted}")
    if table.default is None:
        print_line(
            "note: there is no default configuration that runs, so unknown tasks may get none"
        )
    count = len(table.entries)
    print_line(f"wrote {'1 entry' if count == 1 else f'{count} entries'} to {path}")


def _read_sources(args: argparse.Namespace) -> ShippedTable:
    if len(args.sources) == 1 and args.sources[0].suffix == ".json":
        if args.task or args.constraint or args.device:
            raise RunFileError(
                f"{args.sources[0]} is a table; --task, --constraint and --device belong to journals"
            )
        return read_table(args.sources[0])
    tasks = args.task or [{}] * len(args.sources)
    if len(tasks) != len(args.sources):
        raise RunFileError(
            f"{len(args.sources)} journals and {len(tasks)} times --task: give one --task for each journal, in order"
        )
    views = [JournalView(path, with_constraints=True) for path in args.sources]
    runs = [view.shipped_run(task) for view, task in zip(views, tasks, strict=True)]
    return make_table(runs, views[0].history.space, device=args.device, constraints=args.constraint)
