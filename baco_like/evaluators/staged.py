"""The evaluator that builds and then measures: builds ahead in a thread pool, measurements one at a time.

A bench builds a configuration and measures it. `StagedEvaluator` turns a bench into an evaluator: it decides how many
times to measure and when to build ahead.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from baco_like._tables import Count
from baco_like.evaluators.executors.base import end_calls, wait_for_first
from baco_like.evaluators.repeats import BestValues, Repeats, takes_little
from baco_like.exceptions import EvaluatorError
from baco_like.records.objective_values import read_metrics
from baco_like.records.trial import (
    MEASURED_AGAIN,
    NOTES,
    PROGRAM,
    SAME_PROGRAM,
    SLOW,
    STOPPED,
    Outcome,
    Status,
    Trial,
)

_NEAR = 1.25
"""A configuration may be recommended if its value is at most this factor from the best one: values are noisy."""


class StageFailure(Exception):
    """A stage has failed; the evaluator turns this exception into the trial's outcome.

    Args:
        word: The failure word.
        message: The stage and what happened.
        bound: Lower bound of the value, in the objective's unit, if a run was stopped at its limit.
        repeats: Values that this call had measured before the failure.
    """

    def __init__(
        self,
        word: str,
        message: str,
        *,
        bound: float | None = None,
        repeats: tuple[float, ...] = (),
    ) -> None:
        super().__init__(message)
        self.word, self.message, self.bound, self.repeats = word, message, bound, repeats

    def outcome(self, trial_id: int, extra: Mapping[str, Any]) -> Outcome:
        """Return the trial's outcome: censored if there is a bound, otherwise failed."""
        if self.bound is not None:
            return Outcome.censored(trial_id, self.bound, self.word, self.message, extra=extra)
        return Outcome.failure(trial_id, self.word, self.message, extra=extra)


@dataclass(frozen=True)
class Builds:
    """How many configurations are built for each measurement, and whether the numbers of a build are kept.

    Attributes:
        candidates: Configurations that are built for each one that is measured, by their
            [build metrics](../build_metrics.md); fewer while builds take longer than measurements.
        build_metrics: Whether to keep build metrics, such as the instructions by class; always with several candidates.
    """

    candidates: Count = 1
    build_metrics: bool = False


ONE_BUILD = Builds()


class Built:
    """Base of a configuration that is built and can be measured.

    Attributes:
        identity: Hash of the program and of all else that its measurements depend on; None if it cannot be known. Equal
            programs are measured once.
        notes: What the user should know about the measurements, sentences by their kind; the outcome keeps them as
            ``extra["notes"]``.
    """

    identity: str | None = None
    notes: Mapping[str, str] = MappingProxyType({})

    def measure(self, count: int, limit: float | None, near: float) -> tuple[float, ...]:
        """Measure it; the first call also does the warm-up and checks the result.

        Args:
            count: Number of measurements, at least 1.
            limit: Largest value worth measuring, in the objective's unit (smaller is better), or None. A run that
                reaches it may be stopped (`StageFailure` with a bound), and no further run need start.
            near: Largest value with which it may be recommended: up to it, costly checks of the result are made, too.

        Returns:
            The measured values, 1 to ``count``; the last may exceed ``limit``.

        Raises:
            StageFailure: The run, or the check of its result, has failed.
        """
        raise NotImplementedError

    def metrics(self) -> Mapping[str, float | Sequence[float]]:
        """Return further numbers by name, after the last measurement: numbers, or the values of all measurements.

        One that is not a finite number, such as NaN, is kept as a text; limits and objectives that read it then fail.
        """
        return {}

    def build_metrics(self) -> Mapping[str, float]:
        """Return finite numbers that are known before the first measurement, by name."""
        return {}

    def discard(self) -> None:
        """Remove the built files; idempotent."""


class Bench(Protocol):
    """Builds configurations. Several threads may build at a time; one thread measures."""

    def build(self, trial: Trial, seconds: dict[str, float]) -> Built:
        """Build a configuration.

        Args:
            trial: The configuration.
            seconds: Wall time by stage (``compile``, ``run``, ``check``). This call and the calls of the returned
                object add their times, failed or not.

        Raises:
            StageFailure: The build has failed; all its files are removed.
            EvaluatorError: No configuration can be built.
        """

    def close(self) -> None:
        """End running builds and remove all files; the next `build` makes them again.

        The evaluator calls it repeatedly until the builds in other threads have ended.
        """


@dataclass
class _Job:
    trial: Trial
    seconds: dict[str, float] = field(default_factory=dict)
    build: Future[Built] | None = None  # None: it is built when it is measured
    program: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


