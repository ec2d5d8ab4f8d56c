"""The evaluator of CUDA kernels, its settings, and the metrics of a kernel: registers, memory and energy."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

from typing_extensions import override

from baco_like._optional import require_installed
from baco_like.evaluators._processes.exchange import Reply
from baco_like.evaluators._processes.worker import Worker
from baco_like.evaluators.kernels.settings import KernelSettings, kernel_keys, read_settings
from baco_like.evaluators.kernels.worker_bench import make_bench
from baco_like.evaluators.protocol import WrappingEvaluator
from baco_like.evaluators.settings_table import (
    FLAG,
    POSITIVE,
    TEXTS,
    Key,
    RunArguments,
    Table,
    whole,
)
from baco_like.evaluators.staged import StagedEvaluator
from baco_like.exceptions import EvaluatorError
from baco_like.records.reading import finite_number, read_metrics
from baco_like.records.trial import PROGRAM, SAME_PROGRAM, Outcome, Status, Trial
from baco_like.spaces.space import Space

_START_TIMEOUT = 60.0
"""Seconds until the worker enters the stage of the measurement, which sets its own limit."""

_JOULES = {"J": 1.0, "mJ": 1e3, "uJ": 1e6, "µJ": 1e6}
"""Units of energy in one joule."""


@dataclass(frozen=True)
class Metering:
    """How energy is measured.

    Attributes:
        seconds: Duration of one measurement; 0 to measure no energy.
        count: Number of measurements.
        scale: Units of the objective in one joule; None if the objective is time.
    """

    seconds: float = 0.0
    count: int = 1
    scale: float | None = None


TIME_ONLY = Metering()


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


_SHAPES = {"device": whole(0), "options": TEXTS, "warmup": whole(1), "flush": FLAG}

KEYS = (
    *(key for key in kernel_keys(CudaSettings, _SHAPES) if key.name != "memory"),
    Key(
        "energy_seconds",
        POSITIVE,
        "duration of one measurement of the energy",
        absent="1 if the unit is one of energy, else no energy is measured",
    ),
    Key("energy_repeats", whole(1), "measurements of the energy", default=1),
)


class MeteredEvaluator(WrappingEvaluator):
    """Adds metrics to the outcomes of correct kernels: ``registers``, ``local_bytes``, ``shared_bytes``.

    With a metering also ``energy`` (joules of a run) and ``power`` (watts). If energy is the objective, the metric
    ``time`` (milliseconds) takes the place of ``energy``.

    Args:
        inner: Measures the time of one kernel at a time.
        worker: The worker that ``inner`` uses.
        metering: How energy is measured.
    """

    def __init__(self, inner: StagedEvaluator, worker: Worker, metering: Metering) -> None:
        super().__init__(inner)
        self._worker, self._metering = worker, metering
        self._metered: dict[int, Outcome] = {}  # by trial; a later trial may have the same program

    @override
    def _convert_outcome(self, trial: Trial, outcome: Outcome) -> Outcome:
        first = outcome.extra.get(SAME_PROGRAM)
        if first in self._metered:
            metered = self._metered[first]
            return replace(metered, trial_id=outcome.trial_id, extra=outcome.extra)
        if first is not None:  # a resumed run has read it from its journal, with its metrics
            return outcome
        converted = self._add_metrics(outcome)
        if PROGRAM in outcome.extra:
            self._metered[outcome.trial_id] = converted
        return converted

    def _add_metrics(self, outcome: Outcome) -> Outcome:
        metering = self._metering
        if outcome.status is Status.CENSORED and metering.scale is not None:
            # The bound is one of time, and says nothing about the energy.
            return Outcome.failure(
                outcome.trial_id, "timeout", outcome.message, extra=outcome.extra
            )
        if outcome.status is not Status.OK:
            return outcome
        request = {"meter": metering.seconds, "count": metering.count}
        reply = self._worker.request(request, timeout=_START_TIMEOUT, check=self._check_reply)
        if not reply.ok:
            return outcome if metering.scale is None else reply.failure(outcome.trial_id)
        measured = reply.value
        readings = {name: measured[name] for name in ("energy", "power") if measured[name]}
        if metering.scale is not None:
            readings["time"] = outcome.repeats
            del readings["energy"]
        metered = read_metrics({**outcome.metrics, **measured["metrics"], **readings})
        if metering.scale is None:
            return replace(outcome, metrics=metered.numbers, metric_repeats=metered.repeats)
        values = tuple(joules * metering.scale for joules in measured["energy"])
        extra = {**outcome.extra, "times": list(outcome.repeats)}
        return Outcome.success(
            outcome.trial_id,
            values,
            metrics=metered.numbers,
            extra=extra,
            metric_repeats=metered.repeats,
        )

    def _check_reply(self, reply: Reply) -> None:
        """Refuse an answer that `Programs.read_metrics` does not give; the kernel itself may have written it."""
        if not reply.ok:
            return
        numbers = list(reply.value["metrics"].values())
        for name in ("energy", "power"):
            readings = reply.value[name]
            if not isinstance(readings, list) or bool(readings) != (self._metering.seconds > 0):
                raise ValueError(f"the {name} is {readings!r:.80}")
            numbers += readings
        scale = self._metering.scale or 1.0
        if not all(finite_number(n) is not None and math.isfinite(n * scale) for n in numbers):
            raise ValueError(f"the metrics are {reply.value!r:.200}")


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
    require_installed("cupy", "cupy")
    metering = settings.metering
    if metering.seconds > 0:
        require_installed("pynvml", "cupy")
    if settings.memory is not None:
        raise EvaluatorError(
            f"memory = {settings.memory}: leave it out, CUDA reserves more address space than it uses"
        )
    if metering.scale is not None and metering.seconds <= 0:
        raise EvaluatorError("energy_seconds = 0: expected more, as energy is the objective")
    # A slow kernel is not a kernel that needs much energy, and its bound would be one of time.
    slow_ratio = settings.repeats.slow_ratio
    if metering.scale is not None and slow_ratio is not None:
        raise EvaluatorError(f"slow_ratio = {slow_ratio}: leave it out, as energy is the objective")
    bench = make_bench(
        "baco_like.evaluators.gpu.cuda.programs:serve",
        settings,
        space,
        folder,
        # Everything is compiled before the first launch, which runs all warm-ups.
        launch_timeout=settings.timeout * max(settings.warmup, 1),
        device=settings.device,
        options=list(settings.options),
        warmup=settings.warmup,
        flush=settings.flush,
        energy=metering.seconds > 0,
    )
    return MeteredEvaluator(StagedEvaluator(bench, settings.repeats), bench.worker, metering)


def from_table(table: Table, run: RunArguments) -> MeteredEvaluator:
    """Return the evaluator that the ``[evaluator]`` table of a run file describes.

    Args:
        table: Keys as in `KEYS`.
        run: The parameters of its space are macros of the source; its unit is one of time or of energy (J, mJ, uJ).

    Raises:
        RunFileError: A key is unknown, missing or wrong.
        EvaluatorError: As for `cupy_evaluator`; also `MissingExtra`.
    """
    joules = _JOULES.get(run.unit)
    fields = read_settings(table, KEYS, run, None if joules is None else 1e3)
    seconds, count = fields.pop("energy_seconds"), fields.pop("energy_repeats")
    if seconds is None:
        seconds = float(joules is not None)
    metering = Metering(seconds, count, joules)
    return cupy_evaluator(run.space, CudaSettings(**fields, metering=metering), run.folder)
