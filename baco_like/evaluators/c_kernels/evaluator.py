"""The evaluator of kernels in C: compile kernels with a harness, run them in child processes, read the reports.

The temporary folder has the inputs, written once. The harness (``harness.c``) loads the inputs, checks the result and
takes the times. Its arguments are the file of the arrays, the tolerance, the number of warm-ups and of repeats, and
three limits in seconds: of the first warm-up, of the first repeat, and of any other run.
"""

from __future__ import annotations

import json
import shutil
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from baco_like.evaluators._processes.process import Finished, Stop, check_cpus, run_command
from baco_like.evaluators._processes.temporary import (
    LazyFolder,
    hash_program,
    locate_program,
    require_program,
)
from baco_like.evaluators.command.reference import ERROR
from baco_like.evaluators.comparison import Expected
from baco_like.evaluators.kernels.problems import (
    Complete,
    completion,
    find_problem,
    load_problem,
)
from baco_like.evaluators.kernels.settings import KernelSettings, kernel_keys, read_settings
from baco_like.evaluators.kernels.timing import is_seconds
from baco_like.evaluators.settings_table import TEXT, TEXTS, Key, RunArguments, Table, whole
from baco_like.evaluators.staged import StagedEvaluator, StageFailure
from baco_like.exceptions import EvaluatorError, Infeasible
from baco_like.records.reading import finite_number
from baco_like.records.trial import Trial
from baco_like.spaces.space import Space

_HARNESS = Path(__file__).with_name("harness.c")

_C_TYPES = {"float32": "float", "float64": "double", "int32": "int", "int64": "long long"}
"""C type of the result by its NumPy type."""


_EXIT_WRONG_RESULT = 3
"""Exit code of the harness for a wrong result."""

SIZE = "size"
"""Name of a fidelity parameter, or of a descriptor of tasks, that replaces the setting ``size``."""

PROGRAM_BYTES = "program_bytes"
"""The metric of every compiled kernel: the bytes of code and data in its executable."""

_COLD_FACTOR = 2.0
"""A first run with cold caches may take this factor longer than the limit of a run."""


@dataclass(frozen=True)
class CKernelSettings(KernelSettings):
    """How kernels are compiled and measured.

    Attributes:
        compiler: Name or path of the C compiler.
        flags: Flags of the compiler for every kernel, before the flags of the configuration.
        warmup: Runs before the measured ones, at least 1: the result of the first run is checked.
    """

    build_timeout: float = 60.0
    compiler: str = "cc"
    flags: tuple[str, ...] = ()
    warmup: int = 1


KEYS = (
    *kernel_keys(CKernelSettings, {"compiler": TEXT, "flags": TEXTS, "warmup": whole(1)}),
    Key("ahead", whole(0), "builds during a measurement", default=0),
)


