"""The trials that the tuning loop has submitted to an evaluator, and how their outcomes are recorded."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from baco_like._output import optional_output
from baco_like._plugins import is_foreign, name_of
from baco_like.evaluators import Collector, Evaluator
from baco_like.evaluators.protocol import take_late
from baco_like.exceptions import PluginError
from baco_like.optimizer import Optimizer
from baco_like.records import Outcome, Status, Trial
from baco_like.records.reading import without_bound
from baco_like.running.progress import Progress


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
