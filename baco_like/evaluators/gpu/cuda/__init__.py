"""CUDA kernels by CuPy: compiled by NVRTC, launched, checked and timed by events in a worker process.

Needs the extra ``cupy`` and a GPU. Problems of ours are a 2-D convolution (``convolution``), a matrix multiplication
(``gemm``), points in a polygon (``pnpoly``) and a stencil over time (``hotspot``), each with a function
``space(size)``. A file of your own is a problem too: see `baco_like.evaluators.kernels.problems`, with ``SOURCE``
(CUDA C++), ``KERNEL`` (its name, or an instance of a template with placeholders: ``"scale<{tile}>"``), ``macros(size)``
(what the source wants to know besides the parameters, which are macros by their names) and ``launch(config, size)``
(grid and block). The kernel's arguments are the inputs and the output. Further names a file may have:

- ``CONSTANTS``: inputs by number that are no arguments but ``__constant__`` arrays, by their names;
- ``scratch(size)``: arrays as large as further ones that the kernel writes to, arguments after the output;
- ``launches(config, size)``: further arguments of each launch, where one run is several (numbers: ``int``, ``float``);
- ``shared_memory(config, size)``: bytes of dynamic shared memory.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baco_like.evaluators._processes.worker import Worker
from baco_like.evaluators.gpu.cuda.metered import MeteredEvaluator, Metering
from baco_like.evaluators.kernels import FIVE_TIMES, KernelBench, measuring, time_scale
from baco_like.evaluators.kernels import KEYS as KERNEL_KEYS
from baco_like.evaluators.kernels.problems import completion, resolved
from baco_like.evaluators.kernels.serving import Plan
from baco_like.evaluators.repeats import KEYS as REPEATS
from baco_like.evaluators.repeats import Repeats
from baco_like.evaluators.settings_table import Table
from baco_like.evaluators.staged import StagedEvaluator
from baco_like.exceptions import EvaluatorError, MissingExtra
from baco_like.spaces.space import Space

PROBLEMS = ("convolution", "gemm", "pnpoly", "hotspot")

KEYS = (
    "kind",
    "problem",
    "size",
    "device",
    "options",
    *REPEATS,
    "warmup",
    "flush",
    "energy_seconds",
    "energy_repeats",
    *KERNEL_KEYS,
)

TIME_ONLY = Metering()
_JOULES = {"J": 1.0, "mJ": 1e3, "uJ": 1e6, "µJ": 1e6}


@dataclass(frozen=True)
class Settings:
    """How every kernel is built and measured.

    Attributes:
        problem: One of `PROBLEMS`, or the path of a file that is a problem.
        size: The problem's size: rows of the result, for ``pnpoly`` points.
        device: Number of the GPU.
        options: Further options of NVRTC, such as ``--use_fast_math``.
        repeats: Measured runs after the warm-up.
        warmup: Runs before them, at least 1.
        flush: Whether the second-level cache is emptied before each run.
        metering: Whether energy is measured, or is the objective. With the latter, nothing may depend on a bound:
            no `Repeats.slow_ratio`.
        timeout: Seconds for one run.
        build_timeout: Seconds for the compilation.
        tolerance: Largest difference from the reference, relative to the reference's largest element.
        input_seed: Seed of the inputs.
        scale: What a second is in the objective's unit.
    """

    problem: str
    size: int
    device: int = 0
    options: tuple[str, ...] = ()
    repeats: Repeats = FIVE_TIMES
    warmup: int = 1
    flush: bool = True
    metering: Metering = TIME_ONLY
    timeout: float = 10.0
    build_timeout: float = 30.0
    tolerance: float = 1e-5
    input_seed: int = 0
    scale: float = 1e3

    @property
    def plan(self) -> Plan:
        """What the worker needs of it: all is compiled before the first run."""
        return Plan(
            self.timeout, self.build_timeout, self.timeout * max(self.warmup, 1), self.tolerance
        )


def cupy_evaluator(space: Space, settings: Settings, folder: Path = Path()) -> MeteredEvaluator:
    """Return an evaluator of kernels.

    Args:
        space: Its parameters are those of the problem; what it leaves out has the problem's default.
        settings: What is built and how it is measured.
        folder: Where a relative path of a problem begins.

    Raises:
        MissingExtra: CuPy is not installed, or NVML's package where energy is asked for.
        RunFileError: The problem is neither one of ours nor a file.
        EvaluatorError: There is no such file, the space has a parameter or a value that is not understood, or energy
            is the objective and ``slow_ratio`` is set.
    """
    metering = settings.metering
    for package, needed in (("cupy", True), ("pynvml", metering.seconds > 0)):
        if needed and importlib.util.find_spec(package) is None:
            raise MissingExtra(package, "cupy")
    _check_energy(settings)
    place = resolved(settings.problem, __name__, PROBLEMS, folder)
    complete = completion(settings.problem, place, space.parameters)
    worker = Worker(f"{__name__}.programs:serve", settings=_told(settings, place))
    bench = KernelBench(worker, settings.plan, settings.scale, complete)
    return MeteredEvaluator(StagedEvaluator(bench, settings.repeats), worker, metering)


def _check_energy(settings: Settings) -> None:
    if settings.metering.scale is None:
        return
    if settings.metering.seconds <= 0:
        raise EvaluatorError("energy_seconds = 0: expected more, as energy is the objective")
    if settings.repeats.slow_ratio is not None:
        raise EvaluatorError(
            f"slow_ratio = {settings.repeats.slow_ratio}: leave it out, as energy is the objective"
        )


def _told(settings: Settings, place: str) -> dict[str, Any]:
    """Return what the worker needs to know, as JSON values."""
    return {
        "problem": place,
        "size": settings.size,
        "input_seed": settings.input_seed,
        "device": settings.device,
        "options": list(settings.options),
        "warmup": settings.warmup,
        "flush": settings.flush,
        "energy": settings.metering.seconds > 0,
        "plan": settings.plan.to_dict(),
    }


def from_table(table: Table, space: Space, unit: str, folder: Path) -> MeteredEvaluator:
    """Make it from the ``[evaluator]`` table of a TOML file.

    Args:
        table: Keys as in `KEYS`.
        space: Its parameters are those of the problem.
        unit: The objective's unit, one of time; or of energy: J, mJ, uJ.
        folder: Where the TOML file stands, and a relative path of a problem begins.

    Raises:
        RunFileError: A key is unknown, missing or wrong.
        EvaluatorError: As for `cupy_evaluator`, and `MissingExtra`.
    """
    table.only(KEYS)
    joules = _JOULES.get(unit)
    repeats = Repeats.from_table(table, 5)
    settings = Settings(
        problem=table.text("problem"),
        size=table.whole("size", low=1),
        device=table.whole("device", 0),
        options=tuple(table.texts("options", [])),
        repeats=repeats,
        warmup=table.whole("warmup", 1, low=1),
        flush=table.flag("flush", True),
        metering=_metering(table, joules),
        **measuring(table),
        scale=1e3 if joules is not None else time_scale(table, unit, "cupy"),
    )
    return cupy_evaluator(space, settings, folder)


def _metering(table: Table, joules: float | None) -> Metering:
    default = 0.0 if joules is None else 1.0
    seconds = table.positive("energy_seconds") if table.has("energy_seconds") else default
    return Metering(seconds, table.whole("energy_repeats", 1, low=1), joules)
