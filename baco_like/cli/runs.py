"""Run or resume what a run file describes, in a separate folder: ``tune`` and ``simplify``."""

from __future__ import annotations

import contextlib
import itertools
import json
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from baco_like._optional import require_installed
from baco_like._output import (
    check_output,
    explain_os_error,
    optional_output,
    print_line,
    replace_file,
)
from baco_like.cli import arguments
from baco_like.evaluators import Evaluator
from baco_like.evaluators.command.evaluator import program_commands
from baco_like.evaluators.protocol import SourceProvider, unwrap
from baco_like.exceptions import BacoError, EvaluatorError, JournalError, RunFileError
from baco_like.journal import JsonlJournal
from baco_like.journal.lock import reserved, sole_runner
from baco_like.optimizer import Callback, Optimizer, Sharing
from baco_like.optimizer.arguments import read_header
from baco_like.running.confirming import SIMPLIFY, Confirm
from baco_like.running.drawing import plot_convergence, plot_front
from baco_like.running.findings import Findings, first_line, recommend_by_task, write_best
from baco_like.running.journal_view import JOURNAL, JournalView
from baco_like.running.machine import describe_machine
from baco_like.running.progress import Display, show_progress
from baco_like.running.proposers import Proposer
from baco_like.running.run_file import RunFile, read
from baco_like.running.run_tables import Budget
from baco_like.running.sentences import format_summary, tell_recommendation
from baco_like.running.tuner import INTERRUPTED, search_and_confirm
from baco_like.spaces.space import format_size

_MANY = 1000
"""Number of parameters above which a note says that suggestions take long."""

_RUNS = Path("runs")


def tune(args: arguments.Tune) -> int:
    """Run or resume the run that a run file describes.

    Returns:
        The exit code: 0, or 1 if no evaluation has succeeded.

    Raises:
        KeyboardInterrupt: The user interrupted the run; its results are written.
    """
    run_file = read(args.file, large=args.large, slots=args.slots)
    if args.budget is not None:
        run_file = replace(run_file, budget=replace(run_file.budget, evaluations=args.budget))
    try:
        sharing = replace(run_file.sharing, task=args.task, worker=args.worker, lease=args.lease)
        run_file = replace(run_file, sharing=sharing)
    except ValueError as error:
        raise RunFileError(f"[optimizer] {error}") from None
    return run_and_report(
        run_file, args.out, seed=args.seed, resume=args.resume, report=args.report
    )[0]


def simplify(args: arguments.Simplify) -> int:
    """Return parameters of the winner to their defaults where that changes nothing, and write the results again.

    The winner is confirmed first if it is not yet.

    Returns:
        The exit code: 0, or 1 if no evaluation has succeeded.

    Raises:
        RunFileError: No run file is named.
        JournalError: The journal is missing, damaged, or belongs to another run file.
        KeyboardInterrupt: The user interrupted it; the same command continues.
    """
    file = args.run_file or args.run
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
    budget = Budget(done, identical_failures=run_file.budget.identical_failures)
    run_file = replace(run_file, budget=budget, measuring=measuring)
    return run_and_report(run_file, folder, resume=True)[0]


def check_sharing(run_file: RunFile, has_folder: bool) -> None:
    """Reject what a run that other processes share cannot have.

    Args:
        run_file: The file.
        has_folder: Whether the folder of the run is known.

    Raises:
        RunFileError: The combination is wrong.
    """
    if run_file.is_shared and not has_folder:
        raise RunFileError("--worker needs --out DIR, the folder that all processes share")
    if run_file.is_shared and run_file.measuring.confirm is not None:
        raise RunFileError(
            "[confirmation] would measure in each process; with --worker, leave it out"
        )


def sharing_arguments(sharing: Sharing) -> list[str]:
    """Return the arguments of the command line for the task, the name and the lease of a process."""
    task = sharing.task
    if isinstance(task, Mapping):
        texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in task.items()}
        task = ",".join(f"{name}={text}" for name, text in texts.items())
    given = {"--task": task, "--worker": sharing.worker, "--lease": sharing.lease}
    return [str(part) for item in given.items() if item[1] is not None for part in item]


def run_and_report(
    run_file: RunFile,
    out: Path | None,
    *,
    seed: int | None = None,
    resume: bool = False,
    report: bool = False,
) -> tuple[int, Path]:
    """Run or resume what a file describes, and print the results.

    Args:
        run_file: The contents of the file.
        out: Folder of the results, or None for a new one in ``runs``; on a resume the newest.
        seed: The only seed, or None for the file's.
        resume: Whether to continue a run.
        report: Whether to write ``report.html`` too.

    Returns:
        The exit code (0, or 1 if no evaluation has succeeded), and the folder of the results.

    Raises:
        KeyboardInterrupt: The user interrupted the run; its results are written.
    """
    if report:
        require_installed("vl_convert", "report")
    check_sharing(run_file, out is not None or resume)
    with contextlib.ExitStack() as stack:
        optimizer, evaluator, folder = _open_run(stack, run_file, out, seed, resume)
        try:
            reason = _run_and_confirm(run_file, optimizer, evaluator, folder)
        except EvaluatorError:
            if not (resume or run_file.is_shared or optimizer.history.evaluations):
                # The same command works after the correction.
                (folder / JOURNAL).unlink(missing_ok=True)
            raise
    if report:
        _write_report(folder)
    return _tell_end(run_file, optimizer, reason, folder), folder


