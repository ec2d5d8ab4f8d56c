"""Several evaluations of every configuration, as one outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from baco_like.evaluators.protocol import Evaluator, collected
from baco_like.evaluators.repeats import Repeats
from baco_like.records.trial import Outcome, Status, Trial, median


@dataclass
class _Series:
    trial: Trial
    done: list[Outcome] = field(default_factory=list)

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(value for outcome in self.done for value in outcome.repeats)


class RepeatedEvaluator:
    """Evaluates every trial again and again, as a rule says, and joins what comes.

    For evaluators to which another evaluation is only another measurement: a function, a recorded table that draws, a
    remote service. Those with stages (`StagedEvaluator`) follow such a rule themselves, and build only once.

    The first failure is the trial's. A configuration that is clearly slower than the best (`Repeats.slow_ratio`) is a
    censored value: at least the smallest that was measured.

    Args:
        inner: Evaluates; one evaluation of a trial is in flight at a time.
        repeats: How often.
    """

    def __init__(self, inner: Evaluator, repeats: Repeats) -> None:
        self.inner = inner
        self._repeats = repeats
        self._flying: dict[int, _Series] = {}
        self._best: float | None = None

    @property
    def capacity(self) -> int:
        """That of the inner evaluator."""
        return self.inner.capacity

    def submit(self, trial: Trial) -> None:
        """Begin with a trial."""
        self.inner.submit(trial)
        self._flying[trial.id] = _Series(trial)

    def wait(self) -> Sequence[Outcome]:
        """Return the outcomes of trials that are done, at least one."""
        done: list[Outcome] = []
        while not done:
            done = [
                end for outcome in self.inner.wait() if (end := self._next(outcome)) is not None
            ]
        return done

    def collect(self, timeout: float | None) -> Sequence[Outcome]:
        """Return what there is of trials that were begun: those with fewer repeats than wanted, too."""
        left = [self._end(self._taken(outcome)) for outcome in collected(self.inner, timeout)]
        others = [series for series in self._flying.values() if series.done]
        self._flying.clear()
        return [*left, *map(self._end, others)]

    def close(self) -> None:
        """Close the inner evaluator."""
        self._flying.clear()
        self.inner.close()

    def _next(self, outcome: Outcome) -> Outcome | None:
        """Take an outcome; go on with its trial, or return what came of it."""
        series = self._flying[outcome.trial_id]
        series.done.append(outcome)
        more = outcome.status is Status.OK and self._repeats.missing(series.values, self._best) > 0
        if more:
            self.inner.submit(series.trial)
            return None
        return self._end(self._flying.pop(outcome.trial_id))

    def _taken(self, outcome: Outcome) -> _Series:
        series = self._flying.pop(outcome.trial_id)
        series.done.append(outcome)
        return series

    def _end(self, series: _Series) -> Outcome:
        last, values = series.done[-1], series.values
        extra = {**last.extra, "seconds": _seconds(series.done)}
        if last.status is not Status.OK:
            return _unlucky(last, values, extra)
        few = len(values) < self._repeats.most
        if few and self._repeats.hopeless(values, self._best):
            message = (
                f"stopped after {len(values)} of {self._repeats.most} repeats: more than "
                f"{self._repeats.slow_ratio:g} times the best, {self._best:.6g}"
            )
            extra["repeats"] = list(values)
            return Outcome.censored(last.trial_id, min(values), message=message, extra=extra)
        found = Outcome.success(last.trial_id, values, metrics=_metrics(series.done), extra=extra)
        assert found.value is not None
        self._best = found.value if self._best is None else min(self._best, found.value)
        return found


def _unlucky(last: Outcome, values: tuple[float, ...], extra: dict[str, Any]) -> Outcome:
    """Return the outcome of a trial whose last evaluation has failed, or has reached a limit, after others had not."""
    if not values:
        return last
    word = last.failed or "runtime"
    message = f"repeat {len(values) + 1}: {last.message}"
    return Outcome.failure(last.trial_id, word, message, extra={**extra, "repeats": list(values)})


def _seconds(done: Sequence[Outcome]) -> dict[str, float]:
    total: Counter[str] = Counter()
    for outcome in done:
        total.update(outcome.extra.get("seconds", {}))
    return dict(total)


def _metrics(done: Sequence[Outcome]) -> dict[str, float]:
    names = dict.fromkeys(name for outcome in done for name in outcome.metrics)
    return {
        name: median(tuple(one.metrics[name] for one in done if name in one.metrics))
        for name in names
    }
