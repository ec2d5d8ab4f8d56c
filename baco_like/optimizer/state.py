"""The state of an optimizer as a value, and how events change it.

`JournaledState` holds the state, writes every event to the journal, and replays a journal to resume its run.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from baco_like._forks import renew_lock_in_child
from baco_like._output import explain_os_error
from baco_like._random import Purpose, generator
from baco_like._typing import Codes, Rng
from baco_like.exceptions import JournalConflict, JournalError, TrialError
from baco_like.journal.events import (
    START,
    Event,
    Journal,
    Mark,
    apply,
    describe_error,
    new_configs,
    normalise,
)
from baco_like.journal.header import Header, Options, numbered
from baco_like.journal.json_lines import GroupCommit, JsonlJournal, not_recorded
from baco_like.journal.lock import keep_trials, lock_file, taking_part
from baco_like.journal.remote import RemoteJournal
from baco_like.optimizer.arguments import (
    collector_paused,
    journal_name,
    plugin_versions,
    split_header,
)
from baco_like.optimizer.experience import GivenExperience, read_experience
from baco_like.optimizer.warm_start import check_same, read_all, tasks_of
from baco_like.optimizer.warm_start_sources import WarmStart
from baco_like.records import History, Observation, Outcome
from baco_like.records.limits import RunLimits
from baco_like.records.sources import EXPERIENCE, OpenProposal
from baco_like.spaces.space import Space
from baco_like.strategies.protocol import (
    Problem,
    Strategy,
    check_objectives,
    check_related_tasks,
    draws_in_tell,
)
from baco_like.strategies.registry import for_space

_INVALID_EVENT = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""Errors that a malformed event can cause; `TrialError` and `ConfigError` are value errors."""

_BATCH = 500
"""Number of events whose configurations are encoded together, several times as fast as separately."""

_ATTEMPTS = 3
"""Number of attempts to add an event before the journal is reserved for the next one."""

_LONGEST_RESERVATION = 1.0
"""Most seconds that the preparation of an event may take to reserve the journal for it; other writers wait so long."""


_UNUSED = np.random.default_rng(0)
"""Passed to strategies that do not draw in `tell`."""


class _Unconfirmed(NamedTuple):
    """An event that is written, and not yet known to be on the disk.

    Attributes:
        number: Its number in `GroupCommit`.
        before: The state before it.
        end: The position behind it.
        observations: The observations to announce when it is on the disk, also those of other writers that follow.
    """

    number: int
    before: OptimizerState
    end: Mark
    observations: list[Observation]


class _Own(threading.local):
    """What belongs to a thread: events that may not be on the disk yet, ``grouped`` blocks, the request it answers."""

    def __init__(self) -> None:
        self.events: list[int] = []
        self.groups = 0
        self.request: Sequence[Any] | None = None
        self.written: list[tuple[Event, int]] = []


class Draft(NamedTuple):
    """An event that is not written yet.

    Attributes:
        event: The event.
        codes: Codes of the configurations that it adds, see `baco_like.journal.events.new_configs`; None if unknown.
        outcomes: The reported outcomes, in the order of the event.
    """

    event: Event
    codes: Codes | None = None
    outcomes: Sequence[Outcome] = ()

    @property
    def ids(self) -> list[int]:
        """Numbers of the suggested trials, those that are suggested again first."""
        return [*self.event.get("again", ()), *(row["id"] for row in self.event["trials"])]