def _open_run(
    stack: contextlib.ExitStack, run_file: RunFile, out: Path | None, seed: int | None, resume: bool
) -> tuple[Optimizer, Evaluator, Path]:
    """Return optimizer, evaluator and folder of a run, and say what begins; the stack closes them."""
    stem, is_shared = run_file.path.stem, run_file.is_shared
    evaluator = run_file.create_evaluator()
    stack.callback(evaluator.close)
    if resume:
        folder = folder_to_resume(out, stem)
    else:
        # Without a journal this only checks the arguments, before anything is written.
        _create_optimizer(run_file, None, seed)
        folder = _create_folder(out, run_file.path, is_shared)
        stack.callback(_remove_empty, folder)
    journal = folder / JOURNAL
    _check_outputs(folder, run_file, evaluator)
    stack.enter_context(sole_runner(journal, is_shared))
    if not resume:
        # Again: another process may have been faster.
        _check_no_journal(folder, run_file.path, is_shared)
    proposers = [Proposer(command, run_file.folder) for command in run_file.proposers]
    for proposer in proposers:
        stack.callback(proposer.close)
    with _reserved(journal, is_shared):
        optimizer = _create_optimizer(run_file, journal, seed, proposers)
    size = format_size(run_file.space.feasible_size)
    read = f"; {optimizer.history.evaluations} results read" if resume else ""
    print_line(f"{size} feasible configurations; results go to {folder}{read}")
    if len(run_file.space.parameters) > _MANY:
        print_line(
            f"note: {len(run_file.space.parameters)} parameters: a suggestion may take a minute; the strategies "
            "random_search and genetic_algorithm take milliseconds"
        )
    for note in describe_machine() if run_file.recheck.every else ():
        print_line(f"note: {note}")
    return optimizer, evaluator, folder


def _tell_end(run_file: RunFile, optimizer: Optimizer, reason: str, folder: Path) -> int:
    """Say how the run ended, and return the exit code.

    Raises:
        KeyboardInterrupt: The user interrupted the run.
    """
    if reason == INTERRUPTED:
        words = ("baco-like", "tune", str(run_file.path), "--out", str(folder), "--resume")
        command = shlex.join([*words, *sharing_arguments(run_file.sharing)])
        print_line(f"interrupted; continue with: {command}")
        raise KeyboardInterrupt
    print_line(f"ended: {reason}; results are in {folder}")
    own = optimizer.trials[optimizer.history.warm :]  # results of earlier runs do not count
    if any(trial.value is not None for trial in own):
        return 0
    causes = Counter(f"{trial.failure}: {first_line(trial)}" for trial in own if trial.failure)
    cause = f", most often {causes.most_common(1)[0][0]:.200}" if causes else ""
    print(
        f"baco-like: no evaluation succeeded: {reason}{cause}; correct the cause, then start a new run",
        file=sys.stderr,
    )
    return 1


def _remove_empty(folder: Path) -> None:
    """Remove a folder without files, which a run has left that ended before its first result."""
    with contextlib.suppress(OSError):
        folder.rmdir()


def _check_outputs(folder: Path, run_file: RunFile, evaluator: Evaluator) -> None:
    """Refuse a folder in which a result would replace an input, before anything is measured."""
    inner = unwrap(evaluator)
    sources = [inner.source_name] if isinstance(inner, SourceProvider) else []
    with explain_os_error(JournalError, "write", folder, "choose another folder by --out"):
        for name in ("best.json", "convergence.png", "front.png", "report.html", *sources):
            check_output(folder / name, run_file.inputs)


def _write_report(folder: Path) -> None:
    from baco_like.reporting.report import write_with_notes

    write_with_notes(folder / JOURNAL, folder / "report.html")


def _run_and_confirm(
    run_file: RunFile, optimizer: Optimizer, evaluator: Evaluator, folder: Path
) -> str:
    """Return why the run ended; the results are written in any case."""
    threshold, unit = run_file.recheck.threshold, run_file.aim.first.unit
    budget = run_file.budget
    progress = show_progress(sys.stdout, budget.evaluations, unit, budget.seconds, threshold)
    given = budget.stop, run_file.measuring, progress
    try:
        with contextlib.closing(Display(sys.stdout, None, "eval")) as display:
            result = search_and_confirm(optimizer, evaluator, *given, display, print_line)
    except BaseException:
        # The error that ended the run is reported instead.
        with contextlib.suppress(BacoError), _reserved(folder / JOURNAL, run_file.is_shared):
            if optimizer.history.evaluations:
                _write_results(run_file, optimizer, evaluator, folder)
        raise
    with _reserved(folder / JOURNAL, run_file.is_shared):
        optimizer.refresh()  # results of other processes
        _write_results(run_file, optimizer, evaluator, folder)
    return result.reason


