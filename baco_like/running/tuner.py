"""Tune a Python function."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from baco_like.evaluators import (
    DEFAULT_FAILURES,
    Confirmation,
    Evaluator,
    FunctionEvaluator,
    confirm,
)
from baco_like.journal import Journal
from baco_like.optimizer import Callback, Optimizer
from baco_like.records import Direction, History, Noise, StopRule, Trial
from baco_like.running.lock import journal_file, sole_runner
from baco_like.running.loop import run_locked
from baco_like.running.progress import Progress, show_progress
from baco_like.spaces import Space
from baco_like.strategies import Strategy


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

    @property
    def winner(self) -> Trial | None:
        """The best candidate of the repeated measurements, with these as its outcome; without them `best`."""
        confirmed = None if self.confirmation is None else self.confirmation.winner
        return self.best if confirmed is None else confirmed

    @property
    def best(self) -> Trial | None:
        """The successful trial with the best value, or None."""
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
) -> Result:
    """Tune a Python function.

    Ctrl-C ends the run with the result so far; its reason is ``interrupted``. Any other exception that ends the run
    carries the optimizer, with all its observations, in the attribute ``optimizer``.

    Args:
        fn: Called with a trial, a read-only mapping of parameter names to values. Returns a number, a list of
            repeats, or a mapping of metrics. Raises `Infeasible`, or a type in ``failures``, if the configuration
            cannot run.
        space: A `Space`, or the mapping from which one is built.
        stop: The rule that ends the run, such as ``MaxEvals(200) | MaxTime(600)``.
        direction: ``minimize`` or ``maximize``.
        seed: The run's only seed; the same seed and values give the same suggestions.
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
        confirm_best: Number of best configurations to measure again at the end, up to five times each; only these
            measurements decide `Result.winner`. 0 measures none.

    Returns:
        The best configuration and all trials.

    Raises:
        JournalError: Another run uses the same journal, or it belongs to another space.
        TypeError: ``stop`` is not a stopping rule, or a callback is not callable.
        ValueError: An argument has a wrong value; see `Optimizer`.
        Exception: Any exception of ``fn`` whose type is not in ``failures``.
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
    callbacks = tuple(callbacks)
    if not all(map(callable, callbacks)):
        raise TypeError(f"callbacks = {callbacks!r}: expected a list of callables")
    if confirm_best < 0:
        raise ValueError(f"confirm_best = {confirm_best}: expected 0 or more configurations")
    if not callable(getattr(stop, "room", None)):
        raise TypeError(f"stop must be a rule such as MaxEvals(60), not {stop!r}")
    space = space if isinstance(space, Space) else Space(space)
    budget = stop.room(History.start(space))
    with sole_runner(journal_file(storage)):
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
        )
        display = show_progress(sys.stderr, budget) if progress else None
        return _run(optimizer, evaluator, stop, display, confirm_best)


def _run(
    optimizer: Optimizer, evaluator: Evaluator, stop: StopRule, progress: Progress | None, top: int
) -> Result:
    try:
        reason = run_locked(optimizer, evaluator, stop, progress)
        confirmation = confirm_best_trials(optimizer, evaluator, top) if top else None
        return Result(optimizer, reason, confirmation)
    except KeyboardInterrupt:
        return Result(optimizer, "interrupted")
    except Exception as error:
        with contextlib.suppress(AttributeError, TypeError):  # a class may reject new attributes
            error.optimizer = optimizer  # type: ignore[attr-defined]
            if sys.version_info >= (3, 11):
                error.add_note(
                    f"{len(optimizer.trials)} evaluations are kept in this exception's attribute 'optimizer'"
                )
        raise


def confirm_best_trials(
    optimizer: Optimizer, evaluator: Evaluator, top: int, rounds: int = 5
) -> Confirmation:
    """Measure the best trials of a run again and close the evaluator; see `confirm`."""
    with contextlib.closing(evaluator):
        direction = optimizer.options.direction
        return confirm(optimizer.trials, evaluator, direction, top=top, rounds=rounds)
