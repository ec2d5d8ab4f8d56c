"""A journal in memory, for runs that need not survive the process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock
from typing import final

from baco_like.exceptions import JournalConflict
from baco_like.journal.events import Event, Mark


@final
@dataclass(frozen=True)
class MemoryJournal:
    """Keeps events in a list."""

    events: list[Event] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def read(self, after: Mark) -> Iterator[tuple[Event, Mark]]:
        """Return the events after a position, each with the position behind it."""
        return iter([(self.events[n], Mark(n + 1)) for n in range(after.number, len(self.events))])

    def append(self, event: Event, after: Mark) -> Mark:
        """Add one event and return the position behind it.

        Raises:
            JournalConflict: The journal has events after that position.
        """
        with self._lock:
            if len(self.events) > after.number:
                raise JournalConflict("the journal has grown")
            self.events.append(event)
        return Mark(after.number + 1)
