"""Evaluate every configuration several times, and join the results to one outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from typing_extensions import override

from baco_like.evaluators.protocol import Evaluator, WrappingEvaluator, collect_rest
from baco_like.evaluators.repeats import BestValues, Repeats
from baco_like.records.reading import read_metrics
from baco_like.records.trial import Outcome, Status, Trial


class RepeatedEvaluator(WrappingEvaluator):
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
        super().__init__(inner)
        self._repeats = repeats
        self._series: dict[int, list[Outcome]] = {}  # evaluations so far, by trial number
        self._best = BestValues()

    def recall(self, trials: Sequence[Trial], fidelity: str | None = None) -> None:
        """Learn the best value of the trials that a resumed run has observed."""
        self._best = BestValues(fidelity, trials)

    @override
    def submit(self, trial: Trial) -> None:
        """Start the first evaluation of a trial."""
        self._series[trial.id] = []  # first: another thread may be waiting for the outcome
        super().submit(trial)

    @override
    def collect(self, timeout: float | None) -> Sequence[Outcome]:
        """Return the outcomes of trials with at least one evaluation, also with fewer repeats than required."""
        for outcome in collect_rest(self.inner, timeout):
            self._series[outcome.trial_id].append(outcome)
        series = [(trial, self._series[trial_id]) for trial_id, trial in self._pending.items()]
        self._pending.clear()
        return [self._join(trial, outcomes) for trial, outcomes in series if outcomes]

    @override
    def _convert(self, outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
        """Start the next evaluation of trials that need more, and return the outcomes of the others."""
        joined = []
        for outcome in outcomes:
            series = self._series[outcome.trial_id]
            series.append(outcome)
            is_ok = outcome.status is Status.OK
            trial = self._pending[outcome.trial_id]
            best = self._best.find(trial)
            if is_ok and self._repeats.missing(_all_values(series), best) > 0:
                self.inner.submit(trial)
            else:
                del self._pending[outcome.trial_id]
                joined.append(self._join(trial, series))
        return joined

    def _join(self, trial: Trial, series: Sequence[Outcome]) -> Outcome:
        """Return the outcome of all evaluations of a trial."""
        last, values = series[-1], _all_values(series)
        seconds: Counter[str] = Counter()
        for outcome in series:
            seconds.update(outcome.extra.get("seconds", {}))
        extra = {**last.extra, "seconds": dict(seconds)}
        if last.status is not Status.OK:
            if not values:
                return last
            message = f"repeat {len(values) + 1}: {last.message}"
            extra["repeats"] = list(values)
            return Outcome.failure(last.trial_id, last.failed or "runtime", message, extra=extra)
        slow = self._repeats.stopped_early(values, self._best.find(trial))
        if slow is not None:
            extra["repeats"] = list(values)
            return Outcome.censored(last.trial_id, min(values), message=slow, extra=extra)
        names = dict.fromkeys(name for outcome in series for name in outcome.metrics)
        metrics = read_metrics({name: _all_repeats(series, name) for name in names})
        joined = Outcome.success(
            last.trial_id,
            values,
            metrics=metrics.numbers,
            extra=extra,
            metric_repeats=metrics.repeats,
        )
        self._best.add(trial, joined.value)
        return joined


def _all_repeats(series: Sequence[Outcome], metric: str) -> tuple[float, ...]:
    known = (o for o in series if metric in o.metrics)
    return tuple(v for o in known for v in o.metric_repeats.get(metric, (o.metrics[metric],)))


def _all_values(series: Sequence[Outcome]) -> tuple[float, ...]:
    return tuple(value for outcome in series for value in outcome.repeats)
