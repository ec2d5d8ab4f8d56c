"""Log the events of a run, by the logger ``baco_like.optimizer``: the milestones as INFO, each trial as DEBUG."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from baco_like.journal import Event
from baco_like.records import History, Observation

_logger = logging.getLogger(__name__.rpartition(".")[0])


def log_opening(history: History, name: str, is_new: bool) -> None:
    """Log that a run begins or is resumed."""
    if is_new:
        _logger.info("new run in %s: %r", name, history.space)
    else:
        counts = len(history), len(history.pending)
        _logger.info("resumed the run in %s: %d observed, %d pending", name, *counts)


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