@contextlib.contextmanager
def _reserved(journal: Path, is_shared: bool) -> Iterator[None]:
    """Keep the other processes of a shared run from writing its files within a ``with`` block."""
    if not is_shared:
        yield
        return
    with explain_os_error(JournalError, "make", journal, "choose another folder by --out"):
        journal.touch()
    with reserved(journal):
        yield


def _create_optimizer(
    run_file: RunFile,
    journal: Path | None,
    seed: int | None,
    callbacks: Sequence[Callback] = (),
) -> Optimizer:
    """Create or resume the optimizer; the default configuration is evaluated first."""
    context = run_file.context
    if journal is not None and journal.exists() and journal.stat().st_size:
        options = read_header(JsonlJournal(journal)).options
        context = run_file.context_on_resume(options.context)
        seed = options.seed if seed is None else seed
    workers, warm_start = run_file.evaluator_table.entries.get("workers", 1), run_file.warm_start
    more = {"warm_start": warm_start or None, "context": context, "callbacks": callbacks}
    return run_file.make_optimizer(journal, seed, int(workers), **more)


# The folder of the results ------------------------------------------------------------------------------------------


def _create_folder(out: Path | None, file: Path, is_shared: bool) -> Path:
    """Create the folder of the results: ``out``, or the first free one of runs/STEM, runs/STEM-2, ... of a run file.

    Raises:
        JournalError: The folder has a journal already, or cannot be created.
    """
    with explain_os_error(JournalError, "make", out or _RUNS, "choose another folder by --out"):
        if out is not None:
            _check_no_journal(out, file, is_shared)
            out.mkdir(parents=True, exist_ok=True)
            return out
        _RUNS.mkdir(exist_ok=True)
        for candidate in _default_folders(file.stem):
            with contextlib.suppress(FileExistsError):
                candidate.mkdir()  # fails if another process has just created the same folder
                return candidate
    raise AssertionError("the numbers are infinite")


def _check_no_journal(folder: Path, file: Path, is_shared: bool) -> None:
    journal = folder / JOURNAL
    if journal.exists() and not is_shared:
        command = shlex.join(["baco-like", "tune", str(file), "--out", str(folder), "--resume"])
        raise JournalError(
            f"{journal} exists; continue it by '{command}', or choose another folder by --out"
        )


def folder_to_resume(out: Path | None, stem: str) -> Path:
    """Return ``out``, or the newest of the folders runs/STEM, runs/STEM-2, ...

    Raises:
        JournalError: The folder has no journal.
    """
    existing = list(itertools.takewhile(Path.exists, _default_folders(stem)))
    folder = out or (existing[-1] if existing else _RUNS / stem)
    if not (folder / JOURNAL).exists():
        raise JournalError(
            f"{folder / JOURNAL} does not exist; start a run by baco-like tune without --resume, or name its folder"
        )
    return folder


def _default_folders(stem: str) -> Iterator[Path]:
    return (_RUNS / (stem if i == 1 else f"{stem}-{i}") for i in itertools.count(1))


def _write_results(
    run_file: RunFile, optimizer: Optimizer, evaluator: Evaluator, folder: Path
) -> None:
    """Print the summary; write best.json, the source of the best configuration and the convergence plot.

    Raises:
        JournalError: A file cannot be written.
    """
    objective = run_file.aim.first
    found = Findings(optimizer.history, objective, run_file.recheck.threshold)
    recommended = recommend_by_task(optimizer)
    with optional_output("the summary"):
        print_line("\n".join(["", format_summary(found), *tell_recommendation(recommended)]))
    evaluator = unwrap(evaluator)
    with explain_os_error(JournalError, "write", folder, f"the run is in {folder / JOURNAL}"):
        best = None if found.best is None else found.best.config
        if found.tasks:  # each task may have its own configuration
            choices = list(recommended.choices) if recommended else []
            is_single = len({str(choice.config) for choice in choices}) == 1
            best = {**choices[0].config, **choices[0].task} if is_single else None

        def make_commands(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
            made = program_commands(evaluator, config, "WORKDIR")
            return None if made is None else made.to_json()

        path, seed = folder / "best.json", optimizer.options.seed
        write_best(found, path, seed=seed, make_commands=make_commands, recommended=recommended)
        if best is not None and isinstance(evaluator, SourceProvider):
            source = evaluator.source(best)
            replace_file(folder / evaluator.source_name, source.encode(), run_file.inputs)
            print_line(f"program of the winner: {folder / evaluator.source_name}")
    with optional_output("convergence.png"):
        plot_convergence(optimizer.history, objective, folder / "convergence.png")
    if run_file.aim.several:
        with optional_output("front.png"):
            plot_front(optimizer.history, run_file.aim.several, folder / "front.png")
