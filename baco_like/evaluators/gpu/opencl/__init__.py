"""OpenCL kernels: built, launched, checked and timed by events in a worker process.

Needs the extra ``opencl`` and a driver; PoCL runs kernels on the CPU. Problems of ours are a 2-D convolution
(``convolution``) and a matrix multiplication (``gemm``), each with a function ``space(size)``. A file of your own is
a problem too: see `baco_like.evaluators.kernels.problems`, with ``SOURCE``, ``KERNEL``, ``macros(size)`` (what the
source wants to know besides the parameters, which are macros by their names) and ``launch(config, size)`` (global and
local size). The kernel's arguments are the inputs and the output.
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

PROBLEMS = ("convolution", "gemm")

KEYS = (
    "kind",
    "problem",
    "size",
    "platform",
    "device",
    "options",
    *REPEATS,
    *KERNEL_KEYS,
    "memory",
    "cpus",
)


@dataclass(frozen=True)
class Settings:
    """How every kernel is built and measured.

    Attributes:
        problem: One of `PROBLEMS`, or the path of a file that is a problem.
        size: The problem's size: rows of the result.
        platform: Part of the platform's name or version, such as ``Portable`` for PoCL; empty for the first one.
        device: Number of the device within it.
        options: Further options of the OpenCL compiler.
        repeats: Measured launches after the first, which is not.
        timeout: Seconds for one launch.
        build_timeout: Seconds for the build, and for the first launch, in which drivers go on compiling.
        tolerance: Largest difference from the reference, relative to the reference's largest element.
        input_seed: Seed of the inputs.
        memory: Bytes of address space of the worker, or None.
        cpus: The CPUs that the worker may use, or None: all.
        scale: What a second is in the objective's unit.
    """

    problem: str
    size: int
    platform: str = ""
    device: int = 0
    options: tuple[str, ...] = ()
    repeats: Repeats = FIVE_TIMES
    timeout: float = 10.0
    build_timeout: float = 30.0
    tolerance: float = 1e-5
    input_seed: int = 0
    memory: int | None = None
    cpus: frozenset[int] | None = None
    scale: float = 1e3

    @property
    def plan(self) -> Plan:
        """What the worker needs of it."""
        return Plan(self.timeout, self.build_timeout, self.build_timeout, self.tolerance)


def opencl_evaluator(space: Space, settings: Settings, folder: Path = Path()) -> StagedEvaluator:
    """Return an evaluator of kernels.

    Args:
        space: Its parameters are those of the problem; what it leaves out has the problem's default.
        settings: What is built and how it is measured.
        folder: Where a relative path of a problem begins.

    Raises:
        MissingExtra: pyopencl is not installed.
        RunFileError: The problem is neither one of ours nor a file.
        EvaluatorError: There is no such file, or the space has a parameter or a value that is not understood.
    """
    if importlib.util.find_spec("pyopencl") is None:
        raise MissingExtra("pyopencl", "opencl")
    place = resolved(settings.problem, __name__, PROBLEMS, folder)
    complete = completion(settings.problem, place, space.parameters)
    worker = Worker(
        f"{__name__}.programs:serve",
        settings={
            "problem": place,
            "size": settings.size,
            "input_seed": settings.input_seed,
            "platform": settings.platform,
            "device": settings.device,
            "options": list(settings.options),
            "plan": settings.plan.to_dict(),
        },
        memory=settings.memory,
        cpus=settings.cpus,
    )
    bench = KernelBench(worker, settings.plan, settings.scale, complete)
    return StagedEvaluator(bench, settings.repeats)


def from_table(table: Table, space: Space, unit: str, folder: Path) -> StagedEvaluator:
    """Make it from the ``[evaluator]`` table of a TOML file.

    Args:
        table: Keys as in `KEYS`.
        space: Its parameters are those of the problem.
        unit: The objective's unit, one of time.
        folder: Where the TOML file stands, and a relative path of a problem begins.

    Raises:
        RunFileError: A key is unknown, missing or wrong.
        EvaluatorError: As for `opencl_evaluator`, and `MissingExtra`.
    """
    table.only(KEYS)
    settings = Settings(
        problem=table.text("problem"),
        size=table.whole("size", low=1),
        platform=table.text("platform", "") if table.has("platform") else "",
        device=table.whole("device", 0),
        options=tuple(table.texts("options", [])),
        repeats=Repeats.from_table(table, 5),
        **measuring(table),
        memory=table.bytes("memory") if table.has("memory") else None,
        cpus=cpus_from_table(table),
        scale=time_scale(table, unit, "opencl"),
    )
    return opencl_evaluator(space, settings, folder)
