"""Compile kernels in C and link them with a harness, in a temporary folder with inputs that are written once."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from baco_like.evaluators._processes import process
from baco_like.evaluators._processes.process import Finished, Stop
from baco_like.evaluators._processes.temporary import LazyFolder
from baco_like.evaluators.bench import StageFailure
from baco_like.evaluators.c_kernels.program import CProgram, RunLimits
from baco_like.evaluators.kernels.problems import Complete
from baco_like.evaluators.kernels.settings import KernelSettings
from baco_like.exceptions import EvaluatorError, Infeasible
from baco_like.records.trial import Trial

_HARNESS = Path(__file__).with_name("harness.c")

_C_TYPES = {"float32": "float", "float64": "double", "int32": "int", "int64": "long long"}
"""C type of the result by its NumPy type."""


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


class CKernelBench:
    """Compiles kernels.

    Failures: ``constraints`` (or another word) if the problem raises `Infeasible`, ``compile`` if the compiler fails,
    ``timeout`` if it takes too long. For failures of the run see `CProgram`.

    Args:
        problem: The problem file.
        settings: How kernels are compiled and measured.
        compiler: Path of the compiler.
        complete: Returns a configuration with the parameters that the space leaves out.
    """

    def __init__(
        self, problem: ModuleType, settings: CKernelSettings, compiler: str, complete: Complete
    ) -> None:
        self._problem, self._settings, self._compiler = problem, settings, compiler
        self._complete = complete
        self._limits = RunLimits(
            settings.timeout, settings.scale, settings.warmup, settings.memory, settings.cpus
        )
        self._folder, self._stop = LazyFolder(), Stop()
        self._lock = threading.Lock()  # several threads may build before the harness is there
        self._tolerance: float | None = None

    def build(self, trial: Trial, seconds: dict[str, float]) -> CProgram:
        """Compile the kernel of a configuration.

        Raises:
            StageFailure: The configuration has no correct program, or the compiler fails.
            EvaluatorError: A value is not allowed, or the harness cannot be compiled.
        """
        config, problem = self._complete(trial), self._problem
        tolerance = self._prepare()
        folder, name = self._folder.path, f"kernel-{trial.id}"
        source, program = folder / f"{name}.c", folder / name
        flags = list(problem.flags(config)) if hasattr(problem, "flags") else []
        variables = problem.environment(config) if hasattr(problem, "environment") else {}
        started = time.perf_counter()
        try:
            source.write_text(problem.source(config, self._settings.size), encoding="utf-8")
            built = self._run_tool([*flags, source.name, "harness.o", "-lm", "-o", program.name])
        except Infeasible as error:
            raise StageFailure(error.failed, str(error)) from None
        finally:
            source.unlink(missing_ok=True)
            seconds["compile"] = time.perf_counter() - started
        if not built.ok:
            program.unlink(missing_ok=True)
            word = "timeout" if built.timed_out else "compile"
            raise StageFailure(word, f"build: {built.describe()}")
        return CProgram(program, tolerance, self._limits, seconds, self._stop, variables)

    def close(self) -> None:
        """End running compilers and remove the folder; the next build prepares everything again."""
        self._stop.set()
        self._stop = Stop()
        self._folder.close()
        self._tolerance = None

    def _prepare(self) -> float:
        """Write the inputs and compile the harness, unless this is done; return the absolute tolerance."""
        with self._lock:
            if self._tolerance is None:
                tolerance = self._write_inputs()
                built = self._run_tool(["-O2", "-c", "harness.c", "-o", "harness.o"])
                if not built.ok:
                    raise EvaluatorError(
                        f"the compiler {self._compiler!r} fails on the harness: {built.describe()}"
                    )
                self._tolerance = tolerance
            return self._tolerance

    def _write_inputs(self) -> float:
        problem, settings = self._problem, self._settings
        inputs = problem.inputs(settings.size, np.random.default_rng(settings.input_seed))
        inputs = [np.ascontiguousarray(array) for array in inputs]
        expected = np.ascontiguousarray(problem.expected(*inputs))
        if expected.dtype.name not in _C_TYPES:
            known = ", ".join(_C_TYPES)
            raise EvaluatorError(f"the result has the type {expected.dtype}: expected {known}")
        with (self._folder.path / "arrays.bin").open("wb") as file:
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
        if hasattr(problem, "magnitude"):
            return settings.tolerance * float(problem.magnitude(*inputs))
        return settings.tolerance * (float(np.abs(expected).max(initial=0.0)) or 1.0)

    def _run_tool(self, arguments: Sequence[str]) -> Finished:
        folder = self._folder.path
        return process.run_command(
            [self._compiler, *self._settings.flags, *arguments],
            timeout=self._settings.build_timeout,
            folder=folder,
            environment={"TMPDIR": str(folder)},  # removed with what a killed compiler leaves there
            stop=self._stop,
        )
