"""The loop, outside the optimizer: suggest, submit, wait, observe, until a rule ends it."""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from baco_like.evaluators.function import DEFAULT_FAILURES, FunctionEvaluator
from baco_like.evaluators.protocol import Evaluator
from baco_like.exceptions import FailureWarning, SpaceExhausted
from baco_like.optimizer import Callback, Optimizer
from baco_like.records.history import Goal, History, Noise
from baco_like.records.journal import Journal
from baco_like.records.stopping import StopRule
from baco_like.records.trial import Trial
from baco_like.report.progress import Progress, Silent, progress_on
from baco_like.spaces.space import Space
from baco_like.strategies.protocol import Strategy

_FIRST_FAILURES = 10


@dataclass(frozen=True)
class Result:
    """What `tune` returns.

    Attributes:
        optimizer: Everything that is known; it can go on suggesting.
        reason: Why the run ended.
    """

    optimizer: Optimizer
    reason: str

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
    the user interrupts; what was in flight then stays pending in the journal.

    Raises:
        EvaluatorError: The evaluator is broken. What was observed is kept.
    """
    shown = progress if progress is not None else Silent()
    try:
        return _loop(optimizer, evaluator, stop, shown)
    finally:
        shown.close()
        evaluator.close()


def _loop(optimizer: Optimizer, evaluator: Evaluator, stop: StopRule, progress: Progress) -> str:
    waiting = optimizer.pending
    flying: dict[int, Trial] = {}
    warned = False
    while True:
        reason = optimizer.should_stop(stop)
        if reason is None:
            room = evaluator.capacity - len(flying)
            waiting, exhausted = _refill(optimizer, stop, waiting, room)
            for trial in waiting[:room]:
                evaluator.submit(trial)
                flying[trial.id] = trial
            waiting = waiting[room:]
            reason = "the space is exhausted" if exhausted and not flying else None
        if not flying:
            return reason or "nothing more may be started"
        outcomes = evaluator.wait()
        optimizer.complete(outcomes)
        for outcome in outcomes:
            progress.update(optimizer.history, flying.pop(outcome.trial_id).completed(outcome))
        warned = warned or _warn_if_all_failed(optimizer.history)


def _refill(
    optimizer: Optimizer, stop: StopRule, waiting: list[Trial], room: int
) -> tuple[list[Trial], bool]:
    """Return the trials to start next, and whether the space has no more to give."""
    allowed = stop.room(optimizer.history)
    missing = room - len(waiting) if allowed is None else min(room - len(waiting), allowed)
    if missing < 1:
        return waiting, False
    try:
        return waiting + optimizer.suggest(missing), False
    except SpaceExhausted:
        return waiting, not waiting


def _warn_if_all_failed(history: History) -> bool:
    """Warn once when the first ten trials all failed, with the commonest message."""
    if len(history) < _FIRST_FAILURES:
        return False
    if len(history) == _FIRST_FAILURES and all(t.failed for t in history.trials):
        (word, message), _ = Counter((t.failed, t.message) for t in history.trials).most_common(1)[
            0
        ]
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
    direction: Goal = "minimize",
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
    callbacks: Iterable[Callback] = (),
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
        callbacks: See `Optimizer`.
    """
    whole = space if isinstance(space, Space) else Space(space)
    optimizer = Optimizer(
        whole,
        direction,
        seed,
        objective=objective,
        budget=stop.room(History.start(whole)),
        strategy=strategy,
        settings=settings,
        initial=initial,
        noise=noise,
        storage=storage,
        callbacks=callbacks,
    )
    evaluator = FunctionEvaluator(
        fn,
        objective=objective,
        failures=failures,
        repeats=repeats,
        retries=retries,
        executor=executor,
        max_pending=max_pending,
    )
    total = stop.room(History.start(whole))
    shown = progress_on(sys.stderr, total) if progress else Silent()
    return Result(optimizer, run(optimizer, evaluator, stop, shown))
