"""The loop, outside the optimizer: suggest, submit, wait, observe, until a rule ends it."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from baco_like.evaluators.confirmation import Confirmation, confirm
from baco_like.evaluators.function.evaluator import DEFAULT_FAILURES, FunctionEvaluator
from baco_like.evaluators.protocol import Collector, Evaluator
from baco_like.exceptions import FailureWarning, SpaceExhausted
from baco_like.journal.events import Journal
from baco_like.optimizer import Callback, Optimizer
from baco_like.records.direction import Direction
from baco_like.records.history import History, Noise
from baco_like.records.reading import without_bound
from baco_like.records.stopping import StopRule
from baco_like.records.trial import Outcome, Status, Trial
from baco_like.running.lock import journal_file, sole_runner
from baco_like.running.progress import Progress, Silent, progress_on
from baco_like.spaces.space import Space
from baco_like.strategies.protocol import Strategy

_FIRST_FAILURES = 10


@dataclass(frozen=True)
class Result:
    """What `tune` returns.

    Attributes:
        optimizer: Everything that is known; it can go on suggesting.
        reason: Why the run ended.
        confirmation: What came of measuring the best few again, or None where that was not asked for.
    """

    optimizer: Optimizer
    reason: str
    confirmation: Confirmation | None = None

    @property
    def winner(self) -> Trial | None:
        """The candidate that was best when it was measured again, with these measurements; else `best`."""
        confirmed = None if self.confirmation is None else self.confirmation.winner
        return self.best if confirmed is None else confirmed

    @property
    def best(self) -> Trial | None:
        """The best observed feasible trial, or None."""
        return self.optimizer.best

    @property
    def best_config(self) -> dict[str, Any] | None:
        """The configuration of `best`."""
        return self.optimizer.best_config

    @property
    def best_value(self) -> float | None:
        """The value of `best`."""
        return self.optimizer.best_value

    @property
    def trials(self) -> list[Trial]:
        """Observed trials, in order of arrival."""
        return self.optimizer.trials


def run(
    optimizer: Optimizer, evaluator: Evaluator, stop: StopRule, progress: Progress | None = None
) -> str:
    """Evaluate suggestions until ``stop`` says so or the space is exhausted; return why.

    Trials that a resumed journal holds as pending are evaluated first. The evaluator is closed in any case, also when
    the user interrupts; what is done by then is recorded, the rest of what was in flight stays pending in the journal.

    Raises:
        EvaluatorError: The evaluator is broken. What was observed is kept.
        JournalError: Another run works on the same journal.
    """
    with contextlib.ExitStack() as stack:
        stack.callback(evaluator.close)
        stack.enter_context(sole_runner(journal_file(optimizer.journal)))
        optimizer.refresh()  # another run may have ended since it was opened
        return run_locked(optimizer, evaluator, stop, progress)


def run_locked(
    optimizer: Optimizer, evaluator: Evaluator, stop: StopRule, progress: Progress | None = None
) -> str:
    """Do what `run` does, for a caller that is the journal's `sole_runner` already."""
    shown = progress if progress is not None else Silent()
    flight = _Flight(optimizer, evaluator, shown)
    try:
        return _loop(flight, stop)
    except BaseException as error:
        flight.rescue(None if isinstance(error, Exception) else 0.0)
        raise
    finally:
        shown.close()
        evaluator.close()


