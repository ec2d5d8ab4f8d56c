"""Pass pipelines of LLVM: `opt` and `llc` build a program from C or bitcode. Its output is compared with ``-O0``."""

from __future__ import annotations

import math
import re
import shlex
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from typing_extensions import override

from baco_like._output import warn_caller
from baco_like._tables import (
    TEXT,
    Given,
    Group,
    Natural,
    Positive,
    Shape,
    Table,
    choice,
    shown,
    time_scale,
)
from baco_like.evaluators._processes.llvm_library import TARGET, find_library
from baco_like.evaluators._processes.process import Cpus, Finished, Stop, check_cpus, run_command
from baco_like.evaluators._processes.temporary import LazyFolder, locate_program, require_program
from baco_like.evaluators._processes.worker import Worker
from baco_like.evaluators.command.build_metrics import count_opcodes, program_metrics
from baco_like.evaluators.command.measure import section_bytes
from baco_like.evaluators.command.passes import LEVELS, PASSES, Passes, tool_beside
from baco_like.evaluators.command.template import Template, to_text
from baco_like.evaluators.protocol import KIND, RunArguments
from baco_like.evaluators.repeats import ONCE, Repeats
from baco_like.evaluators.staged import ONE_BUILD, Builds, Built, StagedEvaluator, StageFailure
from baco_like.exceptions import BacoWarning, EvaluatorError, RunFileError
from baco_like.records.trial import LEVELS as LEVELS_NOTE
from baco_like.records.trial import Trial

INSTRUCTIONS, SIZE, CYCLES, TIME = MEASURES = ("instructions", "size", "cycles", "time")

_SOURCES = Shape(
    title="a text, or an array of texts",
    anyOf=[TEXT, {"type": "array", "items": TEXT, "minItems": 1}],
)

_INSTRUCTION = re.compile(rb"^  [^ \];]", re.MULTILINE)
"""The start of an instruction in the text of a module; what continues one is indented more, or a bracket."""

_SHOWN = ("O0", "O1", "O2", "O3", "Oz")
"""Levels whose values are in the notes."""


_READS = re.compile(rb"stdin|getchar|(?<![sf])scanf|St3cin")
"""Names in bitcode of a program that may read its standard input."""

_CPLUSPLUS = (".cc", ".cpp", ".cxx", ".C")


def _paths(source: str | Path | Sequence[str | Path]) -> tuple[Path, ...]:
    return (Path(source),) if isinstance(source, (str, Path)) else tuple(map(Path, source))


