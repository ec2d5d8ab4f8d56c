"""The Optimizer: decides what to run next. The only mutable object of the core.

It holds a history and a strategy's state, both values, and replaces them together. Whatever it acknowledges is in
the journal first; checks come before any effect.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from baco_like._optional import require
from baco_like._typing import Array
from baco_like.exceptions import (
    BacoWarning,
    ConfigError,
    FailureWarning,
    JournalConflict,
    TrialError,
)
from baco_like.journal import events
from baco_like.journal.events import START, Event, Journal, Mark
from baco_like.journal.header import Header, Options, whole
from baco_like.journal.json_lines import JsonlJournal
from baco_like.journal.warm_start_results import WarmStartResults
from baco_like.optimizer.observing import build_trials, check_bounds, legal
from baco_like.optimizer.predictions import predicted
from baco_like.optimizer.recommendation import recommended
from baco_like.optimizer.setup import (
    collector_paused,
    default_first,
    header_of,
    journal_of,
    lease_of,
    resolve_strategy,
    restore_strategy,
    split,
    warn_of_default,
    with_default_settings,
)
from baco_like.optimizer.state import OptimizerState, apply_events, initial_state
from baco_like.optimizer.suggesting import Ask, suggestion
from baco_like.optimizer.warm_start import WarmStart, check_same, read_all, tasks_of, warm_starts
from baco_like.records.direction import Direction, sign_of
from baco_like.records.history import History, Noise
from baco_like.records.stopping import StopRule
from baco_like.records.table import table_row
from baco_like.records.trial import Outcome, Trial
from baco_like.results.formats import write
from baco_like.results.journal_file import run_recording
from baco_like.spaces.space import Space
from baco_like.strategies.protocol import Strategy, use_related_tasks

if TYPE_CHECKING:
    import pandas as pd

Config = Mapping[str, Any]
Callback = Callable[["Optimizer", Trial], None]


class Optimizer:
    """Suggests configurations and learns from what came of them.

    Args:
        space: Where to look: a `Space`, or what one is built from.
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
        warm_start: Earlier results: a `WarmStart`, several, or what one is made from, such as the path of a file. They
            are read when the run begins and kept in its journal, which needs the source no more.
        callbacks: Called with the optimizer and each trial after it is observed.
        context: What the values depend on besides, as JSON values by name; a journal with another is refused.
        lease: Seconds, longer than any evaluation. A trial that has not come out by then, because its worker died, is
            offered again, with the same number, by the next `suggest` of an optimizer that has a lease; whichever
            result comes first counts, a second one is refused. None: trials stay pending until they are observed or
            abandoned.

    A configuration in which every parameter has its default is evaluated first, unless ``initial`` says what is.
    Several threads may use one optimizer, and several processes one journal.

    Raises:
        ValueError: An argument has a wrong value.
        ConfigError: One of the initial points does not belong to the space, or nothing of a warm start does.
        RunFileError: A warm start's file cannot be read.
        StrategyError: The strategy cannot use what is known of a related task.
        JournalError: The journal is damaged, or was written with another space or other options.
    """

    _callbacks: tuple[Callback, ...]
    _lease: float | None

    def __init__(
        self,
        space: Space | Mapping[str, Any],
        direction: Direction = "minimize",
        seed: int = 0,
        *,
        objective: str = "value",
        budget: int | None = None,
        strategy: str | Strategy[Any] = "auto",
        settings: Mapping[str, Any] | None = None,
        initial: int | Sequence[Config] | None = None,
        noise: Noise = "none",
        storage: str | os.PathLike[str] | Journal | None = None,
        warm_start: Any = None,
        callbacks: Iterable[Callback] = (),
        context: Mapping[str, Any] | None = None,
        lease: float | None = None,
    ) -> None:
        space = space if isinstance(space, Space) else Space(space)
        wanted = None if initial is None or not isinstance(initial, Sequence) else list(initial)
        recipe, description = resolve_strategy(strategy, settings or {}, initial)
        options = Options(
            direction, seed, objective, budget, noise, description, dict(context or {})
        )
        heard = tuple(callbacks)
        if wanted is None:
            warn_of_default(space)
        points = [
            legal(space, point) for point in (default_first(space) if wanted is None else wanted)
        ]
        self._lease, journal = lease_of(lease), journal_of(storage)
        self._start(space, options, recipe, journal, points, warm_starts(warm_start))
        self._callbacks = heard

    def _start(
        self,
        space: Space,
        options: Options,
        strategy: Strategy[Any],
        journal: Journal,
        points: Sequence[Config] | None,
        warm: Sequence[WarmStart] = (),
    ) -> None:
        """Write the header, or read the journal that is there; ``points`` None means those of the journal."""
        self._space, self._strategy, self._journal = space, strategy, journal
        self._opened = time.monotonic()
        self._lock = threading.RLock()
        self._callbacks = ()
        self._news: deque[Trial] = deque()
        self._announcing = False
        found, records = split(journal, self._name())
        if found is None:
            header = Header(
                space.to_dict(), options, tuple(points or ()), read_all(warm, space, options)
            )
            now = self._initial_state(header, strategy)  # all checks, before anything is written
            try:
                self._now = replace(now, mark=journal.append(header.event(), START))
            except JournalConflict:  # somebody else has created the same file at the same moment
                found, records = split(journal, self._name())
        if found is not None:
            header, mark = found
            with_default_settings(header).check(space, options, points, self._name())
            check_same(warm, header.earlier, self._name())
            self._now = replace(self._initial_state(header, strategy), mark=mark)
            with collector_paused():
                self._take(records)
        self._news.clear()  # nobody hears of the past again

    def _initial_state(self, header: Header, strategy: Strategy[Any]) -> OptimizerState:
        """Return what is known before the first event, and let the strategy know related tasks."""
        tasks = tasks_of(header.earlier, self._space, header.options.direction)
        self._strategy, self._earlier = use_related_tasks(strategy, tasks), header.earlier
        return initial_state(header, self._space, self._strategy)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        space: Space | None = None,
        strategy: Strategy[Any] | None = None,
        lease: float | None = None,
    ) -> Optimizer:
        """Return the optimizer that a journal describes; it goes on and appends to the same file.

        Args:
            path: The journal.
            space: Needed only where the journal's space has callables as constraints.
            strategy: Needed only where the run was made with a strategy object.
            lease: As for `Optimizer`.

        Raises:
            JournalError: There is no such file, it is damaged, or the space or the strategy is not the journal's.
        """
        place = Path(path)
        header = header_of(place)
        recipe = restore_strategy(header.options.strategy, strategy, place)
        optimizer = cls.__new__(cls)
        optimizer._lease = lease_of(lease)
        known = Space.from_dict(header.space) if space is None else space
        optimizer._start(known, header.options, recipe, JsonlJournal(place), None)
        return optimizer

    # Asking ----------------------------------------------------------------------------------------------------

    @overload
    def suggest(self) -> Trial: ...
    @overload
    def suggest(self, n: int) -> list[Trial]: ...
    def suggest(self, n: int | None = None) -> Trial | list[Trial]:
        """Return the next trial, or with ``n`` a list of exactly n trials, fewer only when no more are left.

        Trials whose lease has ended come first, then enqueued configurations, then the strategy's.

        Raises:
            SpaceExhausted: Every feasible configuration is observed or pending; where they cannot be counted, every one
                that many draws find.
            JournalError: It could not be recorded; nothing has changed.
        """
        count = 1 if n is None else whole("n", n, 1)

        def event(now: OptimizerState) -> Event:
            ask = Ask(count, now.options.seed, self._lease, time.time())
            return suggestion(now.problem, now.history, self._strategy, now.state, ask)

        made = self._commit(event)
        ids = [*made.get("again", ()), *(row["id"] for row in made["trials"])]
        history = self._now.history
        trials = [trial for i in ids if (trial := history.find(i)) is not None]
        return trials[0] if n is None else trials

    def enqueue(self, config: Config) -> None:
        """Let a configuration of the user's be the next suggestion.

        Raises:
            ConfigError: It does not belong to the space, or is observed or pending already.
        """
        wanted = legal(self._space, config)
        code = self._space.encode([wanted])

        def event(now: OptimizerState) -> Event:
            if now.problem.is_excluded(now.history, code)[0]:
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
                them. None, NaN and infinities are failures; a warning tells of it once it is recorded.
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
        done: list[Trial] = []

        def event(now: OptimizerState) -> Event:
            done[:] = build_trials(
                now.history, now.options.objective, trial, value, details, imported=imported
            )
            return events.observed_event(done)

        self._commit(event)
        _warn_of_problems([t.outcome for t in done if t.outcome is not None])

    def complete(self, outcomes: Sequence[Outcome]) -> None:
        """Record the outcomes of suggested trials, as evaluators return them.

        Raises:
            TrialError: A trial is not pending, or stands there twice; nothing has changed.
            JournalError: It could not be recorded; nothing has changed.
        """

        def event(now: OptimizerState) -> Event:
            check_bounds(now.history, outcomes)
            return events.observed_event(now.history.checked(outcomes))

        self._commit(event)
        _warn_of_problems(outcomes)

    def abandon(self, trial: Trial, reason: str = "") -> None:
        """Give a trial up: it is no longer pending, and its configuration may come back.

        Raises:
            TrialError: It is not pending.
        """
        if not isinstance(trial, Trial):
            raise TrialError(f"abandon takes a trial that was suggested, not {trial!r:.80}")

        def event(now: OptimizerState) -> Event:
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
    def warm_start(self) -> tuple[WarmStartResults, ...]:
        """What the run took from each of its warm starts, and what it left out."""
        return self._earlier

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
        """Return the observed trial that the model expects to be best, by the median: the better choice under noise.

        Without a model, or with too little data for one, it is one of the configuration whose repeated measurements
        promise most, and where none was repeated, `best`.
        """
        return recommended(self._now, self._strategy)

    def predict(self, configs: Sequence[Config]) -> tuple[Array, Array, Array]:
        """Return mean, standard deviation (user's unit) and probability of feasibility, each ``(n,)``.

        The probability is 0 where a known constraint excludes the configuration.

        Raises:
            TrialError: The strategy has no model, or too little is observed.
            ConfigError: A configuration has a value that is not in its parameter's domain; or it is no list of
                configurations.
        """
        found = predicted(self._now, self._strategy, configs)
        sign = sign_of(self._now.options.direction)
        return sign * found.mean, found.std, found.feasible

    def why(self, trial: Trial) -> dict[str, Any]:
        """Return where a trial came from and what the model expected of it when it was suggested.

        Raises:
            TrialError: It is no trial.
        """
        if not isinstance(trial, Trial):
            raise TrialError(f"why takes a trial, not {trial!r:.80}; trials are in `trials`")
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

    def export(self, kind: str, path: str | os.PathLike[str]) -> int:
        """Write the observed trials as a file of another tool's, all or nothing, and return how many it holds.

        A warning tells of trials that it cannot hold, such as imported ones with other parameters than the space has.

        Args:
            kind: ``t4``, ``kernel_tuner`` (a cache file), ``ktt``, ``baco`` (its CSV of samples) or ``csv`` (a table).
            path: A name that ends in ``.gz`` is compressed.

        Raises:
            ValueError: There is no such format, it cannot hold these trials, or there is none.
            OSError: The file cannot be written.
        """
        found = run_recording(self.trials, self._space.to_dict(), self._now.options)
        written = write(found, path, kind)
        for note in found.notes:
            warnings.warn(f"{Path(path).name}: {note}", BacoWarning, stacklevel=2)
        return written

    def should_stop(self, rule: StopRule) -> str | None:
        """Return why the run should end, or None."""
        return rule.reason(self._now.history, time.monotonic() - self._opened)

    # Keeping ---------------------------------------------------------------------------------------------------

    def _commit(self, make: Callable[[OptimizerState], Event]) -> Event:
        """Make an event from what is known, try it, write it, and only then let it take effect.

        If somebody else was faster it is made again from what is known then. The new knowledge replaces the old in one
        assignment; if that is interrupted, the event is read from the journal at the next call.
        """
        with self._lock:
            while True:
                self._follow()
                event = events.normalised(make(self._now))
                trial_mark = Mark(self._now.mark.number + 1)
                after, observed = self._apply(self._now, [(event, trial_mark)])
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
        self._take(self._journal.read(self._now.mark))

    def _take(self, records: Iterable[tuple[Event, Mark]]) -> None:
        self._now, observed = self._apply(self._now, records)
        self._news.extend(observed)

    def _apply(
        self, now: OptimizerState, records: Iterable[tuple[Event, Mark]]
    ) -> tuple[OptimizerState, Sequence[Trial]]:
        return apply_events(now, records, self._strategy, self._name())

    def _announce(self) -> None:
        """Call the callbacks for what was observed, in order; one that calls back finds everything in place."""
        if self._announcing:
            return
        self._announcing = True
        try:
            while self._news:
                trial = self._news.popleft()
                with ExitStack() as everyone:  # hears of it, also when an earlier one raises
                    for callback in reversed(self._callbacks):
                        everyone.callback(callback, self, trial)
        finally:
            self._announcing = False

    def _name(self) -> str:
        return str(getattr(self._journal, "path", "journal"))


def _warn_of_problems(outcomes: Iterable[Outcome]) -> None:
    """Warn of values that were none: only now that they are recorded, since a warning may be an error."""
    for outcome in outcomes:
        if outcome.problem:
            text = f"{outcome.problem}; recorded as a failure"
            warnings.warn(text, FailureWarning, stacklevel=3)
