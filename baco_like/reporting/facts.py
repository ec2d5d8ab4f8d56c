"""Everything that a report says about a run, computed once from its journal."""

from __future__ import annotations

import calendar
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from baco_like import explanations
from baco_like._threads import resolve_threads, thread_limit
from baco_like.exceptions import BacoError, JournalError, TrialError
from baco_like.journal import RemoteJournal
from baco_like.journal.header import PEAK
from baco_like.optimizer.predictions import history_of
from baco_like.records import Trial
from baco_like.running.findings import Findings, relative_spread
from baco_like.running.journal_view import JournalView


@dataclass(frozen=True)
class Explained:
    """Explanations by models of a history.

    Attributes:
        importance: The importance of the parameters.
        dependence: The partial dependence on every parameter and on the strongest pairs.
        ablation: The path from the default to the winner, or None.
        outlook: The improvement that is left, or None with several objectives or a best value of 0.
        calibration: Leave-one-out predictions.
        further: The importance of the parameters for each further objective, by its name.
    """

    importance: explanations.Importance
    dependence: tuple[explanations.Dependence, ...]
    ablation: explanations.Ablation | None
    outlook: explanations.Outlook | None
    calibration: explanations.Calibration
    further: Mapping[str, explanations.Importance]


class RunFacts(JournalView):
    """The facts of a run.

    Args:
        path: The journal, or a run on a server.
        peak: The best value that the machine allows; None: as in the journal, if it has one.

    Attributes:
        peak: The best value that the machine allows, or None.

    Raises:
        JournalError: The journal is missing or damaged, or the run has several objectives and a peak is given.
    """

    def __init__(self, path: Path | RemoteJournal, peak: float | None = None) -> None:
        super().__init__(path, with_constraints=True)
        if peak is not None and self.objectives:
            raise JournalError(
                f"peak = {peak:g}: the run has several objectives, and a peak is the best value of one; leave it out"
            )
        stated = self.options.context.get(PEAK)
        self.peak = peak if peak is not None or not isinstance(stated, (int, float)) else stated

    @property
    def title(self) -> str:
        """Names and units of all objectives."""
        labels = [objective.label for objective in self.objectives or (self.objective,)]
        return " and ".join(filter(None, (", ".join(labels[:-1]), labels[-1])))

    @cached_property
    def findings(self) -> Findings:
        """The winner, the default, failures and drift, after the confirmation if there is one."""
        return Findings(self.history, self.objective)

    @cached_property
    def explained(self) -> Explained | None:
        """The explanations; None with too few successes."""
        history, seed = self.history, self.options.seed
        with thread_limit(resolve_threads(None)):
            try:
                models = explanations.fit_models(history, seed)
            except TrialError:
                return None
            importance = explanations.compute_importance(history, seed, models=models)
            further = {
                objective.name: explanations.compute_importance(
                    history_of(history, objective.name), seed
                )
                for objective in history.objectives[1:]
            }
            return Explained(
                importance,
                explanations.compute_dependence(history, seed, models=models, ranking=importance),
                self._ablation(models),
                self._outlook(models),
                explanations.compute_calibration(history, seed, models=models),
                further,
            )

    def _outlook(self, models: explanations.HistoryModels) -> explanations.Outlook | None:
        with suppress(TrialError):
            return self.outlook(models=models)
        return None

    def _ablation(self, models: explanations.HistoryModels) -> explanations.Ablation | None:
        best = self.findings.best
        seed = self.options.seed
        with suppress(BacoError):  # an imported configuration may lie outside the space
            end = None if best is None else dict(best.config)
            return explanations.find_ablation(self.history, seed, end=end, models=models)
        return None

    @cached_property
    def minutes(self) -> list[float | None]:
        """For each observed trial the minutes since the run began; None where the journal has no time."""
        began = self.began
        return [
            None if at is None or began is None else (at - began) / 60.0
            for at in (trial.ended for trial in self.trials)
        ]

    @cached_property
    def began(self) -> float | None:
        """Unix time of the first event, or None."""
        with suppress(ValueError):
            return float(calendar.timegm(time.strptime(self.created, "%Y-%m-%dT%H:%M:%SZ")))
        return None

    @cached_property
    def ok(self) -> list[Trial]:
        """Observed trials that may be the best."""
        return [*self.history.successes]

    def relative_spread(self) -> list[tuple[int, float]]:
        """Return for each trial with repeats its position and the standard deviation of its repeats over their mean."""
        spreads = enumerate(map(relative_spread, self.trials))
        return [(row, spread) for row, spread in spreads if spread is not None]
