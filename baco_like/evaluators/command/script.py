"""The exact commands of one configuration, as text and as a shell script."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baco_like._output import open_regular_file, wrap_items
from baco_like.evaluators.command.evaluator import CommandBench, Commands
from baco_like.evaluators.command.reference import ERROR
from baco_like.evaluators.protocol import Evaluator, unwrap
from baco_like.evaluators.staged import StagedEvaluator

_SCRIPT_BYTES = 2**20
"""Most bytes of a file that are searched for the names of environment variables."""


@dataclass(frozen=True)
class ProgramCommands:
    """The commands of one configuration.

    Attributes:
        folder: The working directory.
        workdir: The folder inserted for ``{workdir}``.
        environment: Environment variables in addition to the user's.
        stages: The words of each command, by stage: ``build``, ``before``, ``run``, ``check``.
        required: The variables of parameters that no placeholder inserts: only the environment has their values.
    """

    folder: Path
    workdir: str
    environment: Mapping[str, str]
    stages: Mapping[str, Sequence[str]]
    required: Collection[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the commands in the form of ``best.json``, quoted for a shell."""
        lines = {stage: shlex.join(words) for stage, words in self.stages.items()}
        return {"folder": str(self.folder), **lines, "environment": dict(self.environment)}

    def to_script(self) -> str:
        """Return a shell script that runs the commands.

        It sets the variables that the commands can read: the required ones, and those whose names occur in the words
        of a command or in a file that a word names, such as a script or a source.
        """
        texts = list(self._texts())
        read = [n for n in self.environment if n in self.required or any(n in t for t in texts)]
        assigned = [f"{name}={shlex.quote(self.environment[name])}" for name in read]
        exported = [" \\\n  ".join(wrap_items(["export", *assigned], 96))] if read else []
        left = len(self.environment) - len(read)
        note = f"# --run also sets {left} variables BACO_*, which these commands do not read"
        commands = [shlex.join(words) for words in self.stages.values()]
        make = f"mkdir -p {shlex.quote(self.workdir)}"
        begin = ["set -e", f"cd {shlex.quote(str(self.folder))}", make]
        return "\n".join([*begin, *([note] if left else []), *exported, *commands])

    def _texts(self) -> Iterator[str]:
        """Yield the words of the commands, and the files that they name."""
        for word in {word for words in self.stages.values() for word in words}:
            yield word
            with suppress(OSError, ValueError), open_regular_file(self.folder / word) as file:
                yield file.read(_SCRIPT_BYTES).decode(errors="replace")


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
    templates = commands.by_stage()
    stages = {stage: template.fill(texts) for stage, template in templates.items()}
    inserted = {"workdir"}.union(*(template.placeholders for template in templates.values()))
    if commands.flags is not None and "flags" in inserted:
        inserted |= set(commands.flags.parameters)
    required = [v for name, v in commands.variables.items() if name not in {*inserted, "flags"}]
    return ProgramCommands(commands.folder.resolve(), workdir, environment, stages, required)


def metric_names(evaluator: Evaluator) -> tuple[str, ...] | None:
    """Return the names of the metrics that are measured; None if they are unknown before the first run."""
    commands = _commands_of(evaluator)
    if commands is None:
        names: tuple[str, ...] | None = getattr(_bench_of(evaluator), "metric_names", None)
        return names
    named = None if commands is None else commands.measure.metric_names
    if commands is None or named is None:
        return None
    own = commands.measure.key if commands.measure.method == "metric" else None
    error = () if commands.reference is None else (ERROR,)
    return tuple(name for name in (*named, *commands.metrics.names, *error) if name != own)


def _bench_of(evaluator: Evaluator) -> Any:
    staged = unwrap(evaluator)
    return staged.bench if isinstance(staged, StagedEvaluator) else None


def _commands_of(evaluator: Evaluator) -> Commands | None:
    bench = _bench_of(evaluator)
    return bench.commands if isinstance(bench, CommandBench) else None
