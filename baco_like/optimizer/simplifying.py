"""Simplify the winner: return its parameters to their defaults where that changes neither the program nor the value.

Delta debugging (A. Zeller and R. Hildebrandt, "Simplifying and isolating failure-inducing input", IEEE Transactions on
Software Engineering 2002) towards the default configuration: halves of the changed parameters first, then halves of the
halves that matter, then single parameters until none of them can return. Sequences lose elements in the same way. If k
of n changes matter, independently of each other, there are at most about ``2 k log2(n)`` tests.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, TypeVar

import numpy as np

from baco_like.exceptions import ConfigError, TrialError
from baco_like.optimizer.arguments import default_points
from baco_like.optimizer.recommending import recommend
from baco_like.optimizer.view import RunView
from baco_like.parameters.protocol import is_sequence
from baco_like.records import History, Trial
from baco_like.records.confirmation import (
    LEAST_BUDGET,
    CandidateResults,
    Confirmation,
    is_current,
    read_confirmation,
)
from baco_like.records.objective import sign_of
from baco_like.records.plan import ConfirmationPlan, Simplification
from baco_like.records.rows import row_keys
from baco_like.records.trial import COMPARISON, PROGRAM, SAME_PROGRAM, SIMPLIFICATION
from baco_like.spaces.inputs import defaults_of

_MOST_ROUNDS = 5
"""Most rounds of a test; a noisier machine needs a larger tolerance."""

_CLEAR = 3.0
"""Standard errors beyond the tolerance at which a test ends before its last round."""

T = TypeVar("T")
Measuring = Generator[Trial, None, T]
"""Yields trials to measure, and returns a result."""


class _BudgetSpent(Exception):
    """The next measurements do not fit into the budget or the time."""


def default_trial(history: History) -> Trial | None:
    """Return the first successful trial of the default configuration, one without number if it is unobserved, or None.

    None if there is no feasible default, or all its evaluations have failed.
    """
    config = next(iter(default_points(history.space)), None)
    if config is None:
        return None
    trials = history.trials_of(config, start=history.warm) or [Trial(-1, config)]
    return next((trial for trial in trials if trial.id < 0 or trial.value is not None), None)


def can_simplify(history: History) -> bool:
    """Whether a run has what a simplification needs: one objective, one task, and a feasible default configuration."""
    has_tasks = history.space.tasks is not None and len(history.space.tasks) > 1
    return not (history.objectives or has_tasks) and bool(default_points(history.space))


@dataclass
class Simplifier:
    """Simplifies the winner of a run.

    A measurement that an interrupted call has recorded is not made again: each test follows from the results before
    it, so the same tests come in the same order.

    Args:
        run: The run.
        measure_again: Makes a trial of a configuration with an origin, see `Optimizer.measure_again`.
        start_confirmation: Records the result, see `Optimizer.start_confirmation`.
        budget: Largest number of measurements in the tests.
        confirm_budget: Largest number of measurements in the rounds at the end.
        plan: Confidence and tolerance for a run without a confirmation.
        fits: Called with a number of measurements; False if there is no time for them.

    Raises:
        ValueError: The run has several objectives or tasks, or no feasible default configuration.
        TrialError: No trial has succeeded.
    """

    run: RunView
    measure_again: Callable[[Mapping[str, Any], str], Trial]
    start_confirmation: Callable[[ConfirmationPlan], None]
    budget: int
    confirm_budget: int
    plan: ConfirmationPlan
    fits: Callable[[int], bool]

    def __post_init__(self) -> None:
        run, space = self.run, self.run.space
        if not can_simplify(run.history):
            raise ValueError(
                "simplify needs one objective, one task and a default configuration that is feasible"
            )
        history, self._recorded = _split(run.history)
        self._history, self._default = history, default_trial(history)
        self._is_exact = run.objective.exact
        state = read_confirmation(history) if is_current(history) else None
        winner = None if state is None else state.recommended
        if state is None or winner is None:
            known = history.best() if self._is_exact else None
            winner = known or recommend(replace(run.state, history=history))
            if winner is None:
                raise TrialError("no trial has succeeded, so there is no winner to simplify")
            values = [t for t in (winner, self._default) if t and t.value is not None]
            state = Confirmation(
                replace(self.plan, exact=True, tolerance=0.0) if self._is_exact else self.plan,
                tuple(CandidateResults(t, (t.value or 0.0,)) for t in values if self._is_exact),
                history.direction,
            )
        self._state, self._winner, self._small = state, winner, winner
        race = state.race
        variances = [np.var(row, ddof=1) for row in race.costs if len(row) > 2]
        # Standard deviation of a difference within a round.
        self._spread = math.sqrt(2.0 * float(np.mean(variances))) if variances else math.inf
        needed = (2.0 * self._spread / max(race.tolerance, 1e-12)) ** 2
        # After these rounds, its standard error is half of the tolerance. None: each value is the same again.
        self._rounds = 0 if self._is_exact else math.ceil(min(_MOST_ROUNDS, needed))
        self._defaults = defaults_of(space.parameters)
        self._cost = sign_of(history.direction) * (winner.value or 0.0)
        programs = (trial.extra.get(PROGRAM) for trial in history.trials_of(winner.config))
        self._program = next(filter(None, programs), None)
        (key,) = row_keys(space.encode(default_points(space)))
        self._verdicts = {key: False}  # the winner is better than the default
        earlier = state.plan.simplification
        self._first = winner.id if earlier is None else earlier.trial
        self._measured = 0 if earlier is None else earlier.measurements

    def simplify(self) -> Iterator[Trial]:
        """Yield the trials to measure, each after the last one is observed, and record the result."""
        is_minimal, earlier = False, self._state.plan.simplification
        if earlier is not None and (earlier.is_minimal or earlier.budget >= self.budget):
            return
        with suppress(_BudgetSpent):
            yield from self._reduce()
            is_minimal = True
            yield from self._follow()
        tests, kept = self._measured, self._changed
        first = (self._history.find(self._first) or self._winner).config
        dropped = [name for name in self._differing(first) if name not in kept]
        elements = sum(len(first[n]) - len(self._small.config[n]) for n in self._sequences)
        if self._small is self._winner and not (is_minimal and self._state.results and tests):
            return
        with suppress(_BudgetSpent):  # the next call continues the rounds
            results, is_good = yield from self._confirm()
            found = Simplification(
                self._first, dropped, kept, tests, self.budget, is_minimal and is_good, elements
            )
            if results[0].values and results[0].failure is None:
                self._record(results, found)

    @property
    def _changed(self) -> list[str]:
        return self._differing(self._small.config)

    def _differing(self, config: Mapping[str, Any]) -> list[str]:
        """Return the names of the parameters whose value is not their default."""
        known = self._defaults
        return [n for n, v in config.items() if n in known and known[n] != v]

    def _reduce(self) -> Measuring[None]:
        """Return parameters to their defaults until no single one can return."""
        waiting = _halves(sorted(self._changed, key=self._effect))
        while waiting:
            chunk = [name for name in waiting.pop() if name in self._changed]
            if chunk and not (yield from self._drop(chunk)) and len(chunk) > 1:
                waiting += _halves(chunk)
        before: Trial | None = None
        while before is not self._small:
            before = self._small
            for name in self._changed:
                if not (yield from self._drop([name])) and name in self._sequences:
                    yield from self._shorten(name)

    @property
    def _sequences(self) -> list[str]:
        """Return the names of the parameters whose single elements can be dropped."""
        known = self._history.space.parameters
        return [n for n in self._changed if is_sequence(known[n])]

    def _shorten(self, name: str) -> Measuring[None]:
        """Drop elements of a sequence: halves first, then halves of the halves that matter."""
        value = self._small.config[name]
        kept = list(range(len(value)))
        waiting = _halves(kept)
        while waiting:
            chunk = waiting.pop()
            if not chunk:
                continue
            rest = [place for place in kept if place not in chunk]
            if (yield from self._change({name: tuple(value[place] for place in rest)})):
                kept = rest
            elif len(chunk) > 1:
                waiting += _halves(chunk)

    def _follow(self) -> Measuring[None]:
        """Measure the starts of sequences, so that a report can show what each element adds; one may be as good."""
        if self._rounds:  # a single noisy value would say little of an element
            return
        for name in self._sequences:
            parameter, value = self._history.space.parameters[name], self._small.config[name]
            if not is_sequence(parameter) or not parameter.ordered:
                continue
            for length in range(parameter.min_length, len(value)):
                if (yield from self._change({name: value[:length]})):
                    yield from self._reduce()
                    break

    def _effect(self, name: str) -> float:
        """Return by how many ranks trials of the search with the winner's value of a parameter were better than others.

        Parameters that do not matter come together by it, so that many of them return in one test.
        """
        trials = self._history.successes
        costs = [trial.cost for trial in trials]
        ranks, own = np.argsort(np.argsort(costs)), self._winner.config[name]
        has_own = np.array([trial.config.get(name) == own for trial in trials])
        means = [ranks[rows].sum() / max(1, rows.sum()) for rows in (~has_own, has_own)]
        return float(means[0] - means[1])

    def _drop(self, names: Sequence[str]) -> Measuring[bool]:
        """Return parameters to their defaults, as `_change`."""
        return (yield from self._change({name: self._defaults[name] for name in names}))

    def _change(self, values: Mapping[str, Any]) -> Measuring[bool]:
        """Change parameters; False, and no change, if the result is infeasible or not as good."""
        space = self._history.space
        # Parameters that become active by it get their defaults, too.
        given = {**self._defaults, **self._small.config, **values}
        try:
            codes = space.encode([given])
        except ConfigError:  # one of them has none
            return False
        (config,), (key,) = space.decode(codes), row_keys(codes)
        if not space.feasible.contains(codes)[0]:
            return False
        if key not in self._verdicts:
            self._verdicts[key] = yield from self._is_as_good(config)
        return self._verdicts[key]

    def _is_as_good(self, config: Mapping[str, Any]) -> Measuring[bool]:
        """Return whether a configuration gives the program of the winner, or a value that is not worse."""
        rounds, history = self._rounds, self._history
        trial = next(iter(history.trials_of(config, start=history.warm)), None)
        if trial is None or (rounds and trial.value is not None and not self._is_same(trial)):
            needed = max(1, 2 * rounds)
            is_allowed = self._measured + needed <= self.budget
            if not self._recorded and not (is_allowed and self.fits(needed + LEAST_BUDGET)):
                raise _BudgetSpent
            trial = yield from self._measure(config, SIMPLIFICATION)
        if trial.value is None:
            return False
        cost, is_good = sign_of(history.direction) * trial.value, self._is_same(trial)
        if not is_good:
            is_good = (yield from self._compare(trial)) if rounds else cost <= self._cost
        if is_good:
            self._small, self._cost = trial, min(cost, self._cost)
        return is_good

    def _is_same(self, trial: Trial) -> bool:
        """Whether a trial has built the program of the winner."""
        return self._program is not None and trial.extra.get(PROGRAM) == self._program

    def _compare(self, trial: Trial) -> Measuring[bool]:
        """Measure a configuration and the winner by turns; return whether its mean is within half of the tolerance.

        Half, because a parameter that has returned by mistake is not tried again, and the others are.
        """
        values = () if SAME_PROGRAM in trial.extra else (trial.value or 0.0,)
        state, is_good = self._race([trial, self._winner], values), False
        for n in range(1, self._rounds + 1):
            state = yield from self._measure_rounds(state, 2 * n, n)
            excess = state.race.loss(0) - state.race.tolerance / 2.0
            is_good = excess <= 0.0
            if excess > _CLEAR * self._spread / math.sqrt(n):
                break
        return is_good

    def _confirm(self) -> Measuring[tuple[Sequence[CandidateResults], bool]]:
        """Return the values of the smallest configuration and those it is compared with, and whether it is as good.

        The program of the winner has the values of the winner, and an exact value is known from the test. Otherwise
        the smallest configuration is measured in rounds with the winner and the default.
        """
        small, winner, default, plan = self._small, self._winner, self._default, self._state.plan
        own = {r.trial.id: r for r in self._state.results}
        if winner.id in own and (plan.exact or small is winner or self._is_same(small)):
            values = own.pop(winner.id).values
            values = (small.value or 0.0,) if plan.exact else values
            return [CandidateResults(small, values), *own.values()], True
        state = self._race([small, winner, *([default] if default else [])])
        state = yield from self._measure_rounds(state, self.confirm_budget)
        return state.results, state.race.loss(0) <= state.race.tolerance

    def _record(self, results: Sequence[CandidateResults], found: Simplification) -> None:
        """Record the values as a confirmation, without candidates that have failed."""
        kept = [result for result in results if result.failure is None]
        configs = [dict(result.trial.config) for result in kept]
        (default,) = default_points(self._history.space)
        plan = replace(
            self._state.plan,
            configs=tuple(configs),
            observed=tuple(r.trial.id if r.trial.id >= 0 else None for r in kept),
            default=next((k for k, c in enumerate(configs) if c == default), None),
            known=tuple(result.values for result in kept),
            simplification=found,
        )
        self.start_confirmation(plan)

    def _race(self, trials: Sequence[Trial], values: tuple[float, ...] = ()) -> Confirmation:
        """Return a comparison of configurations, of which the first has these values; the third is the default."""
        plan = replace(
            self._state.plan,
            configs=tuple(trial.config for trial in trials),
            default=2 if len(trials) > 2 else None,
            exact=False,
            start=len(self._history) + self._measured,
        )
        results = [CandidateResults(trials[0], values), *map(CandidateResults, trials[1:])]
        return Confirmation(plan, tuple(results), self._history.direction)

    def _measure_rounds(
        self, state: Confirmation, budget: int, rounds: int | None = None
    ) -> Measuring[Confirmation]:
        """Measure the candidates in rounds until the ranking is decided."""
        seed = self.run.options.seed
        while order := state.race.next_candidates(seed, state.plan.start, budget, rounds):
            for k in order:
                trial = yield from self._measure(state.plan.configs[k], COMPARISON)
                assert trial.outcome is not None
                state = state.add(k, trial.outcome)
        return state

    def _measure(self, config: Mapping[str, Any], origin: str) -> Measuring[Trial]:
        """Return the observed trial of a configuration: the next recorded one, or a new one."""

        def is_wanted(trial: Trial) -> bool:
            return trial.origin == origin and dict(trial.config) == dict(config)

        if self._recorded and is_wanted(self._recorded[0]):
            self._measured += 1
            return self._recorded.popleft()
        self._recorded.clear()  # made with other settings
        if not self.fits(1):
            raise _BudgetSpent
        pending = next(filter(is_wanted, self.run.pending), None)
        trial = pending or self.measure_again(config, origin)
        yield trial
        found = self.run.history.find(trial.id)
        if found is None or found.outcome is None:
            raise TrialError(
                f"trial {trial.id} is not observed; observe each trial of simplify() before the next one"
            )
        self._measured += 1
        return found


def _split(history: History) -> tuple[History, deque[Trial]]:
    """Return the history before the latest simplification, and the trials of an unfinished one."""
    start = history.warm if history.plan is None else history.plan.start
    own = (SIMPLIFICATION, COMPARISON)
    latest = list(takewhile(lambda trial: trial.origin in own, history.trials[start:][::-1]))
    return history.first(len(history) - len(latest)), deque(latest[::-1])


def _halves(names: Sequence[T]) -> list[Sequence[T]]:
    """Return the halves of a list, the first half last: it is tested first."""
    middle = (len(names) + 1) // 2
    return [names[middle:], names[:middle]]
