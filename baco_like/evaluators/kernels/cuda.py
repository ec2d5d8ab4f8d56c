"""CUDA kernels by CuPy: compiled by NVRTC, launched, checked and timed by events in a worker process.

Needs the extra ``cuda`` and an Nvidia GPU. A problem file (`baco_like.evaluators.kernels.problems`) has four more
names:

- ``SOURCE``: the CUDA C++ source. Each parameter of the space is a macro of its name;
- ``KERNEL``: the name of the kernel, or an instance of a template with placeholders, such as ``"scale<{tile}>"``. Its
  arguments are the inputs and then the outputs, or as the problem's ``arguments`` say;
- ``macros(size)``: a mapping of additional macros;
- ``launch(config, size)``: the grid and the block, two tuples.

Optional names:

- ``CONSTANTS``: inputs that are ``__constant__`` arrays and not arguments, as a mapping from the array's name to the
  number of the argument;
- ``scratch(size)``: arrays like the other arrays that the kernel writes to; the last arguments;
- ``launches(config, size)``: the additional arguments (``int`` and ``float`` numbers) of each launch, if one run takes
  several launches;
- ``shared_memory(config, size)``: bytes of dynamic shared memory.

Ready files: ``examples/kernels/cuda_*.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from typing_extensions import override

from baco_like._optional import require_installed
from baco_like._tables import Count, Given, Natural, Positive, Table
from baco_like.evaluators.kernels.bench import (
    KernelSettings,
    WorkerKernel,
    make_bench,
    read_settings,
)
from baco_like.evaluators.protocol import RunArguments
from baco_like.evaluators.repeats import Repeats
from baco_like.evaluators.staged import StagedEvaluator, StageFailure
from baco_like.exceptions import EvaluatorError
from baco_like.spaces.space import Space

_JOULES = {"J": 1.0, "mJ": 1e3, "uJ": 1e6, "µJ": 1e6}
"""Units of energy in one joule."""


@dataclass(frozen=True)
class CudaSettings(KernelSettings):
    """How kernels are compiled and measured.

    Attributes:
        device: Number of the GPU.
        options: Additional options of NVRTC, such as ``--use_fast_math``.
        energy_seconds: Duration of one measurement of the energy; None: 1 if the unit is one of energy, else no energy
            is measured.
        energy_repeats: Measurements of the energy.
        joules: Units of the objective in one joule; None if the objective is time.
    """

    memory: Given[int | None] = None
    device: Natural = 0
    options: tuple[str, ...] = ()
    flush: bool | Literal["rotate"] = True
    energy_seconds: Positive | None = None
    energy_repeats: Count = 1
    joules: Given[float | None] = None

    @property
    def seconds(self) -> float:
        """Duration of one measurement of the energy; 0 to measure none."""
        default = 0.0 if self.joules is None else 1.0
        return default if self.energy_seconds is None else self.energy_seconds


class CudaKernel(WorkerKernel):
    """A kernel in the worker, whose energy may be measured, too.

    Args:
        settings: How energy is measured.
        kernel: Arguments of `WorkerKernel`.

    Attributes:
        times: The measured times, if energy is the objective.
        power: The measured power in watts.
    """

    times: tuple[float, ...] = ()
    power: tuple[float, ...] = ()

    def __init__(self, settings: CudaSettings, *kernel: Any) -> None:
        super().__init__(*kernel)
        self._settings = settings

    @override
    def measure(self, count: int, limit: float | None, near: float) -> tuple[float, ...]:
        if self._settings.joules is None:
            return super().measure(count, limit, near)
        if not self.times:
            try:
                self.times = super().measure(self._settings.repeats.repeats, None, math.inf)
            except StageFailure as failure:
                failure.bound, failure.repeats = None, ()  # they say nothing about the energy
                raise
        return tuple(joules * self._settings.joules for joules in self._read_energy(count))

    @override
    def metrics(self) -> Mapping[str, Any]:
        """Return the metrics of every kernel, and ``power`` and ``energy``, or ``time`` if energy is the objective."""
        metrics = dict(super().metrics())
        if self._settings.joules is not None:
            metrics["time"] = self.times
        elif self._settings.seconds > 0:
            try:
                metrics["energy"] = self._read_energy(self._settings.energy_repeats)
            except StageFailure as failure:
                if failure.word == "correctness":
                    raise
                # The time is known nevertheless.
        return {**metrics, "power": self.power} if self.power else metrics

    def _read_energy(self, count: int) -> tuple[float, ...]:
        """Return ``count`` measurements of the joules of a run.

        Raises:
            StageFailure: A run has failed.
        """
        reply = self._request_measurement({"meter": self._settings.seconds, "count": count})
        notes, reply.notes = reply.notes, ()  # they are not times
        self.read(reply)
        self.power += notes[1::2]
        return notes[::2]


def cuda_evaluator(space: Space, settings: CudaSettings, folder: Path = Path()) -> StagedEvaluator:
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
    require_installed("cupy", "cuda")
    if settings.seconds > 0:
        require_installed("pynvml", "cuda")
    if settings.memory is not None:
        raise EvaluatorError(
            f"memory = {settings.memory}: leave it out, CUDA reserves more address space than it uses"
        )
    if settings.joules is not None and settings.seconds <= 0:
        raise EvaluatorError("energy_seconds = 0: expected more, as energy is the objective")
    # A slow kernel is not a kernel that needs much energy, and its bound would be one of time.
    slow_ratio = settings.repeats.slow_ratio
    if settings.joules is not None and slow_ratio is not None:
        raise EvaluatorError(f"slow_ratio = {slow_ratio}: leave it out, as energy is the objective")
    bench = make_bench(
        "baco_like.evaluators.kernels.cuda_worker:serve",
        settings,
        space,
        folder,
        launch_timeout=settings.timeout,  # everything is compiled before the first launch
        kernel=partial(CudaKernel, settings),
        device=settings.device,
        options=list(settings.options),
        energy=settings.seconds > 0,
    )
    rule = settings.repeats if settings.joules is None else Repeats(settings.energy_repeats)
    return StagedEvaluator(bench, rule, builds=settings.builds)


def from_table(table: Table, run: RunArguments) -> StagedEvaluator:
    """Return the evaluator that the ``[evaluator]`` table of a run file describes.

    Args:
        table: Keys as in `CudaSettings`.
        run: The parameters of its space are macros of the source; its unit is one of time or of energy (J, mJ, uJ).

    Raises:
        RunFileError: A key is unknown, missing or wrong.
        EvaluatorError: As for `cuda_evaluator`; also `MissingExtra`.
    """
    joules = _JOULES.get(run.unit)
    scale = None if joules is None else 1e3
    settings = read_settings(CudaSettings, table, run, scale, joules=joules)
    return cuda_evaluator(run.space, settings, run.folder)
