"""The command line: ``baco-like tune | serve | compare | repair | export | strategies``.

Whatever a user can get wrong ends with one line on standard error and exit code 2, before anything is written. A bug
of ours is not dressed up so: its traceback is shown.
Imports are inside the commands, so that ``baco-like --help`` answers at once.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baco_like.comparison import command
from baco_like.exceptions import BacoError, JournalError, MissingExtra, RunFileError
from baco_like.report.output import say

if TYPE_CHECKING:
    from baco_like.evaluators.confirmation import Confirmation
    from baco_like.evaluators.protocol import Evaluator
    from baco_like.optimizer import Optimizer
    from baco_like.records.stopping import StopRule
    from baco_like.records.trial import Trial
    from baco_like.report.progress import Progress
    from baco_like.runfile import RunFile

_JOURNAL = "run.jsonl"
_RUNS = Path("runs")
_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 2 for a mistake in the input, 130 after Ctrl-C."""
    args = _parser().parse_args(argv)
    _end_by_signals()
    try:
        code: int = args.command(args)
        return code
    except BacoError as error:
        print(f"baco-like: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return _INTERRUPTED


def _end_by_signals() -> None:
    """End as Ctrl-C does, children and all; nohup's wish that SIGHUP is ignored is respected."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


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
    serve = commands.add_parser(
        "serve", help="speak HyperMapper's and BaCO's client-server protocol over stdin and stdout"
    )
    serve.add_argument("scenario", type=Path, metavar="SCENARIO.json", help="of either program")
    serve.add_argument("--seed", type=_seed, default=0, metavar="S", help="the run's only seed")
    serve.add_argument("--strategy", metavar="NAME", help="another one than the scenario's")
    serve.add_argument(
        "--journal", type=Path, metavar="FILE", help="keep the run in a journal, or go on from it"
    )
    serve.set_defaults(command=_serve)
    strategies = commands.add_parser("strategies", help="list the strategies and their settings")
    strategies.set_defaults(command=_strategies)
    command.add_to(commands, _count, _seed)
    mend = commands.add_parser(
        "repair", help="write what is whole of a damaged journal into a new one"
    )
    mend.add_argument(
        "old", type=Path, metavar="OLD", help="the damaged journal; it stays as it is"
    )
    mend.add_argument("new", type=Path, metavar="NEW", help="the new one; no such file may exist")
    mend.add_argument(
        "--header",
        type=Path,
        metavar="FILE",
        help="another journal of the same run, for a damaged record 0",
    )
    mend.set_defaults(command=_repair)
    export = commands.add_parser(
        "export", help="write a journal, or results of another tool, in a format of another tool"
    )
    export.add_argument(
        "source", type=Path, metavar="SOURCE", help="a journal, T4, Kernel Tuner, KTT, CSV"
    )
    export.add_argument("target", type=Path, metavar="TARGET", help="no such file may exist")
    export.add_argument(
        "--format",
        required=True,
        choices=("t4", "kernel_tuner", "ktt", "baco", "csv"),
        help="of the target; a name that ends in .gz is compressed",
    )
    export.add_argument(
        "--objective", metavar="NAME", help="the measurement that counts (default: the file's)"
    )
    export.set_defaults(command=_export)
    return parser


def _export(args: argparse.Namespace) -> int:
    from baco_like.storage.recordings import read, write

    found = read(args.source, args.objective)
    if args.target.exists():
        raise RunFileError(f"{args.target} exists; name another file")
    try:
        count = write(found, args.target, args.format)
    except (ValueError, OSError) as error:
        raise RunFileError(f"{args.target} cannot be written: {error}") from error
    say("\n".join([*found.notes, f"wrote {count} results to {args.target}"]))
    return 0


def _repair(args: argparse.Namespace) -> int:
    from baco_like.storage.repair import repair

    found = repair(args.old, args.new, args.header)
    say("\n".join([*found.notes, f"kept {found.kept} records in {args.new}"]))
    return 0


def _count(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"needs a whole number from 1, not {text!r}")
    return number


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"needs a whole number from 0, not {text!r}")
    return int(text)


def _serve(args: argparse.Namespace) -> int:
    from baco_like.integrations.serve import run

    run(args.scenario, args.seed, args.strategy, args.journal)
    return 0


def _strategies(args: argparse.Namespace) -> int:
    from baco_like.strategies.registry import STRATEGIES, settings_of, summary

    width = max(map(len, STRATEGIES))
    for name in STRATEGIES:
        settings = ", ".join(f"{k}={v!r}" for k, v in settings_of(name).items())
        say(f"{name:<{width}}  {summary(name)}" + (f"  [{settings}]" if settings else ""))
    return 0


def _tune(args: argparse.Namespace) -> int:
    from baco_like.report.progress import progress_on
    from baco_like.runfile import read
    from baco_like.runlock import sole_runner

    plan = read(args.file)
    stop, total = _stop(plan, args.budget)
    with contextlib.ExitStack() as stack:
        evaluator = plan.evaluator()
        stack.callback(evaluator.close)
        if args.resume:
            folder = _folder_to_resume(args.out, args.file.stem)
        else:
            _optimizer(plan, None, args.seed, total)  # all its checks, before anything is written
            folder = _new_folder(args.out, args.file.stem)
        stack.enter_context(sole_runner(folder / _JOURNAL))
        if not args.resume:
            _refuse_journal(folder)  # again: somebody may have been faster
        optimizer = _optimizer(plan, folder / _JOURNAL, args.seed, total)
        say(f"{plan.space.feasible_size} feasible configurations; results go to {folder}")
        shown = progress_on(sys.stdout, total, plan.objective.unit)
        reason = _run(plan, optimizer, evaluator, stop, shown, folder)
    if reason is None:
        say(f"interrupted; go on with: baco-like tune {args.file} --out {folder} --resume")
        return _INTERRUPTED
    say(f"ended: {reason}; results are in {folder}")
    return 0


def _run(
    plan: RunFile,
    optimizer: Optimizer,
    evaluator: Evaluator,
    stop: StopRule,
    progress: Progress,
    folder: Path,
) -> str | None:
    """Return why the run ended, None for Ctrl-C; however it ends, its results are written."""
    from baco_like.tuner import confirmed, run_locked

    confirmation = None
    try:
        reason = run_locked(optimizer, evaluator, stop, progress)
        if plan.top:
            say(f"measuring the best {plan.top} again")
            confirmation = confirmed(optimizer, evaluator, plan.top, plan.rounds)
    except KeyboardInterrupt:
        reason = None
    except BaseException:
        with contextlib.suppress(BacoError):  # what ended the run is what must be told
            _finish(plan, optimizer, evaluator, folder)
        raise
    _finish(plan, optimizer, evaluator, folder, confirmation)
    return reason


def _new_folder(out: Path | None, stem: str) -> Path:
    """Make the folder of the results: ``out``, or the first of runs/STEM, runs/STEM-2, ... that nobody has.

    Raises:
        JournalError: There is a journal already, or it cannot be made.
    """
    try:
        if out is not None:
            _refuse_journal(out)
            out.mkdir(parents=True, exist_ok=True)
            return out
        _RUNS.mkdir(exist_ok=True)
        for candidate in _numbered(stem):
            with contextlib.suppress(FileExistsError):
                candidate.mkdir()  # never one that exists: another process may just have made it
                return candidate
    except OSError as error:
        raise JournalError(
            f"cannot make the folder {error.filename}: {error.strerror}; name another by --out"
        ) from None
    raise AssertionError("the numbers never end")


def _refuse_journal(folder: Path) -> None:
    if (folder / _JOURNAL).exists():
        raise JournalError(
            f"{folder / _JOURNAL} exists; go on with it by --resume, or choose another folder by --out"
        )


def _folder_to_resume(out: Path | None, stem: str) -> Path:
    """Return the folder that is meant: ``out``, or the newest of runs/STEM, runs/STEM-2, ...

    Raises:
        JournalError: It holds no journal.
    """
    used = list(itertools.takewhile(Path.exists, _numbered(stem)))
    folder = out if out is not None else (used[-1] if used else _RUNS / stem)
    if not (folder / _JOURNAL).exists():
        raise JournalError(f"{folder / _JOURNAL} does not exist; leave --resume out to start a run")
    return folder


def _numbered(stem: str) -> Iterator[Path]:
    return (_RUNS / (stem if i == 1 else f"{stem}-{i}") for i in itertools.count(1))


def _stop(plan: RunFile, budget: int | None) -> tuple[StopRule, int | None]:
    from baco_like.budget import AnyOf, MaxEvals, MaxTime

    evaluations = plan.evaluations if budget is None else budget
    rules: list[StopRule] = [] if evaluations is None else [MaxEvals(evaluations)]
    if plan.seconds is not None:
        rules.append(MaxTime(plan.seconds))
    return AnyOf(tuple(rules)), evaluations


def _optimizer(
    plan: RunFile, journal: Path | None, seed: int | None, budget: int | None
) -> Optimizer:
    """Open the journal, or without one only make all checks; the default configuration comes first."""
    from baco_like.optimizer import Optimizer
    from baco_like.optimizer.opening import header_of

    if journal is not None and journal.exists() and seed is None:
        seed = header_of(journal).options.seed
    default = plan.space.default_config
    return Optimizer(
        plan.space,
        plan.objective.goal,
        plan.seed if seed is None else seed,
        objective=plan.objective.name,
        budget=budget,
        strategy=plan.strategy,
        settings=_settings(plan),
        initial=[default] if default is not None else None,
        storage=journal,
        warm_start=plan.warm_start or None,
        context=plan.context,
    )


def _settings(plan: RunFile) -> dict[str, Any]:
    """Return the strategy's settings, the file's over the strategy's own.

    Raises:
        RunFileError: The strategy's name or a setting is wrong.
    """
    from baco_like.strategies.registry import create, settings_of

    first = {} if plan.initial is None else {"initial": plan.initial}
    try:
        settings = {**settings_of(plan.strategy), **plan.settings, **first}
        create(plan.strategy, settings)
    except (ValueError, TypeError) as error:
        raise RunFileError(f"[optimizer] {' '.join(str(error).split())}") from error
    return settings


def _finish(
    plan: RunFile,
    optimizer: Optimizer,
    evaluator: Evaluator,
    folder: Path,
    confirmation: Confirmation | None = None,
) -> None:
    """Print the table and write best.json, the best source and the plot.

    Raises:
        JournalError: A file cannot be written.
    """
    from baco_like.report.summary import summarise, table, write_best

    summary = summarise(optimizer.history, plan.objective)
    if confirmation is not None:
        summary = summary.confirmed(confirmation.winner, confirmation.candidates)
    say("\n" + table(summary))
    try:
        write_best(summary, folder / "best.json", seed=optimizer.options.seed)
        _write_source(summary.best, evaluator, folder)
        _plot(plan, optimizer, folder / "convergence.png")
    except OSError as error:
        raise JournalError(
            f"cannot write {error.filename}: {error.strerror}; the run itself is in {folder / _JOURNAL}"
        ) from error


def _write_source(best: Trial | None, evaluator: Evaluator, folder: Path) -> None:
    from baco_like.evaluators.protocol import SourceProvider, unwrapped

    evaluator = unwrapped(evaluator)
    if best is not None and isinstance(evaluator, SourceProvider):
        (folder / evaluator.source_name).write_text(evaluator.source(best.config))


def _plot(plan: RunFile, optimizer: Optimizer, path: Path) -> None:
    from baco_like.report.convergence import plot_convergence

    try:
        plot_convergence(optimizer.history, plan.objective, path)
    except MissingExtra as error:
        say(f"{path.name} is not written: {error}")
