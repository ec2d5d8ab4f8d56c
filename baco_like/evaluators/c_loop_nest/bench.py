"""Compiles, checks and times one loop nest after the other, with inputs and a harness that are made once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from baco_like.evaluators.bench import StageFailure
from baco_like.evaluators.c_loop_nest.harness import HARNESS
from baco_like.evaluators.c_loop_nest.source import (
    Schedule,
    compiler_flags,
    kernel_source,
    violation,
)
from baco_like.evaluators.kernels.harnessed import HarnessedKernel, Limits
from baco_like.evaluators.processes import process
from baco_like.evaluators.processes.process import Finished
from baco_like.evaluators.processes.stop import Stop
from baco_like.evaluators.processes.workplace import Workplace
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import Trial


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

    @property
    def limits(self) -> Limits:
        """What concerns the runs of it."""
        return Limits(self.timeout, self.scale, self.warmup, self.memory, self.cpus)


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

    def build(self, trial: Trial, seconds: dict[str, float]) -> HarnessedKernel:
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
        inputs = (str(settings.size), "A.f32", "B.f32", "R.f32")
        return HarnessedKernel(program, inputs, tolerance, settings.limits, seconds, self._stop)

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


def _write_matrices(settings: Settings, folder: Path) -> float:
    """Write inputs and reference; return the largest of ``|A| |B|``, by which errors scale."""
    rng = np.random.default_rng(settings.input_seed)
    shape = (settings.size, settings.size)
    a, b = (rng.uniform(-1.0, 1.0, shape).astype(np.float32) for _ in range(2))
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    for name, matrix in (("A", a), ("B", b), ("R", (wide_a @ wide_b).astype(np.float32))):
        (folder / f"{name}.f32").write_bytes(matrix.tobytes())
    return float((np.abs(wide_a) @ np.abs(wide_b)).max())
