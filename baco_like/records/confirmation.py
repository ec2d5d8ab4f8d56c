"""The results of a confirmation, read from the history alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from baco_like._typing import Array
from baco_like.records.confirmation_race import Race, Speedup
from baco_like.records.history import History
from baco_like.records.objective import Direction, sign_of
from baco_like.records.plan import ConfirmationPlan
from baco_like.records.trial import (
    AFTER_SEARCH,
    CONFIRMATION,
    NOTES,
    Outcome,
    Status,
    Trial,
    median,
    select_best,
)

_UNSTABLE = 0.05
"""Relative change of a speed-up that counts, as for drift: within the rounds, and from the search to the rounds."""


LEAST_BUDGET = 15
"""Measurements that a share allows at least: five rounds of the default and two candidates."""


@dataclass(frozen=True)
class CandidateResults:
    """The results of one candidate so far.

    Attributes:
        trial: The trial that made it a candidate, or a new one of an unobserved default.
        values: Its new values in the user's unit, in the order of the rounds.
        failure: Its failed outcome, or None.
        notes: Those of its last value, see `baco_like.records.trial.NOTES`; None without a new one.
    """

    trial: Trial
    values: tuple[float, ...] = ()
    failure: Outcome | None = None
    notes: Any = None

    def add(self, outcome: Outcome) -> CandidateResults:
        """Return the results with one more outcome.

        A censored outcome that was measured at least once counts with its median: only repeats were saved.
        """
        if outcome.value is not None:
            notes = outcome.extra.get(NOTES, {})
            return replace(self, values=(*self.values, outcome.value), notes=notes)
        repeats = outcome.extra.get("repeats")
        if outcome.status is Status.CENSORED and repeats:
            return replace(self, values=(*self.values, median(tuple(repeats))))
        return replace(self, failure=outcome)

    def to_trial(self) -> Trial:
        """Return the trial with its new outcome, or without an outcome before the first."""
        if self.failure is None and not self.values:
            return replace(self.trial, outcome=None)
        outcome = self.failure or Outcome.success(self.trial.id, self.values)
        notes = self.trial.extra.get(NOTES) if self.notes is None else self.notes
        extra = {**outcome.extra, NOTES: notes, "observed": self.trial.value}
        return self.trial.with_outcome(replace(outcome, trial_id=self.trial.id, extra=extra))


@dataclass(frozen=True)
class Confirmation:
    """A confirmation so far: which candidate is the best, how sure that is, and which one to use.

    Attributes:
        plan: The plan.
        results: For each candidate what is known.
        direction: Whether smaller or larger values are better.
        distances: Distance of each candidate from the default configuration, (K,); empty without a default.
    """

    plan: ConfirmationPlan
    results: tuple[CandidateResults, ...]
    direction: Direction
    distances: Array = field(default_factory=lambda: np.empty(0))

    def add(self, k: int, outcome: Outcome) -> Confirmation:
        """Return the confirmation after one more outcome of candidate k."""
        results = list(self.results)
        results[k] = results[k].add(outcome)
        return replace(self, results=tuple(results))

    @cached_property
    def race(self) -> Race:
        """The comparison of the candidates."""
        return Race.of(
            [result.values for result in self.results],
            [result.failure is not None for result in self.results],
            self.plan.default,
            sign_of(self.direction),
            self.plan.confidence,
            self.plan.tolerance,
            self.plan.exact,
        )

    @cached_property
    def candidates(self) -> tuple[Trial, ...]:
        """All candidates with their new outcomes, the most promising at first.

        ``extra["observed"]`` is the value that made it a candidate.
        """
        return tuple(result.to_trial() for result in self.results)

    @property
    def winner(self) -> Trial | None:
        """The best candidate, with its new measurements as its outcome; None if all candidates have failed."""
        return self._candidate(self.race.standing.winner)

    @property
    def default(self) -> Trial | None:
        """The default configuration with its new measurements, or None."""
        return self._candidate(self.plan.default)

    @property
    def recommended(self) -> Trial | None:
        """The candidate to use.

        The default, unless it is shown that the winner is better than it (see `Race.is_tied_with_default`): a change
        needs evidence. Otherwise, of the tied candidates that are better than the default and whose mean without
        disturbed values is within the tolerance of the winner's, the closest to the default (the winner if there is no
        default). With too few rounds for an interval, all within the tolerance of the winner count.
        """
        return self._candidate(self._choice)

    @cached_property
    def tied(self) -> tuple[Trial, ...]:
        """The candidates that the measurements do not show to be worse than the winner by more than the tolerance.

        The winner is among them. The closest to the default configuration comes first.
        """
        best, close = self._choice, self._close
        if best is not None and best not in close:
            # A default that left the race, and is tied after later rounds.
            close = sorted([*close, best], key=self._rank)
        return tuple(self.candidates[k] for k in close)

    @cached_property
    def speedups(self) -> tuple[Speedup | None, ...]:
        """For each candidate, how many times better than the default it is; None where it is not defined."""
        return tuple(map(self._speedup, range(len(self.results))))

    @property
    def speedup(self) -> Speedup | None:
        """How many times better than the default the winner is; None without a default or with values below 0."""
        return self.speedup_of(self.winner)

    def speedup_of(self, trial: Trial | None) -> Speedup | None:
        """Return how many times better than the default the candidate with a trial's configuration is, or None."""
        pairs = zip(self.candidates, self.speedups, strict=True)
        return next((speedup for other, speedup in pairs if other == trial), None)

    @property
    def rounds(self) -> int:
        """Number of complete rounds."""
        return self.race.standing.rounds

    @property
    def is_decided(self) -> bool:
        """Whether the ranking is decided: every tied candidate is within the tolerance of the winner."""
        return self.race.standing.is_decided and self.winner is not None

    @property
    def measurements(self) -> int:
        """Number of measurements, failures included."""
        return self.race.measurements

    def _candidate(self, k: int | None) -> Trial | None:
        return None if k is None else self.candidates[k]

    @cached_property
    def _close(self) -> list[int]:
        """The indices of the candidates that remain, the closest to the default first; without a worse default."""
        winner, default = self.race.standing.winner, self.plan.default
        if winner is None:
            return []
        close = sorted(self.race.standing.remaining, key=self._rank)
        if winner != default and not self.race.is_tied_with_default(winner):
            close = [k for k in close if k != default]
        return close

    @cached_property
    def _choice(self) -> int | None:
        """The index of the recommended candidate, or None before the first round."""
        race = self.race
        winner = race.standing.winner
        if winner is None or not len(self.distances):
            return winner
        if race.is_tied_with_default(winner):
            return self.plan.default
        equal = [k for k in self._close if race.loss(k) <= race.tolerance]
        return next((k for k in equal if not race.is_tied_with_default(k)), winner)

    def _rank(self, k: int) -> tuple[float, int]:
        return (float(self.distances[k]) if len(self.distances) else 0.0, k)

    def _speedup(self, k: int) -> Speedup | None:
        """Return the speed-up of candidate k, or None; on an unstable machine, it includes the ratio of the search.

        The rounds of a minute show the ratio of that minute. If it varies within them, and was another one in the
        search, then it changes with the load, and the interval is widened by the change on both sides. On a stable
        machine, a different ratio in the search is luck or a disturbance, and the rounds are right.
        """
        speedup = self.race.speedup(k)
        if speedup is None or self.plan.default is None or self.race.spread(k) <= _UNSTABLE:
            return speedup
        default, value = (self.results[i].trial.value for i in (self.plan.default, k))
        if not default or not value or default / value <= 0.0:
            return speedup
        search = (default / value) ** sign_of(self.direction)
        change = max(search / speedup.value, speedup.value / search)
        if math.log(change) <= _UNSTABLE:
            return speedup
        return Speedup(speedup.value, speedup.low / change, speedup.high * change, search)


