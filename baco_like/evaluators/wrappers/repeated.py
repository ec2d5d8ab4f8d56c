"""Evaluate every configuration several times, and join the results to one outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from baco_like.evaluators.protocol import Evaluator, collect_rest
from baco_like.evaluators.repeats import Repeats
from baco_like.records.trial import Outcome, Status, Trial, median


@dataclass
class _Series:
    """A trial with its evaluations so far."""

    trial: Trial
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(value for outcome in self.outcomes for value in outcome.repeats)

    def seconds(self) -> dict[str, float]:
        """Return the total time by stage."""
        total: Counter[str] = Counter()
        for outcome in self.outcomes:
            total.update(outcome.extra.get("seconds", {}))
        return dict(total)

    def metrics(self) -> dict[str, float]:
        """Return the median of each metric."""
        names = dict.fromkeys(name for outcome in self.outcomes for name in outcome.metrics)
        return {
            name: median(tuple(o.metrics[name] for o in self.outcomes if name in o.metrics))
            for name in names
        }


class RepeatedEvaluator:
    """Evaluates every trial as many times as a rule says.

    For evaluators in which one more evaluation is just one more measurement: a function, a recorded table that draws,
    a remote service. A `StagedEvaluator` follows such a rule itself, and builds only once.

    The first failure is the trial's outcome. A configuration that is clearly slower than the best
    (`Repeats.slow_ratio`) is censored: its value is at least its smallest measurement.

    Args:
        inner: Evaluates; one evaluation of a trial is pending at a time.
        repeats: The rule.
    """

    def __init__(self, inner: Evaluator, repeats: Repeats) -> None:
        self.inner = inner
        self._repeats = repeats
        self._pending: dict[int, _Series] = {}
        self._best: float | None = None

    @property
    def capacity(self) -> int:
        """Capacity of the inner evaluator."""
        return self.inner.capacity

    def submit(self, trial: Trial) -> None:
        """Start the first evaluation of a trial."""
        self.inner.submit(trial)
        self._pending[trial.id] = _Series(trial)

    def wait(self) -> Sequence[Outcome]:
        """Return the outcomes of finished trials, at least one."""
        outcomes: list[Outcome] = []
        while not outcomes:
            joined = [self._advance(outcome) for outcome in self.inner.wait()]
            outcomes = [outcome for outcome in joined if outcome is not None]
        return outcomes

    def collect(self, timeout: float | None) -> Sequence[Outcome]:
        """Return the outcomes of trials with at least one evaluation, also with fewer repeats than required."""
        for outcome in collect_rest(self.inner, timeout):
            self._pending[outcome.trial_id].outcomes.append(outcome)
        series = [each for each in self._pending.values() if each.outcomes]
        self._pending.clear()
        return [self._join(each) for each in series]

    def close(self) -> None:
        """Close the inner evaluator."""
        self._pending.clear()
        self.inner.close()

    def _advance(self, outcome: Outcome) -> Outcome | None:
        """Record an evaluation, and start the next one or return the trial's outcome."""
        series = self._pending[outcome.trial_id]
        series.outcomes.append(outcome)
        is_ok = outcome.status is Status.OK
        if is_ok and self._repeats.missing(series.values, self._best) > 0:
            self.inner.submit(series.trial)
            return None
        del self._pending[outcome.trial_id]
        return self._join(series)

    def _join(self, series: _Series) -> Outcome:
        """Return the outcome of all evaluations of a trial."""
        last, values = series.outcomes[-1], series.values
        extra = {**last.extra, "seconds": series.seconds()}
        if last.status is not Status.OK:
            if not values:
                return last
            message = f"repeat {len(values) + 1}: {last.message}"
            extra["repeats"] = list(values)
            return Outcome.failure(last.trial_id, last.failed or "runtime", message, extra=extra)
        slow = self._repeats.stopped_early(values, self._best)
        if slow is not None:
            extra["repeats"] = list(values)
            return Outcome.censored(last.trial_id, min(values), message=slow, extra=extra)
        joined = Outcome.success(last.trial_id, values, metrics=series.metrics(), extra=extra)
        assert joined.value is not None
        self._best = joined.value if self._best is None else min(self._best, joined.value)
        return joined
