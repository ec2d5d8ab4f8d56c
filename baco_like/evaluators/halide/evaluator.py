"""The evaluator of Halide pipelines and its settings."""

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

KEYS = (*KERNEL_KEYS, "threads", "target")


@dataclass(frozen=True)
class HalideSettings(KernelSettings):
    """How schedules are compiled and measured.

    Attributes:
        threads: Threads of Halide's pool; None for Halide's default, one per core.
        target: Halide's target, such as ``host`` or ``host-no_asserts``.
    """

    threads: int | None = None
    target: str = "host"


def halide_evaluator(
    space: Space, settings: HalideSettings, folder: Path = Path()
) -> StagedEvaluator:
    """Return an evaluator of Halide schedules.

    Args:
        space: Its parameters are passed to the problem's ``build``.
        settings: How schedules are compiled and measured.
        folder: Folder of the problem file, if its path is relative.

    Raises:
        MissingExtra: Halide is not installed.
        RunFileError: The problem is not a Python file.
        EvaluatorError: The file does not exist, or it does not have a parameter or a value of the space.
    """
    if importlib.util.find_spec("halide") is None:
        raise MissingExtra("halide", "halide")
    # The first run has the limit of any run: everything is compiled before it.
    limits = KernelLimits(
        settings.timeout, settings.build_timeout, settings.timeout, settings.tolerance
    )
    threads = settings.threads
    _, bench = make_worker(
        "baco_like.evaluators.halide.pipelines:serve",
        settings,
        limits,
        space,
        folder,
        environment={} if threads is None else {"HL_NUM_THREADS": str(threads)},
        target=settings.target,
    )
    return StagedEvaluator(bench, settings.repeats)


def from_table(table: Table, space: Space, unit: str, folder: Path) -> StagedEvaluator:
    """Return the evaluator that the ``[evaluator]`` table of a TOML file describes.

    Args:
        table: Keys as in `KEYS`.
        space: Its parameters are passed to the problem's ``build``.
        unit: The objective's unit, one of time.
        folder: Folder of the TOML file.

    Raises:
        RunFileError: A key is unknown, missing or wrong.
        EvaluatorError: As for `halide_evaluator`; also `MissingExtra`.
    """
    table.only(KEYS)
    settings = HalideSettings(
        **read_settings(table, unit),
        threads=table.whole("threads", low=1) if table.has("threads") else None,
        target=table.text("target", "host"),
    )
    return halide_evaluator(space, settings, folder)
