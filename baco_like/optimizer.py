"""The Optimizer: decides what to run next. The only mutable object of the core.

It holds a history and a strategy's state, both values, and replaces them together. Whatever it acknowledges is in
the journal first; checks come before any effect.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from baco_like._optional import require
from baco_like._random import Purpose, generator
from baco_like._typing import Array, Codes
from baco_like.exceptions import (
    ConfigError,
    JournalConflict,
    JournalError,
    SpaceExhausted,
    TrialError,
)
from baco_like.records import journal as events
from baco_like.records.header import Header, Options, describe
from baco_like.records.history import Goal, History, Noise, row_keys
from baco_like.records.journal import Event, Journal
from baco_like.records.reading import outcome_from
from baco_like.records.stopping import StopRule
from baco_like.records.trial import Outcome, Proposal, Trial
from baco_like.spaces.design import uniform
from baco_like.spaces.space import Space
from baco_like.storage.jsonl import JsonlJournal
from baco_like.storage.memory import MemoryJournal
from baco_like.strategies.protocol import Predictive, Problem, Strategy
from baco_like.strategies.registry import create, settings_of

if TYPE_CHECKING:
    import pandas as pd

Config = Mapping[str, Any]
Callback = Callable[["Optimizer", Trial], None]
T = TypeVar("T")


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
    ) -> None:
        points = [] if initial is None or isinstance(initial, int) else list(initial)
        chosen, description = _chosen(strategy, settings or {}, initial)
        options = Options(direction, seed, objective, budget, noise, description)
        self._start(space, options, chosen, _journal(storage), points)
        self._callbacks += tuple(
            callbacks
        )  # after the journal is read: nobody hears of the past again

    def _start(
        self,
        space: Space,
        options: Options,
        strategy: Strategy[Any],
        journal: Journal,
        points: Sequence[Config],
    ) -> None:
        self._space, self._strategy, self._journal = space, strategy, journal
        self._opened = time.monotonic()
        self._callbacks: tuple[Callback, ...] = ()
        queue = [self._legal(point) for point in points]
        found = journal.read()
        if not found:
            self._begin(options, queue)
            try:
                journal.append(Header(space.to_dict(), options, tuple(queue)).event())
            except JournalConflict:  # somebody else has created the same file at the same moment
                found = journal.read()
        if found:
            header = Header.read(found[0], self._name())
            header.check(space, options, self._name())
            self._begin(header.options, header.queue)
            self._follow(found[1:])

    def _begin(self, options: Options, queue: Sequence[Config]) -> None:
        self._options = options
        self._problem = Problem(self._space, options.budget, options.noise)
        self._history = History.start(self._space, options.direction).enqueued(queue)
        rng = generator(options.seed, Purpose.INIT)
        self._state = self._strategy.init(self._problem, rng)

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
        if not Path(path).exists():
            raise JournalError(f"{path} does not exist; start a run with Optimizer(storage=...)")
        journal = JsonlJournal(Path(path))
        found = journal.read()
        if not found:
            raise JournalError(f"{path} holds no record; start a run with Optimizer(storage=...)")
        header = Header.read(found[0], str(path))
        options = header.options
        chosen = strategy if strategy is not None else _restored(options.strategy, str(path))
        if strategy is not None:
            options = replace(options, strategy={"object": describe(strategy)})
        optimizer = cls.__new__(cls)
        whole = Space.from_dict(header.space) if space is None else space
        optimizer._start(whole, options, chosen, JsonlJournal(Path(path)), ())
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
        if n is not None and n < 1:
            raise ValueError(f"suggest(n) needs n >= 1, not {n!r}")
        trials = self._commit(lambda: self._suggestion(1 if n is None else n))
        return trials[0] if n is None else trials

    def _suggestion(self, n: int) -> tuple[Event, list[Trial]]:
        trials, dequeued = self._from_queue(n)
        history = self._history.suggested(trials, self._space.encode([t.config for t in trials]))
        missing = n - len(trials)
        if missing:
            trials += self._from_strategy(history, missing)
        if not trials:
            raise SpaceExhausted(
                f"all feasible configurations are observed or pending ({len(self._history)} observed, "
                f"{len(self._history.pending)} pending); stop here, or enlarge the space"
            )
        return events.suggested_event(trials, dequeued), trials

    def _from_queue(self, n: int) -> tuple[list[Trial], int]:
        """Return trials for enqueued configurations, and how many leave the queue (taken ones do silently)."""
        first, dequeued = self._history.next_id, 0
        trials: list[Trial] = []
        seen: set[bytes] = set()
        for config in self._history.queue:
            if len(trials) == n:
                break
            dequeued += 1
            code = self._space.encode([config])
            (key,) = row_keys(code)
            if key not in seen and not self._problem.taken(self._history, code)[0]:
                trials.append(Trial(first + len(trials), config, None, "enqueued"))
            seen.add(key)
        return trials, dequeued

    def _from_strategy(self, history: History, n: int) -> list[Trial]:
        number = history.next_id
        rng = generator(self._options.seed, Purpose.ASK, number)
        proposals = list(self._strategy.ask(self._problem, history, self._state, n, rng))
        codes = np.array([p.code for p in proposals]).reshape(-1, self._space.width)
        self._check_proposals(history, proposals, codes, n)
        fill = np.empty((0, self._space.width))
        if len(codes) < n:
            beyond = history.assuming(codes)
            rng = generator(self._options.seed, Purpose.FILL, number)
            fill = uniform(
                self._space, n - len(codes), rng, lambda rows: self._problem.taken(beyond, rows)
            )
        configs = self._space.decode(np.concatenate([codes, fill]))
        notes = [(p.tag, "strategy") for p in proposals] + [(None, "fill")] * len(fill)
        return [
            Trial(number + i, config, tag, origin)
            for i, (config, (tag, origin)) in enumerate(zip(configs, notes, strict=True))
        ]

    def _check_proposals(
        self, history: History, proposals: Sequence[Proposal], codes: Codes, n: int
    ) -> None:
        """A strategy that breaks its contract is a bug, and is named as such."""
        name = type(self._strategy).__name__
        if len(proposals) > n:
            raise RuntimeError(f"bug in strategy {name}: {len(proposals)} proposals, asked for {n}")
        if not len(proposals):
            return
        if not self._space.feasible.contains(codes).all():
            raise RuntimeError(f"bug in strategy {name}: it proposed an infeasible configuration")
        if self._problem.taken(history, codes).any() or len(set(row_keys(codes))) < len(codes):
            raise RuntimeError(f"bug in strategy {name}: it proposed a configuration that is taken")

    def enqueue(self, config: Config) -> None:
        """Let a configuration of the user's be the next suggestion.

        Raises:
            ConfigError: It does not belong to the space, or is observed or pending already.
        """
        legal = self._legal(config)
        if self._problem.taken(self._history, self._space.encode([legal]))[0]:
            raise ConfigError(f"{legal} is observed or pending already; it cannot be enqueued")
        self._commit(lambda: (events.enqueued_event([legal]), None))

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
        if isinstance(trial, Mapping):
            subjects, values = [trial], [value]
        else:
            subjects, values = list(trial), _listed(value, len(trial), failed)
        details = {"failed": failed, "message": message, "bound": bound, "extra": extra}
        self._commit(lambda: self._observation(subjects, values, details, imported))

    def complete(self, outcomes: Sequence[Outcome]) -> None:
        """Record the outcomes of suggested trials, as evaluators return them.

        Raises:
            TrialError: A trial is not pending, or stands there twice; nothing has changed.
            JournalError: It could not be recorded; nothing has changed.
        """
        for outcome in outcomes:
            self._check_bound(outcome)
        self._commit(lambda: (events.observed_event(self._history.checked(outcomes)), None))

    def _observation(
        self,
        subjects: Sequence[Trial | Config],
        values: Sequence[Any],
        details: Mapping[str, Any],
        imported: bool,
    ) -> tuple[Event, None]:
        known: list[Outcome] = []
        done: list[Trial] = []
        for subject, value in zip(subjects, values, strict=True):
            trial = self._subject(subject, imported, self._history.next_id + len(done) - len(known))
            outcome = outcome_from(trial.id, value, self._options.objective, **details)
            self._check_bound(outcome)
            if trial.origin in ("told", "imported"):
                done.append(trial.completed(outcome))
            else:
                known.append(outcome)
                done += self._history.checked([outcome])
        self._history.checked(known)
        return events.observed_event(done), None

    def _subject(self, subject: Trial | Config, imported: bool, new_id: int) -> Trial:
        """Return the pending trial that is meant, or a new one for a configuration that nobody asked for."""
        if isinstance(subject, Trial):
            flying = self._history.pending.get(subject.id)
            if flying is not None and dict(flying.config) != dict(subject.config):
                raise TrialError(
                    f"trial {subject.id} of this run is {dict(flying.config)}, not {dict(subject.config)}; "
                    "it comes from another run"
                )
            return subject if flying is None else flying
        if imported and not self._space.contains(subject):
            return Trial(new_id, dict(subject), None, "imported")
        config = self._legal(subject)
        for flying in self._history.pending.values():
            if dict(flying.config) == config:
                return flying
        return Trial(new_id, config, None, "imported" if imported else "told")

    def _check_bound(self, outcome: Outcome) -> None:
        if outcome.bound is not None and self._options.direction == "maximize":
            raise TrialError(
                f"trial {outcome.trial_id}: a bound says that the value is at least {outcome.bound:g}, which means "
                "nothing when maximising; leave the bound out"
            )

    def abandon(self, trial: Trial, reason: str = "") -> None:
        """Give a trial up: it is no longer pending, and its configuration may come back.

        Raises:
            TrialError: It is not pending.
        """

        def event() -> tuple[Event, None]:
            self._history.abandoned(trial.id)
            return events.abandoned_event(trial.id, reason), None

        self._commit(event)

    # Looking ---------------------------------------------------------------------------------------------------

    @property
    def space(self) -> Space:
        """The space of the run."""
        return self._space

    @property
    def options(self) -> Options:
        """Direction, seed, objective, budget, noise and strategy, as in the journal."""
        return self._options

    @property
    def history(self) -> History:
        """All that is known, as a frozen value."""
        return self._history

    @property
    def pending(self) -> list[Trial]:
        """Suggested trials that are neither observed nor abandoned."""
        return list(self._history.pending.values())

    @property
    def trials(self) -> list[Trial]:
        """Observed trials, in order of arrival, failures included."""
        return self._history.trials

    @property
    def best(self) -> Trial | None:
        """The best observed feasible trial, or None before the first success."""
        return self._history.best()

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
        if best is None or not isinstance(self._strategy, Predictive):
            return best
        try:
            mean, _, _ = self.predict([t.config for t in candidates])
        except TrialError:
            return best
        sign = 1.0 if self._options.direction == "minimize" else -1.0
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
        rng = generator(self._options.seed, Purpose.MODEL, len(self._history))
        mean, std, feasible = self._strategy.predict(
            self._problem, self._history, self._state, codes, rng
        )
        sign = 1.0 if self._options.direction == "minimize" else -1.0
        return sign * mean, std, feasible

    def why(self, trial: Trial) -> dict[str, Any]:
        """Return where a trial came from and what the model expected of it when it was suggested."""
        note = dict(trial.tag) if isinstance(trial.tag, Mapping) else {}
        return {"origin": trial.origin, **{k: v for k, v in note.items() if k != "hyperparameters"}}

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per observed trial: id, parameters, value, status, failure word, repeats, origin.

        Raises:
            MissingExtra: pandas is not installed.
        """
        frame = require("pandas", "dataframe")
        rows = [
            {
                "id": t.id,
                **t.config,
                self._options.objective: t.value,
                "status": t.status.value,
                "failed": t.failed,
                "sem": t.sem,
                "repeats": len(t.repeats),
                "origin": t.origin,
            }
            for t in self.trials
        ]
        result: pd.DataFrame = frame.DataFrame(rows)
        return result

    def should_stop(self, rule: StopRule) -> str | None:
        """Return why the run should end, or None."""
        return rule.reason(self._history, time.monotonic() - self._opened)

    # Keeping ---------------------------------------------------------------------------------------------------

    def _legal(self, config: Config) -> dict[str, Any]:
        """Return a configuration in the space's own values, or raise ConfigError."""
        self._space.validate(config)
        return self._space.decode(self._space.encode([config]))[0]

    def _commit(self, make: Callable[[], tuple[Event, T]]) -> T:
        """Make an event from what is known, write it, then let it take effect; again if somebody was faster."""
        while True:
            self._follow(self._journal.read())
            event, result = make()
            try:
                self._journal.append(event)
            except JournalConflict:
                continue
            self._take(event)
            return result

    def _follow(self, found: Iterable[Event]) -> None:
        """Apply events that others have written."""
        for event in found:
            self._take(event)

    def _take(self, event: Event) -> None:
        """Fold one event into history and state; both are replaced together."""
        try:
            history, observed = events.apply(event, self._history)
        except (TrialError, ConfigError, KeyError) as error:
            raise JournalError(
                f"{self._name()}: a record does not fit the others: {error}"
            ) from error
        state = self._state
        for trial in observed:
            rng = generator(self._options.seed, Purpose.TELL, trial.id)
            state = self._strategy.tell(self._problem, state, trial, rng)
        self._history, self._state = history, state
        for trial in observed:
            for callback in self._callbacks:
                callback(self, trial)

    def _name(self) -> str:
        return str(getattr(self._journal, "path", "journal"))


