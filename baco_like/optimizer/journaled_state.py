"""The state of an optimizer, kept in step with its journal; safe for several threads and processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from baco_like.exceptions import JournalConflict
from baco_like.journal.events import START, Event, Journal, Mark, normalise
from baco_like.journal.header import Header, Options
from baco_like.optimizer.setup import collector_paused, split_header, with_default_settings
from baco_like.optimizer.state import (
    Draft,
    OptimizerState,
    apply_event,
    apply_events,
    initial_state,
)
from baco_like.optimizer.warm_start import WarmStart, check_same, read_all, tasks_of
from baco_like.records.trial import Observation
from baco_like.spaces.space import Space
from baco_like.strategies.protocol import Strategy, use_related_tasks


class JournaledState:
    """Holds the current state, which is a value, and replaces it as a whole.

    Every change is written to the journal before it takes effect, and checked before it is written.

    Args:
        space: The space of the run.
        options: Options of a new run; compared with those of an existing journal.
        strategy: The strategy of the run.
        journal: Where the events are kept; a journal with events is resumed.
        points: First configurations of a new run; None accepts those of the journal.
        warm: Warm starts of a new run; none accepts those of the journal.
        on_observed: Called with the new observations after each change that adds some, without those of the past.

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
        warm: Sequence[WarmStart],
        on_observed: Callable[[Sequence[Observation]], None],
    ) -> None:
        self.journal = journal
        self.lock = threading.RLock()
        self._on_observed: Callable[[Sequence[Observation]], None] | None = None
        opened, records = split_header(journal, self.name)
        if opened is None:
            header = Header(
                space.to_dict(), options, tuple(points or ()), read_all(warm, space, options)
            )
            state = self._initial_state(header, space, strategy)  # all checks come before the write
            try:
                self.state = replace(state, mark=journal.append(header.event(), START))
            except JournalConflict:  # another process has created the same file at the same moment
                opened, records = split_header(journal, self.name)
        if opened is not None:
            header, mark = opened
            with_default_settings(header).check(space, options, points, self.name)
            check_same(warm, header.earlier, self.name)
            self.state = replace(self._initial_state(header, space, strategy), mark=mark)
            with collector_paused():
                self._take(records)
        self.warm_start = header.earlier
        self._on_observed = on_observed

    def _initial_state(
        self, header: Header, space: Space, strategy: Strategy[Any]
    ) -> OptimizerState:
        tasks = tasks_of(header.earlier, space, header.options.direction)
        self.strategy = use_related_tasks(strategy, tasks)
        return initial_state(header, space, self.strategy)

    @property
    def name(self) -> str:
        """The journal's path, or ``journal``; for messages."""
        return str(getattr(self.journal, "path", "journal"))

    def commit(self, make: Callable[[OptimizerState], Draft]) -> Draft:
        """Make an event from the current state, try it, write it, and only then let it take effect.

        If another writer was faster, the event is made again from the new state. The new state replaces the old one in
        one assignment; after an interrupt before it, the next call reads the event from the journal.
        """
        with self.lock:
            while True:
                self.follow()
                draft = make(self.state)
                event = normalise(draft.event)
                next_mark = Mark(self.state.mark.number + 1)
                state, observations = apply_event(
                    self.state, event, next_mark, self.strategy, draft.codes
                )
                try:
                    mark = self.journal.append(event, self.state.mark)
                except JournalConflict:
                    continue
                self.state = replace(state, mark=mark)
                self._report(observations)
                return draft

    def follow(self) -> None:
        """Apply the events that other writers, or an interrupted call of this one, have added to the journal."""
        self._take(self.journal.read(self.state.mark))

    def _take(self, records: Iterable[tuple[Event, Mark]]) -> None:
        self.state, observations = apply_events(self.state, records, self.strategy, self.name)
        self._report(observations)

    def _report(self, observations: Sequence[Observation]) -> None:
        if self._on_observed is not None and observations:
            self._on_observed(observations)
