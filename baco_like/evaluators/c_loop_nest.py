"""Matrix multiplication in C: generated, compiled, run in a child process and checked.

It needs nothing but a C compiler, and has parameters of all kinds: a permutation (the loop order),
tile sizes, categories and switches. Parameters that a space leaves out keep the value of the plain
``ijk`` nest.
"""

from __future__ import annotations

import os
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from baco_like.evaluators import process
from baco_like.evaluators.c_loop_nest_harness import HARNESS, WRONG_RESULT, Report, read_report
from baco_like.evaluators.c_loop_nest_source import (
    DOMAINS,
    Schedule,
    compiler_flags,
    kernel_source,
    violation,
)
from baco_like.evaluators.process import Finished
from baco_like.evaluators.table import Table, per_second, shown, suggestion
from baco_like.evaluators.workplace import Workplace, require_program
from baco_like.exceptions import EvaluatorError, RunFileError
from baco_like.records.trial import Outcome, Trial
from baco_like.spaces.parameter import Parameter
from baco_like.spaces.space import Space

KEYS = (
    "kind",
    "size",
    "compiler",
    "repeats",
    "timeout",
    "build_timeout",
    "tolerance",
    "input_seed",
)

_LISTED = 4096
"""Up to so many values of a parameter are checked in advance; more are checked as they come."""


@dataclass(frozen=True)
class Settings:
    """How every kernel is compiled and measured.

    Attributes:
        size: Rows of the matrices.
        compiler: Program name or path.
        repeats: Measured runs after the warm-up.
        timeout: Seconds for one run of the kernel.
        build_timeout: Seconds for the compiler.
        tolerance: Largest difference from NumPy's product, relative to the largest of ``|A| |B|``.
        input_seed: Seed of the matrices.
        scale: What a second is in the objective's unit.
    """

    size: int
    compiler: str = "cc"
    repeats: int = 5
    timeout: float = 10.0
    build_timeout: float = 60.0
    tolerance: float = 1e-5
    input_seed: int = 0
    scale: float = 1e3


class LoopNestEvaluator:
    """Compiles and times one loop nest after the other.

    A compiler that fails is the failure ``compile``, a result that differs from NumPy's
    ``correctness``, a crash ``runtime`` with its signal, a schedule that cannot be right (a tile
    that does not divide the size, threads that share a sum) ``constraints``. A warm-up that takes
    longer than the limit is censored at the limit.

    Args:
        space: Its parameters are fields of `Schedule`.
        settings: How kernels are compiled and measured.

    Raises:
        EvaluatorError: The space has a parameter or a value that is not understood, or the compiler
            is not there.
    """

    def __init__(self, space: Space, settings: Settings) -> None:
        _check_space(space.parameters)
        compiler = require_program(settings.compiler, Path.cwd(), "[evaluator] compiler")
        if _may_use_threads(space.parameters):
            _require_openmp(compiler)
        self._compiler = compiler
        self._settings = settings
        self._queue: deque[Trial] = deque()
        self._workplace = Workplace()
        self._bench: _Bench | None = None

    @classmethod
    def from_table(cls, table: Table, space: Space, unit: str, folder: Path) -> LoopNestEvaluator:
        """Make it from the ``[evaluator]`` table of a TOML file.

        Args:
            table: Keys as in `KEYS`.
            space: Its parameters are fields of `Schedule`.
            unit: The objective's unit, one of time.
            folder: Where a relative path of a compiler begins; work is done in temporary folders.

        Raises:
            RunFileError: A key is unknown, missing or wrong.
            EvaluatorError: As for the constructor.
        """
        table.only(KEYS)
        scale = per_second(unit)
        if scale is None:
            raise RunFileError(
                f"[{table.name}] kind 'c_loop_nest' measures time, not {unit!r}; "
                'write unit = "ms" (s, ms, us or ns) into [objective]'
            )
        compiler = table.text("compiler", "cc")
        return cls(
            space,
            Settings(
                size=table.whole("size", low=1),
                compiler=str(folder / compiler) if os.sep in compiler else compiler,
                repeats=table.whole("repeats", 5, low=1),
                timeout=table.positive("timeout", 10.0),
                build_timeout=table.positive("build_timeout", 60.0),
                tolerance=table.positive("tolerance", 1e-5),
                input_seed=table.whole("input_seed", 0),
                scale=scale,
            ),
        )

    @property
    def capacity(self) -> int:
        """One: measurements would disturb each other."""
        return 1

    @property
    def source_name(self) -> str:
        """``matmul.c``."""
        return "matmul.c"

    def source(self, config: Mapping[str, Any]) -> str:
        """Return the C source of a configuration.

        Raises:
            EvaluatorError: It has a value that is not understood, or cannot be a correct program.
        """
        schedule = schedule_of(config)
        problem = violation(schedule, self._settings.size)
        if problem:
            raise EvaluatorError(problem)
        return kernel_source(schedule, self._settings.size)

    def submit(self, trial: Trial) -> None:
        """Queue a trial."""
        self._queue.append(trial)

    def wait(self) -> Sequence[Outcome]:
        """Evaluate the trial that has waited longest, in the calling thread.

        Raises:
            EvaluatorError: No trial was submitted, a value is not understood, or the harness does
                not compile.
        """
        if not self._queue:
            raise EvaluatorError("wait() without a submitted trial")
        trial = self._queue.popleft()
        schedule = schedule_of(trial)
        problem = violation(schedule, self._settings.size)
        if problem:
            return [Outcome.failure(trial.id, "constraints", problem)]
        if self._bench is None:
            self._bench = _Bench.prepared(self._settings, self._compiler, self._workplace.folder)
        return [self._bench.outcome(trial.id, schedule)]

    def close(self) -> None:
        """Forget what is queued and remove the temporary folder."""
        self._queue.clear()
        self._bench = None
        self._workplace.close()


