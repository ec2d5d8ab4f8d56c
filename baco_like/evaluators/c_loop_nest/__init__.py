"""Matrix multiplication in C: generated, compiled, run in a child process and checked.

It needs nothing but a C compiler, and has parameters of all kinds: a permutation (the loop order),
tile sizes, categories and switches. Parameters that a space leaves out keep the value of the plain
``ijk`` nest.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from baco_like.evaluators._processes.pinning import check_cpus, cpus_from_table
from baco_like.evaluators._processes.workplace import program_from_table, require_program
from baco_like.evaluators.c_loop_nest.bench import LoopNestBench, Settings
from baco_like.evaluators.c_loop_nest.source import DOMAINS, Schedule, kernel_source, violation
from baco_like.evaluators.kernels import FIVE_TIMES, measuring, time_scale
from baco_like.evaluators.kernels import KEYS as KERNEL_KEYS
from baco_like.evaluators.kernels.domains import check_parameters, completed, values_of
from baco_like.evaluators.repeats import KEYS as REPEATS_KEYS
from baco_like.evaluators.repeats import Repeats
from baco_like.evaluators.settings_table import Table
from baco_like.evaluators.staged import StagedEvaluator
from baco_like.exceptions import EvaluatorError
from baco_like.parameters.protocol import Parameter
from baco_like.records.trial import Outcome, Trial
from baco_like.spaces.space import Space

__all__ = ["KEYS", "LoopNestEvaluator", "Settings", "schedule_of"]

KEYS = (
    "kind",
    "size",
    "compiler",
    *KERNEL_KEYS,
    "warmup",
    "memory",
    "cpus",
    "ahead",
    *REPEATS_KEYS,
)


class LoopNestEvaluator:
    """Compiles and times one loop nest after the other.

    A compiler that fails is the failure ``compile``, a result that differs from NumPy's
    ``correctness``, a crash ``runtime`` with its signal, a schedule that cannot be right (a tile
    that does not divide the size, threads that share a sum) ``constraints``. A warm-up that takes
    longer than the limit is censored at the limit.

    Args:
        space: Its parameters are fields of `Schedule`.
        settings: How kernels are compiled and measured.
        repeats: How often.
        ahead: How many kernels are compiled while another is measured.

    Raises:
        EvaluatorError: The space has a parameter or a value that is not understood, or the compiler
            is not there.
    """

    def __init__(
        self, space: Space, settings: Settings, repeats: Repeats = FIVE_TIMES, ahead: int = 0
    ) -> None:
        check_parameters("c_loop_nest", DOMAINS, space.parameters)
        compiler = require_program(settings.compiler, Path.cwd(), "[evaluator] compiler")
        if _may_use_threads(space.parameters):
            _require_openmp(compiler)
        if settings.cpus is not None:
            check_cpus(settings.cpus, "cpus")
        self._size = settings.size
        self._staged = StagedEvaluator(
            LoopNestBench(settings, compiler, schedule_of), repeats, ahead
        )

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
        scale = time_scale(table, unit, "c_loop_nest")
        return cls(
            space,
            Settings(
                size=table.whole("size", low=1),
                compiler=program_from_table(table, "compiler", Settings.compiler, folder),
                **measuring(table),
                scale=scale,
                warmup=table.whole("warmup", 1, low=1),
                memory=table.bytes("memory") if table.has("memory") else None,
                cpus=cpus_from_table(table),
            ),
            Repeats.from_table(table, FIVE_TIMES.least),
            table.whole("ahead", 0),
        )

    @property
    def capacity(self) -> int:
        """One that is measured, and those that are compiled ahead."""
        return self._staged.capacity

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
        problem = violation(schedule, self._size)
        if problem:
            raise EvaluatorError(problem)
        return kernel_source(schedule, self._size)

    def submit(self, trial: Trial) -> None:
        """Queue a trial; its kernel is compiled at once where that is done ahead."""
        self._staged.submit(trial)

    def wait(self) -> Sequence[Outcome]:
        """Measure one trial, in the calling thread.

        Raises:
            EvaluatorError: No trial was submitted, a value is not understood, or the harness does
                not compile.
        """
        return self._staged.wait()

    def close(self) -> None:
        """Forget what is queued and remove the temporary folder."""
        self._staged.close()


def schedule_of(config: Mapping[str, Any]) -> Schedule:
    """Return the schedule that a configuration stands for.

    Raises:
        EvaluatorError: A parameter or a value is not understood.
    """
    return Schedule(**completed("c_loop_nest", DOMAINS, config))


def _may_use_threads(parameters: Mapping[str, Parameter]) -> bool:
    return "threads" in parameters and max(values_of(parameters["threads"])) > 1


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
