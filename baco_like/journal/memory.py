"""A journal that lives as long as the process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import final

from baco_like.exceptions import JournalConflict
from baco_like.journal.events import Event, Mark


@final
@dataclass(frozen=True)
class MemoryJournal:
    """Keeps events in a list."""

    events: list[Event] = field(default_factory=list)

    def read(self, after: Mark) -> Iterator[tuple[Event, Mark]]:
        """Return the events that are after a place now, each with the place behind it."""
        return iter([(self.events[n], Mark(n + 1)) for n in range(after.number, len(self.events))])

    def append(self, event: Event, after: Mark) -> Mark:
        """Keep one event and return the place behind it.

        Raises:
            JournalConflict: There are events after that place.
        """
        if len(self.events) > after.number:
            raise JournalConflict("the journal has grown")
        self.events.append(event)
        return Mark(after.number + 1)
