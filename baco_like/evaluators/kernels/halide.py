"""Halide pipelines: schedules that are compiled just in time, checked and timed in a worker process.

Needs the extra ``halide``. A problem file (`baco_like.evaluators.kernels.problems`) has one more function:
``build(config, *buffers)`` returns the scheduled `halide.Func`. Ready files: ``examples/kernels/halide_*.py``.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from baco_like._optional import require_installed
from baco_like._tables import Count, Table
from baco_like.evaluators.kernels.bench import KernelSettings, make_bench, read_settings
from baco_like.evaluators.protocol import RunArguments
from baco_like.evaluators.staged import StagedEvaluator
from baco_like.exceptions import EvaluatorError
from baco_like.spaces.space import Space


@dataclass(frozen=True)
class HalideSettings(KernelSettings):
    """How schedules are compiled and measured.

    Attributes:
        flush: Whether the caches are emptied before each run.
        threads: Threads of Halide's pool; None: one per core.
        target: Halide's target, such as ``host`` or ``host-no_asserts``.
    """

    flush: bool = False
    threads: Count | None = None
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
        EvaluatorError: The file does not exist, or it does not have a parameter or a value of the space; or a file
            ``halide.py`` hides Halide.
    """
    require_installed("halide", "halide")
    found = importlib.util.find_spec("halide")
    if found is not None and found.submodule_search_locations is None:
        # A tuning script with this name would tune again in the worker that imports it.
        raise EvaluatorError(f"{found.origin} hides the package halide; rename this file")
    threads = settings.threads
    bench = make_bench(
        "baco_like.evaluators.kernels.halide_worker:serve",
        settings,
        space,
        folder,
        launch_timeout=settings.timeout,  # everything is compiled before the first run
        environment={} if threads is None else {"HL_NUM_THREADS": str(threads)},
        target=settings.target,
    )
    return StagedEvaluator(bench, settings.repeats, builds=settings.builds)


def from_table(table: Table, run: RunArguments) -> StagedEvaluator:
    """Return the evaluator that the ``[evaluator]`` table of a run file describes.

    Args:
        table: Keys as in `HalideSettings`.
        run: The parameters of its space are passed to the problem's ``build``; its unit is one of time.

    Raises:
        RunFileError: A key is unknown, missing or wrong.
        EvaluatorError: As for `halide_evaluator`; also `MissingExtra`.
    """
    return halide_evaluator(run.space, read_settings(HalideSettings, table, run), run.folder)
