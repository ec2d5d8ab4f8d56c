"""When a run ends: a predicate on the history and the seconds since it was opened."""

from __future__ import annotations

from typing import Protocol

from baco_like.records.history import History


class StopRule(Protocol):
    """Says why a run should end; the rules themselves are in `baco_like.running.stopping`."""

    def reason(self, history: History, seconds: float) -> str | None:
        """Return why the run is over, or None while it is not."""

    def room(self, history: History) -> int | None:
        """Return how many more trials may be started, or None where this rule sets no number."""
