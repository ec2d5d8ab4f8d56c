"""The command line: ``baco-like tune FILE.toml`` and ``baco-like strategies``.

Whatever a user can get wrong ends with one line on standard error and exit code 2, before anything is written.
Imports are inside the commands, so that ``baco-like --help`` answers at once.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from baco_like.exceptions import BacoError, JournalError, MissingExtra

if TYPE_CHECKING:
    from baco_like.evaluators.protocol import Evaluator
    from baco_like.optimizer import Optimizer
    from baco_like.records.stopping import StopRule
    from baco_like.runfile import RunFile

_JOURNAL = "run.jsonl"
_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 2 for a mistake in the input, 130 after Ctrl-C."""
    args = _parser().parse_args(argv)
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # ends as Ctrl-C does, children and all
    try:
        code: int = args.command(args)
        return code
    except (BacoError, ValueError) as error:
        print(f"baco-like: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return _INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="baco-like", description="Tune compilers and kernels: decide what to run next."
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    tune = commands.add_parser("tune", help="tune what a TOML file describes")
    tune.add_argument(
        "file",
        type=Path,
        metavar="FILE.toml",
        help="space, constraints, objective, evaluator, budget",
    )
    tune.add_argument(
        "--budget", type=_count, metavar="N", help="evaluations (default: the file's)"
    )
    tune.add_argument(
        "--seed", type=_seed, metavar="S", help="the run's only seed (default: the file's, else 0)"
    )
    tune.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for the results (default: a new one in runs/)",
    )
    tune.add_argument(
        "--resume",
        action="store_true",
        help="go on from the journal in the folder (default: the newest)",
    )
    tune.set_defaults(command=_tune)
    strategies = commands.add_parser("strategies", help="list the strategies and their settings")
    strategies.set_defaults(command=_strategies)
    return parser


def _count(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"needs a whole number from 1, not {text!r}")
    return number


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"needs a whole number from 0, not {text!r}")
    return int(text)


def _strategies(args: argparse.Namespace) -> int:
    from baco_like.strategies.registry import STRATEGIES, settings_of, summary

    width = max(map(len, STRATEGIES))
    for name in STRATEGIES:
        settings = ", ".join(f"{k}={v!r}" for k, v in settings_of(name).items())
        print(f"{name:<{width}}  {summary(name)}" + (f"  [{settings}]" if settings else ""))
    return 0


def _tune(args: argparse.Namespace) -> int:
    from baco_like.report.progress import progress_on
    from baco_like.runfile import read
    from baco_like.tuner import run

    plan = read(args.file)
    folder = _folder(args.out, args.file.stem, resume=args.resume)
    stop, total = _stop(plan, args.budget)
    evaluator = plan.evaluator()
    try:
        optimizer = _optimizer(plan, folder, args.seed, total, resume=args.resume)
    except BaseException:
        evaluator.close()
        raise
    print(f"{plan.space.feasible_size} feasible configurations; results go to {folder}")
    try:
        reason = run(
            optimizer, evaluator, stop, progress_on(sys.stdout, total, plan.objective.unit)
        )
    except KeyboardInterrupt:
        reason = None
    _finish(plan, optimizer, evaluator, folder)
    if reason is None:
        print(f"interrupted; go on with: baco-like tune {args.file} --out {folder} --resume")
        return _INTERRUPTED
    print(f"ended: {reason}; results are in {folder}")
    return 0


def _folder(out: Path | None, stem: str, *, resume: bool) -> Path:
    """Return the folder of the results: a new one, or with ``resume`` one that holds a journal.

    Raises:
        JournalError: There is a journal already, or none to resume.
    """
    numbered = (Path("runs") / (stem if i == 1 else f"{stem}-{i}") for i in range(1, 1_000_000))
    used = []
    for candidate in numbered if out is None else ():
        if not candidate.exists():
            break
        used.append(candidate)
    folder = out if out is not None else (used[-1] if resume and used else candidate)
    exists = (folder / _JOURNAL).exists()
    if resume and not exists:
        raise JournalError(f"{folder / _JOURNAL} does not exist; leave --resume out to start a run")
    if exists and not resume:
        raise JournalError(
            f"{folder / _JOURNAL} exists; go on with it by --resume, or choose another folder by --out"
        )
    return folder


def _stop(plan: RunFile, budget: int | None) -> tuple[StopRule, int | None]:
    from baco_like.budget import AnyOf, MaxEvals, MaxTime

    evaluations = plan.evaluations if budget is None else budget
    rules: list[StopRule] = [] if evaluations is None else [MaxEvals(evaluations)]
    if plan.seconds is not None:
        rules.append(MaxTime(plan.seconds))
    return AnyOf(tuple(rules)), evaluations


def _optimizer(
    plan: RunFile, folder: Path, seed: int | None, budget: int | None, *, resume: bool
) -> Optimizer:
    """Open the journal; the default configuration, where there is one, is evaluated first."""
    from baco_like.optimizer import Optimizer
    from baco_like.optimizer.opening import header_of
    from baco_like.strategies.registry import create, settings_of

    path = folder / _JOURNAL
    if resume and seed is None:
        seed = header_of(path).options.seed
    seed = plan.seed if seed is None else seed
    default = plan.space.default_config
    first = {} if plan.initial is None else {"initial": plan.initial}
    settings = {**settings_of(plan.strategy), **plan.settings, **first}
    create(plan.strategy, settings)  # a wrong setting must be told before the folder is made
    folder.mkdir(parents=True, exist_ok=True)
    return Optimizer(
        plan.space,
        plan.objective.goal,
        seed,
        objective=plan.objective.name,
        budget=budget,
        strategy=plan.strategy,
        settings=settings,
        initial=[default] if default is not None else None,
        storage=path,
    )


def _finish(plan: RunFile, optimizer: Optimizer, evaluator: Evaluator, folder: Path) -> None:
    """Print the table and write best.json, the best source and the plot."""
    from baco_like.evaluators.protocol import SourceProvider
    from baco_like.report.convergence import plot_convergence
    from baco_like.report.summary import summarise, table, write_best

    summary = summarise(optimizer.history, plan.objective)
    print("\n" + table(summary))
    write_best(summary, folder / "best.json", seed=optimizer.options.seed)
    if summary.best is not None and isinstance(evaluator, SourceProvider):
        (folder / evaluator.source_name).write_text(evaluator.source(summary.best.config))
    try:
        plot_convergence(optimizer.history, plan.objective, folder / "convergence.png")
    except MissingExtra as error:
        print(f"convergence.png is not written: {error}")
