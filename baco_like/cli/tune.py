"""``baco-like tune``: run or resume the run that a TOML file describes."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baco_like._output import print_line
from baco_like.cli.arguments import INTERRUPTED, whole_number
from baco_like.cli.run_folder import JOURNAL, check_no_journal, create_folder, folder_to_resume
from baco_like.cli.run_results import write_results
from baco_like.exceptions import BacoError, RunFileError

if TYPE_CHECKING:
    from baco_like.cli.run_file import RunFile
    from baco_like.evaluators.protocol import Evaluator
    from baco_like.optimizer import Optimizer
    from baco_like.records.stopping import StopRule
    from baco_like.running.progress import Progress


def add_parser(commands: Any) -> None:
    """Add the command to ``argparse``."""
    parser = commands.add_parser("tune", help="tune what a TOML file describes")
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE.toml",
        help="space, constraints, objective, evaluator, budget",
    )
    parser.add_argument(
        "--budget", type=whole_number(1), metavar="N", help="evaluations (default: the file's)"
    )
    parser.add_argument(
        "--seed",
        type=whole_number(0),
        metavar="S",
        help="the run's only seed (default: the file's, else 0)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for the results (default: a new one in runs/)",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue from the journal in the folder (default: the newest)",
    )
    parser.set_defaults(command=tune)


def tune(args: argparse.Namespace) -> int:
    """Run or resume a run; return 0 when it has ended, 130 if the user interrupted it."""
    from baco_like.cli.run_file import read
    from baco_like.running.lock import sole_runner
    from baco_like.running.progress import show_progress
    from baco_like.spaces.space import in_words

    run_file = read(args.file)
    stop, budget = _stopping_rule(run_file, args.budget)
    with contextlib.ExitStack() as stack:
        evaluator = run_file.create_evaluator()
        stack.callback(evaluator.close)
        if args.resume:
            folder = folder_to_resume(args.out, args.file.stem)
        else:
            # Without a journal this only checks the arguments, before anything is written.
            _create_optimizer(run_file, None, args.seed, budget)
            folder = create_folder(args.out, args.file.stem)
        stack.enter_context(sole_runner(folder / JOURNAL))
        if not args.resume:
            check_no_journal(folder)  # again: another process may have been faster
        optimizer = _create_optimizer(run_file, folder / JOURNAL, args.seed, budget)
        size = in_words(run_file.space.feasible_size)
        print_line(f"{size} feasible configurations; results go to {folder}")
        progress = show_progress(sys.stdout, budget, run_file.objective.unit)
        reason = _run(run_file, optimizer, evaluator, stop, progress, folder)
    if reason is None:
        print_line(
            f"interrupted; continue with: baco-like tune {args.file} --out {folder} --resume"
        )
        return INTERRUPTED
    print_line(f"ended: {reason}; results are in {folder}")
    return 0


def _run(
    run_file: RunFile,
    optimizer: Optimizer,
    evaluator: Evaluator,
    stop: StopRule,
    progress: Progress,
    folder: Path,
) -> str | None:
    """Return why the run ended, or None after Ctrl-C; the results are written in any case."""
    from baco_like.running.loop import run_locked
    from baco_like.running.tuner import confirm_best_trials

    confirmation = None
    try:
        reason = run_locked(optimizer, evaluator, stop, progress)
        if run_file.top:
            print_line(f"measuring the best {run_file.top} again")
            confirmation = confirm_best_trials(optimizer, evaluator, run_file.top, run_file.rounds)
    except KeyboardInterrupt:
        reason = None
    except BaseException:
        with contextlib.suppress(BacoError):  # the error that ended the run is reported instead
            write_results(run_file, optimizer, evaluator, folder)
        raise
    write_results(run_file, optimizer, evaluator, folder, confirmation)
    return reason


def _stopping_rule(run_file: RunFile, budget: int | None) -> tuple[StopRule, int | None]:
    """Return the rule that ends the run, and the number of evaluations if it is limited."""
    from baco_like.running.stopping import AnyOf, MaxEvals, MaxTime

    evaluations = run_file.evaluations if budget is None else budget
    rules: list[StopRule] = [] if evaluations is None else [MaxEvals(evaluations)]
    if run_file.seconds is not None:
        rules.append(MaxTime(run_file.seconds))
    return AnyOf(tuple(rules)), evaluations


def _create_optimizer(
    run_file: RunFile, journal: Path | None, seed: int | None, budget: int | None
) -> Optimizer:
    """Create or resume the optimizer; the default configuration is evaluated first."""
    from baco_like.optimizer import Optimizer
    from baco_like.optimizer.setup import read_header

    context = run_file.context
    if journal is not None and journal.exists():
        options = read_header(journal).options
        context = run_file.context_on_resume(options.context)
        seed = options.seed if seed is None else seed
    default = run_file.space.default_config
    return Optimizer(
        run_file.space,
        run_file.objective.direction,
        run_file.seed if seed is None else seed,
        objective=run_file.objective.name,
        budget=budget,
        strategy=run_file.strategy,
        settings=_strategy_settings(run_file),
        initial=[default] if default is not None else None,
        storage=journal,
        warm_start=run_file.warm_start or None,
        context=context,
    )


def _strategy_settings(run_file: RunFile) -> dict[str, Any]:
    """Return the strategy's settings: its defaults, replaced by those of the file.

    Raises:
        RunFileError: The strategy or a setting does not exist, or a value is wrong.
    """
    from baco_like.strategies import create_strategy, default_settings

    initial = {} if run_file.initial is None else {"initial": run_file.initial}
    try:
        settings = {**default_settings(run_file.strategy), **run_file.settings, **initial}
        create_strategy(run_file.strategy, settings)
    except (ValueError, TypeError) as error:
        raise RunFileError(f"[optimizer] {' '.join(str(error).split())}") from error
    return settings