def schedule_of(config: Mapping[str, Any]) -> Schedule:
    """Return the schedule that a configuration stands for.

    Raises:
        EvaluatorError: A parameter or a value is not understood.
    """
    for name, value in config.items():
        if name not in DOMAINS:
            raise EvaluatorError(
                f"c_loop_nest has no parameter {name!r}; {suggestion(name, DOMAINS)}"
            )
        understood, wanted = DOMAINS[name]
        if not understood(value):
            raise EvaluatorError(f"c_loop_nest parameter {name!r}: {shown(value)} is not {wanted}")
    return Schedule(**config)


def _check_space(parameters: Mapping[str, Parameter]) -> None:
    for name, parameter in parameters.items():
        for value in _values(parameter):
            schedule_of({name: value})


def _values(parameter: Parameter) -> list[Any]:
    """Return the values of a parameter, or one of them where they cannot be listed."""
    if parameter.width == 1 and parameter.cardinality <= _LISTED:
        return parameter.decode(np.arange(parameter.cardinality, dtype=np.float64)[:, None])
    return parameter.decode(parameter.sample(1, np.random.default_rng(0)))


def _may_use_threads(parameters: Mapping[str, Parameter]) -> bool:
    return "threads" in parameters and max(_values(parameters["threads"])) > 1


def _require_openmp(compiler: str) -> None:
    command = [compiler, "-fopenmp", "-fsyntax-only", "-x", "c", "-"]
    try:
        finished = subprocess.run(command, input=b"", capture_output=True, timeout=60, check=False)
        said = finished.stderr.decode(errors="replace").strip() if finished.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    if said:
        raise EvaluatorError(
            f"the compiler {compiler!r} cannot compile OpenMP, which parameter 'threads' needs; "
            f"leave the parameter out or name another compiler ({said.splitlines()[0][:200]})"
        )


