"""The journal of a run: an append-only list of events, in memory or in a file, from which the run can be resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baco_like._lazy import import_on_first_use

if TYPE_CHECKING:
    from baco_like.journal.events import Event, Journal, Mark, MemoryJournal
    from baco_like.journal.json_lines import JsonlJournal
    from baco_like.journal.remote import RemoteJournal
    from baco_like.journal.repairing import Repair, repair

__all__ = [
    "Event",
    "Journal",
    "JsonlJournal",
    "Mark",
    "MemoryJournal",
    "RemoteJournal",
    "Repair",
    "repair",
]

_MODULES = ("events", "json_lines", "header", "repairing", "remote")
__getattr__, __dir__ = import_on_first_use(__name__, __all__, _MODULES)