class BuildReport(NamedTuple):
    """The result of a build without a measurement.

    Attributes:
        metrics: The build metrics.
        program: Hash of the program, or None.
        seconds: Seconds of the build.
    """

    metrics: Mapping[str, float]
    program: str | None
    seconds: float


class StagedEvaluator:
    """Builds configurations and measures each as many times as a rule says.

    A configuration that is clearly slower than the best (`Repeats.slow_ratio`) is censored: its value is at least
    its smallest measurement, or the limit at which a run was stopped. The best is the best of this evaluator's own
    measurements.

    Different configurations may give the same program (`Built.identity`): a compiler may ignore a flag, a loop may
    be too short to be unrolled. Such a program is measured once, and later trials get its outcome with
    ``extra["same_program"]``, the number of the measured trial. A configuration that is measured again on purpose
    (``noise="repeat"``, a confirmation, a control) is always run, and so is a program that crashed or hung.

    Args:
        bench: Builds and measures.
        repeats: The rule.
        ahead: Number of configurations that are built while another is measured. With 0, `wait` builds.
        builds: Builds for each measurement, and the numbers that are kept of them.

    Attributes:
        is_accepted: Says whether an outcome may become the best; None: all may. The loop of a run excludes those beyond
            a limit.
    """

    def __init__(
        self, bench: Bench, repeats: Repeats, ahead: int = 0, builds: Builds = ONE_BUILD
    ) -> None:
        if ahead < 0:
            raise EvaluatorError(f"ahead = {ahead}: expected 0 or more builds")
        # One trial that is measured, and those that are built ahead. Candidates are built between measurements.
        self.capacity = 1 + ahead if builds.candidates == 1 else 1
        self.bench, self.builds, self._repeats, self._ahead = bench, builds, repeats, ahead
        self._jobs: list[_Job] = []  # in the order of submission
        self._kept: list[_Job] = []  # candidates that are built and may still be measured
        self._numbers = itertools.count(1)
        self._pool: ThreadPoolExecutor | None = None
        self._best = BestValues()
        self._programs: dict[str, Trial] = {}  # the first measured trial of each program
        self.is_accepted: Callable[[Outcome], bool] | None = None

    @property
    def parallel_builds(self) -> int:
        """Builds at a time."""
        return max(1, self._ahead)

    def recall(self, trials: Sequence[Trial], fidelity: str | None = None) -> None:
        """Learn the best value and the measured programs of the trials that a resumed run has observed."""
        self._best, self._programs = BestValues(fidelity), {}
        for trial in trials:
            self.note(trial)

    def submit(self, trial: Trial) -> None:
        """Queue a trial; with ``ahead`` its build starts now."""
        job = _Job(trial)
        kept = next((k for k in self._kept if dict(k.trial.config) == dict(trial.config)), None)
        if kept is not None:
            self._kept.remove(kept)
            job = replace(kept, trial=trial)
        elif self._ahead:
            self._start_build(job)
        self._jobs.append(job)

    def _start_build(self, job: _Job) -> Future[Built]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.parallel_builds, thread_name_prefix="build")
        job.build = self._pool.submit(self.bench.build, job.trial, job.seconds)
        return job.build

    def build(self, trials: Sequence[Trial]) -> list[Outcome | BuildReport]:
        """Build configurations without measuring them: one result for each, in the same order.

        It is an outcome if the build has failed, or if a measured trial had the same program. Some of the others stay
        built until they are submitted or the evaluator is closed.

        Raises:
            EvaluatorError: No configuration can be built.
        """
        # Benches name files by the numbers of trials, and those of candidates are not final.
        jobs = [_Job(replace(trial, id=-next(self._numbers))) for trial in trials]
        builds = [self._start_build(job) for job in jobs]
        found: list[Outcome | BuildReport] = []
        for trial, job, build in zip(trials, jobs, builds, strict=True):
            try:
                built = build.result()
                job.program, job.metrics = built.identity, self._read_metrics(built)
            except StageFailure as failure:
                self._discard(job)
                found.append(failure.outcome(trial.id, _extra(job, ())))
                continue
            known = self._find_program(job)
            if known is None:
                self._kept.append(job)
                seconds = sum(job.seconds.values())
                found.append(BuildReport(job.metrics, job.program, seconds))
            else:
                built.discard()
                found.append(replace(known, trial_id=trial.id, build=job.metrics))
        while len(self._kept) > 2 * self.builds.candidates:
            self._discard(self._kept.pop(0))
        return found

    def _discard(self, job: _Job) -> None:
        if job.build is not None:
            with contextlib.suppress(BaseException):
                job.build.result().discard()

    def wait(self) -> Sequence[Outcome]:
        """Measure the oldest built trial, in the calling thread.

        Raises:
            EvaluatorError: No trial was submitted, or no configuration can be built.
        """
        # Another thread may submit trials meanwhile, or close this evaluator.
        while jobs := list(self._jobs):
            for job in jobs:
                if job.build is None or job.build.done():
                    self._jobs.remove(job)
                    return [self._evaluate(job)]
            wait_for_first(job.build for job in jobs)
        raise EvaluatorError("wait() without a submitted trial")

    def close(self) -> None:
        """Drop queued trials, end running builds, and remove all files."""
        jobs = [*self._jobs, *self._kept]
        builds = [job.build for job in jobs if job.build is not None]
        end_calls(builds, self.bench.close)
        for job in jobs:
            self._discard(job)
        self._jobs.clear()
        self._kept.clear()
        if self._pool is not None:
            self._pool.shutdown()
        self._pool = None
        self.bench.close()

    def _evaluate(self, job: _Job) -> Outcome:
        outcome = self._measure(job)
        if job.metrics:
            outcome = replace(outcome, build=job.metrics)
        self.note(job.trial.with_outcome(outcome))
        return outcome

    def note(self, trial: Trial) -> None:
        """Learn the best value and the program from a trial that was measured here or in another device slot."""
        self._keep_program(trial)
        outcome = trial.outcome
        if outcome is not None and (self.is_accepted is None or self.is_accepted(outcome)):
            self._best.add(trial, outcome.value)

    def _measure(self, job: _Job) -> Outcome:
        trial_id, values = job.trial.id, list[float]()
        best, rule = self._best.find(job.trial), self._repeats.for_trial(job.trial)
        limit, near = rule.limit(best), math.inf
        # A configuration that is recommended for several tasks need not be near the best of each.
        if best is not None and job.trial.origin not in MEASURED_AGAIN and job.trial.task is None:
            near = _NEAR * best
        metrics, notes = read_metrics({}), dict[str, Any]()
        try:
            build = job.build
            built = build.result() if build else self.bench.build(job.trial, job.seconds)
            try:
                job.program = built.identity
                job.metrics = self._read_metrics(built)
                if (known := self._find_program(job)) is not None:
                    return known
                while count := rule.missing(values, best, is_cheap=takes_little(job.seconds)):
                    values += built.measure(count, limit, near)
                metrics = read_metrics(built.metrics())
                if built.notes:
                    notes[NOTES] = dict(built.notes)
            finally:
                built.discard()
        except StageFailure as failure:
            extra = _extra(job, [*values, *failure.repeats])
            # A bound below the limit is the time limit of the run. (The bound may differ in the last bits.)
            if limit is not None and failure.bound is not None and failure.bound > 0.999 * limit:
                extra[STOPPED] = SLOW
                failure.message += f", {rule.slow_ratio:g} times the best"
            return failure.outcome(trial_id, extra)
        slow = rule.censor(trial_id, values, best, _extra(job, values))
        if slow is not None:
            return slow
        texts = {"metrics": metrics.texts} if metrics.texts else {}
        return Outcome.success(
            trial_id,
            tuple(values),
            metrics=metrics.numbers,
            extra={**_extra(job, ()), **texts, **notes},
            # Constant ones, such as the size of a file, need no list.
            metric_repeats={n: r for n, r in metrics.repeats.items() if min(r) < max(r)},
        )

    def _read_metrics(self, built: Built) -> Mapping[str, float]:
        is_wanted = self.builds.build_metrics or self.builds.candidates > 1
        return dict(built.build_metrics()) if is_wanted else {}

    def _find_program(self, job: _Job) -> Outcome | None:
        """Return the outcome of an earlier trial with the same program, for this trial; None if it must be measured."""
        first = self._programs.get(job.program or "")
        if first is None or first.outcome is None or job.trial.origin in MEASURED_AGAIN:
            return None
        if dict(first.config) == dict(job.trial.config):
            return None
        own = {**_extra(job, ()), SAME_PROGRAM: first.id}
        return replace(first.outcome, trial_id=job.trial.id, extra={**first.extra, **own})

    def _keep_program(self, trial: Trial) -> None:
        """Keep a measured trial for later trials with the same program, unless its result may be chance."""
        program = trial.extra.get(PROGRAM)
        lasts = trial.status in (Status.OK, Status.CENSORED) or trial.failure == "correctness"
        if isinstance(program, str) and lasts and SAME_PROGRAM not in trial.extra:
            self._programs.setdefault(program, trial)


def _extra(job: _Job, values: Sequence[float]) -> dict[str, Any]:
    """Return the timings of a trial, and the measured values if the outcome itself has none."""
    program = {} if job.program is None else {PROGRAM: job.program}
    repeats = {"repeats": list(values)} if values else {}
    return {"seconds": dict(job.seconds), **program, **repeats}
