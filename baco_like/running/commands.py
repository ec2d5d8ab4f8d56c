"""The exact commands of a trial, from the journal of ``baco-like tune`` alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from baco_like.evaluators import Evaluator, registry
from baco_like.evaluators.command import ProgramCommands, program_commands
from baco_like.evaluators.settings_table import Table
from baco_like.exceptions import RunFileError
from baco_like.records import Trial
from baco_like.running.journal_view import FOLDER, JournalView
from baco_like.spaces import Space

_TABLE = "[evaluator] "


def trial_commands(
    view: JournalView, trial: Trial, folder: Path | None, workdir: Path | None
) -> ProgramCommands:
    """Return the exact commands of a trial.

    Args:
        view: The journal.
        trial: The trial.
        folder: Folder of the run file, or None for that in the journal.
        workdir: The folder inserted for ``{workdir}``, or None for ``trial-N``.

    Raises:
        RunFileError: The journal is not of ``baco-like tune``, or its evaluator runs no commands.
    """
    context = view.header.options.context
    entries = {k.removeprefix(_TABLE): v for k, v in context.items() if k.startswith(_TABLE)}
    if not entries:
        raise RunFileError(f"{view.path} has no commands; only journals of 'baco-like tune' do")
    place = folder or Path(context.get(FOLDER) or ".")
    evaluator = _evaluator(entries, view, place)
    made = program_commands(
        evaluator, trial.config, str((workdir or Path(f"trial-{trial.id}")).absolute())
    )
    if made is None:
        raise RunFileError(
            f"[evaluator] kind = {entries.get('kind')!r} runs no commands that can be printed; the configuration of "
            f"trial {trial.id} is {dict(trial.config)}"
        )
    return made


def _evaluator(entries: dict[str, Any], view: JournalView, folder: Path) -> Evaluator:
    # Constraints in Python are not in the journal, and commands do not depend on them.
    space = Space.from_dict({**view.header.space, "constraints": []})
    entries = {k: v for k, v in entries.items() if k not in registry.CACHE_KEYS}
    evaluator = registry.create(Table("evaluator", entries), space, view.objective.unit, folder)
    evaluator.close()
    return evaluator