@dataclass(frozen=True)
class LlvmSettings:
    """How pass pipelines are compiled and measured.

    Attributes:
        source: Sources in C or C++, or bitcode (``.bc``, ``.ll``), of one program; a path or several.
        passes: The passes, with their ``opt``.
        measure: ``instructions`` of the IR; ``size``: bytes of code and constants; ``cycles``: those of ``llvm-mca``
            for each instruction once; ``time``: wall time of a run.
        front: Level whose attributes clang gives to the functions, without optimising; ``O0`` forbids inlining; None:
            ``Oz`` for ``instructions`` and ``size``, else ``O3``.
        clang: Compiler of the sources, and linker; None: the one beside ``opt``.
        cflags: Flags of the sources, such as ``-DN=100 -march=native``.
        link: Flags of the linker; sources in C++ add ``-lstdc++``.
        arguments: Arguments of the program.
        options: Further options of ``opt``, such as ``-inline-threshold={threshold}``.
        check: Whether the output and the exit code of the program must be those of ``-O0``; ``false`` for sources
            without main.
        build_timeout: Limit of each tool, in seconds.
        timeout: Limit of one run, in seconds.
        repeats: How often each program is measured.
        ahead: Builds during a measurement.
        builds: Builds for each measurement, and the numbers that are kept of them.
        cpus: CPUs of the runs; None: all.
        scale: Units of the objective in one second.
        environment: Environment variables of the runs.
        folder: Folder in which relative paths begin and programs run.
    """

    source: Annotated[Path | str | Sequence[Path | str], _SOURCES, _paths]
    passes: Given[Passes]
    measure: Literal["instructions", "size", "cycles", "time"] = "instructions"
    front: Annotated[str | None, choice(LEVELS)] = None
    clang: str | None = None
    cflags: str = ""
    link: str = "-lm"
    arguments: str = ""
    options: Annotated[Template | None, TEXT] = None
    check: bool = True
    build_timeout: Positive = 60.0
    timeout: Positive = 10.0
    repeats: Group[Repeats] = ONCE
    ahead: Natural = 0
    builds: Group[Builds] = ONE_BUILD
    cpus: Cpus | None = None
    scale: Given[float] = 1.0
    environment: Given[Mapping[str, str]] = field(default_factory=dict)
    folder: Given[Path] = Path(".")

    @property
    def sources(self) -> tuple[Path, ...]:
        """The paths of the sources."""
        return _paths(self.source)

    def __post_init__(self) -> None:
        if not self.passes.opt:
            raise ValueError("passes have no opt; name it, as in Passes([...], opt='opt-14')")
        for name in ("cflags", "link", "arguments"):
            try:
                shlex.split(getattr(self, name))
            except ValueError as error:
                raise ValueError(
                    f"{name} = {shown(getattr(self, name))}: expected words of a shell ({error})"
                ) from None

    def tool(self, name: str) -> str:
        """Return a tool of the version of ``opt``."""
        return (name == "clang" and self.clang) or tool_beside(self.passes.opt, name)

    def compile(self, target: str, level: str = "") -> Iterator[list[str]]:
        """Yield the commands that make bitcode with the attributes of a level; the parts are beside the target."""
        parts = []
        level = level or self.front or ("Oz" if self.measure in (INSTRUCTIONS, SIZE) else "O3")
        only = "-disable-O0-optnone" if level == "O0" else "-disable-llvm-passes"
        for number, path in enumerate(self.sources):
            if path.suffix in (".bc", ".ll"):
                parts.append(str(path))
                continue
            parts.append(f"{target}.{number}")
            front = [self.tool("clang"), f"-{level}", "-Xclang", only, "-emit-llvm", "-c"]
            yield [*front, *shlex.split(self.cflags), str(path), "-o", parts[-1]]
        yield [self.tool("llvm-link"), *parts, "-o", f"{target}.linked"]
        yield self.opt("", (), f"{target}.linked", target)  # without the names of values

    def opt(self, text: str, options: Sequence[str], source: str, target: str) -> list[str]:
        """Return the command that runs passes; a target that ends in ``.ll`` is a text."""
        form = ["-S"] if target.endswith(".ll") else []
        passes = f"-passes={text or 'no-op-module'}"  # "" would be refused
        given = [self.passes.opt, "-discard-value-names", *form, *options]
        return [*given, passes, source, "-o", target]

    def llc(self, source: str, target: str, level: str = "-O2") -> list[str]:
        """Return the command that makes an object, or a file of assembly whose name ends in ``.s``."""
        form = "asm" if target.endswith(".s") else "obj"
        pic = "-relocation-model=pic"
        return [self.tool("llc"), level, pic, f"-filetype={form}", source, "-o", target]

    def linker(self, source: str, target: str) -> list[str]:
        """Return the command that links a program."""
        more = ["-lstdc++"] if any(path.suffix in _CPLUSPLUS for path in self.sources) else []
        return [self.tool("clang"), source, *shlex.split(self.link), *more, "-o", target]

    def option_words(self, config: Mapping[str, Any]) -> list[str]:
        """Return the further words of ``opt`` for a configuration."""
        if self.options is None:
            return []
        return self.options.fill({n: to_text(v) for n, v in config.items() if n != PASSES})


