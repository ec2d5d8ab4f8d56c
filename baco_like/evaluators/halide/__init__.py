"""Halide pipelines: schedules compiled just in time, checked and timed in a worker process.

Needs the extra ``halide``. Problems of ours are a matrix multiplication whose schedules are all right (``matmul``),
one of which half are refused for reasons that no known constraint tells (``matmul_hidden``) and a blur in two stages
(``blur``); each has a function ``space(size)``. A file of your own is a problem too: see
`baco_like.evaluators.kernels.problems`, with a function ``build(config, *buffers)`` that returns the scheduled
`halide.Func`.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from baco_like.evaluators._processes.pinning import cpus_from_table
from baco_like.evaluators._processes.worker import Worker
from baco_like.evaluators.kernels import FIVE_TIMES, KernelBench, measuring, time_scale
from baco_like.evaluators.kernels import KEYS as KERNEL_KEYS
from baco_like.evaluators.kernels.problems import completion, resolved
from baco_like.evaluators.kernels.serving import Plan
from baco_like.evaluators.repeats import KEYS as REPEATS
from baco_like.evaluators.repeats import Repeats
from baco_like.evaluators.settings_table import Table
from baco_like.evaluators.staged import StagedEvaluator
from baco_like.exceptions import MissingExtra
from baco_like.spaces.space import Space

PROBLEMS = ("matmul", "matmul_hidden", "blur")

KEYS = (
    "kind",
    "problem",
    "size",
    *REPEATS,
    *KERNEL_KEYS,
    "threads",
    "target",
    "memory",
    "cpus",
)


@dataclass(frozen=True)
class Settings:
    """How every schedule is compiled and measured.

    Attributes:
        problem: One of `PROBLEMS`, or the path of a file that is a problem.
        size: The problem's size: rows of the matrices, rows of the image.
        repeats: Measured runs after the first, which is not.
        timeout: Seconds for one run of the pipeline.
        build_timeout: Seconds for its compilation.
        tolerance: Largest difference from the reference, relative to the reference's largest element.
        input_seed: Seed of the inputs.
        threads: Threads of Halide's pool; None leaves it to Halide, which takes one per core.
        target: Halide's target, such as ``host`` or ``host-no_asserts``.
        memory: Bytes of address space of the worker, or None.
        cpus: The CPUs that the worker may use, or None: all.
        scale: What a second is in the objective's unit.
    """

    problem: str
    size: int
    repeats: Repeats = FIVE_TIMES
    timeout: float = 10.0
    build_timeout: float = 30.0
    tolerance: float = 1e-5
    input_seed: int = 0
    threads: int | None = None
    target: str = "host"
    memory: int | None = None
    cpus: frozenset[int] | None = None
    scale: float = 1e3

    @property
    def plan(self) -> Plan:
        """What the worker needs of it: a first run is a run, for all is compiled before."""
        return Plan(self.timeout, self.build_timeout, self.timeout, self.tolerance)


def halide_evaluator(space: Space, settings: Settings, folder: Path = Path()) -> StagedEvaluator:
    """Return an evaluator of schedules.

    Args:
        space: Its parameters are those of the problem; what it leaves out has the problem's default.
        settings: What is compiled and how it is measured.
        folder: Where a relative path of a problem begins.

    Raises:
        MissingExtra: Halide is not installed.
        RunFileError: The problem is neither one of ours nor a file.
        EvaluatorError: There is no such file, or the space has a parameter or a value that is not understood.
    """
    if importlib.util.find_spec("halide") is None:
        raise MissingExtra("halide", "halide")
    place = resolved(settings.problem, __name__, PROBLEMS, folder)
    complete = completion(settings.problem, place, space.parameters)
    worker = Worker(
        f"{__name__}.pipelines:serve",
        settings={
            "problem": place,
            "size": settings.size,
            "input_seed": settings.input_seed,
            "target": settings.target,
            "plan": settings.plan.to_dict(),
        },
        memory=settings.memory,
        cpus=settings.cpus,
        environment=_threads(settings.threads),
    )
    bench = KernelBench(worker, settings.plan, settings.scale, complete)
    return StagedEvaluator(bench, settings.repeats)


def _threads(count: int | None) -> dict[str, str]:
    return {} if count is None else {"HL_NUM_THREADS": str(count)}


def from_table(table: Table, space: Space, unit: str, folder: Path) -> StagedEvaluator:
    """Make it from the ``[evaluator]`` table of a TOML file.

    Args:
        table: Keys as in `KEYS`.
        space: Its parameters are those of the problem.
        unit: The objective's unit, one of time.
        folder: Where the TOML file stands, and a relative path of a problem begins.

    Raises:
        RunFileError: A key is unknown, missing or wrong.
        EvaluatorError: As for `halide_evaluator`, and `MissingExtra`.
    """
    table.only(KEYS)
    settings = Settings(
        problem=table.text("problem"),
        size=table.whole("size", low=1),
        repeats=Repeats.from_table(table, 5),
        **measuring(table),
        threads=table.whole("threads", low=1) if table.has("threads") else None,
        target=table.text("target", "host"),
        memory=table.bytes("memory") if table.has("memory") else None,
        cpus=cpus_from_table(table),
        scale=time_scale(table, unit, "halide"),
    )
    return halide_evaluator(space, settings, folder)
