"""Evaluators around evaluators: each adds one feature to any other evaluator, and they can be nested."""

from __future__ import annotations

import itertools
import secrets
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from typing_extensions import override

from baco_like.evaluators.executors.base import FuturesEvaluator, end_calls
from baco_like.evaluators.protocol import Evaluator, collect_rest, recall_history, take_late
from baco_like.evaluators.repeats import BestValues, Repeats
from baco_like.evaluators.result_cache import ResultCache
from baco_like.evaluators.slots import resolve_slots
from baco_like.exceptions import BacoWarning, EvaluatorError
from baco_like.records.objective_values import read_metrics
from baco_like.records.trial import Outcome, Status, Trial
from baco_like.records.workers import WORKER, steady_time, worker_record


class WrappingEvaluator:
    """Base of evaluators around another one: passes trials on, and converts the outcomes.

    Subclasses override `_convert_outcome`, or `_convert` if a trial may need further evaluations.

    Args:
        inner: The wrapped evaluator.
    """

    def __init__(self, inner: Evaluator) -> None:
        self.inner = inner
        self._pending: dict[int, Trial] = {}

    @property
    def capacity(self) -> int:
        """Capacity of the inner evaluator."""
        return self.inner.capacity

    def submit(self, trial: Trial) -> None:
        """Pass a trial to the inner evaluator."""
        self._pending[trial.id] = trial  # first: another thread may be waiting for the outcome
        try:
            self.inner.submit(trial)
        except BaseException:
            del self._pending[trial.id]
            raise

    def wait(self) -> Sequence[Outcome]:
        """Return converted outcomes, at least one unless the inner evaluator has returned none."""
        while True:
            received = self.inner.wait()
            outcomes = self._convert(received)
            if outcomes or not received:
                return outcomes

    def collect(self, timeout: float | None) -> Sequence[Outcome]:
        """Return the outcomes that the inner evaluator has left, converted."""
        return self._convert(collect_rest(self.inner, timeout))

    def take_late(self) -> Sequence[Trial]:
        """Return the late results of the inner evaluator, converted."""
        return [
            trial.with_outcome(self._convert_outcome(trial, trial.outcome))
            for trial in take_late(self.inner)
            if trial.outcome is not None
        ]

    def close(self) -> None:
        """Close the inner evaluator."""
        self._pending.clear()
        self.inner.close()

    def _convert(self, outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
        """Return the outcomes of the trials that are done, and remove these trials from ``_pending``."""
        return [self._convert_outcome(self._pending.pop(o.trial_id), o) for o in outcomes]

    def _convert_outcome(self, trial: Trial, outcome: Outcome) -> Outcome:
        return outcome


class CachedEvaluator(WrappingEvaluator):
    """Answers known configurations from a cache, and keeps the results of the inner evaluator.

    It keeps values and the failures that would happen again (``compile``, ``constraints``, ``correctness``). An outcome
    from the cache has ``extra["cached"]``; its timings are those of the original evaluation. Not for runs with
    ``noise="repeat"``, which need new measurements of the same configuration.

    Args:
        inner: Evaluates unknown configurations.
        cache: The known results. If its file cannot be read or written, the evaluator warns and continues.
    """

    def __init__(self, inner: Evaluator, cache: ResultCache) -> None:
        super().__init__(inner)
        self._cache = cache
        self._known: list[Outcome] = []
        self._problem: EvaluatorError | None = None
        self._has_warned = False

    @override
    def submit(self, trial: Trial) -> None:
        """Look a trial up, or pass it to the inner evaluator. If the cache fails, one warning says so."""
        try:
            outcome = self._cache.find(trial)
        except EvaluatorError as error:
            outcome, self._problem = None, error
        if outcome is None:
            super().submit(trial)
        else:
            extra = {**outcome.extra, "cached": True}
            self._known.append(replace(outcome, trial_id=trial.id, extra=extra))
        self._warn()

    @override
    def wait(self) -> Sequence[Outcome]:
        """Return the outcomes from the cache, otherwise wait for the inner evaluator."""
        known, self._known = self._known, []
        return known or super().wait()

    @override
    def collect(self, timeout: float | None) -> Sequence[Outcome]:
        """Return the outcomes from the cache, and what the inner evaluator has left."""
        known, self._known = self._known, []
        return [*known, *super().collect(timeout)]

    @override
    def close(self) -> None:
        """Close the inner evaluator; the file stays."""
        self._known.clear()
        super().close()
        self._warn()

    def _warn(self) -> None:
        if self._problem is not None and not self._has_warned:
            self._has_warned = True
            text = f"{self._problem}; the run continues without it"
            warnings.warn(text, BacoWarning, stacklevel=3)

    @override
    def _convert_outcome(self, trial: Trial, outcome: Outcome) -> Outcome:
        """Write an outcome to the cache and return it.

        The next `submit` or `close` warns of an error of the file. A warning that is turned into an error would lose
        outcomes here.
        """
        try:
            self._cache.keep(trial.with_outcome(outcome))
        except EvaluatorError as error:
            self._problem = error
        return outcome


Check = Callable[[Trial, Outcome], str | None]
"""Returns one line that describes the error of a result, or None."""


class CheckedEvaluator(WrappingEvaluator):
    """Turns successes with a wrong result into the failure ``correctness``.

    Args:
        inner: Evaluates.
        check: Called with each successful trial and its outcome, in the thread that waits. Its exceptions end the
            run.
    """

    def __init__(self, inner: Evaluator, check: Check) -> None:
        super().__init__(inner)
        self._check = check

    @override
    def _convert_outcome(self, trial: Trial, outcome: Outcome) -> Outcome:
        if outcome.status is not Status.OK:
            return outcome
        started = time.perf_counter()
        problem = self._check(trial, outcome)
        if problem is None:
            return outcome
        seconds = dict(outcome.extra.get("seconds", {}))
        seconds["check"] = seconds.get("check", 0.0) + time.perf_counter() - started
        extra = {**outcome.extra, "seconds": seconds, "repeats": list(outcome.repeats)}
        return Outcome.failure(outcome.trial_id, "correctness", f"check: {problem}", extra=extra)


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
            best, rule = self._best.find(trial), self._repeats.for_trial(trial)
            if is_ok and rule.missing(_all_values(series), best) > 0:
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
        rule = self._repeats.for_trial(trial)
        slow = rule.censor(trial.id, values, self._best.find(trial), extra)
        if slow is not None:
            return slow
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


class SlotsEvaluator(FuturesEvaluator):
    """Distributes trials over slots. Each slot has its own evaluator, in which one thread measures.

    An evaluator that builds ahead (`StagedEvaluator` with ``ahead``) builds in further threads, without the slot.
    Evaluators that build and measure in one process, such as those of kernels, build in the process of the slot.

    Args:
        make: Makes the evaluator of a slot from the environment variables of its measuring processes.
        slots: The slots, see `resolve_slots`; all of one device type.

    Attributes:
        slots: The slots.
        parts: The evaluator of each slot.
        inner: The first of these, for whoever asks about commands, sources or metrics.

    Raises:
        EvaluatorError: An item is not a slot, a device does not exist or appears twice, or the types differ.
    """

    def __init__(
        self, make: Callable[[Mapping[str, str]], Evaluator], slots: Sequence[Any]
    ) -> None:
        self.slots = resolve_slots(slots)
        self.parts = [make(slot.environment) for slot in self.slots]
        self.inner = self.parts[0]
        self._session = secrets.token_hex(4)
        # Pending trials, with the number of the slot.
        self._placed: dict[int, tuple[Trial, int]] = {}
        self._threads: dict[int, ThreadPoolExecutor] = {}  # one thread for each slot
        self._calls = itertools.count()
        self._surplus = Counter[int]()  # outcomes beyond one of each call, by slot
        super().__init__(lambda: sum(part.capacity for part in self.parts))

    def submit(self, trial: Trial) -> None:
        """Give a trial to the slot with the fewest; its build may start now."""
        self._raise_pending_error()
        loads = Counter(number for _, number in self._placed.values())
        number = min(range(len(self.slots)), key=lambda number: loads[number])
        self.parts[number].submit(trial)
        self._placed[trial.id] = trial, number
        if number not in self._threads:
            self._threads[number] = ThreadPoolExecutor(1, thread_name_prefix="slot")
        # Not by the number of the trial, which may be submitted again before its call has returned another outcome.
        call = self._threads[number].submit(self._measure, number)
        self._pending[next(self._calls)] = call

    def recall(self, trials: Sequence[Trial], fidelity: str | None = None) -> None:
        """Show the observed trials of a resumed run to the evaluator of each slot."""
        for part in self.parts:
            recall_history(part, trials, fidelity)

    @override
    def close(self) -> None:
        """Stop and drop everything."""
        end_calls(self._pending.values(), self._close_parts)
        super().close()
        for thread in self._threads.values():
            thread.shutdown()
        self._close_parts()
        self._threads.clear()
        self._placed.clear()
        self._surplus.clear()

    def _close_parts(self) -> None:
        for part in self.parts:
            part.close()

    def _measure(self, number: int) -> list[Outcome]:
        """Return the next outcomes of a slot, perhaps of other trials than the call was made for; in its thread."""
        if self._surplus[number]:
            self._surplus[number] -= 1
            return []
        outcomes: Sequence[Outcome] = ()
        while not outcomes:
            started = time.perf_counter()
            outcomes = self.parts[number].wait()
        seconds = (time.perf_counter() - started) / len(outcomes)
        self._surplus[number] = len(outcomes) - 1
        return [self._name_slot(number, outcome, seconds) for outcome in outcomes]

    @override
    def _read_result(self, trial_id: int, result: Any) -> list[Outcome]:
        """Remove measured trials from the pending ones, and show their outcomes to the other slots."""
        for outcome in result:
            trial, number = self._placed.pop(outcome.trial_id)
            for other, part in enumerate(self.parts):
                note = getattr(part, "note", None)
                if other != number and note is not None:
                    note(trial.with_outcome(outcome))
        return list(result)

    def _name_slot(self, number: int, outcome: Outcome, seconds: float) -> Outcome:
        """Return an outcome with the name of its slot and the time in which the slot was busy: all but the build."""
        stages = outcome.extra.get("seconds")
        if isinstance(stages, Mapping) and stages:
            seconds = sum(value for stage, value in stages.items() if stage != "compile")
        name = self.slots[number].name
        record = worker_record(name, self._session, steady_time() - seconds, seconds)
        return replace(outcome, extra={**outcome.extra, WORKER: record})
