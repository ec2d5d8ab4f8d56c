"""``baco-like compare``: compare strategies on recorded spaces."""

from __future__ import annotations

import argparse
from pathlib import Path

from baco_like._output import explain_os_error, print_line
from baco_like.benchmarking.comparison.figures import ComparisonFigures
from baco_like.benchmarking.comparison.plan import ComparisonPlan, compare
from baco_like.benchmarking.comparison.plots import plot_scores, plot_wins
from baco_like.benchmarking.comparison.report import to_csv, to_markdown
from baco_like.benchmarking.comparison.spaces import find_spaces
from baco_like.benchmarking.score import NothingToScore
from baco_like.exceptions import EvaluatorError, JournalError, MissingExtra


def run(args: argparse.Namespace) -> None:
    """Run the comparison and write its results."""
    spaces, notes = find_spaces(args.spaces, args.direction, large=args.large)
    for note in notes:
        print_line(note)
    seeds = range(args.seed, args.seed + args.repeats)
    plan = ComparisonPlan(spaces, args.strategies, seeds, args.budget, args.draw)
    with explain_os_error(JournalError, "make", args.out, "choose another folder by --out"):
        args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "runs.jsonl"
    try:
        figures = compare(plan, path, args.jobs)
    except KeyboardInterrupt:
        print_line(f"interrupted; the same command continues, its finished runs are in {path}")
        raise
    except NothingToScore as error:
        raise EvaluatorError(
            f"{error}; give another --budget or leave such a space out, the runs are in {path}"
        ) from None
    _write_report(figures, path)


def _write_report(figures: ComparisonFigures, path: Path) -> None:
    """Write the tables and the plots into the folder of the runs' file, and print the table.

    Raises:
        JournalError: A file cannot be written.
    """
    text, folder = to_markdown(figures), path.parent
    with explain_os_error(JournalError, "write", folder, f"the runs are in {path}"):
        (folder / "table.md").write_text(text, encoding="utf-8")
        (folder / "scores.csv").write_text(to_csv(figures), encoding="utf-8")
        try:
            plot_scores(figures.evaluations, "evaluations", folder / "evaluations.png")
            if figures.time:
                plot_scores(figures.time, "simulated time", folder / "time.png")
            plot_wins(figures, folder / "wins.png")
        except MissingExtra as error:
            print_line(f"the plots are not written: {error}")
    print_line(f"{text}\nresults are in {folder}")
