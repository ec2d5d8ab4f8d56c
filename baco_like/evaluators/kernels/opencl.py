"""OpenCL kernels: built, launched, checked and timed by events in a worker process.

Needs the extra ``opencl`` and a driver; PoCL runs kernels on the CPU. A problem file
(`baco_like.evaluators.kernels.problems`) has four more names:

- ``SOURCE``: the OpenCL C source. Each parameter of the space is a macro of its name;
- ``KERNEL``: the name of the kernel; its arguments are the inputs and then the outputs, or as the problem's
  ``arguments`` say;
- ``macros(size)``: a mapping of additional macros;
- ``launch(config, size)``: the global and the local work size, two tuples.

Ready files: ``examples/kernels/opencl_*.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from baco_like._optional import require_installed
from baco_like._tables import Natural, Table
from baco_like.evaluators.kernels.bench import KernelSettings, make_bench, read_settings
from baco_like.evaluators.protocol import RunArguments
from baco_like.evaluators.staged import StagedEvaluator
from baco_like.spaces.space import Space


@dataclass(frozen=True)
class OpenCLSettings(KernelSettings):
    """How kernels are built and measured.

    Attributes:
        platform: Part of the platform's name or version, such as ``Portable`` for PoCL; empty for the first platform.
        device: Number of the device within the platform.
        options: Additional options of the OpenCL compiler.
    """

    platform: str = ""
    device: Natural = 0
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
    require_installed("pyopencl", "opencl")
    bench = make_bench(
        "baco_like.evaluators.kernels.opencl_worker:serve",
        settings,
        space,
        folder,
        launch_timeout=settings.build_timeout,  # some drivers compile during the first launch
        platform=settings.platform,
        device=settings.device,
        options=list(settings.options),
    )
    return StagedEvaluator(bench, settings.repeats, builds=settings.builds)


def from_table(table: Table, run: RunArguments) -> StagedEvaluator:
    """Return the evaluator that the ``[evaluator]`` table of a run file describes.

    Args:
        table: Keys as in `OpenCLSettings`.
        run: The parameters of its space are macros of the source; its unit is one of time.

    Raises:
        RunFileError: A key is unknown, missing or wrong.
        EvaluatorError: As for `opencl_evaluator`; also `MissingExtra`.
    """
    return opencl_evaluator(run.space, read_settings(OpenCLSettings, table, run), run.folder)
