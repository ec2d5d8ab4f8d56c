"""The Optimizer: decides what to run next. The only mutable object of the core.

It holds a history and a strategy's state, both values, and replaces them together. Whatever it acknowledges is in
the journal first; checks come before any effect.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from baco_like._optional import require
from baco_like._random import Purpose, generator
from baco_like._typing import Array
from baco_like.exceptions import ConfigError, JournalConflict, JournalError, TrialError
from baco_like.optimizer.asking import suggestion
from baco_like.optimizer.opening import (
    chosen,
    default_first,
    header_of,
    journal_of,
    restored,
)
from baco_like.optimizer.telling import check_bounds, legal, told
from baco_like.records import journal as events
from baco_like.records.header import Header, Options, describe, whole
from baco_like.records.history import Goal, History, Noise
from baco_like.records.journal import START, Event, Journal, Mark
from baco_like.records.stopping import StopRule
from baco_like.records.table import table_row
from baco_like.records.trial import Outcome, Trial
from baco_like.spaces.space import Space
from baco_like.storage.jsonl import JsonlJournal
from baco_like.strategies.protocol import Predictive, Problem, Strategy

if TYPE_CHECKING:
    import pandas as pd

Config = Mapping[str, Any]
Callback = Callable[["Optimizer", Trial], None]


@dataclass(frozen=True)
class _Now:
    """All that an optimizer knows, replaced as a whole."""

    options: Options
    problem: Problem
    history: History
    state: Any
    mark: Mark


class Optimizer:
    """Suggests configurations and learns from what came of them.

    Args:
        space: Where to look.
        direction: ``minimize`` or ``maximize``.
        seed: The run's only seed; the same seed and observations give the same suggestions.
        objective: Name of the observed value.
        budget: Evaluations in all, if known: strategies choose their settings by it. It does not end the run.
        strategy: A registered name, or a strategy object with its own settings.
        settings: The named strategy's own settings, as ``baco-like strategies`` lists them.
        initial: Size of the first design, or the user's own first points (which are the design, unless
            ``settings`` has a size of its own).
        noise: ``none``: an observed configuration is never suggested again; ``repeat``: it may be.
        storage: None, the path of a journal (an existing one is resumed), or a `Journal`.
        callbacks: Called with the optimizer and each trial after it is observed.
        context: What the values depend on besides, as JSON values by name; a journal with another is refused.

    A configuration in which every parameter has its default is evaluated first, unless ``initial`` says what is.
    Several threads may use one optimizer, and several processes one journal.

    Raises:
        ValueError: An argument has a wrong value.
        ConfigError: One of the initial points does not belong to the space.
        JournalError: The journal is damaged, or was written with another space or other options.
    """

    def __init__(
        self,
        space: Space,
        direction: Goal = "minimize",
        seed: int = 0,
        *,
        objective: str = "value",
        budget: int | None = None,
        strategy: str | Strategy[Any] = "auto",
        settings: Mapping[str, Any] | None = None,
        initial: int | Sequence[Config] | None = None,
        noise: Noise = "none",
        storage: str | os.PathLike[str] | Journal | None = None,
        callbacks: Iterable[Callback] = (),
        context: Mapping[str, Any] | None = None,
    ) -> None:
        wanted = None if initial is None or not isinstance(initial, Sequence) else list(initial)
        recipe, description = chosen(strategy, settings or {}, initial)
        options = Options(
            direction, seed, objective, budget, noise, description, dict(context or {})
        )
        heard = tuple(callbacks)
        points = [
            legal(space, point) for point in (default_first(space) if wanted is None else wanted)
        ]
        self._start(space, options, recipe, journal_of(storage), points)
        self._callbacks += heard

    def _start(
        self,
        space: Space,
        options: Options,
        strategy: Strategy[Any],
        journal: Journal,
        points: Sequence[Config] | None,
    ) -> None:
        """Write the header, or read the journal that is there; ``points`` None means those of the journal."""
        self._space, self._strategy, self._journal = space, strategy, journal
        self._opened = time.monotonic()
        self._lock = threading.RLock()
        self._callbacks: tuple[Callback, ...] = ()
        self._news: deque[Trial] = deque()
        self._announcing = False
        found = journal.read(START)
        if not found:
            header = Header(space.to_dict(), options, tuple(points or ()))
            begun = self._begun(header)  # a strategy refuses a space before anything is written
            try:
                self._now = replace(begun, mark=journal.append(header.event(), START))
            except JournalConflict:  # somebody else has created the same file at the same moment
                found = journal.read(START)
        if found:
            event, mark = found[0]
            header = Header.read(event, self._name())
            header.check(space, options, points, self._name())
            self._now = replace(self._begun(header), mark=mark)
            self._follow()
        self._news.clear()  # nobody hears of the past again

    def _begun(self, header: Header) -> _Now:
        options = header.options
        problem = Problem(self._space, options.budget, options.noise, options.direction)
        history = History.start(self._space, options.direction).enqueued(header.queue)
        state = self._strategy.init(problem, generator(options.seed, Purpose.INIT))
        return _Now(options, problem, history, state, START)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        space: Space | None = None,
        strategy: Strategy[Any] | None = None,
    ) -> Optimizer:
        """Return the optimizer that a journal describes; it goes on and appends to the same file.

        Args:
            path: The journal.
            space: Needed only where the journal's space has callables as constraints.
            strategy: Needed only where the run was made with a strategy object.

        Raises:
            JournalError: There is no such file, it is damaged, or the space is not the journal's.
        """
        place = Path(path)
        header = header_of(place)
        options = header.options
        if strategy is None:
            recipe = restored(options.strategy, place)
        else:
            recipe, options = strategy, replace(options, strategy={"object": describe(strategy)})
        optimizer = cls.__new__(cls)
        whole = Space.from_dict(header.space) if space is None else space
        optimizer._start(whole, options, recipe, JsonlJournal(place), None)
        return optimizer

    # Asking ----------------------------------------------------------------------------------------------------

    @overload
    def suggest(self) -> Trial: ...
    @overload
    def suggest(self, n: int) -> list[Trial]: ...
    def suggest(self, n: int | None = None) -> Trial | list[Trial]:
        """Return the next trial, or with ``n`` a list of exactly n trials, fewer only when no more are left.

        Raises:
            SpaceExhausted: Every feasible configuration is observed or pending.
            JournalError: It could not be recorded; nothing has changed.
        """
        count = 1 if n is None else whole("n", n, 1)

        def event(now: _Now) -> Event:
            return suggestion(
                now.problem, now.history, self._strategy, now.state, now.options.seed, count
            )

        rows = self._commit(event)["trials"]
        history = self._now.history
        trials = [trial for row in rows if (trial := history.find(row["id"])) is not None]
        return trials[0] if n is None else trials

    def enqueue(self, config: Config) -> None:
        """Let a configuration of the user's be the next suggestion.

        Raises:
            ConfigError: It does not belong to the space, or is observed or pending already.
        """
        wanted = legal(self._space, config)
        code = self._space.encode([wanted])

        def event(now: _Now) -> Event:
            if now.problem.taken(now.history, code)[0]:
                raise ConfigError(f"{wanted} is observed or pending already; it cannot be enqueued")
            return events.enqueued_event([wanted])

        self._commit(event)

    # Telling ---------------------------------------------------------------------------------------------------

    def observe(
        self,
        trial: Trial | Config | Sequence[Trial | Config],
        value: Any = None,
        *,
        failed: str | bool | None = None,
        message: str = "",
        bound: float | None = None,
        extra: Mapping[str, Any] | None = None,
        imported: bool = False,
    ) -> None:
        """Record what came of a trial.

        Args:
            trial: A suggested trial; a configuration told without being asked for; or a list of either, with a list
                of as many values.
            value: A number; repeats (their median counts, all are kept); or named metrics with the objective among
                them. None, NaN and infinities are failures, with a warning.
            failed: The failure word (True: ``runtime``); the configuration is infeasible and never suggested again.
            message: What the failing tool said.
            bound: With ``failed="timeout"``: the value is at least this.
            extra: Further JSON values to keep.
            imported: The configuration may lie outside the space; then it is kept but not modelled.

        Raises:
            TrialError: The trial is not pending (or not of this run), or the lists differ in length.
            ConfigError: A told configuration does not belong to the space.
            JournalError: It could not be recorded; nothing has changed.
        """
        details = {"failed": failed, "message": message, "bound": bound, "extra": extra}

        def event(now: _Now) -> Event:
            return told(
                now.history, now.options.objective, trial, value, details, imported=imported
            )

        self._commit(event)

    def complete(self, outcomes: Sequence[Outcome]) -> None:
        """Record the outcomes of suggested trials, as evaluators return them.

        Raises:
            TrialError: A trial is not pending, or stands there twice; nothing has changed.
            JournalError: It could not be recorded; nothing has changed.
        """

        def event(now: _Now) -> Event:
            check_bounds(now.history, outcomes)
            return events.observed_event(now.history.checked(outcomes))

        self._commit(event)

    def abandon(self, trial: Trial, reason: str = "") -> None:
        """Give a trial up: it is no longer pending, and its configuration may come back.

        Raises:
            TrialError: It is not pending.
        """
        if not isinstance(trial, Trial):
            raise TrialError(f"abandon takes a trial that was suggested, not {trial!r:.80}")

        def event(now: _Now) -> Event:
            now.history.abandoned(trial.id)
            return events.abandoned_event(trial.id, reason)

        self._commit(event)

    # Looking ---------------------------------------------------------------------------------------------------

    @property
    def space(self) -> Space:
        """The space of the run."""
        return self._space

    @property
    def journal(self) -> Journal:
        """Where the events of the run are kept."""
        return self._journal

    def refresh(self) -> None:
        """Take in what other writers have added to the journal; every other method that records does so by itself."""
        with self._lock:
            self._follow()
            self._announce()

    @property
    def options(self) -> Options:
        """Direction, seed, objective, budget, noise and strategy, as in the journal."""
        return self._now.options

    @property
    def history(self) -> History:
        """All that is known, as a frozen value."""
        return self._now.history

    @property
    def pending(self) -> list[Trial]:
        """Suggested trials that are neither observed nor abandoned."""
        return list(self._now.history.pending.values())

    @property
    def trials(self) -> list[Trial]:
        """Observed trials, in order of arrival, failures included."""
        return self._now.history.trials

    @property
    def best(self) -> Trial | None:
        """The best observed feasible trial, or None before the first success."""
        return self._now.history.best()

    @property
    def best_config(self) -> dict[str, Any] | None:
        """The configuration of `best`."""
        return None if self.best is None else dict(self.best.config)

    @property
    def best_value(self) -> float | None:
        """The value of `best`."""
        return None if self.best is None else self.best.value

    def recommend(self) -> Trial | None:
        """Return the observed trial that the model expects to be best: the better choice under noise.

        Without a model, or with too little data for one, it is `best`.
        """
        best = self.best
        candidates = [t for t in self.trials if t.value is not None and t.origin != "imported"]
        if best is None or not candidates or not isinstance(self._strategy, Predictive):
            return best
        try:
            mean, _, _ = self.predict([t.config for t in candidates])
        except TrialError:
            return best
        sign = 1.0 if self._now.options.direction == "minimize" else -1.0
        return candidates[int(np.argmin(sign * mean))]

    def predict(self, configs: Sequence[Config]) -> tuple[Array, Array, Array]:
        """Return mean, standard deviation (user's unit) and probability of feasibility, each ``(n,)``.

        Raises:
            TrialError: The strategy has no model, or too little is observed.
            ConfigError: A configuration does not belong to the space.
        """
        if not isinstance(self._strategy, Predictive):
            raise TrialError(
                f"strategy {type(self._strategy).__name__} has no model to predict with; use strategy='bayesian'"
            )
        codes = self._space.encode(list(configs))
        rng = generator(self._now.options.seed, Purpose.MODEL, len(self._now.history))
        mean, std, feasible = self._strategy.predict(
            self._now.problem, self._now.history, self._now.state, codes, rng
        )
        sign = 1.0 if self._now.options.direction == "minimize" else -1.0
        return sign * mean, std, feasible

    def why(self, trial: Trial) -> dict[str, Any]:
        """Return where a trial came from and what the model expected of it when it was suggested."""
        note = dict(trial.tag) if isinstance(trial.tag, Mapping) else {}
        return {"origin": trial.origin, **{k: v for k, v in note.items() if k != "hyperparameters"}}

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per observed trial: id, parameters, value, status, failure word and message, repeats, metrics.

        A column of ours that has a parameter's name begins with ``trial_`` instead.

        Raises:
            MissingExtra: pandas is not installed.
        """
        frame = require("pandas", "dataframe")
        rows = [table_row(trial, self._now.options.objective) for trial in self.trials]
        result: pd.DataFrame = frame.DataFrame(rows)
        return result

    def should_stop(self, rule: StopRule) -> str | None:
        """Return why the run should end, or None."""
        return rule.reason(self._now.history, time.monotonic() - self._opened)

    # Keeping ---------------------------------------------------------------------------------------------------

    def _commit(self, make: Callable[[_Now], Event]) -> Event:
        """Make an event from what is known, try it, write it, and only then let it take effect.

        If somebody else was faster it is made again from what is known then. The new knowledge replaces the old in one
        assignment; if that is interrupted, the event is read from the journal at the next call.
        """
        with self._lock:
            while True:
                self._follow()
                event = events.normalised(make(self._now))
                after, observed = self._folded(self._now, event, self._now.mark.number)
                try:
                    mark = self._journal.append(event, self._now.mark)
                except JournalConflict:
                    continue
                self._now = replace(after, mark=mark)
                self._news.extend(observed)
                break
            self._announce()
        return event

    def _follow(self) -> None:
        """Take in what the journal has beyond what is known: other writers' events, or an interrupted one."""
        for event, mark in self._journal.read(self._now.mark):
            after, observed = self._folded(self._now, event, mark.number - 1)
            self._now = replace(after, mark=mark)
            self._news.extend(observed)

    def _folded(self, now: _Now, event: Event, number: int) -> tuple[_Now, Sequence[Trial]]:
        """Return what is known after an event, and the trials that it observed."""
        try:
            history, observed = events.apply(event, now.history)
        except (TrialError, ConfigError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise JournalError(
                f"{self._name()}: record {number} does not fit those before it: {error}", number
            ) from error
        state = now.state
        for trial in observed:
            rng = generator(now.options.seed, Purpose.TELL, trial.id)
            state = self._strategy.tell(now.problem, state, trial, rng)
        return replace(now, history=history, state=state), observed

    def _announce(self) -> None:
        """Call the callbacks for what was observed, in order; one that calls back finds everything in place."""
        if self._announcing:
            return
        self._announcing = True
        try:
            while self._news:
                trial = self._news.popleft()
                for callback in self._callbacks:
                    callback(self, trial)
        finally:
            self._announcing = False

    def _name(self) -> str:
        return str(getattr(self._journal, "path", "journal"))