def _journal(storage: str | os.PathLike[str] | Journal | None) -> Journal:
    if storage is None:
        return MemoryJournal()
    return JsonlJournal(Path(storage)) if isinstance(storage, (str, os.PathLike)) else storage


def _chosen(
    strategy: str | Strategy[Any],
    settings: Mapping[str, Any],
    initial: int | Sequence[Config] | None,
) -> tuple[Strategy[Any], dict[str, Any]]:
    """Return the strategy and how the journal describes it.

    Points are enqueued whatever the strategy is; their number is the design's size where there is a design.
    """
    if not isinstance(strategy, str):
        if settings or isinstance(initial, int):
            raise ValueError(
                "settings= and initial=<int> go with a strategy's name; set them on the object"
            )
        return strategy, {"object": describe(strategy)}
    whole = dict(settings)
    if isinstance(initial, int):
        whole["initial"] = initial
    elif initial is not None and "initial" in settings_of(strategy):
        whole.setdefault("initial", len(initial))
    return create(strategy, whole), {"name": strategy, "settings": whole}


def _restored(description: Mapping[str, Any], path: str) -> Strategy[Any]:
    if "name" not in description:
        raise JournalError(
            f"{path} was made with a strategy object; give it again: Optimizer.load(path, strategy=...), "
            f"where it was {description['object']}"
        )
    return create(description["name"], description["settings"])


def _listed(value: Any, n: int, failed: str | bool | None) -> list[Any]:
    if value is None and failed is not None:
        return [None] * n
    values = list(value) if isinstance(value, (Sequence, np.ndarray)) else None
    if values is None or len(values) != n:
        raise TrialError(f"{n} trials need a list of {n} values, not {value!r:.80}")
    return values
