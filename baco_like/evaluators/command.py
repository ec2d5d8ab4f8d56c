"""Any program as an objective: a command that builds, one that runs, one that checks.

There is no shell. Every trial has a temporary folder of its own, which is removed afterwards with
all that was made in it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baco_like.evaluators import process
from baco_like.evaluators.measure import Measure
from baco_like.evaluators.process import Finished
from baco_like.evaluators.table import Table, per_second
from baco_like.evaluators.template import Template, text_of, variable_names
from baco_like.evaluators.workplace import require_program, temporary_folder
from baco_like.exceptions import EvaluatorError, RunFileError
from baco_like.records.trial import Outcome, Trial
from baco_like.spaces.space import Space

KEYS = (
    "kind",
    "build",
    "run",
    "check",
    "measure",
    "pattern",
    "key",
    "build_timeout",
    "timeout",
    "repeats",
    "memory",
)

_MESSAGE_LENGTH = 4000
"""Characters kept of what a failing tool said, from the end; compilers may print megabytes."""


@dataclass(frozen=True)
class Commands:
    """What is run for every trial.

    Attributes:
        run: Runs the program; its output or its wall time is measured.
        measure: How.
        variables: The environment variable of each parameter.
        build: Makes the program first, or None.
        check: Says by its exit code whether the first run's result is right, or None.
        folder: Where all commands run.
        build_timeout: Seconds for the build.
        timeout: Seconds for one run, and for the check.
        repeats: How often it is run.
        memory: Bytes of address space that the run and the check may have, or None.
    """

    run: Template
    measure: Measure
    variables: Mapping[str, str]
    build: Template | None = None
    check: Template | None = None
    folder: Path = Path(".")
    build_timeout: float = 60.0
    timeout: float = 10.0
    repeats: int = 1
    memory: int | None = None


class CommandEvaluator:
    """Runs trials one after the other as commands.

    A build that fails is the failure ``compile``; a run that ends with another exit code than 0, by
    a signal or without a number to measure is ``runtime``; a check that fails ``correctness``; any
    of them over its time ``timeout``. Where the wall time is the objective, a run over its limit
    has a value of at least the limit, and is recorded so (censored).

    Args:
        commands: What is run.

    Raises:
        EvaluatorError: A program is not there.
    """

    def __init__(self, commands: Commands) -> None:
        _require_programs(commands)
        self._commands = commands
        self._queue: deque[Trial] = deque()

    @classmethod
    def from_table(cls, table: Table, space: Space, unit: str, folder: Path) -> CommandEvaluator:
        """Make it from the ``[evaluator]`` table of a TOML file.

        Args:
            table: Keys as in `KEYS`.
            space: Its parameters are the placeholders, beside ``{workdir}``.
            unit: The objective's unit.
            folder: Where the commands run.

        Raises:
            RunFileError: A key is unknown, missing or wrong.
            EvaluatorError: A program is not there.
        """
        table.only(KEYS)
        names = tuple(space.parameters)
        if "workdir" in names:
            raise RunFileError(
                "[space.workdir]: {workdir} is the trial's folder; rename the parameter"
            )
        places = (*names, "workdir")
        _check_texts(space)

        def template(key: str) -> Template:
            return Template.parse(table.text(key), places, f"[{table.name}] {key}")

        return cls(
            Commands(
                run=template("run"),
                measure=Measure.from_table(table, per_second(unit)),
                variables=variable_names(places),
                build=template("build") if table.has("build") else None,
                check=template("check") if table.has("check") else None,
                folder=folder,
                build_timeout=table.positive("build_timeout", 60.0),
                timeout=table.positive("timeout", 10.0),
                repeats=table.whole("repeats", 1, low=1),
                memory=table.bytes("memory") if table.has("memory") else None,
            )
        )

    @property
    def capacity(self) -> int:
        """One: measurements would disturb each other."""
        return 1

    def submit(self, trial: Trial) -> None:
        """Queue a trial."""
        self._queue.append(trial)

    def wait(self) -> Sequence[Outcome]:
        """Run the trial that has waited longest, in the calling thread.

        Raises:
            EvaluatorError: No trial was submitted, or a value cannot stand in a command line.
        """
        if not self._queue:
            raise EvaluatorError("wait() without a submitted trial")
        trial = self._queue.popleft()
        with temporary_folder() as workdir:
            return [_TrialRun(self._commands, trial, workdir).outcome()]

    def close(self) -> None:
        """Forget what is queued; nothing else outlives `wait`."""
        self._queue.clear()


def _check_texts(space: Space) -> None:
    """Every listed value must be one that a command line can carry."""
    for name, parameter in space.parameters.items():
        listed = (*getattr(parameter, "values", ()), *getattr(parameter, "elements", ()))
        for value in listed:
            try:
                text_of(value)
            except EvaluatorError as error:
                raise EvaluatorError(f"parameter {name!r}: {error}") from None


def _require_programs(commands: Commands) -> None:
    if not commands.folder.is_dir():
        raise EvaluatorError(f"the folder {str(commands.folder)!r} of the commands does not exist")
    stages = {"build": commands.build, "run": commands.run, "check": commands.check}
    for stage, template in stages.items():
        program = None if template is None else template.program
        if program is None:
            continue
        may_be_built = commands.build is not None and stage != "build" and os.sep in program
        if not may_be_built:
            require_program(program, commands.folder, f"[evaluator] {stage}")


class _Failed(Exception):
    """Carries a failed outcome out of a stage."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome


