"""The exact commands of one configuration, as text and as a shell script."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baco_like.evaluators.command.evaluator import CommandBench, Commands
from baco_like.evaluators.protocol import Evaluator, unwrap
from baco_like.evaluators.staged import StagedEvaluator


@dataclass(frozen=True)
class ProgramCommands:
    """The commands of one configuration.

    Attributes:
        folder: The working directory.
        workdir: The folder inserted for ``{workdir}``.
        environment: Environment variables in addition to the user's.
        stages: The words of each command, by stage: ``build``, ``run``, ``check``.
    """

    folder: Path
    workdir: str
    environment: Mapping[str, str]
    stages: Mapping[str, Sequence[str]]

    def to_json(self) -> dict[str, Any]:
        """Return the commands in the form of ``best.json``, quoted for a shell."""
        lines = {stage: shlex.join(words) for stage, words in self.stages.items()}
        return {"folder": str(self.folder), **lines, "environment": dict(self.environment)}

    def to_script(self) -> str:
        """Return a shell script that runs the commands."""
        names = [f"export {name}={shlex.quote(v)}" for name, v in self.environment.items()]
        commands = [shlex.join(words) for words in self.stages.values()]
        make = f"mkdir -p {shlex.quote(self.workdir)}"
        return "\n".join(["set -e", f"cd {shlex.quote(str(self.folder))}", make, *names, *commands])


def program_commands(
    evaluator: Evaluator, config: Mapping[str, Any], workdir: str
) -> ProgramCommands | None:
    """Return the commands that build, run and check a configuration; None if the evaluator runs no commands.

    Args:
        evaluator: The evaluator.
        config: The configuration.
        workdir: The folder inserted for ``{workdir}``.
    """
    commands = _commands_of(evaluator)
    if commands is None:
        return None
    texts, environment = commands.texts(config, workdir)
    stages = {stage: template.fill(texts) for stage, template in commands.by_stage().items()}
    return ProgramCommands(commands.folder.resolve(), workdir, environment, stages)


def metric_names(evaluator: Evaluator) -> tuple[str, ...] | None:
    """Return the names of the metrics that commands measure; None if they are unknown before the first run."""
    commands = _commands_of(evaluator)
    named = None if commands is None else commands.measure.metric_names
    if commands is None or named is None:
        return None
    own = commands.measure.key if commands.measure.method == "metric" else None
    return tuple(name for name in (*named, *commands.metrics.names) if name != own)


def _commands_of(evaluator: Evaluator) -> Commands | None:
    staged = unwrap(evaluator)
    bench = staged.bench if isinstance(staged, StagedEvaluator) else None
    return bench.commands if isinstance(bench, CommandBench) else None
