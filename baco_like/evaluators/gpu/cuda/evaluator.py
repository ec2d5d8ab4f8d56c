"""The evaluator of CUDA kernels and its settings."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from baco_like.evaluators.gpu.cuda.metered import MeteredEvaluator, Metering
from baco_like.evaluators.kernels.settings import KEYS as KERNEL_KEYS
from baco_like.evaluators.kernels.settings import KernelSettings, read_settings
from baco_like.evaluators.kernels.timing import KernelLimits
from baco_like.evaluators.kernels.worker_bench import make_worker
from baco_like.evaluators.settings_table import Table
from baco_like.evaluators.staged import StagedEvaluator
from baco_like.exceptions import EvaluatorError, MissingExtra
from baco_like.spaces.space import Space

KEYS = (
    *(key for key in KERNEL_KEYS if key != "memory"),
    "device",
    "options",
    "warmup",
    "flush",
    "energy_seconds",
    "energy_repeats",
)

TIME_ONLY = Metering()

_JOULES = {"J": 1.0, "mJ": 1e3, "uJ": 1e6, "µJ": 1e6}
"""Units of energy in one joule."""


@dataclass(frozen=True)
class CudaSettings(KernelSettings):
    """How kernels are compiled and measured.

    Attributes:
        device: Number of the GPU.
        options: Additional options of NVRTC, such as ``--use_fast_math``.
        warmup: Runs before the measured ones, at least 1.
        flush: Whether the second-level cache is emptied before each run.
        metering: Whether energy is measured, or is the objective.
    """

    device: int = 0
    options: tuple[str, ...] = ()
    warmup: int = 1
    flush: bool = True
    metering: Metering = TIME_ONLY


def cupy_evaluator(space: Space, settings: CudaSettings, folder: Path = Path()) -> MeteredEvaluator:
    """Return an evaluator of CUDA kernels.

    Args:
        space: Its parameters are macros of the source.
        settings: How kernels are compiled and measured.
        folder: Folder of the problem file, if its path is relative.

    Raises:
        MissingExtra: CuPy is not installed; or the package pynvml, where energy is measured.
        RunFileError: The problem is not a Python file.
        EvaluatorError: The file does not exist, it does not have a parameter or a value of the space, or a setting
            is wrong.
    """
    metering = settings.metering
    for package, is_needed in (("cupy", True), ("pynvml", metering.seconds > 0)):
        if is_needed and importlib.util.find_spec(package) is None:
            raise MissingExtra(package, "cupy")
    _check_settings(settings)
    # Everything is compiled before the first launch, which runs all warm-ups.
    warmup_timeout = settings.timeout * max(settings.warmup, 1)
    limits = KernelLimits(
        settings.timeout, settings.build_timeout, warmup_timeout, settings.tolerance
    )
    worker, bench = make_worker(
        "baco_like.evaluators.gpu.cuda.programs:serve",
        settings,
        limits,
        space,
        folder,
        device=settings.device,
        options=list(settings.options),
        warmup=settings.warmup,
        flush=settings.flush,
        energy=metering.seconds > 0,
    )
    return MeteredEvaluator(StagedEvaluator(bench, settings.repeats), worker, metering)


def _check_settings(settings: CudaSettings) -> None:
    if settings.memory is not None:
        raise EvaluatorError(
            f"memory = {settings.memory}: leave it out, CUDA reserves more address space than it uses"
        )
    if settings.metering.scale is None:
        return
    if settings.metering.seconds <= 0:
        raise EvaluatorError("energy_seconds = 0: expected more, as energy is the objective")
    # A slow kernel is not a kernel that needs much energy, and its bound would be one of time.
    if settings.repeats.slow_ratio is not None:
        raise EvaluatorError(
            f"slow_ratio = {settings.repeats.slow_ratio}: leave it out, as energy is the objective"
        )


def from_table(table: Table, space: Space, unit: str, folder: Path) -> MeteredEvaluator:
    """Return the evaluator that the ``[evaluator]`` table of a TOML file describes.

    Args:
        table: Keys as in `KEYS`.
        space: Its parameters are macros of the source.
        unit: The objective's unit, one of time or of energy (J, mJ, uJ).
        folder: Folder of the TOML file.

    Raises:
        RunFileError: A key is unknown, missing or wrong.
        EvaluatorError: As for `cupy_evaluator`; also `MissingExtra`.
    """
    table.only(KEYS)
    joules = _JOULES.get(unit)
    has_seconds = table.has("energy_seconds")
    seconds = table.positive("energy_seconds") if has_seconds else float(joules is not None)
    settings = CudaSettings(
        **read_settings(table, unit, None if joules is None else 1e3),
        device=table.whole("device", 0),
        options=tuple(table.texts("options", [])),
        warmup=table.whole("warmup", 1, low=1),
        flush=table.flag("flush", True),
        metering=Metering(seconds, table.whole("energy_repeats", 1, low=1), joules),
    )
    return cupy_evaluator(space, settings, folder)
