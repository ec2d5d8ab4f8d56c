"""Build, run and check a program by commands, without a shell.

Every trial has its own temporary folder, which is removed afterwards with all its files.
"""

from __future__ import annotations

import os
import shlex
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from typing_extensions import override

from baco_like._output import open_regular_file, wrap_items
from baco_like.evaluators._processes.process import (
    CPUS_KEY,
    Finished,
    Stop,
    check_cpus,
    cpus_from_table,
    run_command,
)
from baco_like.evaluators._processes.temporary import (
    FolderSnapshot,
    LazyFolder,
    hash_program,
    require_program,
)
from baco_like.evaluators.command.flags import Flags
from baco_like.evaluators.command.measure import MEASURE_KEYS, CommandMetrics, Measure
from baco_like.evaluators.command.passes import PASSES, Passes
from baco_like.evaluators.command.reference import ERROR, REFERENCE_KEYS, Reference
from baco_like.evaluators.command.template import Template, Text, to_text, variable_names
from baco_like.evaluators.protocol import Evaluator, unwrap
from baco_like.evaluators.repeats import Repeats, repeats_keys
from baco_like.evaluators.settings_table import (
    KIND,
    POSITIVE,
    SIZE,
    TABLE,
    TEXT,
    Key,
    RunArguments,
    Table,
    choice,
    per_second,
    whole,
)
from baco_like.evaluators.sources import missing_sources
from baco_like.evaluators.staged import Built, StagedEvaluator, StageFailure
from baco_like.exceptions import BacoWarning, EvaluatorError, RunFileError
from baco_like.parameters import Permutation, is_sequence
from baco_like.records.trial import MEASURED_AGAIN, Trial
from baco_like.spaces.space import Space

_MEMORY = Key("memory", SIZE, "limit of the memory of a run", absent="no limit")

RESTORE = ("auto", "never")

KEYS = (
    Key("build", TEXT, "the build command"),
    Key("run", TEXT, "the command to measure", required=True),
    Key(
        "before",
        TEXT,
        "a command before each run, which is not measured, such as one that empties a cache",
    ),
    Key("check", TEXT, "a command; exit code 0 means that the result is correct"),
    *MEASURE_KEYS,
    Key(
        "metrics",
        {"type": "object", "additionalProperties": TEXT},
        "further numbers to keep, by name: `size(PATH)` (bytes of a file), `text(PATH)`, `data(PATH)`, `bss(PATH)` (of "
        "a program), `rapl()` or a regular expression",
        default={},
    ),
    *REFERENCE_KEYS,
    Key(
        "program",
        {"type": "string"},
        "the built file, such as `{workdir}/app`: configurations with equal files and equal run commands are measured "
        'once; `""`: each is measured',
        absent="the file of `{workdir}` after `-o` in `build`, if the commands name every parameter",
    ),
    Key("build_timeout", POSITIVE, "limit of a build, in seconds", default=60.0),
    Key("timeout", POSITIVE, "limit of one run, and of the check, in seconds", default=10.0),
    *repeats_keys(1),
    Key("warmup", whole(0, 1_000_000), "runs before the measured ones", default=0),
    Key(
        "restore",
        choice(RESTORE),
        "`auto`: each run gets `{workdir}` as the build left it; `never`: also with the files of earlier runs",
        default="auto",
    ),
    Key("ahead", whole(0), "builds during a measurement", default=0),
    CPUS_KEY,
    _MEMORY,
)

_FLAGS = Key("flags", TABLE, "the table `[flags]` of the run file")
_PASSES = Key(PASSES, TABLE, "the table `[passes]` of the run file")

_WORDS = {"build": "compile", "before": "runtime", "run": "runtime", "check": "correctness"}
"""Failure word of a failed command, by stage."""

_MESSAGE_LENGTH = 4000
"""Characters kept from the end of a failed tool's output; compilers may print megabytes."""