def read_confirmation(history: History) -> Confirmation | None:
    """Return the latest confirmation of a run with its results so far, or None if the run has none.

    Everything is read from the history, so ``read_confirmation(Optimizer.load("run.jsonl").history)`` gives the result
    of a finished run.
    """
    plan = history.plan
    if plan is None:
        return None
    results = []
    known = plan.known or ((),) * len(plan.configs)
    for config, observed, values in zip(plan.configs, plan.observed, known, strict=True):
        trial = None if observed is None else history.find(observed)
        results.append(CandidateResults(Trial(-1, config) if trial is None else trial, values))
    default = None if plan.default is None else plan.configs[plan.default]
    if default is None and plan.simplification is not None:  # the default has failed
        default = history.space.default_config
    distances = np.empty(0)
    if default is not None:
        features = history.space.features(history.space.encode([*plan.configs, default]))
        distances = np.sqrt(((features[:-1] - features[-1]) ** 2).sum(axis=1))
    configs = [dict(config) for config in plan.configs]
    for trial in history.trials[plan.start :]:
        if trial.origin == CONFIRMATION and trial.outcome and dict(trial.config) in configs:
            k = configs.index(dict(trial.config))
            results[k] = results[k].add(trial.outcome)
    return Confirmation(plan, tuple(results), history.direction, distances)


def winner_of(history: History) -> tuple[Trial | None, Confirmation | None]:
    """Return the trial whose configuration is to be used, and the confirmation that decides, or None.

    It is the recommended trial of the latest confirmation, with its new measurements. A later trial of the search with
    a better value than the confirmed winner replaces it, and nothing confirms it yet. Without a confirmation, or if all
    candidates have failed in it, it is the best observed trial.
    """
    confirmation, plan = read_confirmation(history), history.plan
    if confirmation is None or plan is None or confirmation.winner is None:
        return history.best(), confirmation
    targets = zip(history.trials[plan.start :], history.is_success[plan.start :], strict=True)
    later = (trial for trial, kept in targets if kept and trial.origin not in AFTER_SEARCH)
    (best,) = select_best([confirmation.winner, *later], history.direction, 1)
    return (confirmation.recommended, confirmation) if best is confirmation.winner else (best, None)


def is_current(history: History) -> bool:
    """Return whether the latest confirmation belongs to the present results: no other trial was observed after it."""
    plan = history.plan
    if plan is None:
        return False
    return all(trial.origin in AFTER_SEARCH for trial in history.trials[plan.start :])


def measurement_budget(evaluations: float, searched: int) -> int:
    """Return a number of measurements, given as one or as a share of the evaluations of the search.

    A share allows at least `LEAST_BUDGET` measurements, but no more than there were evaluations.

    Raises:
        ValueError: It is neither.
    """
    if isinstance(evaluations, int) and evaluations >= 1:
        return evaluations
    if not 0 < evaluations < 1:
        raise ValueError(
            f"evaluations = {evaluations!r}: expected a whole number of at least 1, or a share of the run's "
            "evaluations between 0 and 1"
        )
    share = math.floor(evaluations * searched + 1e-9)
    return max(share, min(LEAST_BUDGET, searched))