@dataclass(frozen=True)
class OptimizerState:
    """Everything an optimizer knows; replaced as a whole.

    Attributes:
        options: The options of the run.
        problem: The problem as strategies see it.
        strategy: The strategy of the run.
        history: Observations, pending trials and the queue.
        strategy_state: The strategy's own state.
        mark: The position in the journal up to which this is true.
    """

    options: Options
    problem: Problem
    strategy: Strategy[Any]
    history: History
    strategy_state: Any
    mark: Mark = START

    def is_excluded(self, codes: Codes) -> bool:
        """Whether any row of codes, (n, w), must not be suggested."""
        return bool(self.problem.is_excluded(self.history, codes).any())

    def generator(self, purpose: Purpose, index: int, stream: int | None = None) -> Rng:
        """Return the random generator for a purpose."""
        return generator(self.options.seed, purpose, index, stream)

    def tell(self, history: History, observations: Iterable[Observation]) -> OptimizerState:
        """Return the state with a new history; the strategy gets the observations that were added."""
        own = self.tell_strategy(self.strategy_state, observations)
        return replace(self, history=history, strategy_state=own)

    def tell_strategy(self, own: Any, observations: Iterable[Observation]) -> Any:
        """Return the strategy's state after ``own`` and some observations."""
        draws = draws_in_tell(self.strategy)
        for observation in observations:
            rng = self.generator(Purpose.TELL, observation.id) if draws else _UNUSED
            own = self.strategy.tell(self.problem, own, observation, rng)
        return own


def initial_state(header: Header, space: Space, strategy: Strategy[Any]) -> OptimizerState:
    """Return the state before the first event. Strategies refuse unsuitable spaces here.

    Raises:
        JournalError: Results of a warm start do not belong to the space, or a related task has no success.
        StrategyError: The strategy cannot use what the problem has.
    """
    options = header.options
    aim = options.aim
    objectives, direction = aim.several, aim.first.direction
    limits = RunLimits(aim.limits, aim.first.name) if aim.limits else None
    problem = Problem(
        space,
        options.budget,
        options.noise,
        direction,
        objectives,
        options.seconds,
        limits,
        aim.goal,
        related=tasks_of(header.earlier, space, options),
    )
    check_objectives(strategy, objectives, options.strategy.get("name"))
    known = [trial for part in header.earlier if part.mode == "data" for trial in part.trials]
    first = [t.config for part in header.earlier if part.mode == "configs" for t in part.trials]
    warm = numbered([(t.config, t.outcome) for t in known if t.outcome is not None])
    try:
        space.encode([*header.queue, *first])
        advised = space.encode([each.config for each in header.advice])
        history, observations = History.start(space, direction, objectives).add_warm_start(warm)
    except _INVALID_EVENT as error:
        raise JournalError(
            "the first configurations, the warm start or the experience in event 0 (line 1) do not fit its space: "
            f"{describe_error(error)}",
            0,
        ) from error
    history = history.enqueue([*header.queue, *first])
    history = history.propose(
        [
            OpenProposal(EXPERIENCE, note, config, code)
            for (config, note), code in zip(header.advice, advised, strict=True)
        ]
    )
    strategy = for_space(strategy, problem)
    own = strategy.init(problem, generator(options.seed, Purpose.INIT))
    return OptimizerState(options, problem, strategy, history, own).tell(history, observations)


def apply_events(
    state: OptimizerState, events: Iterable[tuple[Event, Mark]], name: str
) -> tuple[OptimizerState, list[Observation]]:
    """Return the state after some events of a journal, and the observations that they add.

    Args:
        state: The state before.
        events: Events, each with the position behind it.
        name: The journal's name, for messages.

    Raises:
        JournalError: An event does not fit those before it.
    """
    added: list[Observation] = []
    history, own, mark = state.history, state.strategy_state, state.mark
    for event, mark, codes in _with_codes(events, state.problem.space):
        try:
            history, observations = apply(event, history, codes)
            # A strategy may fail on a tag that it has not written itself.
            own = state.tell_strategy(own, observations)
        except _INVALID_EVENT as error:
            number = mark.number - 1
            raise JournalError(
                f"{name}: event {number} (line {number + 1}) does not fit those before it: {describe_error(error)}",
                number,
            ) from error
        added += observations
    return replace(state, history=history, strategy_state=own, mark=mark), added


