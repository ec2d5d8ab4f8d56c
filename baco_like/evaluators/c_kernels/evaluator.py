"""The evaluator of kernels in C and its settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from baco_like.evaluators._processes.process import check_cpus, run_command
from baco_like.evaluators._processes.temporary import program_from_table, require_program
from baco_like.evaluators.c_kernels.bench import CKernelBench, CKernelSettings
from baco_like.evaluators.kernels.problems import completion, find_problem, load_problem
from baco_like.evaluators.kernels.settings import KERNEL_KEYS, read_settings
from baco_like.evaluators.settings_table import Table
from baco_like.evaluators.staged import StagedEvaluator
from baco_like.exceptions import EvaluatorError, Infeasible
from baco_like.spaces.space import Space


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
        complete = completion(path, settings.constants, space.parameters)
        problem = load_problem(path, settings.constants)
        compiler = require_program(settings.compiler, Path.cwd(), "[evaluator] compiler")
        if hasattr(problem, "requirements"):
            _require_flags(compiler, problem.requirements(space.parameters))
        if settings.cpus is not None:
            check_cpus(settings.cpus, "cpus")
        self.source_name = f"{path.stem}.c"
        self._c_bench = CKernelBench(problem, settings, compiler, complete)
        super().__init__(self._c_bench, settings.repeats, ahead)

    def source(self, config: Mapping[str, Any]) -> str:
        """Return the C source of a configuration.

        Raises:
            EvaluatorError: A value is not allowed, or the configuration has no correct program.
        """
        bench = self._c_bench
        try:
            text: str = bench.problem.source(bench.complete(config), bench.settings.size)
        except Infeasible as error:
            raise EvaluatorError(str(error)) from None
        return text


def from_table(table: Table, space: Space, unit: str, folder: Path) -> CKernelEvaluator:
    """Return the evaluator that the ``[evaluator]`` table of a TOML file describes.

    Args:
        table: The keys of every kernel, ``compiler``, ``flags``, ``warmup`` and ``ahead``.
        space: Its parameters are passed to the problem's ``source``.
        unit: The objective's unit, one of time.
        folder: Folder of the TOML file; relative paths of the problem and the compiler begin here.

    Raises:
        RunFileError: A key is unknown, missing or wrong.
        EvaluatorError: As for `CKernelEvaluator`.
    """
    table.only((*KERNEL_KEYS, "compiler", "flags", "warmup", "ahead"))
    settings = CKernelSettings(
        **read_settings(table, unit),
        compiler=program_from_table(table, "compiler", CKernelSettings.compiler, folder),
        flags=tuple(table.texts("flags", [])),
        warmup=table.whole("warmup", 1, low=1),
    )
    return CKernelEvaluator(space, settings, folder, table.whole("ahead", 0))


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
