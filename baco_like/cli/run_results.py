"""Print the results of a run and write them into its folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from baco_like._output import print_line
from baco_like.cli.run_folder import JOURNAL
from baco_like.exceptions import JournalError, MissingExtra

if TYPE_CHECKING:
    from baco_like.cli.run_file import RunFile
    from baco_like.evaluators.confirmation import Confirmation
    from baco_like.evaluators.protocol import Evaluator
    from baco_like.optimizer import Optimizer


def write_results(
    run_file: RunFile,
    optimizer: Optimizer,
    evaluator: Evaluator,
    folder: Path,
    confirmation: Confirmation | None = None,
) -> None:
    """Print the summary; write best.json, the source of the best configuration and the convergence plot.

    Raises:
        JournalError: A file cannot be written.
    """
    from baco_like.evaluators.protocol import SourceProvider, unwrap
    from baco_like.running.convergence import plot_convergence
    from baco_like.running.summary import format_summary, summarise, write_best

    summary = summarise(optimizer.history, run_file.objective)
    if confirmation is not None:
        summary = summary.with_confirmation(confirmation.winner, confirmation.candidates)
    print_line("\n" + format_summary(summary))
    evaluator = unwrap(evaluator)
    try:
        write_best(summary, folder / "best.json", seed=optimizer.options.seed)
        if summary.best is not None and isinstance(evaluator, SourceProvider):
            source = evaluator.source(summary.best.config)
            (folder / evaluator.source_name).write_text(source)
        plot_convergence(optimizer.history, run_file.objective, folder / "convergence.png")
    except MissingExtra as error:
        print_line(f"convergence.png is not written: {error}")
    except OSError as error:
        raise JournalError(
            f"cannot write {error.filename}: {error.strerror}; the run itself is in {folder / JOURNAL}"
        ) from error
