"""An evaluator of kernels that also tells what each of them needs, or has their energy as the objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from baco_like.evaluators._processes.worker import Reply, Worker
from baco_like.evaluators.staged import StagedEvaluator
from baco_like.records.trial import Outcome, Status, Trial, median

_SLACK = 60.0
"""Seconds until the worker enters its stage."""


@dataclass(frozen=True)
class Metering:
    """What is asked for.

    Attributes:
        seconds: Of one measurement of energy; not measured where 0.
        count: How many of them.
        scale: What a joule is in the objective's unit; None: the objective is time.
    """

    seconds: float = 0.0
    count: int = 1
    scale: float | None = None


class MeteredEvaluator:
    """Adds metrics to the outcomes of kernels that are right: ``registers``, ``local_bytes``, ``shared_bytes``.

    With a metering, ``energy`` (joules a run) and ``power`` (watts) too; where energy is the objective, ``time`` (in
    milliseconds) instead of it.

    Args:
        inner: Measures the time; one at a time.
        worker: In which it does.
        metering: What else is measured.
    """

    def __init__(self, inner: StagedEvaluator, worker: Worker, metering: Metering) -> None:
        self.inner, self._worker, self._metering = inner, worker, metering

    @property
    def capacity(self) -> int:
        """One."""
        return self.inner.capacity

    def submit(self, trial: Trial) -> None:
        """Queue a trial."""
        self.inner.submit(trial)

    def wait(self) -> Sequence[Outcome]:
        """Measure the trial that was submitted first, in the calling thread.

        Raises:
            EvaluatorError: No trial was submitted, or nothing can be built at all.
        """
        return [self._metered(outcome) for outcome in self.inner.wait()]

    def close(self) -> None:
        """End the worker."""
        self.inner.close()

    def _metered(self, outcome: Outcome) -> Outcome:
        energy = self._metering.scale is not None
        if outcome.status is Status.CENSORED and energy:  # the bound is one of time
            return Outcome.failure(
                outcome.trial_id, "timeout", outcome.message, extra=outcome.extra
            )
        if outcome.status is not Status.OK:
            return outcome
        plan = self._metering
        request = {"meter": plan.seconds, "count": plan.count}
        reply = self._worker.request(request, timeout=_SLACK)
        if not reply.ok:
            return reply.failure(outcome.trial_id) if energy else outcome
        return self._with_energy(outcome, reply) if energy else _with_metrics(outcome, reply)

    def _with_energy(self, outcome: Outcome, reply: Reply) -> Outcome:
        assert self._metering.scale is not None
        values = tuple(joules * self._metering.scale for joules in reply.value["energy"])
        metrics = {k: v for k, v in _metrics(reply).items() if k != "energy"}
        assert outcome.value is not None
        extra = {**outcome.extra, "times": list(outcome.repeats)}
        metrics["time"] = outcome.value
        return Outcome.success(outcome.trial_id, values, metrics=metrics, extra=extra)


def _with_metrics(outcome: Outcome, reply: Reply) -> Outcome:
    return replace(outcome, metrics={**outcome.metrics, **_metrics(reply)})


def _metrics(reply: Reply) -> Mapping[str, float]:
    told = reply.value
    lists = {name: tuple(told[name]) for name in ("energy", "power") if told[name]}
    return {**told["metrics"], **{name: median(values) for name, values in lists.items()}}
