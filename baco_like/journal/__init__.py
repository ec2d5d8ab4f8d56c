"""The journal of a run: an append-only list of events, in memory or in a file, from which the run can be resumed."""

from baco_like.journal.events import START, Event, Journal, Mark, MemoryJournal
from baco_like.journal.header import Header, Options
from baco_like.journal.json_lines import JsonlJournal
from baco_like.journal.repair import Repair, repair
from baco_like.journal.warm_start_results import WarmStartResults

__all__ = [
    "START",
    "Event",
    "Header",
    "Journal",
    "JsonlJournal",
    "Mark",
    "MemoryJournal",
    "Options",
    "Repair",
    "WarmStartResults",
    "repair",
]