@dataclass(frozen=True)
class _Bench:
    """A folder with the inputs, the reference and the compiled harness."""

    settings: Settings
    compiler: str
    folder: Path
    tolerance: float

    @classmethod
    def prepared(cls, settings: Settings, compiler: str, folder: Path) -> _Bench:
        tolerance = settings.tolerance * _write_matrices(settings, folder)
        bench = cls(settings, compiler, folder, tolerance)
        (folder / "harness.c").write_text(HARNESS, encoding="ascii")
        finished = bench._compile(["-O2", "-c", "harness.c", "-o", "harness.o"])
        if not finished.ok:
            raise EvaluatorError(
                f"the compiler {compiler!r} fails on the harness: {finished.describe()}"
            )
        return bench

    def outcome(self, trial_id: int, schedule: Schedule) -> Outcome:
        source, program = self.folder / f"kernel-{trial_id}.c", self.folder / f"kernel-{trial_id}"
        source.write_text(kernel_source(schedule, self.settings.size), encoding="ascii")
        try:
            built = self._compile(
                [*compiler_flags(schedule), source.name, "harness.o", "-lm", "-o", program.name]
            )
            seconds = {"build": built.seconds}
            if not built.ok:
                word = "timeout" if built.timed_out else "compile"
                message = f"build: {built.describe()}"
                return Outcome.failure(trial_id, word, message, extra={"seconds": seconds})
            finished = self._run(program)
            seconds["run"] = finished.seconds
            return self._judged(trial_id, finished, {"seconds": seconds})
        finally:
            source.unlink(missing_ok=True)
            program.unlink(missing_ok=True)

    def _compile(self, arguments: Sequence[str]) -> Finished:
        return process.run(
            [self.compiler, *arguments], timeout=self.settings.build_timeout, folder=self.folder
        )

    def _run(self, program: Path) -> Finished:
        settings = self.settings
        inputs = ("A.f32", "B.f32", "R.f32")
        numbers = (settings.repeats, f"{max(settings.timeout, 1e-3):.6f}", repr(self.tolerance))
        return process.run(
            [str(program), str(settings.size), *inputs, *map(str, numbers)],
            timeout=settings.timeout * (settings.repeats + 1)
            + 10.0,  # the harness's own limit comes first
            folder=self.folder,
        )

    def _judged(self, trial_id: int, finished: Finished, extra: Mapping[str, Any]) -> Outcome:
        report = read_report(finished.out)
        overtime = finished.timed_out or finished.signal == "SIGALRM"
        if overtime and not report.seconds:
            bound = self.settings.timeout * self.settings.scale
            message = f"run: stopped after {self.settings.timeout:g} s"
            return Outcome.censored(trial_id, bound, message=message, extra=extra)
        if finished.ok and len(report.seconds) == self.settings.repeats:
            repeats = tuple(seconds * self.settings.scale for seconds in report.seconds)
            return Outcome.success(trial_id, repeats, extra=extra)
        if report.seconds:
            extra = {**extra, "repeats": [one * self.settings.scale for one in report.seconds]}
        word, message = self._failure(finished, report, overtime)
        return Outcome.failure(trial_id, word, f"run: {message}", extra=extra)

    def _failure(self, finished: Finished, report: Report, overtime: bool) -> tuple[str, str]:
        if overtime:
            return "timeout", f"a repeat was stopped after {self.settings.timeout:g} s"
        if finished.code == WRONG_RESULT and report.error is not None:
            return "correctness", (
                f"differs from the reference by {report.error:.3g}, tolerance {self.tolerance:.3g}"
            )
        return "runtime", finished.describe()


def _write_matrices(settings: Settings, folder: Path) -> float:
    """Write inputs and reference; return the largest of ``|A| |B|``, by which errors scale."""
    rng = np.random.default_rng(settings.input_seed)
    shape = (settings.size, settings.size)
    a, b = (rng.uniform(-1.0, 1.0, shape).astype(np.float32) for _ in range(2))
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    for name, matrix in (("A", a), ("B", b), ("R", (wide_a @ wide_b).astype(np.float32))):
        (folder / f"{name}.f32").write_bytes(matrix.tobytes())
    return float((np.abs(wide_a) @ np.abs(wide_b)).max())
