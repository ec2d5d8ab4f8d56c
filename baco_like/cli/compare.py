"""``baco-like compare``: its options, and what it does. Nothing is imported before it is needed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baco_like.cli.arguments import INTERRUPTED, count, seed
from baco_like.exceptions import EvaluatorError, JournalError, MissingExtra
from baco_like.running.output import say

if TYPE_CHECKING:
    from baco_like.benchmarking.comparison.figures import Figures
    from baco_like.benchmarking.comparison.plan import Plan
    from baco_like.benchmarking.comparison.runs import Contender, Run

_STORE = "runs.jsonl"
_OUT = Path("runs/compare")


def add_to(commands: Any) -> None:
    """Add the sub-command to argparse's."""
    parser = commands.add_parser(
        "compare",
        help="compare strategies on recorded spaces",
        description="Run strategies on recorded spaces and score them. A comparison that was interrupted goes on "
        "when it is called again, and so does one that is given more repeats, strategies or spaces.",
    )
    parser.add_argument(
        "--strategies",
        type=contenders,
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
        "--repeats", type=_repeats, default=20, metavar="N", help="runs of each (default: 20)"
    )
    parser.add_argument(
        "--budget",
        type=count,
        metavar="N",
        help="evaluations of a run (default: what random search needs for 95 %% of the way to each optimum)",
    )
    parser.add_argument(
        "--seed", type=seed, default=0, metavar="S", help="the runs have the seeds S, S + 1, ..."
    )
    parser.add_argument("--jobs", type=count, default=2, metavar="N", help="processes (default: 2)")
    parser.add_argument(
        "--direction", choices=["minimize", "maximize"], default="minimize", help="of the values"
    )
    parser.add_argument(
        "--draw",
        action="store_true",
        help="a value is one of the recorded repeats, drawn anew each time; configurations may come back",
    )
    parser.add_argument(
        "--out", type=Path, default=_OUT, metavar="DIR", help=f"for the results (default: {_OUT})"
    )
    parser.set_defaults(command=compare)


def _repeats(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 2:
        raise argparse.ArgumentTypeError(
            f"needs a whole number from 2 (for intervals), not {text!r}"
        )
    return number


def contenders(text: str) -> list[Contender]:
    """Read ``--strategies``: names separated by commas, each with its settings after colons.

    Raises:
        argparse.ArgumentTypeError: A name or a setting is wrong.
    """
    found = [_contender(part.strip()) for part in text.split(",") if part.strip()]
    labels = [one.label for one in found]
    twice = [label for label in labels if labels.count(label) > 1]
    if twice or not found:
        raise argparse.ArgumentTypeError(
            f"{twice[0]!r} stands there twice" if twice else "needs at least one strategy"
        )
    return found


def _contender(text: str) -> Contender:
    from baco_like.benchmarking.comparison.runs import Contender

    name, *given = text.split(":")
    settings = {}
    for setting in given:
        key, sign, value = setting.partition("=")
        if not sign:
            raise argparse.ArgumentTypeError(f"{setting!r} in {text!r} needs the form name=value")
        settings[key] = _value(value)
    one = Contender(text, name, settings)
    try:
        one.check()
    except (ValueError, TypeError) as error:
        raise argparse.ArgumentTypeError(" ".join(str(error).split())) from None
    return one


def _value(text: str) -> Any:
    """Return a JSON value, or the text itself where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def compare(args: argparse.Namespace) -> int:
    """Do the comparison that the options describe and write its results; return the exit code."""
    from baco_like.benchmarking.comparison.plan import Plan, complete
    from baco_like.benchmarking.comparison.spaces import find
    from baco_like.benchmarking.comparison.store import Store
    from baco_like.running.lock import sole_runner

    recorded, notes = find(args.spaces, args.direction)
    for note in notes:
        say(note)
    seeds = range(args.seed, args.seed + args.repeats)
    plan = Plan(recorded, args.strategies, seeds, args.budget, args.draw)
    place = _folder(args.out) / _STORE
    with sole_runner(place):
        store = Store.open(place, plan.specification)
        try:
            runs = complete(plan.jobs, store, args.jobs, sys.stderr)
        except KeyboardInterrupt:
            say(f"interrupted; the same command goes on, its finished runs are in {place}")
            return INTERRUPTED
    _report(plan, runs, args.out)
    return 0


def _folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JournalError(
            f"cannot make the folder {out}: {error.strerror}; name another by --out"
        ) from None
    return out


def _report(plan: Plan, runs: Sequence[Run], folder: Path) -> None:
    """Write the table and the plots, and print the table.

    Raises:
        JournalError: A file cannot be written.
        EvaluatorError: A space cannot be scored with this budget.
    """
    import numpy as np

    from baco_like.benchmarking.comparison.figures import figures
    from baco_like.benchmarking.comparison.table import comma_separated, markdown
    from baco_like.benchmarking.score import NothingToScore

    budgets = {name: budget.evaluations for name, budget in plan.budgets.items()}
    try:
        found = figures(runs, plan.recorded, budgets, np.random.default_rng(0))
    except NothingToScore as error:
        raise EvaluatorError(
            f"{error}; give another --budget or leave such a space out, the runs are in {folder / _STORE}"
        ) from None
    text = markdown(found)
    try:
        (folder / "table.md").write_text(text, encoding="utf-8")
        (folder / "scores.csv").write_text(comma_separated(found), encoding="utf-8")
        _plots(found, folder)
    except OSError as error:
        raise JournalError(
            f"cannot write {error.filename}: {error.strerror}; the runs are in {folder / _STORE}"
        ) from error
    say(f"{text}\nresults are in {folder}")


def _plots(found: Figures, folder: Path) -> None:
    from baco_like.benchmarking.comparison.plots import plot_scores, plot_wins

    try:
        plot_scores(found.evaluations, "evaluations", folder / "evaluations.png")
        if found.time:
            plot_scores(found.time, "simulated time", folder / "time.png")
        plot_wins(found, folder / "wins.png")
    except MissingExtra as error:
        say(f"the plots are not written: {error}")
