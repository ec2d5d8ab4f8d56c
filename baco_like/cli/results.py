"""What a run leaves in its folder beside the journal, and the table on the screen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from baco_like.cli.run_folder import JOURNAL
from baco_like.exceptions import JournalError, MissingExtra
from baco_like.running.output import say

if TYPE_CHECKING:
    from baco_like.cli.run_file import RunFile
    from baco_like.evaluators.confirmation import Confirmation
    from baco_like.evaluators.protocol import Evaluator
    from baco_like.optimizer import Optimizer
    from baco_like.records.trial import Trial


def finish(
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
    from baco_like.running.summary import summarise, table, write_best

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
            f"cannot write {error.filename}: {error.strerror}; the run itself is in {folder / JOURNAL}"
        ) from error


def _write_source(best: Trial | None, evaluator: Evaluator, folder: Path) -> None:
    from baco_like.evaluators.protocol import SourceProvider, unwrapped

    evaluator = unwrapped(evaluator)
    if best is not None and isinstance(evaluator, SourceProvider):
        (folder / evaluator.source_name).write_text(evaluator.source(best.config))


def _plot(plan: RunFile, optimizer: Optimizer, path: Path) -> None:
    from baco_like.running.convergence import plot_convergence

    try:
        plot_convergence(optimizer.history, plan.objective, path)
    except MissingExtra as error:
        say(f"{path.name} is not written: {error}")
