"""Compiles, checks and times one loop nest after the other, with inputs and a harness that are made once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
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
from baco_like.evaluators.kernels.workshop import Workshop
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
        self._workshop = Workshop(
            compiler, settings.build_timeout, HARNESS, partial(_write, settings)
        )

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
        tolerance = self._workshop.prepared()
        name = f"kernel-{trial.id}"
        source, program = (self._workshop.folder / end for end in (f"{name}.c", name))
        source.write_text(kernel_source(schedule, settings.size), encoding="ascii")
        try:
            flags = compiler_flags(schedule)
            files = (source.name, "harness.o", "-lm", "-o", program.name)
            built = self._workshop.run([self._compiler, *flags, *files])
        finally:
            source.unlink(missing_ok=True)
        seconds["compile"] = built.seconds
        if not built.ok:
            program.unlink(missing_ok=True)
            word = "timeout" if built.timed_out else "compile"
            raise StageFailure(word, f"build: {built.describe()}")
        inputs = (str(settings.size), "A.f32", "B.f32", "R.f32")
        stop = self._workshop.stop
        return HarnessedKernel(program, inputs, tolerance, settings.limits, seconds, stop)

    def close(self) -> None:
        """End compilers that are running, and remove the temporary folder."""
        self._workshop.close()


def _write(settings: Settings, folder: Path) -> float:
    """Write inputs and reference; return the absolute tolerance. Errors scale with the largest of ``|A| |B|``."""
    rng = np.random.default_rng(settings.input_seed)
    shape = (settings.size, settings.size)
    a, b = (rng.uniform(-1.0, 1.0, shape).astype(np.float32) for _ in range(2))
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    for name, matrix in (("A", a), ("B", b), ("R", (wide_a @ wide_b).astype(np.float32))):
        (folder / f"{name}.f32").write_bytes(matrix.tobytes())
    return settings.tolerance * float((np.abs(wide_a) @ np.abs(wide_b)).max())
