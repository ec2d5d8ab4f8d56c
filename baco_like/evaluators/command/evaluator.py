"""Build, run and check a program by commands, without a shell.

Every trial has its own temporary folder, which is removed afterwards with all its files.
"""

from __future__ import annotations

import os
import shlex
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from typing_extensions import override

from baco_like._output import open_regular_file, wrap_items
from baco_like._tables import (
    TEXT,
    AnyText,
    Bytes,
    Given,
    Group,
    Natural,
    Positive,
    Shape,
    Table,
    choice,
    per_second,
    whole,
)
from baco_like.evaluators._processes.process import Cpus, Finished, Stop, check_cpus, run_command
from baco_like.evaluators._processes.temporary import (
    FolderSnapshot,
    LazyFolder,
    hash_program,
    require_program,
)
from baco_like.evaluators._processes.worker import MESSAGE_LENGTH
from baco_like.evaluators.command.build_metrics import program_metrics
from baco_like.evaluators.command.flags import Flags
from baco_like.evaluators.command.measure import METHODS, CommandMetrics, Measure
from baco_like.evaluators.command.passes import PASSES, Passes
from baco_like.evaluators.command.reference import ERROR, TYPES, Reference
from baco_like.evaluators.command.template import Template, Text, to_text, variable_names
from baco_like.evaluators.comparison import TOLERANCES_BY_TYPE, Tolerances
from baco_like.evaluators.protocol import KIND, Evaluator, RunArguments, unwrap
from baco_like.evaluators.repeats import ONCE, Repeats
from baco_like.evaluators.sources import missing_sources
from baco_like.evaluators.staged import (
    ONE_BUILD,
    Builds,
    Built,
    StagedEvaluator,
    StageFailure,
)
from baco_like.exceptions import BacoWarning, EvaluatorError, RunFileError
from baco_like.parameters import Permutation
from baco_like.parameters.protocol import is_sequence
from baco_like.records.trial import MEASURED_AGAIN, Trial
from baco_like.spaces.space import Space

_WORDS = {"build": "compile", "before": "runtime", "run": "runtime", "check": "correctness"}
"""Failure word of a failed command, by stage."""


@dataclass(frozen=True, kw_only=True)
class Commands:
    """The commands of every trial, and how their number is measured.

    ``{NAME}`` in a command is the value of a parameter, and ``{workdir}`` the folder of the trial.

    Attributes:
        build: The build command.
        run: The command to measure.
        before: A command before each run, which is not measured, such as one that empties a cache.
        check: A command; exit code 0 means that the result is correct.
        measure: The number to tune: ``"regex"`` (with ``pattern``), ``"json"`` (with ``key``), ``"wall"`` (time of the
            run), or the name of one of the ``metrics``; None: ``"regex"`` if there is a ``pattern``, else required.
        pattern: Regular expression with at most one group without a name, the number; the last match counts; other
            named groups are metrics.
        key: Key of the number, or of a list of numbers, in the JSON object that the program prints; ``a.b`` is the key
            ``b`` of the object ``a``; other numbers are metrics.
        metrics: Further numbers to keep, by name: ``size(PATH)`` (bytes of a file), ``text(PATH)``, ``data(PATH)``,
            ``bss(PATH)`` (of a program), ``rapl()`` or a regular expression.
        output: File that the program writes, compared with ``reference``.
        reference: File with the correct numbers; relative paths start at the run file.
        accepted: How far the numbers may be from the correct ones.
        dtype: Format of both files: a text of numbers, an array of NumPy, or raw numbers of a type.
        program: The built file, such as ``{workdir}/app``: configurations with equal files and equal run commands are
            measured once; ``""``: each is measured; None: the file of ``{workdir}`` after ``-o`` in ``build``, if the
            commands name every parameter.
        build_timeout: Limit of a build, in seconds.
        timeout: Limit of one run, and of the check, in seconds.
        repeats: How often each configuration is measured.
        warmup: Runs before the measured ones.
        restore: ``auto``: each run gets ``{workdir}`` as the build left it; ``never``: also with the files of earlier
            runs.
        ahead: Builds during a measurement.
        builds: Builds for each measurement, and the numbers that are kept of them.
        cpus: CPUs of the runs; None: all.
        memory: Limit of the memory of a run; a number is in bytes; None: no limit.
        flags: Replace the placeholder ``{flags}``; or None.
        passes: The text of their sequence replaces the placeholder ``{passes}``; or None.
    """

    build: str | None = None
    run: str
    before: str | None = None
    check: str | None = None
    measure: Annotated[str | None, Shape(TEXT, examples=list(METHODS))] = None
    pattern: str | None = None
    key: str | None = None
    metrics: Mapping[str, str] = field(default_factory=dict)
    output: str | None = None
    reference: str | None = None
    accepted: Group[Tolerances] = TOLERANCES_BY_TYPE
    dtype: Annotated[str, choice(TYPES)] = "text"
    program: AnyText | None = None
    build_timeout: Positive = 60.0
    timeout: Positive = 10.0
    repeats: Group[Repeats] = ONCE
    warmup: Annotated[int, whole(0, 1_000_000)] = 0
    restore: Literal["auto", "never"] = "auto"
    ahead: Natural = 0
    builds: Group[Builds] = ONE_BUILD
    cpus: Cpus | None = None
    memory: Bytes | None = None
    flags: Given[Flags | None] = None
    passes: Given[Passes | None] = None