@dataclass(frozen=True)
class Commands:
    """The commands of every trial.

    Attributes:
        run: Runs the program; its output or its wall time is measured.
        measure: Takes the number from the output or the time.
        variables: Environment variable of each parameter.
        build: Builds the program, or None.
        before: Runs before each run, and is not measured; or None.
        check: Its exit code says whether the result of the first run is correct; or None.
        reference: File with the correct result of the first run, or None.
        folder: Working directory of all commands.
        build_timeout: Limit of the build in seconds.
        timeout: Limit of one run, and of the check, in seconds.
        warmup: Number of runs before the measured ones.
        memory: Limit of the address space of run and check in bytes, or None.
        cpus: Numbers of the CPUs that runs may use (builds may use all); None for all.
        flags: Replace the placeholder ``{flags}``; or None.
        passes: The text of their sequence replaces the placeholder ``{passes}``; or None.
        metrics: Numbers to keep besides those in the output that ``measure`` finds.
        program: The built file, or None. Configurations whose files and command lines (of run and check) are equal are
            measured once; the programs must not read the parameters from the environment then.
        environment: Environment variables of before, run and check, such as those of a device slot.
        default: A configuration whose first run must give a number, else `EvaluatorError` ends the run; or None.
        restore: ``auto``: the trial's folder is as the build left it before each run; ``never``: it keeps the files of
            earlier runs.
    """

    run: Template
    measure: Measure
    variables: Mapping[str, str]
    build: Template | None = None
    before: Template | None = None
    check: Template | None = None
    reference: Reference | None = None
    folder: Path = Path(".")
    build_timeout: float = 60.0
    timeout: float = 10.0
    warmup: int = 0
    memory: int | None = None
    cpus: frozenset[int] | None = None
    flags: Flags | None = None
    passes: Passes | None = None
    metrics: CommandMetrics = field(default_factory=CommandMetrics)
    program: Template | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    restore: str = "auto"
    default: Mapping[str, Any] | None = None

    def by_stage(self) -> dict[str, Template]:
        """Return the commands by stage, in their order; commands that are not given are left out."""
        stages = {s: getattr(self, s) for s in _WORDS}
        return {stage: template for stage, template in stages.items() if template is not None}

    def texts(
        self, config: Mapping[str, Any], workdir: str
    ) -> tuple[dict[str, Text], dict[str, str]]:
        """Return the text of each placeholder for a configuration, and the environment variables.

        Raises:
            EvaluatorError: A command line cannot contain a value.
        """
        values = {**config, "workdir": workdir}
        texts: dict[str, Text] = {
            name: tuple(map(to_text, value)) if isinstance(value, tuple) else to_text(value)
            for name, value in values.items()
        }
        variables = {self.variables[name]: to_text(value) for name, value in values.items()}
        if self.flags is not None:
            texts["flags"] = self.flags.words(config)
            variables["BACO_FLAGS"] = self.flags.text(config)
        if self.passes is not None:
            texts[PASSES] = self.passes.words(config)
        return texts, variables


class CommandBench:
    """Builds and measures trials by commands.

    Failures: ``compile`` if the build fails; ``runtime`` if the run ends with a signal, an exit code that is not 0,
    or without a number; ``correctness`` if a check fails; ``timeout`` for a command over its limit. If the objective
    is the wall time, a first run over its limit is censored at the limit.

    Args:
        commands: The commands.
        runs_once: Whether each trial is run once, so that its folder need not be restored.

    Raises:
        EvaluatorError: The folder or a program does not exist, or this process may not use one of the CPUs.
    """

    def __init__(self, commands: Commands, runs_once: bool = False) -> None:
        if not commands.folder.is_dir():
            raise EvaluatorError(
                f"the folder {str(commands.folder)!r} of the commands does not exist"
            )
        for stage, template in commands.by_stage().items():
            program = template.program
            if program is None:
                continue
            may_be_built = commands.build is not None and stage != "build" and os.sep in program
            if not may_be_built:
                require_program(program, commands.folder, f"[evaluator] {stage}")
        if commands.cpus is not None:
            check_cpus(commands.cpus, "cpus")
        self.commands = commands
        self._restores = commands.restore != "never" and not runs_once
        self._stop = Stop()

    def build(self, trial: Trial, seconds: dict[str, float]) -> BuiltProgram:
        """Build a trial in its own folder.

        Raises:
            StageFailure: The build has failed.
            EvaluatorError: A value cannot be part of a command line.
        """
        program = BuiltProgram(self.commands, trial, seconds, self._stop, self._restores)
        try:
            program.build()
        except BaseException:
            program.discard()
            raise
        return program

    def close(self) -> None:
        """End running builds."""
        self._stop.set()
        self._stop = Stop()


