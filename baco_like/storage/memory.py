"""A journal that lives as long as the process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from baco_like.records.journal import Event


@final
@dataclass
class MemoryJournal:
    """Keeps events in a list; one writer."""

    events: list[Event] = field(default_factory=list)
    _read: int = 0

    def read(self) -> list[Event]:
        """Return the events not read or appended yet."""
        new = self.events[self._read :]
        self._read = len(self.events)
        return new

    def append(self, event: Event) -> None:
        """Keep one event."""
        self.events.append(event)
        self._read = len(self.events)
