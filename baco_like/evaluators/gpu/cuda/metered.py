"""Metrics of CUDA kernels: registers and memory, and energy as a metric or as the objective."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from typing_extensions import override

from baco_like.evaluators._processes.worker import Worker
from baco_like.evaluators.protocol import WrappingEvaluator
from baco_like.evaluators.staged import StagedEvaluator
from baco_like.records.trial import Outcome, Status, median

_START_TIMEOUT = 60.0
"""Seconds until the worker enters the stage of the measurement, which sets its own limit."""


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

    @override
    def _convert(self, outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
        return [self._add_metrics(outcome) for outcome in outcomes]

    def _add_metrics(self, outcome: Outcome) -> Outcome:
        metering = self._metering
        self._pending.pop(outcome.trial_id)
        if outcome.status is Status.CENSORED and metering.scale is not None:
            # The bound is one of time, and says nothing about the energy.
            return Outcome.failure(
                outcome.trial_id, "timeout", outcome.message, extra=outcome.extra
            )
        if outcome.status is not Status.OK:
            return outcome
        request = {"meter": metering.seconds, "count": metering.count}
        reply = self._worker.request(request, timeout=_START_TIMEOUT)
        if not reply.ok:
            return outcome if metering.scale is None else reply.failure(outcome.trial_id)
        measured = reply.value
        metrics = dict(measured["metrics"])
        metrics |= {
            name: median(tuple(measured[name])) for name in ("energy", "power") if measured[name]
        }
        if metering.scale is None:
            return replace(outcome, metrics={**outcome.metrics, **metrics})
        assert outcome.value is not None
        metrics["time"] = outcome.value
        del metrics["energy"]
        values = tuple(joules * metering.scale for joules in measured["energy"])
        extra = {**outcome.extra, "times": list(outcome.repeats)}
        return Outcome.success(outcome.trial_id, values, metrics=metrics, extra=extra)