def _with_codes(
    events: Iterable[tuple[Event, Mark]], space: Space
) -> Iterator[tuple[Event, Mark, Codes | None]]:
    """Yield events with the codes of the configurations that they add, encoded in batches."""
    remaining = iter(events)
    while batch := list(islice(remaining, _BATCH)):
        parts: Sequence[Codes | None] = [None] * len(batch)
        with suppress(*_INVALID_EVENT):  # the wrong event is found when it is applied alone
            configs = [new_configs(event) for event, _ in batch]
            codes = space.encode([config for few in configs for config in few])
            ends = list(accumulate(map(len, configs)))
            parts = [codes[end - len(few) : end] for end, few in zip(ends, configs, strict=True)]
        for (event, mark), part in zip(batch, parts, strict=True):
            yield event, mark, part


class JournaledState:
    """Holds the current state, which is a value, and replaces it as a whole. Safe for several threads and processes.

    Every change is written to the journal before it takes effect, and checked before it is written. `commit` does not
    wait until it is on the disk; `confirm` does. Report a change only after `confirm`.

    Args:
        space: The space of the run.
        options: Options of a new run; compared with those of an existing journal.
        strategy: The strategy of the run.
        journal: Where the events are kept; a journal with events is resumed.
        points: First configurations of a new run; None accepts those of the journal.
        warm: Warm starts of a new run; none accepts those of the journal.
        experience: Earlier runs of other programs, for a new run; a journal keeps the configurations that they advise.

    Attributes:
        state: The current state.
        warm_start: The results of warm starts.
        unannounced: Observations that were added after the journal was opened; the owner removes them.
        opened: When the journal was opened, on the monotonic clock.

    Raises:
        JournalError: The journal belongs to another run or is damaged.
    """

    def __init__(
        self,
        space: Space,
        options: Options,
        strategy: Strategy[Any],
        journal: Journal,
        points: Sequence[Any] | None,
        warm: Sequence[WarmStart] = (),
        experience: GivenExperience | None = None,
    ) -> None:
        self.journal = journal
        self.lock = threading.RLock()
        renew_lock_in_child(self, "lock")
        self.opened = time.monotonic()
        self.unannounced: deque[Observation] = deque()
        self._name = journal_name(journal)
        self._disk = GroupCommit(journal.path) if isinstance(journal, JsonlJournal) else None
        self._path = Path(self._name)
        self.lock_file = None if self._disk is None else lock_file(self._path)
        self._unconfirmed: deque[_Unconfirmed] = deque()
        self._own = _Own()
        header, mark, events = split_header(journal, self._name)
        if header is None:
            results = read_all(warm, space, options)
            advice = () if experience is None else read_experience(experience, space, options)
            created = Header(space.to_dict(), options, tuple(points or ()), results, advice=advice)
            plugins = plugin_versions(options.strategy)
            state = initial_state(created, space, strategy)  # all checks come before the write
            check_related_tasks(strategy, state.problem.related)
            try:
                self.state = replace(state, mark=journal.append(created.event(plugins), START))
                self.warm_start = results
            except JournalConflict:  # another process has created the same file at the same moment
                header, mark, events = split_header(journal, self._name)
        if header is not None:
            header.check(space, options, points, self._name)
            check_same(warm, header.earlier, self._name)
            self.state = replace(initial_state(header, space, strategy), mark=mark)
            with collector_paused():
                self._replay(events)
            self.unannounced.clear()
            self.warm_start = header.earlier
        name, history = getattr(journal, "path", "memory"), self.state.history
        if header is None:
            _logger.info("new run in %s: %r", name, history.space)
        else:
            counts = len(history), len(history.pending)
            _logger.info("resumed the run in %s: %d observed, %d pending", name, *counts)

    def commit(self, make_draft: Callable[[OptimizerState], Draft]) -> Draft:
        """Make an event from the current state, try it, write it, and only then let it take effect.

        If another writer was faster, the event is made again from the new state. Writers without pauses could overtake
        this one forever. Therefore it reserves the journal after some attempts, unless one takes long. The new state
        replaces the old one in one assignment; after an interrupt before it, the next call reads the event from the
        journal.
        """
        attempts, conflict = 0, None
        with self.lock, ExitStack() as reservation:
            while True:
                attempts += 1
                self._withdraw_lost_events()
                self.replay_new_events()
                started = time.monotonic()
                draft = make_draft(self.state)
                event = draft.event
                is_new = "at" not in event  # else another process has made it
                if is_new and event["event"] in ("suggested", "observed"):
                    # Only reports read the Unix time; no suggestion depends on it.
                    event = {**event, "at": max(0.0, round(time.time(), 3))}
                if self._own.request is not None:
                    event = _answering(event, self._own.request, is_new)
                event = normalise(event)
                draft = draft._replace(event=event)  # thousands of configurations are kept once
                history, observations = apply(event, self.state.history, draft.codes)
                state = self.state.tell(history, observations)
                seconds = time.monotonic() - started
                try:
                    self._write(event, state, observations)
                except JournalConflict as error:
                    if self.state.mark == conflict:  # no event of others is the reason
                        raise TrialError(str(error)) from error
                    conflict = self.state.mark
                    is_late = attempts >= _ATTEMPTS and seconds < _LONGEST_RESERVATION
                    if is_late and isinstance(self.journal, JsonlJournal):
                        reservation.enter_context(self.journal.reserve())
                    continue
                if self._disk is not None:
                    reservation.close()  # another thread may hold the table of shares, and wait for the journal
                    ids = draft.ids if event["event"] == "suggested" else ()
                    keep_trials(self.lock_file, ids, self.state.history.is_pending)
                if self._own.request is not None:
                    self._own.written.append((event, self.state.mark.number))
                log_event(event, observations, history, seconds)
                return draft

    @contextmanager
    def answering(self, request: Sequence[Any]) -> Iterator[list[tuple[Event, int]]]:
        """Note a request in the events that this thread writes within a ``with`` block; see `Optimizer.answering`."""
        before = self._own.request, self._own.written
        self._own.request = request
        if before[0] is None:
            self._own.written = []
        try:
            yield self._own.written
        finally:
            self._own.request, self._own.written = before

    @contextmanager
    def taking_part(self) -> Iterator[None]:
        """Take part in the run during a suggestion; see `baco_like.journal.lock`."""

        def find_pending() -> list[int]:
            self.replay_new_events()
            pending = self.state.history.pending.values()
            return [trial.id for trial in pending if trial.lease is None]

        with ExitStack() as part:
            if self.lock_file is not None:
                with self.lock:
                    part.enter_context(taking_part(self._path, self.lock_file, find_pending))
            yield

    def _write(
        self, event: Event, state: OptimizerState, observations: Sequence[Observation]
    ) -> None:
        """Write an event and let it take effect.

        Raises:
            JournalConflict: Another writer was faster.
            JournalError: The event could not be written.
        """
        disk, before = self._disk, self.state
        if disk is None:
            if isinstance(self.journal, RemoteJournal) and _is_independent(event):
                mark = self.journal.add(event)
                if mark.number > before.mark.number + 1:
                    self.replay_new_events()  # those of others came before it
                    return
            else:
                mark = self.journal.append(event, before.mark)
            self.state = replace(state, mark=mark)
            self.unannounced.extend(observations)
            return
        assert isinstance(self.journal, JsonlJournal)
        with explain_os_error(JournalError, "use", self.journal.path):
            disk.begin()
        mark = self.journal.append(event, before.mark, is_durable=False)
        number = disk.add()
        self._own.events.append(number)
        self._unconfirmed.append(_Unconfirmed(number, before, mark, list(observations)))
        self.state = replace(state, mark=mark)

    @contextmanager
    def grouped(self) -> Iterator[None]:
        """Let the calls of this thread within a ``with`` block share one wait for the disk, at the end of the block.

        Raises:
            JournalError: As for `confirm`, at the end of the block.
        """
        self._own.groups += 1
        try:
            yield
        finally:
            self._own.groups -= 1
            self.confirm()

    def confirm(self) -> None:
        """Wait until the events that this thread has written are on the disk.

        The lock must be free, so that other threads can write events that share the next wait.

        Raises:
            JournalError: Writing failed; the events are undone.
        """
        if self._disk is None or self._own.groups or not self._own.events:
            return
        events, self._own.events = self._own.events, []
        try:
            self._disk.wait(events)
        except OSError as error:
            with self.lock:
                self._withdraw_lost_events()
            raise not_recorded(Path(self._name), error) from error
        with self.lock:
            while self._unconfirmed and self._unconfirmed[0].number <= self._disk.durable:
                self.unannounced.extend(self._unconfirmed.popleft().observations)

    def _withdraw_lost_events(self) -> None:
        """Undo the events that the disk has not taken, unless other writers have added events behind them."""
        if self._disk is None or not self._disk.is_broken:
            return
        lost = [entry for entry in self._unconfirmed if entry.number > self._disk.durable]
        pairs = pairwise(lost)
        assert isinstance(self.journal, JsonlJournal)
        if (
            lost
            and all(entry.end == later.before.mark for entry, later in pairs)
            and self.journal.withdraw(lost[0].before.mark, lost[-1].end)
        ):
            self.state = lost[0].before
            for entry in lost:
                self._unconfirmed.remove(entry)
        self._disk.give_up()

    def replay_new_events(self) -> None:
        """Apply the events that other writers, or an interrupted call of this one, have added since the last event."""
        self._replay(self.journal.read(self.state.mark))

    def _replay(self, events: Iterable[tuple[Event, Mark]]) -> None:
        self.state, observations = apply_events(self.state, events, self._name)
        later = self._unconfirmed[-1].observations if self._unconfirmed else self.unannounced
        later.extend(observations)  # in the order of the journal


