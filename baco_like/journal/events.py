"""The journal is the truth: a run is the fold of its events, and resuming is reading them again.

Events are plain dictionaries with an ``event`` word: ``opened`` (the header), ``suggested``, ``observed``,
``abandoned``, ``enqueued``. Here they are made from records and turned back into them; where they are kept is the
business of `baco_like.results`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from baco_like._typing import Codes
from baco_like.exceptions import JournalError
from baco_like.records.history import History
from baco_like.records.trial import Outcome, Status, Trial

SCHEMA = 1
"""Version of the events; a reader refuses a newer one."""

Event = Mapping[str, Any]

_LARGEST = sys.float_info.max


@dataclass(frozen=True)
class Mark:
    """A place in a journal, between two records.

    Attributes:
        number: How many records stand before it.
        place: Where that is, in the journal's own measure (bytes of a file).
        closed: Whether the record before it has its end.
    """

    number: int = 0
    place: int = 0
    closed: bool = True


START = Mark()


@runtime_checkable
class Journal(Protocol):
    """An append-only list of events that several writers may share; it holds no state of its readers."""

    def read(self, after: Mark) -> Iterable[tuple[Event, Mark]]:
        """Return the events that are after a place now, each with the place behind it.

        Raises:
            JournalError: A record is damaged; the message has its number.
        """

    def append(self, event: Event, after: Mark) -> Mark:
        """Write one event durably and return the place behind it.

        Raises:
            JournalConflict: There are events after that place; `read` them and try again.
            JournalError: It could not be written; nothing has changed.
        """


def normalised(event: Event) -> Event:
    """Return the event as it will be read back, so that memory and file are the same.

    Raises:
        JournalError: It holds something that JSON cannot say exactly (NaN, an object).
    """
    try:
        found: Event = json.loads(json.dumps(event, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise JournalError(
            f"cannot record the {event['event']} event: {error}; use JSON values"
        ) from error
    return found


def plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration read from JSON as plain values: lists become tuples again."""
    return {name: tuple(v) if isinstance(v, list) else v for name, v in config.items()}


def suggested_event(
    trials: Sequence[Trial], dequeued: int, again: Sequence[int] = (), until: float | None = None
) -> Event:
    """Return the event of one suggestion.

    Args:
        trials: New ones.
        dequeued: How many configurations left the queue.
        again: Ids of pending trials that are offered again.
        until: When the lease of all of them ends, in seconds since 1970, or None.
    """
    rows = [
        {"id": t.id, "config": dict(t.config), "origin": t.origin, "tag": t.tag} for t in trials
    ]
    lease = {} if until is None else {"until": until}
    offered = {"again": list(again)} if again else {}
    return {"event": "suggested", "trials": rows, "dequeued": dequeued, **offered, **lease}


def observed_event(trials: Sequence[Trial]) -> Event:
    """Return the event of one observation.

    Every row has its configuration, so that no observation is lost with the record that suggested it; those of trials
    that were never suggested have their origin too.
    """
    return {"event": "observed", "outcomes": [_outcome_row(t) for t in trials]}


def _outcome_row(trial: Trial) -> dict[str, Any]:
    outcome = trial.outcome
    assert outcome is not None
    row: dict[str, Any] = {"id": trial.id, "status": outcome.status.value}
    for name in _PARTS:
        value = getattr(outcome, name)
        if value not in (None, (), "", {}):
            row[name] = dict(value) if isinstance(value, Mapping) else value
    row["config"] = dict(trial.config)
    if trial.origin in ("told", "imported"):
        row["origin"] = trial.origin
    return row


def abandoned_event(trial_id: int, reason: str) -> Event:
    """Return the event of giving a trial up."""
    return {"event": "abandoned", "id": trial_id, "reason": reason}


def enqueued_event(configs: Sequence[Mapping[str, Any]]) -> Event:
    """Return the event of putting configurations in the queue."""
    return {"event": "enqueued", "configs": [dict(c) for c in configs]}


def read_outcome(row: Mapping[str, Any]) -> Outcome:
    """Return the outcome that an ``observed`` event holds.

    Raises:
        KeyError: It has no id or status.
        ValueError: A part is not of its kind.
    """
    parts = {name: row[name] for name in _PARTS if name in row}
    for name, value in parts.items():
        if not _PARTS[name](value):
            raise ValueError(f"{name} of trial {row['id']!r} is {value!r:.80}")
    if "repeats" in parts:
        parts["repeats"] = tuple(parts["repeats"])
    return Outcome(row["id"], Status(row["status"]), **parts)


def _number(value: Any) -> bool:
    """Whether it is a number within the range of floats; a bool is none."""
    return type(value) in (float, int) and -_LARGEST <= value <= _LARGEST


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _mapping(value: Any) -> bool:
    return isinstance(value, dict)


_PARTS: Mapping[str, Callable[[Any], bool]] = {
    "value": _number,
    "repeats": lambda value: isinstance(value, list) and all(map(_number, value)),
    "sem": _number,
    "failed": _text,
    "message": _text,
    "bound": _number,
    "metrics": lambda value: _mapping(value) and all(map(_number, value.values())),
    "extra": _mapping,
}
"""What is kept of an outcome beside its trial and status, and what each part must be when it is read."""


def suggested_configs(event: Event) -> list[dict[str, Any]]:
    """Return the configurations that an event suggests."""
    rows = event["trials"] if event["event"] == "suggested" else ()
    return [plain(row["config"]) for row in rows]


Known = tuple[Sequence[Mapping[str, Any]], Codes]
"""Configurations and their codes, ``(n, w)``."""


def apply(
    event: Event, history: History, known: Known | None = None
) -> tuple[History, tuple[Trial, ...]]:
    """Return the history after an event other than ``opened``, and the trials that it observed.

    Args:
        event: What has happened.
        history: What was known before.
        known: `suggested_configs` and their codes, ``(n, w)``, where they are at hand.

    Raises:
        TrialError: The event does not fit the history.
        ConfigError: A configuration is not in the space.
        LookupError, TypeError, ValueError, AttributeError: It is no event of ours.
    """
    kind = event["event"]
    if kind == "suggested":
        return _suggested(event, history, known), ()
    if kind == "observed":
        done = tuple(_observed(row, history) for row in event["outcomes"])
        return history.completed(done), done
    if kind == "abandoned":
        return history.abandoned(event["id"]), ()
    if kind == "enqueued":
        configs = [plain(c) for c in event["configs"]]
        history.space.encode(configs)  # refuses what could not be suggested
        return history.enqueued(configs), ()
    raise KeyError(kind)


def _suggested(event: Event, history: History, known: Known | None) -> History:
    until = event.get("until")
    if until is not None and not _number(until):
        raise ValueError(f"until is {until!r:.80}")
    if known is None:
        found = suggested_configs(event)
        known = found, history.space.encode(found)
    configs, codes = known
    trials = [
        Trial(row["id"], config, row["tag"], row["origin"], until=until)
        for row, config in zip(event["trials"], configs, strict=True)
    ]
    if event["dequeued"]:
        history = history.dequeued(event["dequeued"])
    if event.get("again"):
        history = history.offered(event["again"], until)
    return history.suggested(trials, codes) if trials else history


def _observed(row: Mapping[str, Any], history: History) -> Trial:
    outcome = read_outcome(row)
    if "origin" in row:
        return Trial(row["id"], plain(row["config"]), None, row["origin"], outcome)
    return history.checked([outcome])[0]
