"""``baco-like compare``: compare strategies on recorded spaces or on functions."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from baco_like._output import check_output, explain_os_error, print_line, replace_file
from baco_like.benchmarking import studies
from baco_like.benchmarking.comparison.figures import ComparisonFigures
from baco_like.benchmarking.comparison.plan import ComparisonPlan, compare
from baco_like.benchmarking.comparison.plots import plot_scores, plot_wins
from baco_like.benchmarking.comparison.report import to_csv, to_markdown
from baco_like.benchmarking.comparison.spaces import find_spaces
from baco_like.benchmarking.score import NothingToScore
from baco_like.benchmarking.studies.optuna_samplers import PREFIX
from baco_like.benchmarking.studies.tables import can_rank
from baco_like.exceptions import EvaluatorError, JournalError, MissingExtra, StrategyError

_RESULTS = (
    *("table.md", "evaluations.csv", "summary.csv", "scores.csv"),
    *("curves.png", "ranks.png", "evaluations.png", "time.png", "wins.png"),
)
"""The files in the folder of the results."""

_STUDY_BUDGET = 60
"""Evaluations of a run of a study by default."""


def run(args: argparse.Namespace) -> None:
    """Run the comparison or the study and write its results.

    Raises:
        StrategyError: An option does not fit the others.
    """
    if args.problems is not None:
        _run_study(args)
        return
    for contender in args.strategies:
        if contender.strategy.startswith(PREFIX):
            raise StrategyError(
                f"{contender.label} runs with --problems only; a recorded file is a problem, too: "
                f"--problems {args.spaces}"
            )
    spaces, notes = find_spaces(args.spaces, args.direction, large=args.large)
    for note in notes:
        print_line(note)
    seeds = range(args.seed, args.seed + args.repeats)
    plan = ComparisonPlan(spaces, args.strategies, seeds, args.budget, args.draw)
    path = _make_folder(args.out, [args.spaces])
    try:
        with _hint_to_continue(path):
            figures = compare(plan, path, args.jobs)
    except NothingToScore as error:
        raise EvaluatorError(
            f"{error}; give another --budget or leave such a space out, the runs are in {path}"
        ) from None
    _write_report(figures, path)


def _make_folder(folder: Path, inputs: Iterable[str | Path]) -> Path:
    """Make the folder of the results and return the path of the runs' file.

    Raises:
        JournalError: It cannot be made, or one of the results would replace an input.
    """
    with explain_os_error(JournalError, "make", folder, "choose another folder by --out"):
        folder.mkdir(parents=True, exist_ok=True)
        for name in _RESULTS:
            check_output(folder / name, inputs)
    return folder / "runs.jsonl"


@contextmanager
def _hint_to_continue(path: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        print_line(f"interrupted; the same command continues, its finished runs are in {path}")
        raise


def _run_study(args: argparse.Namespace) -> None:
    """Run a study and write its tables and plots.

    Raises:
        StrategyError: An option is for recorded spaces only, or a problem does not exist.
        JournalError: A file cannot be written.
    """
    if args.draw or args.direction != "minimize":
        raise StrategyError(
            "--draw and --direction are for --spaces; a problem knows its direction"
        )
    path = _make_folder(args.out, args.problems)
    seeds = range(args.seed, args.seed + args.repeats)
    with _hint_to_continue(path):
        frame = studies.study(
            args.strategies,
            args.problems,
            seeds,
            args.budget or _STUDY_BUDGET,
            path=path,
            processes=args.jobs,
        )
    text, folder = studies.study_to_markdown(frame), path.parent
    with explain_os_error(JournalError, "write", folder, f"the runs are in {path}"):
        replace_file(folder / "table.md", text.encode())
        replace_file(folder / "evaluations.csv", frame.to_csv(index=False).encode())
        summary = studies.summarise_study(frame)
        replace_file(folder / "summary.csv", summary.to_csv(index=False).encode())
        try:
            studies.plot_curves(frame, folder / "curves.png")
            if can_rank(frame):
                studies.plot_critical_difference(frame, folder / "ranks.png")
        except MissingExtra as error:
            print_line(f"the plots are not written: {error}")
    print_line(f"{text}\nresults are in {folder}")


def _write_report(figures: ComparisonFigures, path: Path) -> None:
    """Write the tables and the plots into the folder of the runs' file, and print the table.

    Raises:
        JournalError: A file cannot be written.
    """
    text, folder = to_markdown(figures), path.parent
    with explain_os_error(JournalError, "write", folder, f"the runs are in {path}"):
        replace_file(folder / "table.md", text.encode())
        replace_file(folder / "scores.csv", to_csv(figures).encode())
        try:
            plot_scores(figures.evaluations, "evaluations", folder / "evaluations.png")
            if figures.time:
                plot_scores(figures.time, "simulated time", folder / "time.png")
            plot_wins(figures, folder / "wins.png")
        except MissingExtra as error:
            print_line(f"the plots are not written: {error}")
    print_line(f"{text}\nresults are in {folder}")