def command_evaluator(
    commands: Commands, repeats: Repeats | None = None, ahead: int = 0
) -> StagedEvaluator:
    """Return an evaluator that runs commands.

    Args:
        commands: The commands.
        repeats: How often each configuration is measured; once by default.
        ahead: Number of configurations that are built while another is measured.
    """
    repeats = repeats or Repeats()
    runs_once = max(repeats.least, repeats.most) == 1 and not commands.warmup
    return StagedEvaluator(CommandBench(commands, runs_once), repeats, ahead)


def from_table(table: Table, run: RunArguments) -> StagedEvaluator:
    """Return the evaluator that the ``[evaluator]`` table of a run file describes.

    Args:
        table: Keys as in `KEYS`.
        run: The parameters of its space are placeholders, in addition to ``{workdir}``; the commands run in its folder.

    Raises:
        RunFileError: A key is unknown, missing or wrong.
        EvaluatorError: A program does not exist.
    """
    values = table.read((KIND, *KEYS, _FLAGS, _PASSES))
    names = tuple(run.space.parameters)
    if "workdir" in names:
        raise RunFileError("[space.workdir]: {workdir} is the trial's folder; rename the parameter")
    _check_texts(run.space)
    repeats = Repeats.from_table(table, 1)
    # The run file's table [flags], which also belongs to what the measured values depend on.
    flags = (
        Flags.from_table(Table("flags", table.table("flags").entries))
        if table.has("flags")
        else None
    )
    if flags is not None and "flags" in names:
        raise RunFileError("[space.flags]: {flags} is the text of [flags]; rename the parameter")
    passes = None
    if table.has(PASSES):
        passes = Passes.from_table(Table(PASSES, table.table(PASSES).entries))
    placeholders = (*names, "workdir", *(("flags",) if flags is not None else ()))
    orders = {
        n: p.min_length if is_sequence(p) else len(p.elements)
        for n, p in run.space.parameters.items()
        if isinstance(p, Permutation) or is_sequence(p)
    }

    def template(key: str) -> Template:
        return Template.parse(table.text(key), placeholders, table.label(key), orders)

    metrics = CommandMetrics.from_table(table.table("metrics"), placeholders, run.folder)
    commands = Commands(
        run=template("run"),
        measure=Measure.from_table(table, per_second(run.unit), metrics.names),
        variables=variable_names(placeholders),
        build=template("build") if table.has("build") else None,
        before=template("before") if table.has("before") else None,
        check=template("check") if table.has("check") else None,
        reference=Reference.from_table(table, placeholders, run.folder),
        folder=run.folder,
        build_timeout=values["build_timeout"],
        timeout=values["timeout"],
        warmup=values["warmup"],
        memory=table.bytes(_MEMORY),
        cpus=cpus_from_table(table),
        flags=flags,
        passes=passes,
        metrics=metrics,
        program=template("program") if values["program"] else None,
        environment=run.environment or {},
        restore=values["restore"],
        default=run.space.default_config,
    )
    if commands.program is not None and commands.build is None:
        raise RunFileError(f"{table.label('program')}: there is no build command that makes it")
    if values["program"] is None and set(run.space.active) <= _named_parameters(commands):
        commands = replace(commands, program=_built_file(commands))
    evaluator = command_evaluator(commands, repeats, values["ahead"])
    _warn_of_unused(commands, run.space.active)
    return evaluator


def _built_file(commands: Commands) -> Template | None:
    """Return the file in the trial's folder that the build command names after ``-o``; None if there is none."""
    words = () if commands.build is None else commands.build.words
    for option, file in pairwise(words):
        if option == (("-o", None),) and any(
            p is not None and p.name == "workdir" for _, p in file
        ):
            return Template((file,))
    return None


def _named_parameters(commands: Commands) -> frozenset[str]:
    """Return the parameters whose values the words of the commands contain.

    Raises:
        RunFileError: There are flags or passes, and no command names them.
    """
    templates = commands.by_stage().values()
    named = frozenset(name for template in templates for name in template.placeholders)
    for name, table in (("flags", commands.flags), (PASSES, commands.passes)):
        if table is None:
            continue
        if name not in named:
            raise RunFileError(
                f"[{name}]: no command has the placeholder {{{name}}}; write it into build or run"
            )
        named |= frozenset(table.parameters)
    return named


