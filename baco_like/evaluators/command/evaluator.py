"""Any program as an objective: a command that builds, one that runs, one that checks.

There is no shell. Every trial has a temporary folder of its own, which is removed afterwards with
all that was made in it.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from baco_like.evaluators._processes import process
from baco_like.evaluators._processes.pinning import check_cpus, cpus_from_table
from baco_like.evaluators._processes.process import Finished
from baco_like.evaluators._processes.stop import Stop
from baco_like.evaluators._processes.workplace import require_program, temporary_folder
from baco_like.evaluators.bench import StageFailure
from baco_like.evaluators.command.measure import Measure
from baco_like.evaluators.command.reference import KEYS as REFERENCE_KEYS
from baco_like.evaluators.command.reference import Reference
from baco_like.evaluators.command.template import Template, text_of, variable_names
from baco_like.evaluators.repeats import KEYS as REPEATS_KEYS
from baco_like.evaluators.repeats import Repeats
from baco_like.evaluators.settings_table import Table, per_second
from baco_like.evaluators.staged import StagedEvaluator
from baco_like.exceptions import BacoWarning, EvaluatorError, RunFileError
from baco_like.records.trial import Trial
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
    "memory",
    "warmup",
    "cpus",
    "ahead",
    *REPEATS_KEYS,
    *REFERENCE_KEYS,
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
        reference: What a file that the first run writes must agree with, or None.
        folder: Where all commands run.
        build_timeout: Seconds for the build.
        timeout: Seconds for one run, and for the check.
        warmup: How often it is run before anything is measured.
        memory: Bytes of address space that the run and the check may have, or None.
        cpus: The CPUs that runs may use; builds may use all. None: all.
    """

    run: Template
    measure: Measure
    variables: Mapping[str, str]
    build: Template | None = None
    check: Template | None = None
    reference: Reference | None = None
    folder: Path = Path(".")
    build_timeout: float = 60.0
    timeout: float = 10.0
    warmup: int = 0
    memory: int | None = None
    cpus: frozenset[int] | None = None


class CommandBench:
    """Builds and measures trials as commands.

    A build that fails is the failure ``compile``; a run that ends with another exit code than 0, by
    a signal or without a number to measure is ``runtime``; a check that fails ``correctness``; any
    of them over its time ``timeout``. Where the wall time is the objective, a first run over its
    limit has a value of at least the limit, and is recorded so (censored).

    Args:
        commands: What is run.

    Raises:
        EvaluatorError: A program is not there.
    """

    def __init__(self, commands: Commands) -> None:
        _require_programs(commands)
        if commands.cpus is not None:
            check_cpus(commands.cpus, "cpus")
        self._commands = commands
        self._stop = Stop()

    def build(self, trial: Trial, seconds: dict[str, float]) -> BuiltProgram:
        """Build a trial in a folder of its own.

        Raises:
            StageFailure: The build has failed.
            EvaluatorError: A value cannot stand in a command line.
        """
        with contextlib.ExitStack() as stack:
            workdir = stack.enter_context(temporary_folder())
            stages = _Stages(self._commands, trial, workdir, seconds, self._stop)
            if self._commands.build is not None:
                stages.build()
            return BuiltProgram(stages, stack.pop_all())

    def close(self) -> None:
        """End builds that are running."""
        self._stop.set()
        self._stop = Stop()


def from_table(table: Table, space: Space, unit: str, folder: Path) -> StagedEvaluator:
    """Make an evaluator from the ``[evaluator]`` table of a TOML file.

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
        raise RunFileError("[space.workdir]: {workdir} is the trial's folder; rename the parameter")
    _check_texts(space)
    repeats = Repeats.from_table(table, 1)
    commands = _commands(table, (*names, "workdir"), unit, folder)
    bench = CommandBench(commands)
    _warn_of_unused(commands, space.active)
    return StagedEvaluator(bench, repeats, table.whole("ahead", 0))


def _commands(table: Table, places: tuple[str, ...], unit: str, folder: Path) -> Commands:
    def template(key: str) -> Template:
        return Template.parse(table.text(key), places, f"[{table.name}] {key}")

    return Commands(
        run=template("run"),
        measure=Measure.from_table(table, per_second(unit)),
        variables=variable_names(places),
        build=template("build") if table.has("build") else None,
        check=template("check") if table.has("check") else None,
        reference=Reference.from_table(table, places, folder),
        folder=folder,
        build_timeout=table.positive("build_timeout", 60.0),
        timeout=table.positive("timeout", 10.0),
        warmup=table.whole("warmup", 0),
        memory=table.bytes("memory") if table.has("memory") else None,
        cpus=cpus_from_table(table),
    )


def _warn_of_unused(commands: Commands, parameters: Sequence[str]) -> None:
    """Warn of parameters that no command names while others are named: a forgotten ``-DTILE={tile}``."""
    parts = [one for one in (commands.build, commands.run, commands.check) if one is not None]
    named = frozenset(name for part in parts for name in part.placeholders)
    text = " ".join(part.literal for part in parts)
    unused = [p for p in parameters if p not in named and commands.variables[p] not in text]
    if unused and named.intersection(parameters):
        warnings.warn(
            f"no command names the parameter {unused[0]!r}: write {{{unused[0]}}} where it belongs; programs see it "
            f"as ${commands.variables[unused[0]]} only",
            BacoWarning,
            stacklevel=2,
        )


def _check_texts(space: Space) -> None:
    """Every listed value must be one that a command line can carry."""
    for name, parameter in space.parameters.items():
        listed = (
            *(getattr(parameter, "values", None) or ()),
            *getattr(parameter, "elements", ()),
        )
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


class BuiltProgram:
    """A trial's program in its folder."""

    def __init__(self, stages: _Stages, folder: contextlib.ExitStack) -> None:
        self._stages, self._folder = stages, folder
        self._ready = False

    def measure(self, count: int, limit: float | None) -> tuple[float, ...]:
        """Run it ``count`` times, the first time after the warm-up and with a check after the first run.

        Raises:
            StageFailure: A run or the check has failed, or the wall time is measured and the first run took more than
                ``limit``.
        """
        values: tuple[float, ...] = ()
        try:
            if not self._ready:
                values = self._stages.prepared(limit)
                self._ready = True
            while len(values) < count and not (
                limit is not None and values and min(values) > limit
            ):
                values += self._stages.run()
        except StageFailure as failure:
            failure.repeats = values + failure.repeats
            raise
        return values

    def discard(self) -> None:
        """Remove its folder."""
        self._folder.close()