def _is_independent(event: Event) -> bool:
    """Whether an event has the same effect behind events of other workers, as long as it fits them."""
    if event["event"] == "observed":
        return not any("origin" in row for row in event["outcomes"])  # else it has a new number
    return event["event"] in ("abandoned", "enqueued", "built")


def _answering(event: Event, request: Sequence[Any], is_new: bool) -> Event:
    """Return an event with the request that it answers; the trials that it suggests belong to the client."""
    owner = {"worker": request[0]} if is_new and event["event"] == "suggested" else {}
    return {**event, **owner, "request": list(request)}


_logger = logging.getLogger(__name__.rpartition(".")[0])


def log_event(
    event: Event, observations: Sequence[Observation], history: History, seconds: float
) -> None:
    """Log an event that was recorded.

    Args:
        event: The event.
        observations: The observations that it adds.
        history: The history after it.
        seconds: Time in which it was made.
    """
    if not _logger.isEnabledFor(logging.INFO):  # the best configuration need not be looked up
        return
    kind = event["event"]
    if kind == "suggested":
        for row in event["trials"]:
            details = row["id"], row["origin"], seconds, row["config"]
            _logger.debug("suggested trial %d (%s) in %.3f s: %s", *details)
    elif kind == "observed":
        for trial in observations:
            result = trial.failure or repr(trial.value)
            _logger.debug("observed trial %d: %s %s", trial.id, result, trial.message)
        best = history.best()
        if best is not None and any(trial.id == best.id for trial in observations):
            count, config = len(history), dict(best.config)
            _logger.info(
                "trial %d is the best of %d: %r with %s", best.id, count, best.value, config
            )
    elif kind == "abandoned":
        _logger.debug("abandoned trial %d %s", event["id"], event["reason"])
    elif kind == "confirming":
        _logger.info("%d candidates are measured again", len(event["configs"]))
    else:
        _logger.debug("recorded the event %r", kind)
