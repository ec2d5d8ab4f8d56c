"""The exact commands of a trial, from the journal of ``baco-like tune`` alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from baco_like._tables import Table
from baco_like.evaluators import Evaluator, registry
from baco_like.evaluators.command.compiler_options import compilers_of_tables, is_compiler_name
from baco_like.evaluators.command.evaluator import ProgramCommands, program_commands
from baco_like.evaluators.comparison import Tolerances
from baco_like.exceptions import RunFileError
from baco_like.journal.header import FOLDER
from baco_like.records import Trial
from baco_like.running.journal_view import JournalView
from baco_like.spaces import Space

_TABLE = "[evaluator] "

_UNNEEDED = (
    *(*registry.CACHE_KEYS, "output", "reference", "dtype"),
    *(field.name for field in fields(Tolerances)),
)
"""Keys that no command depends on; they name files that need not exist here."""


def trial_commands(
    view: JournalView, trial: Trial, folder: Path | None, workdir: Path | None, trust: bool = False
) -> ProgramCommands:
    """Return the exact commands of a trial.

    Args:
        view: The journal.
        trial: The trial.
        folder: Folder of the run file, or None for that in the journal.
        workdir: The folder inserted for ``{workdir}``, or None for ``trial-N``.
        trust: Whether the compiler of ``[flags]`` may be any program. A journal is data: otherwise only a known
            compiler in the search path is asked for its defaults.

    Raises:
        RunFileError: The journal is not of ``baco-like tune``, its evaluator runs no commands, or its compiler is not
            a known one.
    """
    context = view.options.context
    entries = {k.removeprefix(_TABLE): v for k, v in context.items() if k.startswith(_TABLE)}
    if not entries:
        raise RunFileError(f"{view.path} has no commands; only journals of 'baco-like tune' do")
    kind = entries.get("kind")
    if not trust:
        _check_compiler(entries)
    made = None
    if kind == "command":  # to create another one can import a file that the journal names
        place = folder or Path(str(context.get(FOLDER) or "."))
        evaluator = _evaluator(entries, view, place)
        name = str((workdir or Path(f"trial-{trial.id}")).absolute())
        made = program_commands(evaluator, trial.config, name)
    if made is None:
        problem = "runs no commands that can be printed"
        if command := view.build_command:
            problem = f"has one script, which builds the winner: {command}"
        raise RunFileError(
            f"[evaluator] kind = {kind!r:.80} {problem}; the configuration of trial {trial.id} is {dict(trial.config)}"
        )
    return made


def _check_compiler(entries: Mapping[str, Any]) -> None:
    """Refuse to start a program that a journal names, unless it is a known compiler in the search path.

    Raises:
        RunFileError: It is another program.
    """
    for name in compilers_of_tables(entries):
        if not isinstance(name, str) or not name:
            continue
        known = shutil.which(os.path.basename(name)) if is_compiler_name(name) else None
        if known is None or (
            os.path.dirname(name) and os.path.realpath(name) != os.path.realpath(known)
        ):
            raise RunFileError(
                f"the flags of this run depend on the compiler {name!r:.200}, and only a known compiler in the search "
                "path is started for a journal; if you trust the journal: baco-like rebuild --trust"
            )


def _evaluator(entries: dict[str, Any], view: JournalView, folder: Path) -> Evaluator:
    # Constraints in Python are not in the journal, and commands do not depend on them.
    space = Space.from_dict({**view.header.space, "constraints": []})
    entries = {k: v for k, v in entries.items() if k not in _UNNEEDED}
    evaluator = registry.create(Table("evaluator", entries), space, view.objective.unit, folder)
    evaluator.close()
    return evaluator