class LlvmBench:
    """Builds and measures pass pipelines.

    Failures: ``compile`` if a tool fails or crashes, ``timeout`` for a tool or a run over its limit, ``runtime`` if a
    signal ends the program, ``correctness`` for another output or exit code than without any pass. A first run over its
    limit is censored if the time is measured. Output is compared where the value may be recommended.

    Args:
        settings: How pipelines are compiled and measured.

    Raises:
        EvaluatorError: A tool or a source does not exist.
    """

    def __init__(self, settings: LlvmSettings) -> None:
        needed = ["opt", "llvm-link", "clang", "llc"]
        for name in (*needed, *(["llvm-mca"] if settings.measure == CYCLES else [])):
            program = settings.passes.opt if name == "opt" else settings.tool(name)
            require_program(program, settings.folder, f"[evaluator] {name}")
        check_cpus(settings.cpus)
        for path in settings.sources:
            if not (settings.folder / path).is_file():
                raise EvaluatorError(f"[evaluator] source: there is no file {str(path)!r}")
        self.settings, self._folder, self.stop = settings, LazyFolder(), Stop()
        self._lock = threading.Lock()
        library = find_library(settings.passes.opt)
        self.worker = None if library is None else Worker(TARGET, settings=library)
        self._forget()

    def _forget(self) -> None:
        self._sources: dict[str, Path] = {}  # the bitcode by level of the front end
        self._expected: tuple[int | None, str] | None = None
        self._levels = ""

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The names of all metrics."""
        return MEASURES[: min(2, MEASURES.index(self.settings.measure))]

    def build(self, trial: Trial, seconds: dict[str, float]) -> LlvmProgram:
        """Run the passes of a trial.

        Raises:
            StageFailure: A pass fails.
            EvaluatorError: The source cannot be compiled, or its output differs from one run to the next.
        """
        state, options = self.open(), self.settings.option_words(trial.config)
        return self._make(state, trial.config.get(PASSES, ()), options, seconds)

    def _make(
        self,
        state: Path,
        sequence: Sequence[str],
        options: Sequence[str],
        seconds: dict[str, float],
    ) -> LlvmProgram:
        """Return the program after a sequence of passes."""
        program = LlvmProgram(self, seconds)
        try:
            program.run_passes(self.settings.passes.text(sequence), options, state)
            program.read()
        except BaseException:
            program.discard()
            raise
        return program

    def open(self, level: str = "") -> Path:
        """Return the bitcode with the attributes of a level; the first call also runs it without any pass.

        Raises:
            EvaluatorError: It cannot be compiled, or its output cannot be checked.
        """
        with self._lock:
            if level in self._sources:
                return self._sources[level]
            program = LlvmProgram(self, {})
            source = program.path("source.bc")
            try:
                for words in self.settings.compile(str(source), level):
                    program.run_tool(words)
                is_run = self.settings.check or self.settings.measure == TIME
                if is_run and not self._sources:
                    program.link(str(source), "-O0")
                if self.settings.check and not self._sources:
                    self._expected = _result(program.run())
                    if _result(program.run()) != self._expected:
                        raise EvaluatorError(
                            "[evaluator] source: two runs of the program without any pass give different outputs, so "
                            "none can be checked; let it print the same each time, or write check = false"
                        )
                    self._warn(*self._expected, source)
                kept = self._folder.path / f"{level or 'source'}.bc"
                self._sources[level] = source.replace(kept)
                return kept
            except StageFailure as failure:
                way = "; write check = false for a source without main" if source.exists() else ""
                if way and self.settings.measure == TIME:
                    way = "; a time needs a program with main, and its libraries in link"
                raise EvaluatorError(
                    f"[evaluator] source: the program without any pass fails: {failure.message}{way}"
                ) from None
            finally:
                program.discard()

    def _warn(self, code: int | None, out: str, source: Path) -> None:
        """Warn of a program whose output may say little, because it prints nothing or waits for input."""
        if not out.strip() or _READS.search(source.read_bytes()):
            end = f"exit code {code} and the output {out[:40]!r}"
            text = f"the program, whose standard input is empty, ends with {end}"
            way = "if that is not its work, give it arguments or files"
            warn_caller(f"[evaluator] source: {text}; {way}", BacoWarning)

    def check(self, finished: Finished) -> None:
        """Raise `StageFailure` if a run has another result than the program without any pass."""
        if self._expected is not None and _result(finished) != self._expected:
            results = self._expected, _result(finished)
            lines = [[f"exit code {code}", *out.splitlines(True)] for code, out in results]
            expected, got = next(p for p in zip_longest(*lines, fillvalue="") if p[0] != p[1])
            text = f"expected {expected[:100]!r}, got {got[:100]!r}"
            raise StageFailure("correctness", f"check: the result differs from -O0: {text}")

    def script(self, config: Mapping[str, Any], name: str) -> str:
        """Return the commands that build the program of a configuration, in a folder beside the script."""
        settings, base = self.settings, f"$out/{name}"
        lines = list(settings.compile(f"{base}.bc"))
        text = settings.passes.text(config.get(PASSES, ()))
        words = settings.option_words(config)
        lines.append(settings.opt(text, words, f"{base}.bc", f"{base}.ll"))
        lines.append(settings.llc(f"{base}.ll", f"{base}.o"))
        if settings.check or settings.measure == TIME:
            lines.append(settings.linker(f"{base}.o", base))
        lines.append(["echo", lines[-1][-1]])
        build, folder = map(shlex.quote, (f"{name}-build", str(settings.folder.absolute())))
        place = f'out=$(cd "$(dirname "$0")" && pwd)/{build}\nmkdir -p "$out"\ncd {folder}'
        commands = [shlex.join(line).replace("'$out/", '"$out"/\'') for line in lines]
        return "\n".join(["#!/bin/sh", "set -e", place, *commands, ""])

    def levels(self) -> str:
        """Return the values of the optimization levels of clang in one line."""
        if not self._levels:
            texts = []
            for level in _SHOWN:
                try:
                    pipeline = [f"default<{level}>"] if level != "O0" else []
                    program = self._make(self.open(level), pipeline, (), {})
                    try:
                        rounds = 3 if self.settings.measure == TIME else 1
                        value = float(np.median(program.measure(rounds, None, 0.0)))
                        texts.append(f"-{level} {value:.6g}")
                    finally:
                        program.discard()
                except StageFailure as failure:
                    texts.append(f"-{level} fails ({failure.word})")
            self._levels = ", ".join(texts)
            if self.settings.measure == TIME:
                self._levels += " (3 runs each in another minute, so differences may be noise)"
        return self._levels

    def close(self) -> None:
        """End running tools and remove all files; the next build prepares everything again."""
        self.stop.set()
        self.stop = Stop()
        if self.worker is not None:
            self.worker.close()
        self._folder.close()
        self._forget()


class LlvmProgram(Built):
    """The program of one trial, in its own folder.

    Args:
        bench: The bench.
        seconds: Wall time by stage, to be completed.
    """

    def __init__(self, bench: LlvmBench, seconds: dict[str, float]) -> None:
        self._bench, self._settings, self._seconds = bench, bench.settings, seconds
        self._folder, self._metrics = LazyFolder(), dict[str, float]()
        self._is_checked = False

    def path(self, name: str) -> Path:
        """Return the path of a file of this program."""
        return self._folder.path / name

    def run_tool(self, words: Sequence[str]) -> Finished:
        """Run a tool.

        Raises:
            StageFailure: It has failed, or taken too long.
        """
        settings = self._settings
        finished = run_command(
            words,
            timeout=settings.build_timeout,
            folder=settings.folder,
            environment={"TMPDIR": str(self._folder.path), "LLVM_DISABLE_SYMBOLIZATION": "1"},
            stop=self._bench.stop,
        )
        self._seconds["compile"] = self._seconds.get("compile", 0.0) + finished.seconds
        if not finished.ok:
            word = "timeout" if finished.timed_out else "compile"
            raise StageFailure(word, f"{Path(words[0]).name}: {finished.describe()}")
        return finished

    def run_passes(self, text: str, options: Sequence[str], source: Path) -> None:
        """Write the optimised module.

        Raises:
            StageFailure: A pass has failed, or taken too long.
        """
        target = str(self.path("program.ll"))
        if self._bench.worker is None or options:  # options are those of the program opt
            self.run_tool(self._settings.opt(text, options, str(source), target))
        else:
            passes = text or "no-op-module"
            self._call_library({"source": str(source), "passes": passes, "text": target})

    def _make_object(self, source: str = "", level: str = "-O2") -> Path:
        """Return the object of a module, by default of the optimised one.

        Raises:
            StageFailure: The code generator has failed, or taken too long.
        """
        target, source = self.path("program.o"), source or str(self.path("program.ll"))
        if target.exists():
            return target
        if self._bench.worker is None or level != "-O2":
            self.run_tool(self._settings.llc(source, str(target), level))
        else:
            self._call_library({"source": source, "object": str(target)})
        return target

    def _call_library(self, request: Mapping[str, str]) -> None:
        worker, limit = self._bench.worker, self._settings.build_timeout
        assert worker is not None
        reply = worker.request(request, timeout=limit)
        spent = sum(reply.seconds.values())
        self._seconds["compile"] = self._seconds.get("compile", 0.0) + spent
        if not reply.ok:
            word = "timeout" if reply.timed_out else "compile"
            raise StageFailure(word, f"LLVM: {reply.describe()}")

    def read(self) -> None:
        """Count the instructions of the optimised module, and name the program by its text."""
        text = self.path("program.ll").read_bytes().partition(b"\n")[2]  # without its file name
        self._metrics[INSTRUCTIONS] = float(len(_INSTRUCTION.findall(text)))
        self.identity = sha256(text).hexdigest()[:32]

    def link(self, source: str = "", level: str = "-O2") -> None:
        """Make the object and, if a program is to be run, link it; the optimised module by default."""
        target = str(self._make_object(source, level))
        if self._settings.check or self._settings.measure == TIME:
            self.run_tool(self._settings.linker(target, str(self.path("program"))))

    def run(self, timeout: float | None = None, bound: float | None = None) -> Finished:
        """Run the program.

        Raises:
            StageFailure: A signal has ended it, or it has taken too long; ``bound`` is this time in the unit of the
                objective.
        """
        settings = self._settings
        limit = settings.timeout if timeout is None else timeout
        finished = run_command(
            [str(self.path("program")), *shlex.split(settings.arguments)],
            timeout=limit,
            folder=settings.folder,
            environment=settings.environment,
            cpus=settings.cpus,
            stop=self._bench.stop,
        )
        self._seconds["run"] = self._seconds.get("run", 0.0) + finished.seconds
        if finished.timed_out or finished.signal:
            word = "timeout" if finished.timed_out else "runtime"
            raise StageFailure(word, f"run: {finished.describe()}", bound=bound)
        return finished

    @override
    def measure(self, count: int, limit: float | None, near: float) -> tuple[float, ...]:
        """Return the values; the first call compares the output, of a counted value if it is at most ``near``.

        Raises:
            StageFailure: A tool or a run has failed, or the output is wrong.
        """
        measure, scale = self._settings.measure, self._settings.scale
        if measure != TIME:
            value = self._count(measure)
            if value <= near and not self._is_checked and self._settings.check:
                self.link()
                self._check(self.run())
            return (value,)
        values: list[float] = []
        if not self._is_checked:
            self._count(SIZE)
            self.link()
            longest = min(self._settings.timeout, math.inf if limit is None else limit / scale)
            finished = self.run(longest, longest * scale)
            self._check(finished)
            values.append(finished.seconds * scale)
        while len(values) < count and not (limit is not None and values and min(values) > limit):
            values.append(self.run().seconds * scale)
        return tuple(values)

    def _check(self, finished: Finished) -> None:
        self._bench.check(finished)
        self._is_checked = True

    def _count(self, measure: str) -> float:
        """Return a number that is the same each time."""
        if measure not in self._metrics and measure == CYCLES:
            self._count(SIZE)
            assembly = str(self.path("program.s"))
            self.run_tool(self._settings.llc(str(self.path("program.ll")), assembly))
            finished = self.run_tool(
                [self._settings.tool("llvm-mca"), "-iterations=1", assembly],
            )
            found = re.search(r"^Total Cycles: +(\d+)", finished.out, re.MULTILINE)
            if found is None:
                raise StageFailure("runtime", f"llvm-mca: {finished.describe()}")
            self._metrics[CYCLES] = float(found[1])
        elif measure not in self._metrics:
            try:
                self._metrics[SIZE] = float(section_bytes(self._make_object())["text"])
            except ValueError as error:
                raise StageFailure("compile", f"size: {error}") from None
        return self._metrics[measure]

    @override
    def metrics(self) -> dict[str, float]:
        """Return the other numbers; the note has the values of the optimization levels, to compare with."""
        self.notes = {LEVELS_NOTE: self._bench.levels()}
        return {name: self._metrics[name] for name in self._bench.metric_names}

    @override
    def build_metrics(self) -> dict[str, float]:
        """Return the instructions of the optimised module by opcode, and those of the object."""
        opcodes = count_opcodes(self.path("program.ll").read_text(errors="replace"))
        return {**opcodes, **program_metrics(self._make_object())}

    @override
    def discard(self) -> None:
        """Remove the files."""
        self._folder.close()


class LlvmEvaluator(StagedEvaluator):
    """Compiles programs by sequences of passes, the parameter ``passes``, and counts or measures them.

    Args:
        settings: How pipelines are compiled and measured.

    Raises:
        EvaluatorError: A tool or a source does not exist.
    """

    def __init__(self, settings: LlvmSettings) -> None:
        self._llvm_bench = LlvmBench(settings)
        self.source_name = f"{Path(settings.sources[0]).stem}.sh"
        super().__init__(self._llvm_bench, settings.repeats, settings.ahead, settings.builds)

    def source(self, config: Mapping[str, Any]) -> str:
        """Return a shell script that builds the program of a configuration, in a folder ``NAME-build`` beside it."""
        return self._llvm_bench.script(config, Path(self.source_name).stem)


def from_table(table: Table, run: RunArguments) -> LlvmEvaluator:
    """Return the evaluator that the ``[evaluator]`` table of a run file describes.

    Args:
        table: Keys as in `LlvmSettings`.
        run: Its space has the parameter ``passes``; relative paths begin at its folder.

    Raises:
        RunFileError: A key is unknown, missing or wrong.
        EvaluatorError: A tool or a source does not exist.
    """
    if not table.has(PASSES):
        raise RunFileError(f"{table.label('kind')} = 'llvm' needs a table [passes]")
    own = Table(table.name, {k: v for k, v in table.entries.items() if k != PASSES})
    settings = own.create(
        LlvmSettings,
        KIND,
        passes=Table(PASSES, table.table(PASSES).entries).create(Passes),
        environment=run.environment or {},
        folder=run.folder,
    )
    options = settings.options
    if options is not None:
        names = [name for name in run.space.parameters if name != PASSES]
        options = Template.parse(table.text("options"), names, table.label("options"))
    clang = settings.clang and locate_program(settings.clang, run.folder)
    scale = time_scale(table, run.unit) if settings.measure == TIME else 1.0
    return LlvmEvaluator(replace(settings, options=options, clang=clang, scale=scale))


def _result(finished: Finished) -> tuple[int | None, str]:
    return finished.code, finished.out
