"""Matrix multiplication in C: generated, compiled, run in a child process and checked.

It needs nothing but a C compiler, and has parameters of all kinds: a permutation (the loop order),
tile sizes, categories and switches. Parameters that a space leaves out keep the value of the plain
``ijk`` nest.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from baco_like.evaluators.c_loop_nest.bench import LoopNestBench, Settings
from baco_like.evaluators.c_loop_nest.source import DOMAINS, Schedule, kernel_source, violation
from baco_like.evaluators.processes.pinning import check_cpus, cpus_from_table
from baco_like.evaluators.processes.workplace import require_program
from baco_like.evaluators.repeats import KEYS as REPEATS_KEYS
from baco_like.evaluators.repeats import Repeats
from baco_like.evaluators.staged import StagedEvaluator
from baco_like.evaluators.table import Table, per_second, shown, suggestion
from baco_like.exceptions import EvaluatorError, RunFileError
from baco_like.records.trial import Outcome, Trial
from baco_like.spaces.parameter import Parameter
from baco_like.spaces.space import Space

__all__ = ["KEYS", "LoopNestEvaluator", "Settings", "schedule_of"]

KEYS = (
    "kind",
    "size",
    "compiler",
    "timeout",
    "build_timeout",
    "tolerance",
    "input_seed",
    "warmup",
    "memory",
    "cpus",
    "ahead",
    *REPEATS_KEYS,
)

FIVE = Repeats(5, 5)

_LISTED = 4096
"""Up to so many values of a parameter are checked in advance; more are checked as they come."""


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
        self, space: Space, settings: Settings, repeats: Repeats = FIVE, ahead: int = 0
    ) -> None:
        _check_space(space.parameters)
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
                timeout=table.positive("timeout", 10.0),
                build_timeout=table.positive("build_timeout", 60.0),
                tolerance=table.positive("tolerance", 1e-5),
                input_seed=table.whole("input_seed", 0),
                scale=scale,
                warmup=table.whole("warmup", 1, low=1),
                memory=table.bytes("memory") if table.has("memory") else None,
                cpus=cpus_from_table(table),
            ),
            Repeats.from_table(table, FIVE.least),
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
