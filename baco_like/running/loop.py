"""Run the loop of an optimizer and an evaluator: suggest, submit, wait, observe, until a rule ends it."""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from baco_like.evaluators import Collector, Evaluator
from baco_like.exceptions import FailureWarning, SpaceExhausted
from baco_like.optimizer import Optimizer
from baco_like.records import History, Outcome, Status, StopRule, Trial
from baco_like.records.reading import without_bound
from baco_like.running.lock import journal_file, sole_runner
from baco_like.running.progress import Progress

_WARN_AFTER = 10
"""Number of failures at the start of a run after which a warning is issued."""


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
    with contextlib.closing(evaluator), sole_runner(journal_file(optimizer.journal)):
        optimizer.refresh()  # another run may have ended since the journal was opened
        return run_locked(optimizer, evaluator, stop, progress)


def run_locked(
    optimizer: Optimizer, evaluator: Evaluator, stop: StopRule, progress: Progress | None = None
) -> str:
    """Do the same as `run`, for a caller that holds the journal's `sole_runner` lock."""
    running = _RunningTrials(optimizer, evaluator, progress)
    try:
        return _loop(running, stop)
    except BaseException as error:
        running.record_finished(None if isinstance(error, Exception) else 0.0)
        raise
    finally:
        if progress is not None:
            progress.close()
        evaluator.close()


@dataclass
class _RunningTrials:
    """Trials that are submitted to the evaluator.

    Attributes:
        optimizer: Observes the outcomes.
        evaluator: Evaluates the trials.
        progress: Shows them, unless it is None.
        trials: The submitted trials, by number.
        outcomes: Finished outcomes that are not recorded yet.
    """

    optimizer: Optimizer
    evaluator: Evaluator
    progress: Progress | None
    trials: dict[int, Trial] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)

    def submit(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            # A trial that is already submitted has an expired lease and was suggested again.
            if trial.id not in self.trials:
                self.evaluator.submit(trial)
            self.trials[trial.id] = trial

    def wait(self) -> None:
        """Wait for outcomes and record them."""
        self.outcomes += self.evaluator.wait()
        outcomes = self._unbounded_outcomes()
        observed = [o for o in outcomes if o.status is not Status.ABANDONED]
        if observed:
            self.optimizer.complete(observed)
        self.outcomes = []
        for outcome in outcomes:
            if outcome.status is Status.ABANDONED:
                self.optimizer.abandon(self.trials.pop(outcome.trial_id), outcome.message)
        for outcome in observed:
            trial = self.trials.pop(outcome.trial_id).with_outcome(outcome)
            if self.progress is not None:
                self.progress.update(self.optimizer.history, trial)

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
        return [without_bound(o, self.optimizer.options.direction) for o in self.outcomes]


def _loop(running: _RunningTrials, stop: StopRule) -> str:
    optimizer = running.optimizer
    waiting = optimizer.pending
    checked_failures = False
    while True:
        reason = optimizer.should_stop(stop)
        if reason is None:
            free = running.evaluator.capacity - len(running.trials)
            trials, exhausted = _next_trials(optimizer, stop, waiting, free)
            running.submit(trials)
            waiting = waiting[len(trials) :]
            reason = "the space is exhausted" if exhausted and not running.trials else None
        if not running.trials:
            return reason or "nothing more may be started"
        running.wait()
        checked_failures = checked_failures or _check_first_failures(optimizer.history)


def _next_trials(
    optimizer: Optimizer, stop: StopRule, waiting: list[Trial], free: int
) -> tuple[list[Trial], bool]:
    """Return the trials to submit now, waiting ones first, and whether the space is exhausted."""
    history = optimizer.history
    for trial in waiting:  # pending, but not submitted: they must not reduce the room
        history = history.abandon(trial.id)
    room = stop.room(history)
    number = free if room is None else min(free, room)
    trials = waiting[: max(0, number)]
    missing = number - len(trials)
    if missing < 1:
        return trials, False
    try:
        return trials + optimizer.suggest(missing), False
    except SpaceExhausted:
        return trials, not trials


def _check_first_failures(history: History) -> bool:
    """Warn if the first evaluations all failed; return whether there are enough evaluations to tell."""
    if history.evaluations < _WARN_AFTER:
        return False
    first = history.trials[history.warm :]
    if len(first) == _WARN_AFTER and all(t.failure for t in first):
        (failure, message), _ = Counter((t.failure, t.message) for t in first).most_common(1)[0]
        warnings.warn(
            f"the first {_WARN_AFTER} evaluations all failed, mostly with {failure}: {message:.200}; "
            "the run continues",
            FailureWarning,
            stacklevel=4,
        )
    return True
