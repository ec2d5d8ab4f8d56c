"""``baco-like tune``: a run that a TOML file describes, from its checks to its results."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baco_like.cli.arguments import INTERRUPTED, count, seed
from baco_like.cli.results import finish
from baco_like.cli.run_folder import JOURNAL, folder_to_resume, new_folder, refuse_journal
from baco_like.exceptions import BacoError, RunFileError
from baco_like.running.output import say

if TYPE_CHECKING:
    from baco_like.cli.run_file import RunFile
    from baco_like.evaluators.protocol import Evaluator
    from baco_like.optimizer import Optimizer
    from baco_like.records.stopping import StopRule
    from baco_like.running.progress import Progress


def add_to(commands: Any) -> None:
    """Add the sub-command to argparse's."""
    parser = commands.add_parser("tune", help="tune what a TOML file describes")
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE.toml",
        help="space, constraints, objective, evaluator, budget",
    )
    parser.add_argument(
        "--budget", type=count, metavar="N", help="evaluations (default: the file's)"
    )
    parser.add_argument(
        "--seed", type=seed, metavar="S", help="the run's only seed (default: the file's, else 0)"
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
        help="go on from the journal in the folder (default: the newest)",
    )
    parser.set_defaults(command=tune)


def tune(args: argparse.Namespace) -> int:
    """Run, or go on with a run; return 0 once it has ended, 130 where the user broke it off."""
    from baco_like.cli.run_file import read
    from baco_like.running.lock import sole_runner
    from baco_like.running.progress import progress_on
    from baco_like.spaces.space import in_words

    plan = read(args.file)
    stop, total = _stop(plan, args.budget)
    with contextlib.ExitStack() as stack:
        evaluator = plan.evaluator()
        stack.callback(evaluator.close)
        if args.resume:
            folder = folder_to_resume(args.out, args.file.stem)
        else:
            _optimizer(plan, None, args.seed, total)  # all its checks, before anything is written
            folder = new_folder(args.out, args.file.stem)
        stack.enter_context(sole_runner(folder / JOURNAL))
        if not args.resume:
            refuse_journal(folder)  # again: somebody may have been faster
        optimizer = _optimizer(plan, folder / JOURNAL, args.seed, total)
        say(f"{in_words(plan.space.feasible_size)} feasible configurations; results go to {folder}")
        shown = progress_on(sys.stdout, total, plan.objective.unit)
        reason = _run(plan, optimizer, evaluator, stop, shown, folder)
    if reason is None:
        say(f"interrupted; go on with: baco-like tune {args.file} --out {folder} --resume")
        return INTERRUPTED
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
    from baco_like.running.tuner import confirmed, run_locked

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
            finish(plan, optimizer, evaluator, folder)
        raise
    finish(plan, optimizer, evaluator, folder, confirmation)
    return reason


def _stop(plan: RunFile, budget: int | None) -> tuple[StopRule, int | None]:
    from baco_like.running.stopping import AnyOf, MaxEvals, MaxTime

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
    from baco_like.optimizer.setup import read_header

    context = plan.context
    if journal is not None and journal.exists():
        before = read_header(journal).options
        context = plan.context_after(before.context)
        seed = before.seed if seed is None else seed
    default = plan.space.default_config
    return Optimizer(
        plan.space,
        plan.objective.direction,
        plan.seed if seed is None else seed,
        objective=plan.objective.name,
        budget=budget,
        strategy=plan.strategy,
        settings=_settings(plan),
        initial=[default] if default is not None else None,
        storage=journal,
        warm_start=plan.warm_start or None,
        context=context,
    )


def _settings(plan: RunFile) -> dict[str, Any]:
    """Return the strategy's settings, the file's over the strategy's own.

    Raises:
        RunFileError: The strategy's name or a setting is wrong.
    """
    from baco_like.strategies import create_strategy, default_settings

    first = {} if plan.initial is None else {"initial": plan.initial}
    try:
        settings = {**default_settings(plan.strategy), **plan.settings, **first}
        create_strategy(plan.strategy, settings)
    except (ValueError, TypeError) as error:
        raise RunFileError(f"[optimizer] {' '.join(str(error).split())}") from error
    return settings
