"""The protocol of stopping rules."""

from __future__ import annotations

from typing import Protocol

from baco_like.records.history import History


class StopRule(Protocol):
    """Decides when a run ends. The rules are in `baco_like.running.stopping`."""

    def reason(self, history: History, seconds: float) -> str | None:
        """Return why the run should end, or None.

        Args:
            history: The history of the run.
            seconds: Seconds since the run was opened.
        """

    def room(self, history: History) -> int | None:
        """Return the number of trials that may still be started, or None if this rule does not limit it."""
