"""The commands about shipped files: ``ship`` writes one, ``check`` measures its winner and the default again."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from baco_like._output import check_output, explain_os_error, print_line, replace_file
from baco_like.cli import arguments
from baco_like.cli.runs import folder_to_resume
from baco_like.evaluators.command.compiler_options import describe_compiler
from baco_like.exceptions import RunFileError
from baco_like.journal.header import describe_host, hashes_in
from baco_like.journal.lock import files_of_run
from baco_like.optimizer.warm_start import UNNAMED
from baco_like.records.limits import Limits
from baco_like.records.objective import Direction
from baco_like.records.regression import RegressionRule
from baco_like.running.journal_view import JOURNAL, JournalView, journal_of
from baco_like.running.progress import Display
from baco_like.running.regression_check import (
    CheckedPair,
    CheckResult,
    check_winner,
    record_baseline,
)
from baco_like.running.run_file import RunFile, read
from baco_like.running.sentences import tell_edits
from baco_like.shipping import (
    Evidence,
    ShippedEntry,
    ShippedTable,
    make_table,
    read_table,
)
from baco_like.shipping import ship as write_table
from baco_like.shipping.stamp import fingerprint
from baco_like.shipping.table import describe_task
from baco_like.spaces.inputs import describe_differences

_MIN_TOLERANCE = 0.2
"""The slow-down that does not matter, as a share of the slow-down to find."""


# ship -----------------------------------------------------------------------------------------------------------------


def ship(args: arguments.Ship) -> None:
    """Write the winners of runs as a file that another program loads, and print its entries.

    Raises:
        RunFileError: A journal has no success, the numbers of journals and tasks differ, or the format cannot hold the
            table.
        JournalError: A journal is missing or damaged.
    """
    if os.path.exists(args.out) and not any(map(os.path.exists, args.sources)):
        raise RunFileError(
            f"{args.sources[0]} does not exist and {args.out} does: write baco-like ship JOURNAL --out FILE"
        )
    table, notes = _read_sources(args)
    with explain_os_error(RunFileError, "write", args.out, "choose another file by --out"):
        inputs = [file for path in args.sources for file in files_of_run(journal_of(path))]
        path = write_table(table, args.format, args.out, args.name, inputs)
    for entry in table.entries:
        evidence = entry.evidence
        text = f"{table.stamp.objective} = {evidence.value:.6g}"
        text += f" {table.stamp.unit}" if table.stamp.unit else ""
        if table.default is not None and dict(entry.config) == dict(table.default):
            text += ", the default configuration"
        elif evidence.speedup is not None:
            text += f", {evidence.speedup:.4g} times better than the default"
        if evidence.low is not None:
            text += f" ({evidence.low:.4g} to {evidence.high:.4g})"
        number = evidence.measurements
        counted = "1 measurement" if number == 1 else f"{number or 'no'} measurements"
        print_line(f"{describe_task(entry.task)}: {text}; {counted}")
    tasks, known = table.space.tasks, [dict(entry.task) for entry in table.entries]
    descriptors = () if tasks is None else tasks.descriptors
    if missing := [describe_task(task) for task in descriptors if dict(task) not in known]:
        print_line(
            f"note: no configuration is recommended for {', '.join(missing)}; there the file chooses the "
            "configuration of another task, which may fail"
        )
    if table.default is None:
        print_line(
            "note: there is no default configuration that runs, so unknown tasks may get none"
        )
    for note in notes:
        print_line(f"note: {note}")
    count = len(table.entries)
    print_line(f"wrote {'1 entry' if count == 1 else f'{count} entries'} to {path}")


def _read_sources(args: arguments.Ship) -> tuple[ShippedTable, list[str]]:
    """Return the table, and a sentence for each source that was edited after its run."""
    if len(args.sources) == 1 and args.sources[0].suffix == ".json":
        if args.task or args.constraint or args.device:
            raise RunFileError(
                f"{args.sources[0]} is a table; --task, --constraint and --device belong to journals"
            )
        return read_table(args.sources[0]), []
    tasks = args.task or [{}] * len(args.sources)
    if len(tasks) != len(args.sources):
        raise RunFileError(
            f"{len(args.sources)} journals and {len(tasks)} times --task: give one --task for each journal, in order"
        )
    views = [JournalView(path, with_constraints=True) for path in args.sources]
    runs = [view.shipped_run(task) for view, task in zip(views, tasks, strict=True)]
    space, edits = views[0].history.space, [e for v in views for e in tell_edits(v.options.context)]
    table = make_table(runs, space, device=args.device, constraints=args.constraint)
    return table, list(dict.fromkeys(edits))


# check ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Checked:
    """A table, its file, the journal that it comes from, or None, and the run file, or None."""

    table: ShippedTable
    file: Path
    journal: Path | None
    run_file: RunFile | None


def check(args: arguments.Check) -> int:
    """Measure a shipped winner and the default again, and print the result.

    Returns:
        The exit code: 0 if it is fine, 1 if it has regressed, 2 if the check cannot tell.

    Raises:
        RunFileError: A file cannot be read, the space has changed, or no run file is named.
    """
    checked = _read(args)
    run_file = checked.run_file
    if run_file is None:
        raise RunFileError(
            f"the evaluator is in the run file; name it: baco-like check {args.file} --run-file FILE.toml"
        )
    inputs = (*files_of_run(checked.file), *run_file.inputs)
    if args.report is not None:
        with explain_os_error(RunFileError, "write", args.report, "name another file by --report"):
            check_output(args.report, inputs)
    notes = _compare_facts(checked.table, run_file, args)
    entry = checked.table.find(args.task) if args.task else _only_entry(checked.table)
    if checked.table.stamp.differences(device=_present_device(args)):
        # Ratios of another device do not count as a baseline.
        entry = replace(entry, evidence=replace(entry.evidence, ratios=()))
    result = _measure(run_file, checked.table, entry, args)
    result = replace(result, notes=(*notes, *result.notes))
    for line in result.describe():
        print_line(line)
    if args.report is not None:
        with explain_os_error(RunFileError, "write", args.report):
            text = json.dumps(result.to_dict(), indent=2) + "\n"
            replace_file(args.report, text.encode(), inputs)
    if args.record and result.status == "fine":
        _keep_baseline(checked, entry, result, args)
    return result.exit_code


def _read(args: arguments.Check) -> _Checked:
    file, run_file = args.file, None if args.run_file is None else read(args.run_file)
    if file.suffix == ".toml":
        run_file = read(file) if run_file is None else run_file
        file = folder_to_resume(None, file.stem) / JOURNAL
    file = journal_of(file)
    if file.suffix == ".json":
        return _Checked(read_table(file), file, None, run_file)
    if args.record:
        raise RunFileError(
            f"--record writes into a table, and {file} is a journal; write one by: baco-like ship {file} "
            "--format json --out tuned.json"
        )
    view = JournalView(file, with_constraints=True)
    if view.objectives:
        raise RunFileError(f"{file} has several objectives; a check compares one")
    run = view.shipped_run(None if view.space.tasks else args.task)
    table = make_table([run], view.space)
    return _Checked(table, file, file, run_file)


def _only_entry(table: ShippedTable) -> ShippedEntry:
    if len(table.entries) > 1:
        known = "; ".join(describe_task(entry.task) for entry in table.entries)
        raise RunFileError(
            f"there are several tasks; name the one to check by --task, one of: {known:.500}"
        )
    return table.entries[0]


def _present_device(args: arguments.Check) -> str | None:
    return args.device or describe_host().get("cpu")


def _compare_facts(table: ShippedTable, run_file: RunFile, args: arguments.Check) -> list[str]:
    """Return notes on changes.

    Raises:
        RunFileError: The space has changed, so the shipped configuration may not even exist, or the objective has.
    """
    now = run_file.space.to_dict()
    if table.stamp.differences(fingerprint(now)):
        reasons = describe_differences(table.space.to_dict(), now)
        detail = "; ".join(reasons) or "the constraints were changed"
        raise RunFileError(
            f"{args.file} is stale: the space has changed since it was shipped ({detail:.500}); tune and ship again"
        )
    stamp, own = table.stamp, run_file.aim.first
    is_renamed = len({stamp.objective, own.name} - {UNNAMED, ""}) > 1
    if is_renamed or stamp.direction != own.direction:
        raise RunFileError(
            f"{args.file} has the objective {stamp.objective!r} to {stamp.direction}, and the run file {own.name!r} to "
            f"{own.direction}, so their ratios are not comparable; name the run file of the shipped run"
        )
    compiler = describe_compiler(run_file.evaluator_table.entries)
    sources = hashes_in(run_file.context)
    return table.stamp.differences(None, _present_device(args), compiler, sources)


def _measure(
    run_file: RunFile, table: ShippedTable, entry: ShippedEntry, args: arguments.Check
) -> CheckResult:
    slowdown = args.slowdown / 100.0
    rule = RegressionRule(slowdown, _MIN_TOLERANCE * slowdown, rounds=args.rounds)
    evidence, objective = entry.evidence, run_file.aim.first
    direction: Direction = "maximize" if objective.direction == "maximize" else "minimize"
    # The configurations of a space with tasks have the descriptor too.
    has_tasks = table.space.tasks is not None
    task = entry.task if has_tasks else {}
    pair = CheckedPair(
        {**entry.config, **task},
        None if table.default is None else {**table.default, **task},
        evidence.ratios,
        evidence.candidates,
        direction,
        entry.task if has_tasks else None,
        objective.exact,
    )
    limits = Limits(run_file.aim.limits)
    display = Display(sys.stdout, args.rounds, "round", interval=10.0)
    with closing(display):
        method = record_baseline if args.record else check_winner
        return method(
            run_file.create_evaluator(),
            pair,
            rule,
            seed=args.seed,
            judge=lambda outcome: limits.judge(outcome, objective.name),
            show=lambda done: display.show(done, "the winner and the default were measured"),
        )


def _keep_baseline(
    checked: _Checked, entry: ShippedEntry, result: CheckResult, args: arguments.Check
) -> None:
    """Write the measurements into the table, with the facts of this machine."""
    assert checked.run_file is not None
    table = checked.table
    sign = 1.0 if table.stamp.direction == "minimize" else -1.0
    pairs = zip(result.default, result.winner, strict=True)
    evidence = Evidence(
        float(np.median(result.winner)),
        len(result.winner),
        float(np.median(result.default)),
        result.speedup,
        ratios=tuple((default / winner) ** sign for default, winner in pairs),
        evaluations=entry.evidence.evaluations,
    )
    entries = tuple(
        replace(e, evidence=evidence) if dict(e.task) == dict(entry.task) else e
        for e in table.entries
    )
    stamp = replace(
        table.stamp,
        device=_present_device(args),
        compiler=describe_compiler(checked.run_file.evaluator_table.entries) or None,
        date=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        evidence=tuple({"task": dict(e.task), **e.evidence.summary()} for e in entries),
    )
    with explain_os_error(RunFileError, "write", args.file):
        # A link is an input here: the table itself is updated.
        write_table(replace(table, entries=entries, stamp=stamp), "json", args.file.resolve())
    print_line(f"kept {len(evidence.ratios)} rounds in {args.file}")
