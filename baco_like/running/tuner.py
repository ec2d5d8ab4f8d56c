"""The tuning loop (suggest, submit, wait, observe): `run` for any evaluator, `tune` for a Python function."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from html import escape
from typing import Any

from baco_like._output import optional_output, warn_caller
from baco_like.evaluators import (
    DEFAULT_FAILURES,
    Evaluator,
    FunctionEvaluator,
    ProcessLanes,
    StagedEvaluator,
)
from baco_like.evaluators.protocol import find_innermost, recall_history
from baco_like.exceptions import FailureWarning, SpaceExhausted
from baco_like.journal import Journal
from baco_like.journal.run_lock import journal_file, sole_runner
from baco_like.optimizer import Callback, Optimizer
from baco_like.optimizer.objectives import resolve_objectives
from baco_like.optimizer.simplifying import can_simplify
from baco_like.records import (
    AnyLimit,
    Confirmation,
    Direction,
    Goal,
    History,
    Noise,
    Observation,
    Status,
    StopRule,
    Trial,
    read_confirmation,
    read_objectives,
)
from baco_like.records.direction import GivenObjectives
from baco_like.records.trial import CONTROL
from baco_like.running.confirming import (
    SIMPLIFY,
    ConfirmationSettings,
    confirm_winner,
    leave_time,
)
from baco_like.running.control import RECHECK, ControlSettings
from baco_like.running.machine import describe_machine
from baco_like.running.progress import Progress, show_progress
from baco_like.running.running_trials import RunningTrials
from baco_like.running.stopping import check_rule, check_rule_for_tasks, time_limit
from baco_like.spaces import Space
from baco_like.spaces.fidelity import GivenFidelity
from baco_like.spaces.tasks import GivenTask, GivenTasks
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
        confirmation: The repeated measurements of the best configurations, or None without ``confirm_best``.
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


def tune(
    fn: Callable[[Trial], Any],
    space: Space | Mapping[str, Any],
    *,
    stop: StopRule,
    direction: Direction = "minimize",
    seed: int = 0,
    objective: str = "value",
    strategy: str | Strategy[Any] = "auto",
    settings: Mapping[str, Any] | None = None,
    initial: int | Sequence[Mapping[str, Any]] | None = None,
    noise: Noise = "none",
    executor: Executor | None = None,
    max_pending: int | None = None,
    repeats: int = 1,
    failures: tuple[type[BaseException], ...] = DEFAULT_FAILURES,
    retries: int = 0,
    progress: bool = True,
    storage: str | os.PathLike[str] | Journal | None = None,
    warm_start: Any = None,
    callbacks: Iterable[Callback] = (),
    confirm_best: int = 0,
    confirm_evaluations: float = 0.1,
    simplify: float | None = None,
    threads: int | None = None,
    limits: Iterable[AnyLimit] = (),
    slots: Sequence[Any] | None = None,
    recheck: int | None = None,
    drift_threshold: float = 0.05,
    ahead: int = 0,
    patience: float | None = None,
    worker: str | None = None,
    lease: float | None = None,
    fidelity: GivenFidelity | None = None,
    objectives: GivenObjectives | None = None,
    tasks: GivenTasks | None = None,
    goal: Goal | None = None,
    task: GivenTask | None = None,
) -> Result:
    """Tune a Python function.

    Ctrl-C ends the run with the result so far; its reason is ``interrupted``. Any other exception that ends the run
    carries the optimizer, with all its observations, in the attribute ``optimizer``.

    Args:
        fn: Called with a trial, a read-only mapping of parameter names to values. Returns a number, a list of
            repeats, or a mapping of metrics. Raises `Infeasible`, or a type in ``failures``, if the configuration
            cannot run.
        space: A `Space`, or the mapping from which one is built.
        stop: The rule that ends the run, such as ``MaxEvals(200) | MaxTime(600)``. If it limits only the time, short
            evaluations are preferred: see the argument ``seconds`` of `Optimizer`.
        direction: ``minimize`` or ``maximize``.
        seed: The run's only seed. The same seed and values give the same suggestions; if ``stop`` limits only the time,
            the durations must be the same too.
        objective: Name of the value to optimize; selects the metric if ``fn`` returns several.
        strategy: A name listed by ``baco-like strategies``, or a strategy object.
        settings: Settings of the named strategy.
        initial: Size of the initial design, or the configurations to evaluate first.
        noise: ``none``: no configuration is evaluated twice; ``repeat``: it may be.
        executor: Runs evaluations in parallel; any `concurrent.futures.Executor`.
        max_pending: Largest number of pending evaluations; by default the number of the executor's workers.
        repeats: Calls of ``fn`` per configuration; their median is the value, and all are kept.
        failures: Exception types that mean a failure of the configuration; any other type ends the run.
        retries: Number of times that a failed call is repeated before it counts as a failure.
        progress: Whether to show the progress on standard error.
        storage: Path of the journal (an existing one is resumed), a `Journal`, or None to keep no journal.
        warm_start: Results of earlier runs: the path of a file, a `WarmStart`, or a list of them.
        callbacks: Called with the optimizer and each trial after it is observed.
        confirm_best: Number of best configurations to measure again at the end, in rounds together with the default
            configuration; only these measurements decide `Result.winner`. 0 measures none.
        confirm_evaluations: Largest number of these measurements, in addition to the evaluations of ``stop``: an
            integer, or a share of the run's evaluations (at least 15, but no more than the run has evaluations). They
            end earlier when the ranking is decided. A time limit in ``stop`` includes them: the search leaves this
            share of the time.
        simplify: Largest number of measurements after them, to return parameters of the winner to their defaults where
            that changes neither the program nor the value; an integer or a share, as before; see `Optimizer.simplify`.
            0: none. None: 0.25 with ``confirm_best``, if there is a default configuration. It also works without
            ``confirm_best``, as for an objective that is exact.
        threads: Largest number of threads of the numerical libraries during a suggestion; see `Optimizer`. It does not
            limit ``fn``.
        limits: Conditions on the metrics that ``fn`` returns, such as ``["size <= 40000"]``: a configuration beyond
            one fails with the word ``limit``. A `SoftLimit` may be exceeded, at a price.
        slots: Device slots such as ``["cuda:0", "cuda:1"]``, instead of ``executor``: each is a process that sees its
            device only, and calls ``fn`` for one trial at a time. ``fn`` must be a function of a module. The journal
            keeps the device type; a resume on devices of another type is refused.
        recheck: Number of evaluations after which the best configuration is measured again, to notice drift of the
            machine; these measurements count as evaluations. 0: never. None: 25 with ``noise="repeat"``, otherwise
            0, because then no configuration is evaluated twice.
        drift_threshold: Relative change of these values that is reported; the best three configurations are then
            measured again.
        ahead: Number of proposals that a background thread keeps in store while configurations are evaluated, so that
            a free worker gets one at once; see `Optimizer`.
        patience: With ``ahead``: seconds to wait for the model before a draw without a model is evaluated.
        worker: Name of this process among several that tune together on one journal; see `Optimizer`. ``stop`` counts
            the evaluations of all of them.
        lease: Seconds after which a trial without a result is evaluated again, by any of them; see `Optimizer`.
        fidelity: A cheap proxy, such as ``{"size": [256, 512, 1024]}``: ``fn`` gets ``trial["size"]``, and only values
            at the last one count for the best configuration. See `Space`.
        objectives: Directions of several values by name, such as ``{"time": "minimize", "size": "minimize"}``; ``fn``
            then returns a mapping with all of them. Or a list of `Objective`, as ``[Objective("size", exact=True)]``:
            where all are exact, ``repeats``, ``confirm_best`` and ``recheck`` are errors. They replace
            ``objective`` and ``direction``; see `Optimizer`.
        tasks: Sizes, inputs or devices to tune together, such as ``[{"n": 512}, {"n": 4096}]``: ``fn`` gets
            ``trial.task["n"]``. See `Optimizer`; ``result.optimizer.recommend()`` has a configuration for each.
        goal: With tasks: ``each``, ``single``, or a `Cover`; see `Optimizer`.
        task: With tasks: the only one that this process evaluates, by name or descriptor. ``stop`` counts the
            evaluations of all tasks.

    Returns:
        The best configuration and all trials.

    Raises:
        JournalError: Another run uses the same journal, or it belongs to another space.
        TypeError: ``stop`` is not a stopping rule, or a callback is not callable.
        ValueError: An argument has a wrong value, see `Optimizer`. With several objectives or tasks, ``confirm_best``,
            `Target` and `LowOutlook` are errors; with several tasks also ``recheck`` and `NoImprovement`.
        Exception: Any exception of ``fn`` whose type is not in ``failures``.
    """
    first, _, several = resolve_objectives(objectives, objective, direction)
    callbacks = tuple(callbacks)
    if not all(map(callable, callbacks)):
        raise TypeError(f"callbacks = {callbacks!r}: expected a list of callables")
    if slots is not None and executor is not None:
        raise ValueError(f"slots = {slots!r:.80}: each slot is a process; leave executor out")
    lanes = None if slots is None else ProcessLanes(slots=slots)
    evaluator = FunctionEvaluator(
        fn,
        objective=first,
        failures=failures,
        repeats=repeats,
        retries=retries,
        executor=executor if lanes is None else lanes,
        max_pending=max_pending,
    )
    space = (space if isinstance(space, Space) else Space(space)).with_fidelity(fidelity)
    space = space.with_tasks(tasks)
    has_tasks = space.tasks is not None and len(space.tasks) > 1
    _check_combination(stop, several, has_tasks, confirm_best, recheck)
    if simplify is None:
        simplify = SIMPLIFY if confirm_best else 0
    elif simplify and (several or not can_simplify(History.start(space))):
        raise ValueError(
            f"simplify = {simplify} needs one objective, one task and a default configuration that is feasible"
        )
    confirmation = ConfirmationSettings(confirm_best, confirm_evaluations, simplify=simplify)
    is_exact = objectives is not None and all(o.exact for o in read_objectives(objectives))
    if is_exact and (repeats > 1 or confirm_best or recheck):
        raise ValueError(
            "repeats, confirm_best and recheck measure again, and the objective is exact; leave them out"
        )
    default_recheck = RECHECK if noise == "repeat" and not (has_tasks or is_exact) else 0
    control = ControlSettings(default_recheck if recheck is None else recheck, drift_threshold)
    budget = stop.room(History.start(space))
    # Without a limit on evaluations the budget is in time. Parallel evaluations share the wall time.
    limit = time_limit(stop) if budget is None else None
    seconds = None if limit is None else limit * evaluator.capacity
    with sole_runner(journal_file(storage), worker is not None), lanes or contextlib.nullcontext():
        optimizer = Optimizer(
            space,
            direction,
            seed,
            objective=objective,
            budget=budget,
            strategy=strategy,
            settings=settings,
            initial=initial,
            noise=noise,
            storage=storage,
            warm_start=warm_start,
            callbacks=callbacks,
            threads=threads,
            limits=limits,
            context=None if lanes is None else lanes.context,
            ahead=ahead,
            patience=patience,
            worker=worker,
            lease=lease,
            seconds=seconds,
            objectives=objectives,
            goal=goal,
            task=task,
        )
        display = None
        if progress:
            display = show_progress(sys.stderr, budget, "", time_limit(stop), control.threshold)
        for note in describe_machine() if progress else ():
            print(f"note: {note}", file=sys.stderr)
        return _run(optimizer, evaluator, stop, display, confirmation, control)


def _check_combination(
    stop: StopRule,
    several: Mapping[str, Direction],
    has_tasks: bool,
    confirm_best: int,
    recheck: int | None,
) -> None:
    """Check the stopping rule and the repeated measurements against the number of objectives and tasks."""
    if not callable(getattr(stop, "room", None)):
        raise TypeError(f"stop must be a rule such as MaxEvals(60), not {stop!r}")
    if confirm_best < 0:
        raise ValueError(f"confirm_best = {confirm_best}: expected 0 or more configurations")
    if confirm_best and several:
        raise ValueError(
            f"confirm_best = {confirm_best}: it confirms the winner of one objective, not of several"
        )
    check_rule(stop, read_objectives(several) if several else ())
    if has_tasks:
        check_rule_for_tasks(stop)
        if confirm_best or recheck:
            raise ValueError(
                "confirm_best and recheck measure the best configuration of one task, and there are several; "
                "leave them out"
            )


def _run(
    optimizer: Optimizer,
    evaluator: Evaluator,
    stop: StopRule,
    progress: Progress | None,
    confirmation: ConfirmationSettings,
    control: ControlSettings,
) -> Result:
    try:
        search = leave_time(stop, confirmation, optimizer.history)
        reason = run_locked(optimizer, evaluator, search, progress, control)
        if not (confirmation.top or confirmation.simplify):
            return Result(optimizer, reason)
        seconds = time_limit(stop)
        return Result(
            optimizer, reason, confirm_winner(optimizer, evaluator, confirmation, seconds)
        )
    except KeyboardInterrupt:
        return Result(optimizer, "interrupted", read_confirmation(optimizer.history))
    except Exception as error:
        with contextlib.suppress(AttributeError, TypeError):  # a class may reject new attributes
            error.optimizer = optimizer  # type: ignore[attr-defined]
            if sys.version_info >= (3, 11):
                error.add_note(
                    f"{len(optimizer.trials)} evaluations are kept in this exception's attribute 'optimizer'"
                )
        raise


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
    control: ControlSettings | None = None,
) -> str:
    """Do the same as `run`, for a caller that holds the journal's `sole_runner` lock.

    With ``control``, the incumbent is measured again from time to time.
    """
    running = RunningTrials(optimizer, evaluator, progress)
    capacity = evaluator.capacity
    _logger.info(
        "the run begins: up to %d trials at a time by %s", capacity, type(evaluator).__name__
    )
    history, fidelity = optimizer.history, optimizer.space.fidelity
    judge = optimizer.options.judge
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
            reason = _loop(running, stop, control or ControlSettings())
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


def _loop(running: RunningTrials, stop: StopRule, control: ControlSettings) -> str:
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
                trials, exhausted = _next_trials(optimizer, stop, waiting, free, control)
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
    control: ControlSettings,
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
    config = control.next_config(optimizer.history)
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
