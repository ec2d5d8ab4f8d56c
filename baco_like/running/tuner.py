"""The tuning loop (suggest, submit, wait, observe): `run` for any evaluator, `tune` for a Python function."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from typing import Any

from typing_extensions import override

from baco_like._checks import explain_keywords
from baco_like._output import optional_output, warn_caller
from baco_like._plugins import is_foreign, name_of
from baco_like.evaluators import (
    Collector,
    Evaluator,
    FunctionEvaluator,
    ProcessLanes,
    StagedEvaluator,
)
from baco_like.evaluators.protocol import find_innermost, recall_history, take_late
from baco_like.exceptions import FailureWarning, PluginError, SpaceExhausted
from baco_like.journal import Journal
from baco_like.journal.lock import journal_file, sole_runner
from baco_like.optimizer import Callback, Optimizer, Search
from baco_like.optimizer.view import RunView
from baco_like.records import (
    Aim,
    Confirmation,
    History,
    Outcome,
    Status,
    StopRule,
    Trial,
    read_confirmation,
)
from baco_like.records.aim import GivenObjectives
from baco_like.records.confirmation import winner_of
from baco_like.records.objective_values import without_bound
from baco_like.records.trial import CANDIDATE, CONTROL
from baco_like.running.confirming import confirm_winner, leave_time
from baco_like.running.machine import describe_machine
from baco_like.running.measuring import Measuring, Recheck, Workers
from baco_like.running.progress import Display, Progress, show_progress
from baco_like.running.stopping import time_limit
from baco_like.spaces import Space
from baco_like.strategies import Strategy
from baco_like.strategies.choosing import metrics_count
from baco_like.strategies.per_second import affordable_builds


@dataclass
class RunningTrials:
    """Trials that are submitted to the evaluator.

    Attributes:
        optimizer: Observes the outcomes.
        evaluator: Evaluates the trials.
        progress: Shows them, unless it is None.
        trials: The submitted trials, by number.
        outcomes: Finished outcomes that are not recorded yet.
        late: Results that came after their trials were given up or had other results, not recorded yet.
    """

    optimizer: Optimizer
    evaluator: Evaluator
    progress: Progress | None
    trials: dict[int, Trial] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    late: list[Trial] = field(default_factory=list)

    def list_trials(self) -> list[Trial]:
        """Return the trials that are submitted now; another thread may call it."""
        return list(self.trials.values())

    def wait(self) -> None:
        """Wait for outcomes.

        Raises:
            PluginError: An evaluator of another package returns something else.
        """
        outcomes = self.evaluator.wait()
        if is_foreign(self.evaluator):
            self._check_outcomes(outcomes)
        self.outcomes += outcomes
        self.late += take_late(self.evaluator)

    def _check_outcomes(self, outcomes: Any) -> None:
        owner = f"evaluator {name_of(self.evaluator)}: wait returned"
        if not isinstance(outcomes, Sequence) or not outcomes:
            raise PluginError(f"{owner} {outcomes!r:.80}, not a sequence of one or more outcomes")
        for outcome in outcomes:
            if not isinstance(outcome, Outcome):
                raise PluginError(
                    f"{owner} {outcome!r:.80}; return Outcome.success(trial.id, (value,)) or Outcome.failure(...)"
                )
        numbers = Counter(outcome.trial_id for outcome in outcomes)
        for number, count in numbers.items():
            if number not in self.trials or count > 1:
                fault = "that was not submitted" if count == 1 else f"{count} times"
                raise PluginError(f"{owner} an outcome of trial {number!r:.60} {fault}")

    def submit(self, trials: Iterable[Trial]) -> None:
        """Submit trials, except those that are submitted already."""
        for trial in trials:
            # A trial that is already submitted has an expired lease and was suggested again.
            if trial.id not in self.trials:
                self.evaluator.submit(trial)
            self.trials[trial.id] = trial

    def record(self) -> None:
        """Record the outcomes; they stay in ``outcomes`` until they are on the disk."""
        outcomes = self._unbounded_outcomes()
        observed = [o for o in outcomes if o.status is not Status.ABANDONED]
        # Another optimizer of the same journal may have finished a trial whose lease had expired.
        results = [self.trials[o.trial_id].with_outcome(o) for o in observed]
        if results or self.late:
            self.optimizer.complete_late([*results, *self.late])
        for outcome in outcomes:
            if outcome.status is Status.ABANDONED:
                self.optimizer.abandon(self.trials.pop(outcome.trial_id), outcome.message)
        for outcome in observed:
            del self.trials[outcome.trial_id]
            history = self.optimizer.history
            trial = history.find(outcome.trial_id)  # its outcome may be another one: beyond a limit
            if self.progress is not None and trial is not None:
                with optional_output("the progress"):
                    self.progress.update(history, trial)
                    continue
                self.progress = None

    def record_finished(self, timeout: float | None) -> None:
        """Record finished outcomes after an error. Errors raised here are suppressed so that the first is reported."""
        with contextlib.suppress(Exception):
            if isinstance(self.evaluator, Collector):
                self.outcomes += self.evaluator.collect(timeout)
        pending = self.optimizer.history.pending
        finished = [o for o in self._unbounded_outcomes() if o.trial_id in pending]
        finished = [o for o in finished if o.status is not Status.ABANDONED]
        with contextlib.suppress(Exception):
            if finished:
                self.optimizer.complete(finished)

    def _unbounded_outcomes(self) -> list[Outcome]:
        return [without_bound(o, self.optimizer.options.aim.first.direction) for o in self.outcomes]


_logger = logging.getLogger(__name__.rpartition(".")[0])

INTERRUPTED = "interrupted"
"""Reason of the end of a run that Ctrl-C has ended."""

_WARN_AFTER = 10
"""Number of failures at the start of a run after which a warning is issued."""


@dataclass(frozen=True)
class Result(RunView):
    """The result of `tune`: everything that can be read from the run, and who has won.

    Attributes:
        optimizer: The optimizer with all trials; it can suggest more.
        reason: The reason why the run ended.
    """

    optimizer: Optimizer
    reason: str

    def __post_init__(self) -> None:
        vars(self).update(_run=self.optimizer._run, _threads=self.optimizer._threads)

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return Result, (self.optimizer, self.reason)

    @override
    def _repr_html_(self) -> str:
        """Return the best trials as a table, for notebooks."""
        return f"{self.optimizer._repr_html_()}<p>{escape(self.reason)}</p>"

    @cached_property
    def confirmation(self) -> Confirmation | None:
        """The repeated measurements of the best configurations, or None without `Measuring.confirm`."""
        return read_confirmation(self.history)

    @property
    def recommended(self) -> Trial | None:
        """The trial whose configuration is to be used, also by ``ship``, ``rebuild`` and ``best.json``.

        After a confirmation, of the candidates as good as the winner the closest to the default, with its new
        measurements; else `best`.
        """
        return winner_of(self.history)[0]


@explain_keywords(space=Space, aim=Aim, strategy=Search, measuring=Measuring, workers=Workers)
def tune(
    fn: Callable[[Trial], Any],
    space: Space | Mapping[str, Any],
    stop: StopRule,
    aim: Aim | GivenObjectives = "minimize",
    *,
    strategy: str | Strategy[Any] | Search = "auto",
    seed: int = 0,
    storage: str | os.PathLike[str] | Journal | None = None,
    warm_start: Any = None,
    measuring: Measuring = Measuring(),  # noqa: B008
    workers: Workers = Workers(),  # noqa: B008
    callbacks: Iterable[Callback] = (),
    progress: bool = True,
) -> Result:
    """Tune a Python function.

    Ctrl-C ends the run with the result so far; its reason is ``interrupted``. Any other exception that ends the run
    carries the optimizer, with all its observations, in the attribute ``optimizer``.

    Args:
        fn: Called with a trial, a read-only mapping of parameter names to values. Returns a number, a list of
            repeats, or a mapping of metrics that includes the objectives. Raises `Infeasible`, or a type in
            `Measuring.failures`, if the configuration cannot run. The fidelity of the space is a value of the trial;
            its task is ``trial.task``.
        space: A `Space`, or the mapping from which one is built.
        stop: The rule that ends the run, such as ``MaxEvals(200) | MaxTime(600)``. If it limits only the time, short
            evaluations are preferred: see the argument ``seconds`` of `Optimizer`. It counts the evaluations of all
            tasks, and of all processes that share the journal.
        aim: What to optimise: ``minimize``, ``maximize``, directions by name such as ``{"time": "minimize"}``, an
            `Objective` or a list of them, or an `Aim`, which also has limits and the goal of several tasks.
        strategy: A name listed by ``baco-like strategies``, a strategy object, or a `Search` with settings, first
            configurations and noise.
        seed: The run's only seed. The same seed and values give the same suggestions; if ``stop`` limits only the time,
            the durations must be the same too.
        storage: Path of the journal (an existing one is resumed), the address of a run on a server, a `Journal`, or
            None to keep no journal.
        warm_start: Results of earlier runs: the path of a file, a `WarmStart`, or a list of them.
        measuring: Repeats, retries, rechecks during the run, and the confirmation of the winner.
        workers: Executor or device slots, and this process among several that tune together on one journal.
        callbacks: Called with the optimizer and each trial after it is observed.
        progress: Whether to show the progress on standard error.

    Returns:
        The best configuration and all trials.

    Raises:
        JournalError: Another run uses the same journal, or it belongs to another space.
        TypeError: ``fn`` is an evaluator, ``stop`` is not a stopping rule, or a callback is not callable.
        ValueError: An argument has a wrong value, see `Optimizer`. With several objectives or tasks, a confirmation,
            `Target` and `LowOutlook` are errors; with several tasks also rechecks and `NoImprovement`.
        Exception: Any exception of ``fn`` whose type is not in `Measuring.failures`.
    """
    if hasattr(fn, "submit"):
        way = "for an evaluator write run(optimizer, evaluator, stop)"
        raise TypeError(f"fn = {type(fn).__name__}(...): tune() calls a function; {way}")
    callbacks = tuple(callbacks)
    if not all(map(callable, callbacks)):
        raise TypeError(f"callbacks = {callbacks!r}: expected a list of callables")
    lanes = None if workers.slots is None else ProcessLanes(slots=workers.slots)
    aim, search = Aim.of(aim), Search.of(strategy)
    evaluator = FunctionEvaluator(
        fn,
        objective=aim.first.name,
        failures=measuring.failures,
        repeats=measuring.repeats,
        retries=measuring.retries,
        executor=workers.executor if lanes is None else lanes,
        max_pending=workers.max_pending,
    )
    space = space if isinstance(space, Space) else Space(space)
    measuring = measuring.for_run(stop, aim, space, search.noise)
    budget = stop.room(History.start(space))
    # Without a limit on evaluations the budget is in time. Parallel evaluations share the wall time.
    limit = time_limit(stop) if budget is None else None
    shared = workers.worker is not None
    with sole_runner(journal_file(storage), shared), lanes or contextlib.nullcontext():
        optimizer = Optimizer(
            space,
            aim,
            seed,
            strategy=search,
            budget=budget,
            seconds=None if limit is None else limit * evaluator.capacity,
            storage=storage,
            warm_start=warm_start,
            sharing=workers,
            context=None if lanes is None else lanes.context,
            callbacks=callbacks,
        )
        shown = None
        if progress:
            threshold = measuring.recheck.threshold if measuring.recheck else 0.05
            shown = show_progress(sys.stderr, budget, "", time_limit(stop), threshold)
            for note in describe_machine():
                print(f"note: {note}", file=sys.stderr)
        return search_and_confirm(optimizer, evaluator, stop, measuring, shown)


def search_and_confirm(
    optimizer: Optimizer,
    evaluator: Evaluator,
    stop: StopRule,
    measuring: Measuring,
    progress: Progress | None,
    display: Display | None = None,
    announce: Callable[[str], None] = lambda text: None,
) -> Result:
    """Search until the rule ends it or leaves the time for the confirmation, then confirm the winner.

    Ctrl-C ends both; the reason is then `INTERRUPTED`. Any other exception gets the optimizer as an attribute.

    Args:
        optimizer: Suggests the configurations.
        evaluator: Evaluates them; it is closed.
        stop: The rule that ends the run.
        measuring: Rechecks and confirmation.
        progress: Follows the search; None shows nothing.
        display: Shows the measurements of the confirmation, or None.
        announce: Called with a sentence before each part of the confirmation.
    """
    confirm = measuring.confirm
    search = stop if confirm is None else leave_time(stop, confirm, optimizer.history)
    try:
        reason = run_locked(optimizer, evaluator, search, progress, measuring.recheck)
        if confirm is not None:
            confirm_winner(optimizer, evaluator, confirm, time_limit(stop), display, announce)
    except KeyboardInterrupt:
        reason = INTERRUPTED
    except Exception as error:
        with contextlib.suppress(AttributeError, TypeError):  # a class may reject new attributes
            error.optimizer = optimizer  # type: ignore[attr-defined]
            if sys.version_info >= (3, 11):
                error.add_note(
                    f"{len(optimizer.trials)} evaluations are kept in this exception's attribute 'optimizer'"
                )
        raise
    return Result(optimizer, reason)


# Any evaluator --------------------------------------------------------------------------------------------------------


def run(
    optimizer: Optimizer, evaluator: Evaluator, stop: StopRule, progress: Progress | None = None
) -> str:
    """Evaluate suggestions until ``stop`` ends the run or the space is exhausted.

    Pending trials of a resumed journal are evaluated first. The evaluator is closed in any case. When the user
    interrupts, finished evaluations are recorded and the other trials stay pending in the journal.

    Args:
        optimizer: Suggests the configurations.
        evaluator: Evaluates them.
        stop: A stopping rule, such as ``MaxEvals(200) | MaxTime(600)``.
        progress: Follows the run; None shows nothing.

    Returns:
        The reason of the end.

    Raises:
        EvaluatorError: The evaluator is broken. All observations are kept.
        JournalError: Another run uses the same journal.
    """
    file, is_shared = journal_file(optimizer.journal), optimizer.worker is not None
    with contextlib.closing(evaluator), sole_runner(file, is_shared):
        optimizer.refresh()  # another run may have ended since the journal was opened
        return run_locked(optimizer, evaluator, stop, progress)


def run_locked(
    optimizer: Optimizer,
    evaluator: Evaluator,
    stop: StopRule,
    progress: Progress | None = None,
    recheck: Recheck | None = None,
) -> str:
    """Do the same as `run`, for a caller that holds the journal's `sole_runner` lock.

    With ``recheck``, the incumbent is measured again from time to time.
    """
    running = RunningTrials(optimizer, evaluator, progress)
    capacity = evaluator.capacity
    _logger.info(
        "the run begins: up to %d trials at a time by %s", capacity, type(evaluator).__name__
    )
    history, fidelity = optimizer.history, optimizer.space.fidelity
    level = None if fidelity is None else fidelity.name
    show_history(evaluator, optimizer.options.aim, history.trials[history.warm :], level)
    has_leases = optimizer.lease is not None
    signs = optimizer.heartbeat(running.list_trials) if has_leases else contextlib.nullcontext()
    try:
        with signs:
            reason = _loop(running, stop, recheck or Recheck(0))
        _logger.info("the run ended: %s; %d observed", reason, len(optimizer.history))
        return reason
    except BaseException as error:
        _logger.info("the run ended by %s: %s", type(error).__name__, error)
        running.record_finished(None if isinstance(error, Exception) else 0.0)
        raise
    finally:
        if progress is not None:
            with optional_output("the progress"):
                progress.close()
        evaluator.close()


def show_history(
    evaluator: Evaluator, aim: Aim, trials: Sequence[Trial], fidelity: str | None = None
) -> None:
    """Prepare an evaluator for a run: it learns the observed trials, and which outcomes may become the best.

    Args:
        evaluator: The evaluator of the run.
        aim: The aim of the run.
        trials: The trials that the run has observed before.
        fidelity: Name of the fidelity parameter, or None.
    """
    for inner in find_innermost(evaluator):
        if isinstance(inner, StagedEvaluator):
            # Of several objectives the first decides nothing alone.
            inner.is_accepted = lambda outcome: (
                not aim.several and aim.judge(outcome, strict=False).value is not None
            )
    recall_history(evaluator, trials, fidelity)


def _loop(running: RunningTrials, stop: StopRule, recheck: Recheck) -> str:
    optimizer = running.optimizer
    optimizer.take_part()
    waiting = optimizer.own_pending
    checked_failures = False
    while True:
        trials: list[Trial] = []
        exhausted = False
        # With proposals in store, results and the next trials share one wait for the disk. Without, the model is fitted
        # between them, and the results would wait for it.
        has_store = optimizer.in_store is not None
        with optimizer.grouped() if has_store else contextlib.nullcontext():
            running.record()
            reason = optimizer.should_stop(stop)
            if reason is None:
                checked_failures = checked_failures or _check_first_failures(optimizer.history)
                free = running.evaluator.capacity - len(running.trials)
                trials, exhausted = _next_trials(running, stop, waiting, free, recheck)
        running.outcomes, running.late = [], []
        running.submit(trials)
        if not running.trials:
            if exhausted:  # or the server has ended the run
                return optimizer.should_stop(stop) or "the space is exhausted"
            return reason or "nothing more may be started"
        if not (has_store and trials):  # the store may hold fewer proposals than workers are free
            running.wait()


def _find_builder(evaluator: Evaluator) -> StagedEvaluator | None:
    """Return the evaluator that builds several candidates for each measurement, or None."""
    staged, *others = find_innermost(evaluator)
    if isinstance(staged, StagedEvaluator) and not others and staged.builds.candidates > 1:
        return staged
    return None


def _choose(running: RunningTrials, staged: StagedEvaluator) -> Trial:
    """Build candidates, and return the trial to measure.

    A candidate whose build fails, or whose program was measured, is observed at once and does not count as evaluation.
    """
    optimizer, most = running.optimizer, staged.builds.candidates
    history = optimizer.history
    known = [c.seconds for c in history.built if c.seconds is not None]
    count = affordable_builds(history.trials, known, most, staged.parallel_builds)
    if count == 1 or not metrics_count(optimizer.state.problem, history):
        return optimizer.suggest()  # the measurement reports its build
    candidates = optimizer.candidates(count)
    earlier, running.outcomes = running.outcomes, []
    for candidate, found in zip(candidates, staged.build(candidates), strict=True):
        if isinstance(found, Outcome):
            trial = optimizer.measure_again(candidate.config, CANDIDATE)
            running.trials[trial.id] = trial
            running.outcomes.append(replace(found, trial_id=trial.id))
        else:
            build, program, seconds = found
            optimizer.report_build(candidate, build, program=program, seconds=seconds)
    running.record()
    running.outcomes = earlier
    return optimizer.choose()


def _next_trials(
    running: RunningTrials, stop: StopRule, waiting: list[Trial], free: int, recheck: Recheck
) -> tuple[list[Trial], bool]:
    """Return the trials to submit now, waiting ones first, and whether the space is exhausted."""
    optimizer = running.optimizer
    history = optimizer.history
    # Another optimizer of the same journal has reported a trial whose lease had expired.
    waiting[:] = [trial for trial in waiting if trial.id in history.pending]
    for trial in waiting:  # pending, but not submitted: they must not reduce the room
        history = history.abandon(trial.id)
    room = stop.room(history)
    number = free if room is None else min(free, room)
    begun, waiting[:] = waiting[: max(0, number)], waiting[max(0, number) :]
    trials = optimizer.reclaim(begun) if begun else []  # with a new lease, before they are measured
    missing = number - len(trials)
    if missing < 1:
        return trials, False
    config = recheck.next_config(optimizer.history)
    if config is not None:
        return [*trials, optimizer.measure_again(config, CONTROL)], False
    try:
        if (staged := _find_builder(running.evaluator)) is not None:
            return [*trials, _choose(running, staged)], False
        return trials + optimizer.suggest(optimizer.size_of_next(missing)), False
    except SpaceExhausted:
        return trials, not trials


def _check_first_failures(history: History) -> bool:
    """Warn if the first evaluations all failed; return whether there are enough evaluations to tell."""
    if history.evaluations < _WARN_AFTER:
        return False
    first = history.trials[history.warm :]
    if len(first) == _WARN_AFTER and all(t.status is Status.FAILED for t in first):
        (failure, message), _ = Counter((t.failure, t.message) for t in first).most_common(1)[0]
        warn_caller(
            f"the first {_WARN_AFTER} evaluations all failed, mostly with {failure}: {message:.200}; "
            "the run continues",
            FailureWarning,
        )
    return True
