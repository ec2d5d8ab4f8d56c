"""Compiles, checks and times one loop nest after the other, with inputs and a harness that are made once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from baco_like.evaluators import process
from baco_like.evaluators.bench import StageFailure
from baco_like.evaluators.c_loop_nest_harness import HARNESS, WRONG_RESULT, Report, read_report
from baco_like.evaluators.c_loop_nest_source import (
    Schedule,
    compiler_flags,
    kernel_source,
    violation,
)
from baco_like.evaluators.process import Finished
from baco_like.evaluators.stop import Stop
from baco_like.evaluators.workplace import Workplace
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import Trial

_COLD = 2.0
"""A warm-up may take so many times what a configuration may that is not clearly slower than the best."""


@dataclass(frozen=True)
class Settings:
    """How every kernel is compiled and measured.

    Attributes:
        size: Rows of the matrices.
        compiler: Program name or path.
        timeout: Seconds for one run of the kernel.
        build_timeout: Seconds for the compiler.
        tolerance: Largest difference from NumPy's product, relative to the largest of ``|A| |B|``.
        input_seed: Seed of the matrices.
        scale: What a second is in the objective's unit.
        warmup: Runs before the measured ones, at least 1: the first is checked.
        memory: Bytes of address space that a run may have, or None.
        cpus: The CPUs that runs may use; the compiler may use all. None: all.
    """

    size: int
    compiler: str = "cc"
    timeout: float = 10.0
    build_timeout: float = 60.0
    tolerance: float = 1e-5
    input_seed: int = 0
    scale: float = 1e3
    warmup: int = 1
    memory: int | None = None
    cpus: frozenset[int] | None = None


class LoopNestBench:
    """Builds kernels from schedules.

    A compiler that fails is the failure ``compile``, a result that differs from NumPy's ``correctness``, a crash
    ``runtime`` with its signal, a schedule that cannot be right ``constraints``. A warm-up, or a first run after it,
    that takes longer than its limit is censored at the limit.

    Args:
        settings: How kernels are compiled and measured.
        compiler: Path of the compiler.
        schedule_of: Reads a configuration.
    """

    def __init__(
        self,
        settings: Settings,
        compiler: str,
        schedule_of: Callable[[Mapping[str, Any]], Schedule],
    ) -> None:
        self._settings, self._compiler, self._schedule_of = settings, compiler, schedule_of
        self._workplace, self._stop = Workplace(), Stop()
        self._lock = threading.Lock()
        self._tolerance: float | None = None

    def build(self, trial: Trial, seconds: dict[str, float]) -> BuiltKernel:
        """Compile the kernel of a configuration.

        Raises:
            StageFailure: It cannot be right, or the compiler fails on it.
            EvaluatorError: A value is not understood, or the harness does not compile.
        """
        schedule, settings = self._schedule_of(trial), self._settings
        problem = violation(schedule, settings.size)
        if problem:
            raise StageFailure("constraints", problem)
        tolerance = self._prepared()
        name = f"kernel-{trial.id}"
        source, program = (self._workplace.folder / end for end in (f"{name}.c", name))
        source.write_text(kernel_source(schedule, settings.size), encoding="ascii")
        try:
            flags = compiler_flags(schedule)
            built = self._compile([*flags, source.name, "harness.o", "-lm", "-o", program.name])
        finally:
            source.unlink(missing_ok=True)
        seconds["compile"] = built.seconds
        if not built.ok:
            program.unlink(missing_ok=True)
            word = "timeout" if built.timed_out else "compile"
            raise StageFailure(word, f"build: {built.describe()}")
        return BuiltKernel(settings, program, tolerance, seconds, self._stop)

    def close(self) -> None:
        """End compilers that are running, and remove the temporary folder."""
        self._stop.set()
        self._stop = Stop()
        self._workplace.close()
        self._tolerance = None

    def _prepared(self) -> float:
        """Make inputs, reference and harness where they are not there yet; return the absolute tolerance."""
        with self._lock:
            if self._tolerance is None:
                folder = self._workplace.folder
                tolerance = self._settings.tolerance * _write_matrices(self._settings, folder)
                (folder / "harness.c").write_text(HARNESS, encoding="ascii")
                finished = self._compile(["-O2", "-c", "harness.c", "-o", "harness.o"])
                if not finished.ok:
                    raise EvaluatorError(
                        f"the compiler {self._compiler!r} fails on the harness: {finished.describe()}"
                    )
                self._tolerance = tolerance
            return self._tolerance

    def _compile(self, arguments: Sequence[str]) -> Finished:
        return process.run(
            [self._compiler, *arguments],
            timeout=self._settings.build_timeout,
            folder=self._workplace.folder,
            environment={
                "TMPDIR": str(self._workplace.folder)
            },  # for what a killed compiler leaves
            stop=self._stop,
        )


@dataclass(frozen=True)
class BuiltKernel:
    """A compiled kernel.

    Attributes:
        settings: How it is measured.
        program: The file.
        tolerance: Largest difference from the reference.
        seconds: Wall time by stage.
        stop: Ends it.
    """

    settings: Settings
    program: Path
    tolerance: float
    seconds: dict[str, float]
    stop: Stop

    def measure(self, count: int, limit: float | None) -> tuple[float, ...]:
        """Run it in a child process: a warm-up whose result is checked, ``count`` timed runs, and the check again.

        Raises:
            StageFailure: The result is wrong, it crashes, or it takes too long.
        """
        settings = self.settings
        whole = max(settings.timeout, 1e-3)
        first = whole if limit is None else min(whole, max(limit / settings.scale, 1e-3))
        cold = min(whole, _COLD * first)
        finished = self._run(count, (cold, first, whole))
        self.seconds["run"] = self.seconds.get("run", 0.0) + finished.seconds
        return self._judged(count, finished, first)

    def discard(self) -> None:
        """Remove the file."""
        self.program.unlink(missing_ok=True)

    def _run(self, count: int, limits: tuple[float, float, float]) -> Finished:
        settings = self.settings
        counts = (settings.warmup, count)
        return process.run(
            [
                *(str(self.program), str(settings.size), "A.f32", "B.f32", "R.f32"),
                *(repr(self.tolerance), *map(str, counts), *(f"{one:.6f}" for one in limits)),
            ],
            # the harness's own limits come first
            timeout=settings.timeout * sum(counts) + 10.0,
            folder=self.program.parent,
            memory=settings.memory,
            cpus=settings.cpus,
            stop=self.stop,
        )

    def _judged(self, count: int, finished: Finished, first: float) -> tuple[float, ...]:
        report = read_report(finished.out)
        values = tuple(seconds * self.settings.scale for seconds in report.seconds)
        if finished.ok and len(values) == count:
            return values
        overtime = finished.timed_out or finished.signal == "SIGALRM"
        if overtime and not values:
            message = f"run: stopped after {finished.seconds:.3g} s, the limit of a run being {first:.3g} s"
            raise StageFailure("timeout", message, bound=first * self.settings.scale)
        word, message = self._failure(finished, report, overtime)
        raise StageFailure(word, f"run: {message}", repeats=values)

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
