"""Sparse tensor kernels, scheduled by TACO: written by its command-line tool, compiled, checked and timed.

Needs the program ``taco`` on PATH (or where the settings say) and a C compiler with OpenMP. The kernels are those of
`baco_like.evaluators.taco.templates.TEMPLATES`, each with a `space` of schedules: ``spmm``, ``sddmm``, ``mttkrp``,
``spmv``, ``ttv``.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from baco_like.evaluators._processes.pinning import check_cpus, cpus_from_table
from baco_like.evaluators._processes.workplace import program_from_table, require_program
from baco_like.evaluators.kernels import FIVE_TIMES, measuring, time_scale
from baco_like.evaluators.kernels import KEYS as KERNEL_KEYS
from baco_like.evaluators.kernels.domains import check_parameters, completed
from baco_like.evaluators.kernels.harnessed import Limits
from baco_like.evaluators.repeats import KEYS as REPEATS
from baco_like.evaluators.repeats import Repeats
from baco_like.evaluators.settings_table import Table, shown, suggestion
from baco_like.evaluators.staged import StagedEvaluator
from baco_like.evaluators.taco.bench import Operands, TacoBench, Tools
from baco_like.evaluators.taco.templates import TEMPLATES
from baco_like.exceptions import EvaluatorError, RunFileError
from baco_like.spaces.space import Space

KEYS = (
    "kind",
    "problem",
    "size",
    "tensor",
    "columns",
    "taco",
    "compiler",
    "flags",
    *REPEATS,
    "warmup",
    "ahead",
    *KERNEL_KEYS,
    "memory",
    "cpus",
)

FLAGS = ("-O3", "-march=native", "-ffast-math", "-fopenmp")


@dataclass(frozen=True)
class Settings:
    """How every kernel is built and measured.

    Attributes:
        problem: One of `TEMPLATES`.
        size: Rows of the sparse operand, which is made.
        tensor: A file (``.mtx``, ``.tns``) with the sparse operand instead.
        columns: Size of the index that is in dense operands only.
        taco: Program name or path.
        compiler: Program name or path.
        flags: Its flags for kernels.
        repeats: Measured runs after the warm-up.
        warmup: Runs before them, at least 1: the first is checked.
        timeout: Seconds for one run of the kernel.
        build_timeout: Seconds for taco, and for the compiler.
        tolerance: Largest difference from SciPy's result, relative to its largest element.
        input_seed: Seed of what is made.
        memory: Bytes of address space that a run may have, or None.
        cpus: The CPUs that runs may use; None: all.
        scale: What a second is in the objective's unit.
    """

    problem: str
    size: int = 1
    tensor: Path | None = None
    columns: int = 64
    taco: str = "taco"
    compiler: str = "cc"
    flags: tuple[str, ...] = FLAGS
    repeats: Repeats = FIVE_TIMES
    warmup: int = 1
    timeout: float = 10.0
    build_timeout: float = 60.0
    tolerance: float = 1e-9
    input_seed: int = 0
    memory: int | None = None
    cpus: frozenset[int] | None = None
    scale: float = 1e3

    @property
    def limits(self) -> Limits:
        """What concerns the runs."""
        return Limits(self.timeout, self.scale, self.warmup, self.memory, self.cpus)


def taco_evaluator(space: Space, settings: Settings, ahead: int = 0) -> StagedEvaluator:
    """Return an evaluator of schedules.

    Args:
        space: Its parameters are those of the kernel; what it leaves out is as in the reference configuration, on one
            thread.
        settings: What is built and how it is measured.
        ahead: How many kernels are built while another is measured.

    Raises:
        RunFileError: There is no such kernel.
        EvaluatorError: A program or the tensor's file is not there, or the space has a parameter or a value that is
            not understood.
    """
    if settings.problem not in TEMPLATES:
        raise RunFileError(
            f"problem = {shown(settings.problem)}; {suggestion(settings.problem, TEMPLATES)}"
        )
    template = TEMPLATES[settings.problem]
    check_parameters(settings.problem, template.domains, space.parameters)
    taco, compiler = (
        require_program(getattr(settings, name), Path.cwd(), f"[evaluator] {name}")
        for name in ("taco", "compiler")
    )
    if settings.tensor is not None and not settings.tensor.is_file():
        raise EvaluatorError(f"tensor = {shown(str(settings.tensor))}: there is no such file")
    if settings.cpus is not None:
        check_cpus(settings.cpus, "cpus")

    operands = Operands(
        template, settings.size, settings.tensor, settings.columns, settings.input_seed
    )
    tools = Tools(taco, compiler, settings.flags, settings.build_timeout)
    bench = TacoBench(
        operands,
        tools,
        settings.limits,
        settings.tolerance,
        functools.partial(completed, settings.problem, template.domains),
    )
    return StagedEvaluator(bench, settings.repeats, ahead)


def from_table(table: Table, space: Space, unit: str, folder: Path) -> StagedEvaluator:
    """Make it from the ``[evaluator]`` table of a TOML file.

    Args:
        table: Keys as in `KEYS`.
        space: Its parameters are those of the kernel.
        unit: The objective's unit, one of time.
        folder: Where relative paths begin.

    Raises:
        RunFileError: A key is unknown, missing or wrong.
        EvaluatorError: As for `taco_evaluator`.
    """
    table.only(KEYS)
    given = table.has("tensor")
    if given and table.has("size"):
        raise table.wrong("size", table.entries["size"], "either it or tensor")
    settings = Settings(
        problem=table.text("problem"),
        size=1 if given else table.whole("size", low=1),
        tensor=folder / table.text("tensor") if given else None,
        columns=table.whole("columns", 64, low=1),
        taco=program_from_table(table, "taco", Settings.taco, folder),
        compiler=program_from_table(table, "compiler", Settings.compiler, folder),
        flags=tuple(table.texts("flags", list(FLAGS))),
        repeats=Repeats.from_table(table, 5),
        warmup=table.whole("warmup", 1, low=1),
        **measuring(table),
        memory=table.bytes("memory") if table.has("memory") else None,
        cpus=cpus_from_table(table),
        scale=time_scale(table, unit, "taco"),
    )
    return taco_evaluator(space, settings, table.whole("ahead", 0))