@dataclass
class _Flight:
    """What has been started, and what of it has come back but is not recorded yet."""

    optimizer: Optimizer
    evaluator: Evaluator
    progress: Progress
    flying: dict[int, Trial] = field(default_factory=dict)
    landed: list[Outcome] = field(default_factory=list)

    @property
    def room(self) -> int:
        return self.evaluator.capacity - len(self.flying)

    def start(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            if trial.id not in self.flying:  # its lease has ended, and it is offered again
                self.evaluator.submit(trial)
            self.flying[trial.id] = trial

    def land(self) -> None:
        """Wait for outcomes and record them."""
        self.landed += self.evaluator.wait()
        landed = [without_bound(o, self.optimizer.options.direction) for o in self.landed]
        outcomes = [o for o in landed if o.status is not Status.ABANDONED]
        if outcomes:
            self.optimizer.complete(outcomes)
        self.landed = []
        for lost in landed:
            if lost.status is Status.ABANDONED:
                self.optimizer.abandon(self.flying.pop(lost.trial_id), lost.message)
        for outcome in outcomes:
            trial = self.flying.pop(outcome.trial_id).with_outcome(outcome)
            self.progress.update(self.optimizer.history, trial)

    def rescue(self, timeout: float | None) -> None:
        """Record what is done when the run breaks off; what broke it is told, not what goes wrong here."""
        with contextlib.suppress(Exception):
            if isinstance(self.evaluator, Collector):
                self.landed += self.evaluator.collect(timeout)
        pending, direction = self.optimizer.history.pending, self.optimizer.options.direction
        done = [
            without_bound(o, direction)
            for o in self.landed
            if o.trial_id in pending and o.status is not Status.ABANDONED
        ]
        with contextlib.suppress(Exception):
            if done:
                self.optimizer.complete(done)


def _loop(flight: _Flight, stop: StopRule) -> str:
    optimizer = flight.optimizer
    waiting = optimizer.pending
    warned = False
    while True:
        reason = optimizer.should_stop(stop)
        if reason is None:
            chosen, exhausted = _next(optimizer, stop, waiting, flight.room)
            flight.start(chosen)
            waiting = waiting[len(chosen) :]
            reason = "the space is exhausted" if exhausted and not flight.flying else None
        if not flight.flying:
            return reason or "nothing more may be started"
        flight.land()
        warned = warned or _warn_if_all_failed(optimizer.history)


def _next(
    optimizer: Optimizer, stop: StopRule, waiting: list[Trial], room: int
) -> tuple[list[Trial], bool]:
    """Return the trials to start now, waiting ones first, and whether the space has no more to give."""
    history = optimizer.history
    for trial in waiting:  # they are not started yet, so they do not count against what may be
        history = history.abandon(trial.id)
    allowed = stop.room(history)
    number = room if allowed is None else min(room, allowed)
    chosen = waiting[: max(0, number)]
    missing = number - len(chosen)
    if missing < 1:
        return chosen, False
    try:
        return chosen + optimizer.suggest(missing), False
    except SpaceExhausted:
        return chosen, not chosen


def _warn_if_all_failed(history: History) -> bool:
    """Warn once when the first ten trials all failed, with the commonest message."""
    if history.evaluations < _FIRST_FAILURES:
        return False
    first = history.trials[history.warm :]
    if len(first) == _FIRST_FAILURES and all(t.failure for t in first):
        (word, message), _ = Counter((t.failure, t.message) for t in first).most_common(1)[0]
        warnings.warn(
            f"the first {_FIRST_FAILURES} evaluations all failed, mostly with {word}: {message:.200}; "
            "the run goes on",
            FailureWarning,
            stacklevel=4,
        )
    return True


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
) -> Result:
    """Tune a Python function.

    Args:
        fn: Called with a trial, a read-only mapping of parameter names to values; returns a number, repeats, or named
            metrics. Raising `Infeasible` (or a type in ``failures``) tells that the configuration cannot run.
        space: A `Space`, or what one is built from.
        stop: When to end, such as ``MaxEvals(200) | MaxTime(600)``.
        direction: As for `Optimizer`, like ``seed``, ``objective``, ``strategy``, ``initial``, ``noise``, ``storage``
            and ``callbacks``.
        seed: See `Optimizer`.
        objective: See `Optimizer`.
        strategy: See `Optimizer`.
        settings: See `Optimizer`.
        initial: See `Optimizer`.
        noise: See `Optimizer`.
        executor: Runs evaluations in parallel; any `concurrent.futures.Executor`.
        max_pending: Evaluations in flight at most; the executor's workers by default.
        repeats: Calls of ``fn`` per configuration; the median counts, all are kept.
        failures: Exception types that are failures of the configuration; any other ends the run.
        retries: How often a failed call is tried again before it counts.
        progress: Show a line of progress on standard error.
        storage: See `Optimizer`.
        warm_start: See `Optimizer`.
        callbacks: See `Optimizer`.
        confirm_best: So many of the best configurations are measured again at the end, five times or until one is left;
            only these measurements choose `Result.winner`. 0: it is the best observed.

    Ctrl-C ends the run with what there is: the result's reason is ``interrupted``. Any other exception leaves with the
    optimizer, and all that it has observed, in its attribute ``optimizer``.

    Raises:
        JournalError: Another run works on the same journal.
        Exception: As `Optimizer`, and what ``fn`` raises, if it is no failure of the configuration.
    """
    evaluator = FunctionEvaluator(
        fn,
        objective=objective,
        failures=failures,
        repeats=repeats,
        retries=retries,
        executor=executor,
        max_pending=max_pending,
    )
    heard = _callables(callbacks)
    if confirm_best < 0:
        raise ValueError(f"confirm_best = {confirm_best}: expected 0 or more configurations")
    if not callable(getattr(stop, "room", None)):
        raise TypeError(f"stop must be a rule such as MaxEvals(60), not {stop!r}")
    whole = space if isinstance(space, Space) else Space(space)
    total = stop.room(History.start(whole))
    with sole_runner(journal_file(storage)):
        optimizer = Optimizer(
            whole,
            direction,
            seed,
            objective=objective,
            budget=total,
            strategy=strategy,
            settings=settings,
            initial=initial,
            noise=noise,
            storage=storage,
            warm_start=warm_start,
            callbacks=heard,
        )
        shown = progress_on(sys.stderr, total) if progress else Silent()
        return _result(optimizer, evaluator, stop, shown, confirm_best)


def _result(
    optimizer: Optimizer, evaluator: Evaluator, stop: StopRule, progress: Progress, top: int
) -> Result:
    try:
        reason = run_locked(optimizer, evaluator, stop, progress)
        return Result(optimizer, reason, confirmed(optimizer, evaluator, top) if top else None)
    except KeyboardInterrupt:
        return Result(optimizer, "interrupted")
    except Exception as error:
        _hand_over(error, optimizer)
        raise


def confirmed(
    optimizer: Optimizer, evaluator: Evaluator, top: int, rounds: int = 5
) -> Confirmation:
    """Measure the best trials of a run again, and close the evaluator; see `confirm`."""
    try:
        direction = optimizer.options.direction
        return confirm(optimizer.trials, evaluator, direction, top=top, rounds=rounds)
    finally:
        evaluator.close()


def _hand_over(error: Exception, optimizer: Optimizer) -> None:
    """Let an exception carry the optimizer, which nobody could reach otherwise."""
    with contextlib.suppress(AttributeError, TypeError):  # a class may refuse attributes
        error.optimizer = optimizer  # type: ignore[attr-defined]
        if sys.version_info >= (3, 11):
            error.add_note(
                f"{len(optimizer.trials)} evaluations are kept in this exception's attribute 'optimizer'"
            )


def _callables(callbacks: Iterable[Callback]) -> tuple[Callback, ...]:
    if not isinstance(callbacks, Iterable):
        raise TypeError(f"callbacks = {callbacks!r}: expected a list of callables")
    found = tuple(callbacks)
    for callback in found:
        if not callable(callback):
            raise TypeError(f"callbacks: {callback!r} is not callable")
    return found
