"""The evaluator of OpenCL kernels and its settings."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from baco_like.evaluators.kernels.settings import KEYS as KERNEL_KEYS
from baco_like.evaluators.kernels.settings import KernelSettings, read_settings
from baco_like.evaluators.kernels.timing import KernelLimits
from baco_like.evaluators.kernels.worker_bench import make_worker
from baco_like.evaluators.settings_table import Table
from baco_like.evaluators.staged import StagedEvaluator
from baco_like.exceptions import MissingExtra
from baco_like.spaces.space import Space

KEYS = (*KERNEL_KEYS, "platform", "device", "options")


@dataclass(frozen=True)
class OpenCLSettings(KernelSettings):
    """How kernels are built and measured.

    Attributes:
        platform: Part of the platform's name or version, such as ``Portable`` for PoCL; empty for the first platform.
        device: Number of the device within the platform.
        options: Additional options of the OpenCL compiler.
    """

    platform: str = ""
    device: int = 0
    options: tuple[str, ...] = ()


def opencl_evaluator(
    space: Space, settings: OpenCLSettings, folder: Path = Path()
) -> StagedEvaluator:
    """Return an evaluator of OpenCL kernels.

    Args:
        space: Its parameters are macros of the source.
        settings: How kernels are built and measured.
        folder: Folder of the problem file, if its path is relative.

    Raises:
        MissingExtra: pyopencl is not installed.
        RunFileError: The problem is not a Python file.
        EvaluatorError: The file does not exist, or it does not have a parameter or a value of the space.
    """
    if importlib.util.find_spec("pyopencl") is None:
        raise MissingExtra("pyopencl", "opencl")
    # Some drivers compile during the first launch, which therefore has the limit of the build.
    limits = KernelLimits(
        settings.timeout, settings.build_timeout, settings.build_timeout, settings.tolerance
    )
    _, bench = make_worker(
        "baco_like.evaluators.gpu.opencl.programs:serve",
        settings,
        limits,
        space,
        folder,
        platform=settings.platform,
        device=settings.device,
        options=list(settings.options),
    )
    return StagedEvaluator(bench, settings.repeats)


def from_table(table: Table, space: Space, unit: str, folder: Path) -> StagedEvaluator:
    """Return the evaluator that the ``[evaluator]`` table of a TOML file describes.

    Args:
        table: Keys as in `KEYS`.
        space: Its parameters are macros of the source.
        unit: The objective's unit, one of time.
        folder: Folder of the TOML file.

    Raises:
        RunFileError: A key is unknown, missing or wrong.
        EvaluatorError: As for `opencl_evaluator`; also `MissingExtra`.
    """
    table.only(KEYS)
    settings = OpenCLSettings(
        **read_settings(table, unit),
        platform=table.text("platform") if table.has("platform") else "",
        device=table.whole("device", 0),
        options=tuple(table.texts("options", [])),
    )
    return opencl_evaluator(space, settings, folder)