def _warn_of_unused(commands: Commands, parameters: Sequence[str]) -> None:
    """Warn about a parameter that no command names while others are named, such as a forgotten ``-DTILE={tile}``."""
    templates, named = commands.by_stage().values(), _named_parameters(commands)
    text = " ".join(template.literal for template in templates)
    unused = [p for p in parameters if p not in named and commands.variables[p] not in text]
    if unused and named.intersection(parameters):
        warnings.warn(
            f"no command names the parameter {unused[0]!r}: write {{{unused[0]}}} where it belongs; programs see it "
            f"as ${commands.variables[unused[0]]} only",
            BacoWarning,
            stacklevel=2,
        )


def _check_texts(space: Space) -> None:
    """Raise `EvaluatorError` if a command line cannot contain a value of the space."""
    for name, parameter in space.parameters.items():
        # A parameter without a list of values has `values = None`.
        values = getattr(parameter, "values", None) or ()
        try:
            for value in (*values, *getattr(parameter, "elements", ())):
                to_text(value)
        except EvaluatorError as error:
            raise EvaluatorError(f"parameter {name!r}: {error}") from None


class BuiltProgram(Built):
    """The program of one trial in its folder.

    Args:
        commands: The commands.
        trial: The trial.
        seconds: Wall time by stage, to be completed.
        stop: Ends commands when the evaluator is closed.
        restores: Whether each run gets the folder as the build left it.
    """

    def __init__(
        self,
        commands: Commands,
        trial: Trial,
        seconds: dict[str, float],
        stop: Stop,
        restores: bool,
    ) -> None:
        self._folder = LazyFolder()
        folder = str(self._folder.path)
        self._texts, variables = commands.texts(trial, folder)
        # With TMPDIR, the files that a killed tool leaves are removed with the folder.
        self._environment = {"TMPDIR": folder, **variables}
        self._commands, self._seconds, self._stop = commands, seconds, stop
        is_repeated = trial.origin in MEASURED_AGAIN
        self._is_default = dict(trial.config) == commands.default and not is_repeated
        self._restores = restores
        self._snapshot: FolderSnapshot | None = None
        self._is_checked = False
        self._metrics: dict[str, list[float]] = {}
        self._error: float | None = None

    def build(self) -> None:
        """Run the build command, if there is one, and hash the built file and the commands run and check."""
        commands = self._commands
        if commands.build is not None:
            self._run_command("build", commands.build_timeout)
        if commands.program is None:
            return
        folder, (name, *_) = str(self._folder.path), commands.program.fill(self._texts)
        stages = [part for stage, part in commands.by_stage().items() if stage != "build"]
        # The folder of the trial differs each time, and is in the same places of the lines.
        lines = [[word.replace(folder, "") for word in part.fill(self._texts)] for part in stages]
        self.identity = hash_program(commands.folder / name, lines)

    @override
    def measure(self, count: int, limit: float | None, near: float) -> tuple[float, ...]:
        """Run the program ``count`` times; before the first time, check a first run and do the warm-ups.

        Raises:
            StageFailure: A run or the check has failed, or the wall time is measured and the first run took longer
                than ``limit``.
        """
        values: tuple[float, ...] = ()
        try:
            if not self._is_checked:
                values = self._run_first(limit)
                self._is_checked = True
            while len(values) < count and not (
                limit is not None and values and min(values) > limit
            ):
                values += self._run()
        except StageFailure as failure:
            failure.repeats = values + failure.repeats
            raise
        return values

    @override
    def metrics(self) -> dict[str, float | list[float]]:
        """Return the metrics of all measured runs."""
        error = {} if self._error is None else {ERROR: self._error}
        measured = self._metrics.items()
        return {**error, **{n: v if len(v) > 1 else v[0] for n, v in measured}}

    @override
    def discard(self) -> None:
        """Remove the folder."""
        self._folder.close()
        if self._snapshot is not None:
            self._snapshot.close()

    def _prepare_run(self) -> None:
        """Make the folder as the build left it, and run the command ``before``."""
        try:
            if self._snapshot is not None:
                self._snapshot.restore()
            elif self._restores:
                self._snapshot = FolderSnapshot(self._folder.path)
        except OSError as error:
            raise StageFailure(
                "runtime",
                f"run: the files of its folder cannot be restored ({error}); write restore = 'never' to keep "
                "the files of earlier runs",
            ) from None
        if self._commands.before is not None:
            self._run_command("before", self._commands.timeout)

    def _run_first(self, limit: float | None) -> tuple[float, ...]:
        """Run it, check the result and do the warm-ups; return the first values, unless the run was a warm-up."""
        commands = self._commands
        values = self._run(is_first=True, limit=limit)
        if commands.check is not None:
            self._run_command("check", commands.timeout)
        if commands.reference is not None:
            found = commands.reference.check(self._texts)
            if found.problem is not None:
                raise StageFailure("correctness", f"check: {found.problem}")
            self._error = found.error
        for _ in range(1, commands.warmup):
            self._run()
        if not commands.warmup:
            return values
        self._metrics.clear()
        return ()

    def _run(self, *, is_first: bool = False, limit: float | None = None) -> tuple[float, ...]:
        """Run the program once and return the measured numbers.

        Args:
            is_first: Whether this is the first run: over its limit it is censored, later runs fail.
            limit: The largest value worth measuring; only for the first run.
        """
        commands, measure = self._commands, self._commands.measure
        censors, timeout = is_first and measure.method == "wall", commands.timeout
        if censors and limit is not None:
            timeout = min(timeout, limit / measure.scale)
        bound = timeout * measure.scale if censors else None
        self._prepare_run()
        before = commands.metrics.start()
        finished = self._run_command("run", timeout, bound)
        metrics = commands.metrics.take(finished, self._texts, before)
        if isinstance(metrics, str):
            raise self._no_number(metrics)
        values = measure.take(finished, metrics)
        if isinstance(values, str):
            raise self._no_number(values)
        own = {name: (number,) for name, number in metrics.items()}
        for name, numbers in {**measure.metrics(finished), **own}.items():
            if measure.method != "metric" or name != measure.key:
                self._metrics.setdefault(name, []).extend(numbers)
        return values

    def _no_number(self, reason: str) -> Exception:
        """Return the failure of a run without a number; of the default configuration the error that ends the run."""
        if self._is_default:
            return EvaluatorError(
                f"the default configuration has run, but its number was not found: {reason}; correct the command, or "
                "the keys that say how it is measured"
            )
        return StageFailure("runtime", f"run: {reason}")

    def _run_command(self, stage: str, timeout: float, bound: float | None = None) -> Finished:
        """Run the command of a stage and add its time.

        Args:
            stage: ``build``, ``before``, ``run`` or ``check``.
            timeout: Limit in seconds.
            bound: Lower bound of the value if the limit is reached, or None.

        Raises:
            StageFailure: The command has failed.
            EvaluatorError: It has failed for the default configuration, and a source that it names does not exist.
        """
        commands, is_build = self._commands, stage == "build"
        words = commands.by_stage()[stage].fill(self._texts)
        try:
            finished = run_command(
                words,
                timeout=timeout,
                folder=commands.folder,
                environment={**self._environment, **({} if is_build else commands.environment)},
                memory=None if is_build else commands.memory,
                cpus=commands.cpus if stage == "run" else None,
                stop=self._stop,
            )
        except OSError as error:
            raise StageFailure(_WORDS[stage], f"{stage}: cannot be started: {error}") from None
        key = "compile" if is_build else stage
        self._seconds[key] = self._seconds.get(key, 0.0) + finished.seconds
        if finished.timed_out and bound is not None:
            raise StageFailure("timeout", f"{stage}: {finished.describe()}", bound=bound)
        if not finished.ok:
            absent = missing_sources(words, commands.folder, str(self._folder.path))
            if absent and self._is_default:
                raise EvaluatorError(
                    f"[evaluator] {stage} names {absent[0]!r}, which does not exist in {str(commands.folder)!r}; the "
                    f"default configuration fails ({finished.describe()})"
                )
            output = (finished.err.strip() or finished.out.strip())[-_MESSAGE_LENGTH:]
            message = f"{stage}: {finished.describe()}" + (f"\n{output}" if "\n" in output else "")
            raise StageFailure("timeout" if finished.timed_out else _WORDS[stage], message)
        return finished


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