class _Stages:
    """The commands of one trial, filled in."""

    def __init__(
        self, commands: Commands, trial: Trial, workdir: Path, seconds: dict[str, float], stop: Stop
    ) -> None:
        texts = {name: text_of(value) for name, value in trial.items()}
        self._texts = {**texts, "workdir": str(workdir)}
        own = {commands.variables[name]: text for name, text in self._texts.items()}
        self._environment = {
            "TMPDIR": str(workdir),
            **own,
        }  # what a killed tool leaves goes with it
        self._commands, self._seconds, self._stop = commands, seconds, stop

    def build(self) -> None:
        commands = self._commands
        assert commands.build is not None
        finished = self._finished("build", "compile", commands.build, commands.build_timeout)
        _require_success("build", finished, "compile")

    def prepared(self, limit: float | None) -> tuple[float, ...]:
        """Run it for the first time, check the result, and return what is measured already."""
        commands = self._commands
        values = self.run(first=True, limit=limit)
        self._check()
        if not commands.warmup:
            return values
        for _ in range(1, commands.warmup):
            self.run()
        return ()

    def run(self, *, first: bool = False, limit: float | None = None) -> tuple[float, ...]:
        """Run it once, and take the measured numbers.

        Args:
            first: The first run may be stopped at its limit, and tells a bound then; later ones only fail there.
            limit: Of the value, for the first run.
        """
        commands, measure = self._commands, self._commands.measure
        censors, timeout = first and measure.method == "wall", commands.timeout
        if censors and limit is not None:
            timeout = min(timeout, limit / measure.scale)
        finished = self._finished("run", "runtime", commands.run, timeout)
        if finished.timed_out and censors:
            message = f"run: {finished.describe()}"
            raise StageFailure("timeout", message, bound=timeout * measure.scale)
        _require_success("run", finished, "runtime")
        values = measure.take(finished)
        if isinstance(values, str):
            raise StageFailure("runtime", f"run: {values}")
        return values

    def _check(self) -> None:
        commands = self._commands
        if commands.check is not None:
            finished = self._finished("check", "correctness", commands.check, commands.timeout)
            _require_success("check", finished, "correctness")
        if commands.reference is not None:
            problem = commands.reference.problem(self._texts)
            if problem is not None:
                raise StageFailure("correctness", f"check: {problem}")

    def _finished(self, stage: str, word: str, template: Template, timeout: float) -> Finished:
        """Run one command to its end, and count its time."""
        commands, builds = self._commands, stage == "build"
        try:
            finished = process.run(
                template.fill(self._texts),
                timeout=timeout,
                folder=commands.folder,
                environment=self._environment,
                memory=None if builds else commands.memory,
                cpus=commands.cpus if stage == "run" else None,
                stop=self._stop,
            )
        except OSError as error:
            raise StageFailure(word, f"{stage}: cannot be started: {error}") from None
        key = "compile" if builds else stage
        self._seconds[key] = self._seconds.get(key, 0.0) + finished.seconds
        return finished


def _require_success(stage: str, finished: Finished, word: str) -> None:
    if not finished.ok:
        word = "timeout" if finished.timed_out else word
        raise StageFailure(word, f"{stage}: {_account(finished)}")


def _account(finished: Finished) -> str:
    """Return how a command ended in one line, and below it the end of what it said."""
    said = (finished.err.strip() or finished.out.strip())[-_MESSAGE_LENGTH:]
    return f"{finished.describe()}\n{said}" if "\n" in said else finished.describe()