class CommandBench:
    """Builds and measures trials by commands.

    Failures: ``compile`` if the build fails; ``runtime`` if the run ends with a signal, an exit code that is not 0,
    or without a number; ``correctness`` if a check fails; ``timeout`` for a command over its limit. If the objective
    is the wall time, a first run over its limit is censored at the limit.

    Args:
        space: Its parameters are placeholders, in addition to ``{workdir}``. The first run of its default
            configuration must give a number, else `EvaluatorError` ends the run.
        commands: The commands.
        folder: The folder in which they run.
        unit: The objective's unit; of time for ``measure = "wall"``.
        environment: Environment variables of before, run and check, such as those of a device slot.

    Attributes:
        templates: The commands by stage, in their order; those that are not given are left out.
        variables: Environment variable of each placeholder.
        program: The built file, or None: programs must not read the parameters from the environment then.

    Raises:
        RunFileError: A command cannot be read, or two settings contradict each other.
        EvaluatorError: The folder or a program does not exist, or this process may not use one of the CPUs.
    """

    def __init__(
        self,
        space: Space,
        commands: Commands,
        folder: Path = Path("."),
        unit: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        flags, names = commands.flags, tuple(space.parameters)
        if "workdir" in names:
            raise RunFileError(
                "[space.workdir]: {workdir} is the trial's folder; rename the parameter"
            )
        _check_texts(space)
        if flags is not None and "flags" in names:
            raise RunFileError(
                "[space.flags]: {flags} is the text of [flags]; rename the parameter"
            )
        placeholders = (*names, "workdir", *(() if flags is None else ("flags",)))
        orders = {
            n: p.min_length if is_sequence(p) else len(p.elements)
            for n, p in space.parameters.items()
            if isinstance(p, Permutation) or is_sequence(p)
        }

        def parse(key: str) -> Template:
            return Template.parse(
                getattr(commands, key), placeholders, f"[evaluator] {key}", orders
            )

        self.commands, self.folder, self.default = commands, folder, space.default_config
        self.environment, self.variables = environment or {}, variable_names(placeholders)
        self.metrics = CommandMetrics.parse(commands.metrics, placeholders, folder)
        self.templates = {s: parse(s) for s in _WORDS if getattr(commands, s) is not None}
        self.measure = Measure.parse(
            commands.measure,
            commands.pattern,
            commands.key,
            per_second(unit),
            self.metrics.names,
        )
        self.reference = Reference.parse(
            commands.output,
            commands.reference,
            commands.dtype,
            commands.accepted,
            placeholders,
            folder,
        )
        self.program = parse("program") if commands.program else None
        if self.program is not None and commands.build is None:
            raise RunFileError("[evaluator] program: there is no build command that makes it")
        named = self._named_parameters()
        if commands.program is None and named.issuperset(space.active):
            self.program = self._built_file()
        if not folder.is_dir():
            raise EvaluatorError(f"the folder {str(folder)!r} of the commands does not exist")
        for stage, template in self.templates.items():
            program = template.program
            may_be_built = stage != "build" and commands.build is not None
            if program is not None and not (may_be_built and os.sep in program):
                require_program(program, folder, f"[evaluator] {stage}")
        check_cpus(commands.cpus)
        self._warn_of_unused(named, space.active)
        runs_once = commands.repeats.most == 1 and not commands.warmup
        self.restores = commands.restore != "never" and not runs_once
        self.stop = Stop()

    @property
    def metric_names(self) -> tuple[str, ...] | None:
        """The names of all metrics; None if they are unknown before the first run."""
        named = self.measure.metric_names
        if named is None:
            return None
        own = self.measure.key if self.measure.method == "metric" else None
        error = () if self.reference is None else (ERROR,)
        return tuple(name for name in (*named, *self.metrics.names, *error) if name != own)

    def texts(
        self, config: Mapping[str, Any], workdir: str
    ) -> tuple[dict[str, Text], dict[str, str]]:
        """Return the text of each placeholder for a configuration, and the environment variables.

        Raises:
            EvaluatorError: A command line cannot contain a value.
        """
        values = {**config, "workdir": workdir}
        flags, passes = self.commands.flags, self.commands.passes
        texts: dict[str, Text] = {
            name: tuple(map(to_text, value)) if isinstance(value, tuple) else to_text(value)
            for name, value in values.items()
        }
        variables = {self.variables[name]: to_text(value) for name, value in values.items()}
        if flags is not None:
            texts["flags"] = flags.words(config)
            variables["BACO_FLAGS"] = flags.text(config)
        if passes is not None:
            texts[PASSES] = passes.words(config)
        return texts, variables

    def build(self, trial: Trial, seconds: dict[str, float]) -> BuiltProgram:
        """Build a trial in its own folder.

        Raises:
            StageFailure: The build has failed.
            EvaluatorError: A value cannot be part of a command line.
        """
        program = BuiltProgram(self, trial, seconds)
        try:
            program.build()
        except BaseException:
            program.discard()
            raise
        return program

    def close(self) -> None:
        """End running builds."""
        self.stop.set()
        self.stop = Stop()

    def _built_file(self) -> Template | None:
        """Return the file in the trial's folder that the build command names after ``-o``; None if there is none."""
        words = self.templates["build"].words if "build" in self.templates else ()
        for option, file in pairwise(words):
            if option == (("-o", None),) and any(
                p is not None and p.name == "workdir" for _, p in file
            ):
                return Template((file,))
        return None

    def _named_parameters(self) -> frozenset[str]:
        """Return the parameters whose values the words of the commands contain.

        Raises:
            RunFileError: There are flags or passes, and no command names them.
        """
        named = frozenset(name for t in self.templates.values() for name in t.placeholders)
        for name in ("flags", PASSES):
            table = getattr(self.commands, name)
            if table is not None and name not in named:
                raise RunFileError(
                    f"[{name}]: no command has the placeholder {{{name}}}; write it into build or run"
                )
            named |= frozenset(() if table is None else table.parameters)
        return named

    def _warn_of_unused(self, named: frozenset[str], parameters: Sequence[str]) -> None:
        """Warn about a parameter that no command names while others are named, such as a forgotten ``{tile}``."""
        text = " ".join(template.literal for template in self.templates.values())
        unused = [p for p in parameters if p not in named and self.variables[p] not in text]
        if unused and named.intersection(parameters):
            warnings.warn(
                f"no command names the parameter {unused[0]!r}: write {{{unused[0]}}} where it belongs; programs see "
                f"it as ${self.variables[unused[0]]} only",
                BacoWarning,
                stacklevel=2,
            )


def command_evaluator(
    space: Space,
    commands: Commands,
    folder: Path = Path("."),
    unit: str = "",
    environment: Mapping[str, str] | None = None,
) -> StagedEvaluator:
    """Return an evaluator that runs commands; the arguments are those of `CommandBench`."""
    bench = CommandBench(space, commands, folder, unit, environment)
    return StagedEvaluator(bench, commands.repeats, commands.ahead, commands.builds)


def from_table(table: Table, run: RunArguments) -> StagedEvaluator:
    """Return the evaluator that the ``[evaluator]`` table of a run file describes.

    Args:
        table: Keys as in `Commands`; the tables ``[flags]`` and ``[passes]`` too, as the measured values depend on
            them.
        run: As for `CommandBench`.

    Raises:
        RunFileError: A key is unknown, missing or wrong.
        EvaluatorError: A program does not exist.
    """
    made = {
        name: Table(name, table.table(name).entries).create(make)
        for name, make in (("flags", Flags), (PASSES, Passes))
        if table.has(name)
    }
    own = Table(table.name, {k: v for k, v in table.entries.items() if k not in made})
    commands = own.create(Commands, KIND, **made)
    return command_evaluator(run.space, commands, run.folder, run.unit, run.environment)


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
        bench: The bench.
        trial: The trial.
        seconds: Wall time by stage, to be completed.
    """

    def __init__(self, bench: CommandBench, trial: Trial, seconds: dict[str, float]) -> None:
        self._folder = LazyFolder()
        folder = str(self._folder.path)
        self._texts, variables = bench.texts(trial, folder)
        # With TMPDIR, the files that a killed tool leaves are removed with the folder.
        self._environment = {"TMPDIR": folder, **variables}
        self._bench, self._commands, self._seconds = bench, bench.commands, seconds
        self._stop = bench.stop
        is_repeated = trial.origin in MEASURED_AGAIN
        self._is_default = dict(trial.config) == bench.default and not is_repeated
        self._snapshot: FolderSnapshot | None = None
        self._program: Path | None = None
        self._is_checked = False
        self._metrics: dict[str, list[float]] = {}
        self._error: float | None = None

    def build(self) -> None:
        """Run the build command, if there is one, and hash the built file and the commands run and check."""
        bench = self._bench
        if self._commands.build is not None:
            self._run_command("build", self._commands.build_timeout)
        if bench.program is None:
            return
        folder, (name, *_) = str(self._folder.path), bench.program.fill(self._texts)
        self._program = bench.folder / name
        stages = [part for stage, part in bench.templates.items() if stage != "build"]
        # The folder of the trial differs each time, and is in the same places of the lines.
        lines = [[word.replace(folder, "") for word in part.fill(self._texts)] for part in stages]
        self.identity = hash_program(self._program, lines)

    @override
    def build_metrics(self) -> dict[str, float]:
        """Return the sizes and the instructions of the built file; none if it is unknown."""
        is_file = self._program is not None and self._program.is_file()
        return program_metrics(self._program) if self._program and is_file else {}

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
            elif self._bench.restores:
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
        commands, reference = self._commands, self._bench.reference
        values = self._run(is_first=True, limit=limit)
        if commands.check is not None:
            self._run_command("check", commands.timeout)
        if reference is not None:
            found = reference.check(self._texts)
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
        measure, bench = self._bench.measure, self._bench
        censors, timeout = is_first and measure.method == "wall", self._commands.timeout
        if censors and limit is not None:
            timeout = min(timeout, limit / measure.scale)
        bound = timeout * measure.scale if censors else None
        self._prepare_run()
        before = bench.metrics.start()
        finished = self._run_command("run", timeout, bound)
        metrics = bench.metrics.take(finished, self._texts, before)
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
        commands, bench, is_build = self._commands, self._bench, stage == "build"
        words = bench.templates[stage].fill(self._texts)
        try:
            finished = run_command(
                words,
                timeout=timeout,
                folder=bench.folder,
                environment={**self._environment, **({} if is_build else bench.environment)},
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
            absent = missing_sources(words, bench.folder, str(self._folder.path))
            if absent and self._is_default:
                raise EvaluatorError(
                    f"[evaluator] {stage} names {absent[0]!r}, which does not exist in {str(bench.folder)!r}; the "
                    f"default configuration fails ({finished.describe()})"
                )
            output = (finished.err.strip() or finished.out.strip())[-MESSAGE_LENGTH:]
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
    bench = _bench_of(evaluator)
    if not isinstance(bench, CommandBench):
        return None
    texts, environment = bench.texts(config, workdir)
    templates, flags = bench.templates, bench.commands.flags
    stages = {stage: template.fill(texts) for stage, template in templates.items()}
    inserted = {"workdir"}.union(*(template.placeholders for template in templates.values()))
    if flags is not None and "flags" in inserted:
        inserted |= set(flags.parameters)
    required = [v for name, v in bench.variables.items() if name not in {*inserted, "flags"}]
    return ProgramCommands(bench.folder.resolve(), workdir, environment, stages, required)


def metric_names(evaluator: Evaluator) -> tuple[str, ...] | None:
    """Return the names of the metrics that are measured; None if they are unknown before the first run."""
    bench = _bench_of(evaluator)
    names: tuple[str, ...] | None = getattr(bench, "metric_names", None)
    return names


def _bench_of(evaluator: Evaluator) -> Any:
    staged = unwrap(evaluator)
    return staged.bench if isinstance(staged, StagedEvaluator) else None
