"""Who evaluated each trial and when, and which share of their time the workers were idle."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from baco_like.records.history import History
from baco_like.records.objective_values import finite_number
from baco_like.records.trial import WARM

WORKER = "worker"
"""Key in `Outcome.extra` of the record of a worker: see `worker_record`."""


@dataclass(frozen=True)
class Utilisation:
    """How busy the workers of a run were.

    Attributes:
        workers: Number of workers; a process that replaces a dead one is another worker.
        busy: Seconds that all workers together spent on evaluations whose results arrived.
        present: Seconds that all workers together were there, each from the start of its first evaluation to the end
            of its last one.
    """

    workers: int
    busy: float
    present: float

    @property
    def idle(self) -> float:
        """The share of their time in which the workers had no evaluation, from 0 to 1."""
        return max(0.0, 1.0 - self.busy / self.present) if self.present > 0.0 else 0.0

    def describe(self) -> str:
        """Return the number of workers and their idle share in words."""
        noun = "worker" if self.workers == 1 else "workers"
        return f"{self.workers} {noun}, idle {100.0 * self.idle:.1f} % of their time"


_START = time.time() - time.monotonic()


def steady_time() -> float:
    """Return the Unix time without the jumps that the clock makes while this process runs."""
    return _START + time.monotonic()


def worker_record(name: str, session: str, start: float, seconds: float) -> dict[str, Any]:
    """Return what an outcome keeps about its worker.

    Args:
        name: The worker: host and process, or the name of a device slot.
        session: Distinguishes workers of the same name in a run that was resumed.
        start: Unix time at which the evaluation began, by the clock of the worker.
        seconds: Duration of the evaluation.
    """
    return {
        "name": name,
        "session": session,
        "start": round(start, 3),
        "seconds": round(seconds, 6),
    }


def read_utilisation(history: History) -> Utilisation | None:
    """Return how busy the workers were, or None if no outcome names its worker.

    Only times of the same worker are compared, so that clocks of different machines do not matter. Outcomes from a
    cache do not count.
    """
    spans: dict[tuple[str, str], tuple[float, float]] = {}
    busy = 0.0
    for trial in history.trials:
        record = trial.extra.get(WORKER)
        if trial.origin == WARM or "cached" in trial.extra or not isinstance(record, Mapping):
            continue
        start, seconds = finite_number(record.get("start")), finite_number(record.get("seconds"))
        if start is None or seconds is None or seconds < 0.0:
            continue
        key = (str(record.get("session")), str(record.get("name")))
        first, last = spans.get(key, (start, start + seconds))
        spans[key] = (min(first, start), max(last, start + seconds))
        busy += seconds
    if not spans:
        return None
    return Utilisation(len(spans), busy, sum(last - first for first, last in spans.values()))
