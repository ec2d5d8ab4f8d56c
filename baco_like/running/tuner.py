"""The tuning loop (suggest, submit, wait, observe): `run` for any evaluator, `tune` for a Python function."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from baco_like._checks import explain_keywords
from baco_like._output import optional_output, warn_caller
from baco_like.evaluators import (
    Evaluator,
    FunctionEvaluator,
    ProcessLanes,
    StagedEvaluator,
)
from baco_like.evaluators.protocol import find_innermost, recall_history
from baco_like.exceptions import FailureWarning, SpaceExhausted
from baco_like.journal import Journal
from baco_like.journal.run_lock import journal_file, sole_runner
from baco_like.optimizer import Callback, Optimizer, Search
from baco_like.records import (
    Aim,
    Confirmation,
    History,
    Observation,
    Status,
    StopRule,
    Trial,
    read_confirmation,
)
from baco_like.records.aim import GivenObjectives
from baco_like.records.trial import CONTROL
from baco_like.running.arguments import Measuring, Workers
from baco_like.running.confirming import confirm_winner, leave_time
from baco_like.running.control import Recheck
from baco_like.running.machine import describe_machine
from baco_like.running.progress import Display, Progress, show_progress
from baco_like.running.running_trials import RunningTrials
from baco_like.running.stopping import time_limit
from baco_like.spaces import Space
from baco_like.strategies import Strategy

_logger = logging.getLogger(__name__.rpartition(".")[0])

_WARN_AFTER = 10
"""Number of failures at the start of a run after which a warning is issued."""


@dataclass(frozen=True)
class Result:
    """The result of `tune`.

    Attributes:
        optimizer: The optimizer with all trials; it can suggest more.
        reason: The reason why the run ended.
        confirmation: The repeated measurements of the best configurations, or None without `Measuring.confirm`.
    """

    optimizer: Optimizer
    reason: str
    confirmation: Confirmation | None = None

    def _repr_html_(self) -> str:
        """Return the best trials as a table, for notebooks."""
        return f"{self.optimizer._repr_html_()}<p>{escape(self.reason)}</p>"

    @property
    def winner(self) -> Trial | None:
        """The best candidate of the repeated measurements, with these as its outcome; without them `best`."""
        confirmed = None if self.confirmation is None else self.confirmation.winner
        return self.best if confirmed is None else confirmed

    @property
    def recommended(self) -> Trial | None:
        """The candidate to use: of those as good as the winner, the closest to the default; without any, `winner`."""
        chosen = None if self.confirmation is None else self.confirmation.recommended
        return self.winner if chosen is None else chosen

    @property
    def best(self) -> Trial | None:
        """The successful trial with the best value, or None; with several objectives the knee of `front`."""
        return self.optimizer.best

    @property
    def best_config(self) -> dict[str, Any] | None:
        """The configuration of `best`, or None."""
        return self.optimizer.best_config

    @property
    def best_value(self) -> float | None:
        """The value of `best`, or None."""
        return self.optimizer.best_value

    @property
    def front(self) -> list[Observation]:
        """The successful trials that no other one dominates, sorted by the value of the first objective."""
        return self.optimizer.front

    @property
    def trials(self) -> list[Trial]:
        """Observed trials, in order of arrival."""
        return self.optimizer.trials


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
        storage: Path of the journal (an existing one is resumed), a `Journal`, or None to keep no journal.
        warm_start: Results of earlier runs: the path of a file, a `WarmStart`, or a list of them.
        measuring: Repeats, retries, rechecks during the run, and the confirmation of the winner.
        workers: Executor or device slots, and this process among several that tune together on one journal.
        callbacks: Called with the optimizer and each trial after it is observed.
        progress: Whether to show the progress on standard error.

    Returns:
        The best configuration and all trials.

    Raises:
        JournalError: Another run uses the same journal, or it belongs to another space.
        TypeError: ``stop`` is not a stopping rule, or a callback is not callable.
        ValueError: An argument has a wrong value, see `Optimizer`. With several objectives or tasks, a confirmation,
            `Target` and `LowOutlook` are errors; with several tasks also rechecks and `NoImprovement`.
        Exception: Any exception of ``fn`` whose type is not in `Measuring.failures`.
    """
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
        display = None
        if progress:
            threshold = measuring.recheck.threshold if measuring.recheck else 0.05
            display = show_progress(sys.stderr, budget, "", time_limit(stop), threshold)
        for note in describe_machine() if progress else ():
            print(f"note: {note}", file=sys.stderr)
        return _run(optimizer, evaluator, stop, measuring, display)


def _run(
    optimizer: Optimizer,
    evaluator: Evaluator,
    stop: StopRule,
    measuring: Measuring,
    progress: Progress | None,
) -> Result:
    try:
        reason = search_and_confirm(optimizer, evaluator, stop, measuring, progress)
    except KeyboardInterrupt:
        reason = "interrupted"
    except Exception as error:
        with contextlib.suppress(AttributeError, TypeError):  # a class may reject new attributes
            error.optimizer = optimizer  # type: ignore[attr-defined]
            if sys.version_info >= (3, 11):
                error.add_note(
                    f"{len(optimizer.trials)} evaluations are kept in this exception's attribute 'optimizer'"
                )
        raise
    confirmed = measuring.confirm is not None
    return Result(optimizer, reason, read_confirmation(optimizer.history) if confirmed else None)


def search_and_confirm(
    optimizer: Optimizer,
    evaluator: Evaluator,
    stop: StopRule,
    measuring: Measuring,
    progress: Progress | None,
    display: Display | None = None,
    announce: Callable[[str], None] = lambda text: None,
) -> str:
    """Search until the rule ends it or leaves the time for the confirmation, then confirm the winner.

    Args:
        optimizer: Suggests the configurations.
        evaluator: Evaluates them; it is closed.
        stop: The rule that ends the run.
        measuring: Rechecks and confirmation.
        progress: Follows the search; None shows nothing.
        display: Shows the measurements of the confirmation, or None.
        announce: Called with a sentence before each part of the confirmation.

    Returns:
        The reason of the end of the search.
    """
    confirm = measuring.confirm
    search = stop if confirm is None else leave_time(stop, confirm, optimizer.history)
    reason = run_locked(optimizer, evaluator, search, progress, measuring.recheck)
    if confirm is not None:
        confirm_winner(optimizer, evaluator, confirm, time_limit(stop), display, announce)
    return reason


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
    judge = optimizer.options.aim.judge
    for inner in find_innermost(evaluator):
        if isinstance(inner, StagedEvaluator):
            # Of several objectives the first decides nothing alone.
            inner.is_accepted = lambda outcome: (
                not history.objectives and judge(outcome, strict=False).value is not None
            )
    recall_history(
        evaluator, history.trials[history.warm :], None if fidelity is None else fidelity.name
    )
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
                trials, exhausted = _next_trials(optimizer, stop, waiting, free, recheck)
        running.outcomes, running.late = [], []
        running.submit(trials)
        if not running.trials:
            return (
                "the space is exhausted" if exhausted else reason or "nothing more may be started"
            )
        if not (has_store and trials):  # the store may hold fewer proposals than workers are free
            running.wait()


def _next_trials(
    optimizer: Optimizer,
    stop: StopRule,
    waiting: list[Trial],
    free: int,
    recheck: Recheck,
) -> tuple[list[Trial], bool]:
    """Return the trials to submit now, waiting ones first, and whether the space is exhausted."""
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