class CKernelBench:
    """Compiles kernels.

    Failures: if the problem raises `Infeasible`, its word (``runtime`` unless it names another); ``compile`` if the
    compiler fails, ``timeout`` if it takes too long. For failures of the run see `CProgram`.

    Args:
        problem: The problem file.
        settings: How kernels are compiled and measured.
        compiler: Path of the compiler.
        complete: Returns a configuration with the parameters that the space leaves out.
        has_sizes: Whether each configuration has its own size of the problem, the parameter ``size``.
    """

    def __init__(
        self,
        problem: ModuleType,
        settings: CKernelSettings,
        compiler: str,
        complete: Complete,
        has_sizes: bool = False,
    ) -> None:
        self.has_sizes = has_sizes
        self.problem, self.settings, self.complete = problem, settings, complete
        self._compiler = compiler
        self._folder, self._stop = LazyFolder(), Stop()
        self._lock = threading.Lock()  # several threads may build before the harness is there
        # Accepted error and magnitude by size; without an entry, its inputs are not written.
        self._tolerances: dict[int, tuple[float, float]] = {}

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The names of all metrics."""
        return (PROGRAM_BYTES, ERROR)

    def build(self, trial: Trial, seconds: dict[str, float]) -> CProgram:
        """Compile the kernel of a configuration.

        Raises:
            StageFailure: The configuration has no correct program, or the compiler fails.
            EvaluatorError: A value is not allowed, or the harness cannot be compiled.
        """
        given = dict(trial.config)
        size = int(given.pop(SIZE)) if self.has_sizes else self.settings.size
        config, problem = self.complete(given), self.problem
        limits = self._prepare(size)
        folder, name = self._folder.path, f"kernel-{trial.id}"
        # All sources have the same name, which compilers write into the program: equal programs are equal files.
        sources, program = folder / f"{name}.source", folder / name
        flags = list(problem.flags(config)) if hasattr(problem, "flags") else []
        variables = problem.environment(config) if hasattr(problem, "environment") else {}
        started = time.perf_counter()
        try:
            sources.mkdir()
            text = problem.source(config, size)
            (sources / "kernel.c").write_text(text, encoding="utf-8")
            built = self._run_tool(
                [*flags, "kernel.c", "../harness.o", "-lm", "-o", f"../{name}"], sources
            )
        except Infeasible as error:
            raise StageFailure(error.failed, str(error)) from None
        finally:
            shutil.rmtree(sources, ignore_errors=True)
            seconds["compile"] = time.perf_counter() - started
        if not built.ok:
            program.unlink(missing_ok=True)
            word = "timeout" if built.timed_out else "compile"
            raise StageFailure(word, f"build: {built.describe()}")
        arrays = _name_of_arrays(size)
        return CProgram(program, *limits, self.settings, seconds, self._stop, variables, arrays)

    def close(self) -> None:
        """End running compilers and remove the folder; the next build prepares everything again."""
        self._stop.set()
        self._stop = Stop()
        self._folder.close()
        self._tolerances = {}

    def _prepare(self, size: int) -> tuple[float, float]:
        """Write the inputs and compile the harness, unless this is done; return accepted error and magnitude."""
        with self._lock:
            if size not in self._tolerances:
                tolerance = self._write_inputs(size)
                built = self._run_tool(["-O2", "-c", "harness.c", "-o", "harness.o"])
                if not built.ok:
                    raise EvaluatorError(
                        f"the compiler {self._compiler!r} fails on the harness: {built.describe()}"
                    )
                self._tolerances[size] = tolerance
            return self._tolerances[size]

    def _write_inputs(self, size: int) -> tuple[float, float]:
        problem, settings = self.problem, self.settings
        inputs = problem.inputs(size, np.random.default_rng(settings.input_seed))
        inputs = [np.ascontiguousarray(array) for array in inputs]
        expected = np.ascontiguousarray(problem.expected(*inputs))
        if expected.dtype.name not in _C_TYPES:
            known = ", ".join(_C_TYPES)
            raise EvaluatorError(f"the result has the type {expected.dtype}: expected {known}")
        correct = Expected(
            expected,
            tolerance=settings.tolerance,
            rtol=settings.rtol,
            atol=settings.atol,
            magnitude=float(problem.magnitude(*inputs)) if hasattr(problem, "magnitude") else None,
        )
        with (self._folder.path / _name_of_arrays(size)).open("wb") as file:
            for array in (*inputs, expected):
                file.write(np.int64(array.nbytes).tobytes())
                file.write(array.tobytes())
        arguments = ", ".join([*(f"inputs[{i}]" for i in range(len(inputs))), "output"])
        header = (
            f"#define INPUTS {len(inputs)}\n#define ELEMENT {_C_TYPES[expected.dtype.name]}\n"
            f"#define PARAMETERS {', '.join(['const void *'] * len(inputs) + ['void *'])}\n"
            f"#define ARGUMENTS {arguments}\n"
        )
        harness = header + _HARNESS.read_text(encoding="ascii")
        (self._folder.path / "harness.c").write_text(harness, encoding="ascii")
        return correct.limits(expected.dtype)[1], correct.magnitude

    def _run_tool(self, arguments: Sequence[str], folder: Path | None = None) -> Finished:
        folder = folder or self._folder.path
        return run_command(
            [self._compiler, *self.settings.flags, *arguments],
            timeout=self.settings.build_timeout,
            folder=folder,
            environment={"TMPDIR": str(folder)},  # removed with what a killed compiler leaves there
            stop=self._stop,
        )


@dataclass(frozen=True)
class CProgram:
    """A compiled kernel.

    Attributes:
        program: Path of the executable.
        tolerance: Largest accepted absolute error.
        magnitude: What reported errors are relative to.
        settings: How kernels are measured.
        seconds: Wall time by stage, to be completed.
        stop: Ends the process when the evaluator is closed.
        environment: Additional environment variables.
        arrays: Name of the file with the inputs and the correct result.
        errors: The largest errors of the results that were checked.
    """

    program: Path
    tolerance: float
    magnitude: float
    settings: CKernelSettings
    seconds: dict[str, float]
    stop: Stop
    environment: Mapping[str, str] = field(default_factory=dict)
    arrays: str = "arrays.bin"
    errors: list[float] = field(default_factory=list)

    def measure(self, count: int, limit: float | None) -> tuple[float, ...]:
        """Run the kernel in a child process: a warm-up whose result is checked, ``count`` timed runs, a second check.

        Raises:
            StageFailure: The result is wrong, the process crashes, or a run takes too long.
        """
        settings = self.settings
        timeout = max(settings.timeout, 1e-3)  # the harness's timer would never fire at 0
        first = timeout if limit is None else min(timeout, max(limit / settings.scale, 1e-3))
        run_limits = (min(timeout, _COLD_FACTOR * first), first, timeout)
        counts = (settings.warmup, count)
        finished = run_command(
            [
                *(str(self.program), self.arrays, repr(self.tolerance), *map(str, counts)),
                *(f"{seconds:.6f}" for seconds in run_limits),
            ],
            # A second line of defence, 10 s later than the harness's own limits.
            timeout=settings.timeout * sum(counts) + 10.0,
            folder=self.program.parent,
            environment={**self.environment, **settings.environment},
            memory=settings.memory,
            cpus=settings.cpus,
            stop=self.stop,
        )
        self.seconds["run"] = self.seconds.get("run", 0.0) + finished.seconds
        report = read_report(finished.out)
        values = tuple(seconds * settings.scale for seconds in report.seconds)
        if finished.ok and len(values) == count:
            self.errors.append(report.error or 0.0)
            return values
        # The harness's own timer ends it by SIGALRM.
        if finished.timed_out or finished.signal == "SIGALRM":
            if not values:
                message = f"run: stopped after {finished.seconds:.3g} s, the limit of a run being {first:.3g} s"
                raise StageFailure("timeout", message, bound=first * settings.scale)
            word, message = "timeout", f"a repeat was stopped after {settings.timeout:g} s"
        elif finished.code == _EXIT_WRONG_RESULT and report.error is not None:
            word = "correctness"
            message = (
                f"differs from the reference by {report.error:.3g}, tolerance {self.tolerance:.3g}"
            )
        else:
            word, message = "runtime", finished.describe()
        raise StageFailure(word, f"run: {message}", repeats=values)

    def metrics(self) -> dict[str, float]:
        """Return the bytes of code and data in the executable, and the largest error of the result.

        The harness adds the same bytes to all executables. The error is relative to the magnitude.
        """
        return {
            PROGRAM_BYTES: float(count_bytes(self.program)),
            ERROR: max(self.errors, default=0.0) / self.magnitude,
        }

    @property
    def identity(self) -> str | None:
        """Hash of the executable, its environment variables and the name of its inputs; all else is the same."""
        return hash_program(self.program, self.arrays, sorted(self.environment.items()))

    def discard(self) -> None:
        """Remove the executable."""
        self.program.unlink(missing_ok=True)


@dataclass(frozen=True)
class HarnessReport:
    """The harness's output.

    Attributes:
        seconds: Time of each run after the warm-up.
        error: Largest error of the result; None if the result was not checked.
    """

    seconds: tuple[float, ...]
    error: float | None


def read_report(out: str) -> HarnessReport:
    """Read the lines that the harness has printed; all other lines are skipped.

    A crash may cut a line off, and a kernel may print its own lines.
    """
    seconds: list[float] = []
    error: float | None = None
    for line in out.splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(entry, dict):
            continue
        if is_seconds(entry.get("seconds")):
            seconds.append(entry["seconds"])
        elif (number := finite_number(entry.get("error"))) is not None:
            error = max(number, error or 0.0)
    return HarnessReport(tuple(seconds), error)


class CKernelEvaluator(StagedEvaluator):
    """Compiles and times kernels in C.

    Args:
        space: Its parameters are passed to the problem's ``source``.
        settings: How kernels are compiled and measured.
        folder: Folder of the problem file, if its path is relative.
        ahead: Number of kernels that are compiled while another is measured.

    Raises:
        RunFileError: The problem is not a Python file.
        EvaluatorError: The file does not exist, it does not have a parameter or a value of the space, or the compiler
            is missing or lacks a flag that the space needs.
    """

    def __init__(
        self, space: Space, settings: CKernelSettings, folder: Path = Path(), ahead: int = 0
    ) -> None:
        path = find_problem(settings.problem, folder)
        described = () if space.tasks is None else space.tasks.descriptor_names
        has_sizes = SIZE in described or (
            space.fidelity is not None and space.fidelity.name == SIZE
        )
        own = {n: p for n, p in space.parameters.items() if not (has_sizes and n == SIZE)}
        complete = completion(path, settings.constants, own)
        problem = load_problem(path, settings.constants)
        compiler = require_program(settings.compiler, Path.cwd(), "[evaluator] compiler")
        if hasattr(problem, "requirements"):
            _require_flags(compiler, problem.requirements(own))
        if settings.cpus is not None:
            check_cpus(settings.cpus, "cpus")
        self.source_name = f"{path.stem}.c"
        self._c_bench = CKernelBench(problem, settings, compiler, complete, has_sizes)
        super().__init__(self._c_bench, settings.repeats, ahead)

    def source(self, config: Mapping[str, Any]) -> str:
        """Return the C source of a configuration.

        Raises:
            EvaluatorError: A value is not allowed, or the configuration has no correct program.
        """
        bench = self._c_bench
        try:
            given = dict(config)
            size = int(given.pop(SIZE)) if bench.has_sizes else bench.settings.size
            text: str = bench.problem.source(bench.complete(given), size)
        except Infeasible as error:
            raise EvaluatorError(str(error)) from None
        return text


def from_table(table: Table, run: RunArguments) -> CKernelEvaluator:
    """Return the evaluator that the ``[evaluator]`` table of a run file describes.

    Args:
        table: Keys as in `KEYS`.
        run: The parameters of its space are passed to the problem's ``source``; its unit is one of time; relative paths
            of the problem and the compiler begin at its folder.

    Raises:
        RunFileError: A key is unknown, missing or wrong.
        EvaluatorError: As for `CKernelEvaluator`.
    """
    fields = read_settings(table, KEYS, run)
    ahead = fields.pop("ahead")
    fields["compiler"] = locate_program(fields["compiler"], run.folder)
    return CKernelEvaluator(run.space, CKernelSettings(**fields), run.folder, ahead)


def count_bytes(program: Path) -> int:
    """Return the bytes of code and data in an ELF file, without the padding to whole pages and without symbols.

    The sections that are loaded count, as in the columns text and data of the program ``size``. The header is described
    in ``elf.h``. A file in another format, such as Mach-O, counts as a whole.
    """
    content = program.read_bytes()
    if content[:6] != b"\x7fELF\x02\x01":  # 64 bits, little-endian
        return len(content)
    try:
        (start,), (width, count) = (
            struct.unpack_from("<Q", content, 0x28),
            struct.unpack_from("<HH", content, 0x3A),
        )
        total = 0
        for at in range(start, start + count * width, width):
            kind, flags = struct.unpack_from("<IQ", content, at + 4)
            is_loaded, has_content = flags & 2, kind != 8
            if is_loaded and has_content:
                total += struct.unpack_from("<Q", content, at + 0x20)[0]
    except struct.error:
        return len(content)
    return total


def _name_of_arrays(size: int) -> str:
    return f"arrays-{size}.bin"


def _require_flags(compiler: str, flags: Sequence[str]) -> None:
    if not flags:
        return
    try:
        finished = run_command([compiler, *flags, "-fsyntax-only", "-x", "c", "-"], timeout=60)
        message = "" if finished.ok else finished.err.strip() or finished.describe()
    except OSError as error:
        message = str(error)
    if message:
        raise EvaluatorError(
            f"the compiler {compiler!r} does not accept {' '.join(flags)}, which a parameter of the space needs; "
            f"leave the parameter out or name another compiler ({message.splitlines()[0][:200]})"
        )
