"""``baco-like compare``: compare strategies on recorded spaces."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baco_like._output import print_line
from baco_like.cli.arguments import INTERRUPTED, whole_number
from baco_like.exceptions import EvaluatorError, JournalError, MissingExtra

if TYPE_CHECKING:
    from baco_like.benchmarking.comparison.plan import ComparisonPlan
    from baco_like.benchmarking.comparison.runs import Contender, StrategyRun

_RUNS_FILE = "runs.jsonl"
_OUT = Path("runs/compare")


def add_parser(commands: Any) -> None:
    """Add the command to ``argparse``."""
    parser = commands.add_parser(
        "compare",
        help="compare strategies on recorded spaces",
        description="Run strategies on recorded spaces and score them. The same command continues an interrupted "
        "comparison; more repeats, strategies or spaces extend a finished one.",
    )
    parser.add_argument(
        "--strategies",
        type=parse_contenders,
        required=True,
        metavar="A,B,C",
        help="names as in 'baco-like strategies'; settings follow, as in genetic_algorithm:population=20:mutation=0.1",
    )
    parser.add_argument(
        "--spaces",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder with T4 results or Kernel Tuner caches (.json, .json.gz), or one such file",
    )
    parser.add_argument(
        "--repeats",
        type=whole_number(2, " (for intervals)"),
        default=20,
        metavar="N",
        help="runs of each (default: 20)",
    )
    parser.add_argument(
        "--budget",
        type=whole_number(1),
        metavar="N",
        help="evaluations of a run (default: as many as random search needs for 95 %% of the way to each optimum)",
    )
    parser.add_argument(
        "--seed",
        type=whole_number(0),
        default=0,
        metavar="S",
        help="the runs have the seeds S, S + 1, ...",
    )
    parser.add_argument(
        "--jobs", type=whole_number(1), default=2, metavar="N", help="processes (default: 2)"
    )
    parser.add_argument(
        "--direction", choices=["minimize", "maximize"], default="minimize", help="of the values"
    )
    parser.add_argument(
        "--draw",
        action="store_true",
        help="draw each value from the recorded repeats; configurations may be evaluated again",
    )
    parser.add_argument(
        "--out", type=Path, default=_OUT, metavar="DIR", help=f"for the results (default: {_OUT})"
    )
    parser.set_defaults(command=compare)


def parse_contenders(text: str) -> list[Contender]:
    """Parse ``--strategies``: names separated by commas, each with its settings after colons.

    Raises:
        argparse.ArgumentTypeError: A name or a setting is wrong.
    """
    contenders = [_parse_contender(part.strip()) for part in text.split(",") if part.strip()]
    labels = [contender.label for contender in contenders]
    for label in labels:
        if labels.count(label) > 1:
            raise argparse.ArgumentTypeError(f"{label!r} appears twice; name it once")
    if not contenders:
        raise argparse.ArgumentTypeError("needs at least one strategy")
    return contenders


def _parse_contender(text: str) -> Contender:
    from baco_like.benchmarking.comparison.runs import Contender
    from baco_like.strategies import create_strategy

    name, *assignments = text.split(":")
    settings: dict[str, Any] = {}
    for assignment in assignments:
        key, separator, value = assignment.partition("=")
        if not separator:
            raise argparse.ArgumentTypeError(
                f"{assignment!r} in {text!r} needs the form name=value"
            )
        try:
            settings[key] = json.loads(value)
        except ValueError:
            settings[key] = value  # a plain text
    try:
        create_strategy(name, settings)
    except (ValueError, TypeError) as error:
        raise argparse.ArgumentTypeError(" ".join(str(error).split())) from None
    return Contender(text, name, settings)


def compare(args: argparse.Namespace) -> int:
    """Run the comparison, write its results and return the exit code."""
    from baco_like.benchmarking.comparison.plan import ComparisonPlan, run_missing
    from baco_like.benchmarking.comparison.spaces import find_spaces
    from baco_like.benchmarking.comparison.store import RunStore
    from baco_like.running.lock import sole_runner

    spaces, notes = find_spaces(args.spaces, args.direction)
    for note in notes:
        print_line(note)
    seeds = range(args.seed, args.seed + args.repeats)
    plan = ComparisonPlan(spaces, args.strategies, seeds, args.budget, args.draw)
    try:
        args.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JournalError(
            f"cannot make the folder {args.out}: {error.strerror}; choose another by --out"
        ) from None
    path = args.out / _RUNS_FILE
    with sole_runner(path):
        store = RunStore.open(path, plan.specification)
        try:
            runs = run_missing(plan.jobs, store, args.jobs, sys.stderr)
        except KeyboardInterrupt:
            print_line(f"interrupted; the same command continues, its finished runs are in {path}")
            return INTERRUPTED
    _write_report(plan, runs, args.out)
    return 0


def _write_report(plan: ComparisonPlan, runs: Sequence[StrategyRun], folder: Path) -> None:
    """Write the tables and the plots, and print the table.

    Raises:
        JournalError: A file cannot be written.
        EvaluatorError: A space cannot be scored with this budget.
    """
    import numpy as np

    from baco_like.benchmarking.comparison.figures import compute_figures
    from baco_like.benchmarking.comparison.plots import plot_scores, plot_wins
    from baco_like.benchmarking.comparison.report import to_csv, to_markdown
    from baco_like.benchmarking.score import NothingToScore

    budgets = {name: budget.evaluations for name, budget in plan.budgets.items()}
    try:
        figures = compute_figures(runs, plan.spaces, budgets, np.random.default_rng(0))
    except NothingToScore as error:
        raise EvaluatorError(
            f"{error}; give another --budget or leave such a space out, the runs are in {folder / _RUNS_FILE}"
        ) from None
    text = to_markdown(figures)
    try:
        (folder / "table.md").write_text(text, encoding="utf-8")
        (folder / "scores.csv").write_text(to_csv(figures), encoding="utf-8")
        plot_scores(figures.evaluations, "evaluations", folder / "evaluations.png")
        if figures.time:
            plot_scores(figures.time, "simulated time", folder / "time.png")
        plot_wins(figures, folder / "wins.png")
    except MissingExtra as error:
        print_line(f"the plots are not written: {error}")
    except OSError as error:
        raise JournalError(
            f"cannot write {error.filename}: {error.strerror}; the runs are in {folder / _RUNS_FILE}"
        ) from error
    print_line(f"{text}\nresults are in {folder}")