class _TrialRun:
    """The stages of one trial, with the time each has taken."""

    def __init__(self, commands: Commands, trial: Trial, workdir: Path) -> None:
        texts = {name: text_of(value) for name, value in trial.items()}
        self._texts = {**texts, "workdir": str(workdir)}
        self._environment = {commands.variables[name]: text for name, text in self._texts.items()}
        self._commands = commands
        self._id = trial.id
        self._seconds: dict[str, float] = {}
        self._repeats: tuple[float, ...] = ()

    def outcome(self) -> Outcome:
        try:
            self._measure()
        except _Failed as failure:
            return failure.outcome
        return Outcome.success(self._id, self._repeats, extra=self._timings)

    @property
    def _timings(self) -> dict[str, Any]:
        return {"seconds": dict(self._seconds)}

    @property
    def _extra(self) -> dict[str, Any]:
        """What is kept of a trial that fails: the timings, and what was measured before."""
        return {**self._timings, **({"repeats": list(self._repeats)} if self._repeats else {})}

    def _measure(self) -> None:
        commands = self._commands
        if commands.build is not None:
            self._stage("build", commands.build, commands.build_timeout, "compile", memory=None)
        self._run(first=True)
        if commands.check is not None:
            self._stage("check", commands.check, commands.timeout, "correctness", commands.memory)
        for _ in range(1, commands.repeats):
            self._run(first=False)

    def _run(self, first: bool) -> None:
        commands = self._commands
        censors = first and commands.measure.method == "wall"
        bound = commands.timeout * commands.measure.scale if censors else None
        finished = self._stage(
            "run", commands.run, commands.timeout, "runtime", commands.memory, bound
        )
        values = commands.measure.take(finished)
        if isinstance(values, str):
            raise self._failure("runtime", f"run: {values}")
        self._repeats += values

    def _stage(
        self,
        stage: str,
        template: Template,
        timeout: float,
        word: str,
        memory: int | None,
        bound: float | None = None,
    ) -> Finished:
        """Run one command, or raise the outcome (censored at ``bound`` if its time is over)."""
        try:
            finished = process.run(
                template.fill(self._texts),
                timeout=timeout,
                folder=self._commands.folder,
                environment=self._environment,
                memory=memory,
            )
        except OSError as error:
            raise self._failure(word, f"{stage}: cannot be started: {error}") from None
        self._seconds[stage] = self._seconds.get(stage, 0.0) + finished.seconds
        if finished.timed_out and bound is not None:
            message = f"{stage}: {finished.describe()}"
            raise _Failed(Outcome.censored(self._id, bound, message=message, extra=self._extra))
        if not finished.ok:
            word = "timeout" if finished.timed_out else word
            raise self._failure(word, f"{stage}: {_account(finished)}")
        return finished

    def _failure(self, word: str, message: str) -> _Failed:
        return _Failed(Outcome.failure(self._id, word, message, extra=self._extra))


def _account(finished: Finished) -> str:
    """Return how a command ended in one line, and below it the end of what it said."""
    said = (finished.err.strip() or finished.out.strip())[-_MESSAGE_LENGTH:]
    return f"{finished.describe()}\n{said}" if "\n" in said else finished.describe()
