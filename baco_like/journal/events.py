"""The events of a journal, made from trials and outcomes and turned back into them.

A run is the fold of its events, so resuming means reading them again. Events are plain dictionaries with an ``event``
word: ``opened`` (the header), ``suggested``, ``renewed``, ``observed``, ``abandoned``, ``enqueued``, ``proposed``
or ``confirming``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol, final, runtime_checkable

import numpy as np

from baco_like._checks import as_tuple
from baco_like._forks import renew_lock_in_child
from baco_like._typing import Codes
from baco_like.exceptions import BacoError, ConfigError, JournalConflict, JournalError, TrialError
from baco_like.journal.fields import PARTS, check_event
from baco_like.records.leases import Lease, Moment
from baco_like.records.plan import ConfirmationPlan, Simplification
from baco_like.records.sources import OpenProposal
from baco_like.records.trial import LATE, Candidate, Observation, Outcome, Status, Trial

if TYPE_CHECKING:  # else every start of a worker imports the spaces
    from baco_like.records.history import History

SCHEMA = 2
"""Version of the events."""

Event = Mapping[str, Any]


@dataclass(frozen=True)
class Mark:
    """A position between two events of a journal.

    Attributes:
        number: Number of events before it.
        place: The offset in the journal's own unit (bytes of a file).
        closed: Whether the event before it is complete, including its line end.
        anchor: Shows the journal that the events before the position are unchanged, or None.
    """

    number: int = 0
    place: int = 0
    closed: bool = True
    anchor: Any = None


START = Mark()


@runtime_checkable
class Journal(Protocol):
    """An append-only list of events that several writers may share. It keeps no state of its readers.

    `baco_like.testing.journals.check_journal` tests an implementation.
    """

    def read(self, after: Mark) -> Iterable[tuple[Event, Mark]]:
        """Return the events after a position, each with the position behind it.

        Raises:
            JournalError: An event is damaged; the message has its number.
        """

    def append(self, event: Event, after: Mark) -> Mark:
        """Write one event durably and return the position behind it.

        Raises:
            JournalConflict: The journal has events after that position; `read` them and try again.
            JournalError: The event could not be written; the journal is unchanged.
        """


_append_lock = RLock()
"""Held while an event is added to a journal in memory."""

renew_lock_in_child(sys.modules[__name__], "_append_lock")


@final
class MemoryJournal:
    """A journal in memory, for runs that need not survive the process.

    It holds the events as JSON text: for configurations of many parameters, a third of the memory of objects.

    Args:
        events: The first events.

    Raises:
        JournalError: An event holds a value that JSON cannot represent exactly.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._texts = [to_json(event) for event in events]

    @property
    def events(self) -> list[Event]:
        """Copies of the events."""
        return [json.loads(text) for text in self._texts]

    def read(self, after: Mark) -> Iterator[tuple[Event, Mark]]:
        """Return the events after a position, each with the position behind it."""
        for number in range(after.number, len(self._texts)):
            yield json.loads(self._texts[number]), Mark(number + 1)

    def append(self, event: Event, after: Mark) -> Mark:
        """Add one event and return the position behind it.

        Raises:
            JournalConflict: The journal has events after that position.
            JournalError: The event holds a value that JSON cannot represent exactly.
        """
        text = to_json(event)
        with _append_lock:
            if len(self._texts) > after.number:
                raise JournalConflict("the journal has grown")
            self._texts.append(text)
        return Mark(after.number + 1)


def to_json(event: Event) -> str:
    """Return the JSON text of an event, without spaces and in ASCII.

    Raises:
        JournalError: It holds a value that JSON cannot represent exactly (NaN, an object).
    """
    try:
        return json.dumps(event, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        kind = event["event"]
        raise JournalError(f"cannot write a {kind} event: {error}; use JSON values") from error


def normalise(event: Event) -> dict[str, Any]:
    """Return the event as it will be read back, so that runs in memory and in a file behave the same.

    Raises:
        JournalError: It holds a value that JSON cannot represent exactly (NaN, an object).
    """
    normalised: dict[str, Any] = json.loads(to_json(event))
    return normalised


def describe_error(error: Exception) -> str:
    """Return the message of one of our errors, or type and message of another one."""
    return str(error) if isinstance(error, BacoError) else repr(error)


def config_from_json(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration that was read from JSON, with tuples instead of lists."""
    # Names and words are interned: a long journal would otherwise hold a copy of each of them for each trial.
    intern = sys.intern
    return {
        intern(name): intern(value)
        if type(value) is str
        else (as_tuple(value) if isinstance(value, list) else value)
        for name, value in config.items()
    }


def suggested_event(
    trials: Sequence[Trial],
    dequeued: int,
    again: Sequence[int] = (),
    lease: Lease | None = None,
    worker: str | None = None,
) -> Event:
    """Return the event of one suggestion.

    Args:
        trials: New trials.
        dequeued: Number of configurations taken from the queue.
        again: Ids of pending trials that are suggested again because their lease has expired.
        lease: The lease of all these trials, or None.
        worker: Name of the optimizer that evaluates them, or None.
    """
    rows = [
        {"id": t.id, "config": dict(t.config), "origin": t.origin, "tag": t.tag} for t in trials
    ]
    offered = {"again": list(again)} if again else {}
    return {
        "event": "suggested",
        "trials": rows,
        "dequeued": dequeued,
        **offered,
        **_lease_fields(lease),
        **({} if worker is None else {"worker": worker}),
    }


def renewed_event(ids: Sequence[int], lease: Lease) -> Event:
    """Return the event of a sign of life: the workers of these pending trials are alive, and have a new lease."""
    return {"event": "renewed", "ids": list(ids), **_lease_fields(lease)}


def _lease_fields(lease: Lease | None) -> dict[str, Any]:
    if lease is None:
        return {}
    clocks = {"seconds": lease.seconds}
    boot = {"boot": lease.start.boot, "uptime": lease.start.uptime}
    return {"until": lease.until, "lease": clocks | (boot if lease.start.boot is not None else {})}


def _read_lease(event: Event) -> Lease | None:
    """Return the lease in a checked ``suggested`` or ``renewed`` event, or None."""
    if "lease" not in event:
        return None
    fields = event["lease"]
    seconds = float(fields["seconds"])
    start = Moment(event["until"] - seconds, fields.get("boot"), fields.get("uptime"))
    return Lease(seconds, start)


def observed_event(trials: Sequence[Trial], outcomes: Sequence[Outcome]) -> Event:
    """Return the event of one report of trials and their outcomes.

    Every row has its configuration, so that an observation survives even if the event of its suggestion is damaged.
    Rows of trials that were not suggested also have their origin.
    """
    rows = [outcome_row(trial, outcome) for trial, outcome in zip(trials, outcomes, strict=True)]
    return {"event": "observed", "outcomes": rows}


def outcome_row(trial: Trial, outcome: Outcome) -> dict[str, Any]:
    """Return the row of an ``observed`` event for one trial and its outcome."""
    row: dict[str, Any] = {"id": trial.id, "status": outcome.status.value}
    for name in PARTS:
        value = getattr(outcome, name)
        if value not in (None, (), "", {}):
            row[name] = _without_tuples(value)
    row["config"] = dict(trial.config)
    if trial.origin in ("told", "imported", LATE):
        row["origin"] = trial.origin
    return row


def _without_tuples(value: Any) -> Any:
    """Return a part of an outcome as JSON reads it: events that stay in memory are read like those of a file."""
    if isinstance(value, Mapping):
        return {k: list(v) if isinstance(v, tuple) else v for k, v in value.items()}
    return list(value) if isinstance(value, tuple) else value


def abandoned_event(trial_id: int, reason: str) -> Event:
    """Return the event of abandoning a trial."""
    return {"event": "abandoned", "id": trial_id, "reason": reason}


def enqueued_event(configs: Sequence[Mapping[str, Any]]) -> Event:
    """Return the event of adding configurations to the queue."""
    return {"event": "enqueued", "configs": [dict(c) for c in configs]}


def proposed_event(source: str, note: str, configs: Sequence[Mapping[str, Any]]) -> Event:
    """Return the event of configurations that a source proposes."""
    given = {"note": note} if note else {}
    return {"event": "proposed", "source": source, **given, "configs": [dict(c) for c in configs]}


def built_event(candidates: Sequence[Candidate]) -> Event:
    """Return the event of one report of builds."""
    rows = []
    for trial, _, build, program, seconds in candidates:
        known = {"program": program, "seconds": seconds}
        row = {
            "id": trial.id,
            "config": dict(trial.config),
            "origin": trial.origin,
            "tag": trial.tag,
        }
        row |= {"build": dict(build), **{k: v for k, v in known.items() if v is not None}}
        rows.append(row)
    return {"event": "built", "builds": rows}


def _read_built(event: Event, codes: Codes) -> list[Candidate]:
    return [
        Candidate(
            Trial(row["id"], config_from_json(row["config"]), row["tag"], row["origin"]),
            code,
            row["build"],
            row.get("program"),
            row.get("seconds"),
        )
        for row, code in zip(event["builds"], codes, strict=True)
    ]


def confirming_event(plan: ConfirmationPlan) -> Event:
    """Return the event that begins a confirmation; its measurements are ``suggested`` and ``observed`` events.

    The event after a simplification has the values that are known already.
    """
    return {
        "event": "confirming",
        "configs": [dict(config) for config in plan.configs],
        "observed": list(plan.observed),
        "default": plan.default,
        "confidence": plan.confidence,
        "tolerance": plan.tolerance,
        **({"known": [list(values) for values in plan.known]} if plan.known else {}),
        **({"exact": True} if plan.exact else {}),
        **({"simplification": asdict(plan.simplification)} if plan.simplification else {}),
    }


def _read_plan(event: Event) -> ConfirmationPlan:
    configs = tuple(config_from_json(config) for config in event["configs"])
    observed, default = tuple(event["observed"]), event["default"]
    if len(observed) != len(configs):
        raise TrialError(f"observed has {len(observed)} numbers for {len(configs)} candidates")
    if default is not None and default >= len(configs):
        raise TrialError(f"default is {default}, but there are {len(configs)} candidates")
    known = tuple(map(tuple, event.get("known", ())))
    if known and len(known) != len(configs):
        raise TrialError(f"known has {len(known)} lists for {len(configs)} candidates")
    found = event.get("simplification")
    simplification = None if found is None else Simplification(**found)
    numbers = event["confidence"], event["tolerance"]
    exact = event.get("exact", False)
    return ConfirmationPlan(configs, observed, default, *numbers, 0, known, exact, simplification)


def read_outcome(row: Mapping[str, Any]) -> Outcome:
    """Return the outcome in a checked row of an ``observed`` event; the inverse of `outcome_row`."""
    parts = {name: row[name] for name in PARTS if name in row}
    if "repeats" in parts:
        parts["repeats"] = tuple(parts["repeats"])
    if "metric_repeats" in parts:
        parts["metric_repeats"] = {k: tuple(v) for k, v in parts["metric_repeats"].items()}
    return Outcome(row["id"], Status(row["status"]), **parts)


def new_configs(event: Event) -> list[dict[str, Any]]:
    """Return the configurations that an event adds: suggested, built, or observed without a suggestion."""
    if event["event"] == "built":
        return [config_from_json(row["config"]) for row in event["builds"]]
    if event["event"] == "suggested":
        return [config_from_json(row["config"]) for row in event["trials"]]
    if event["event"] == "observed":
        return [config_from_json(row["config"]) for row in event["outcomes"] if "origin" in row]
    return []


def apply(
    event: Event, history: History, codes: Codes | None = None
) -> tuple[History, tuple[Observation, ...]]:
    """Return the history after any event except ``opened``, and the observations that the event adds.

    Args:
        event: The event.
        history: The history before the event.
        codes: The codes of `new_configs`, (n, w), if the caller has them already; NaN for imported configurations
            that cannot be encoded.

    Raises:
        TrialError: A field is missing or wrong, or the event does not fit the history.
        ConfigError: A configuration is not in the space.
        LookupError, TypeError, ValueError, AttributeError: The event is malformed.
    """
    check_event(event)
    match event["event"]:
        case "suggested":
            return _apply_suggested(event, history, codes), ()
        case "observed":
            return _apply_observed(event, history, codes)
        case "built":
            codes = history.space.encode(new_configs(event)) if codes is None else codes
            return history.add_built(_read_built(event, codes)) if len(codes) else history, ()
        case "renewed":
            return history.renew_leases(event["ids"], _read_lease(event), again=False), ()
        case "abandoned":
            return history.abandon(event["id"]), ()
        case "enqueued":
            configs = [config_from_json(config) for config in event["configs"]]
            history.space.encode(configs)  # raises for what could not be suggested later
            return history.enqueue(configs), ()
        case "proposed":
            return _apply_proposed(event, history), ()
        case "confirming":
            plan = _read_plan(event)
            history.space.encode(plan.configs)
            return history.start_confirmation(plan), ()
        case kind:
            raise KeyError(kind)


def _apply_suggested(event: Event, history: History, codes: Codes | None) -> History:
    lease, worker = _read_lease(event), event.get("worker")
    codes = history.space.encode(new_configs(event)) if codes is None else codes
    trials = [
        Trial(
            row["id"],
            config_from_json(row["config"]),
            row["tag"],
            row["origin"],
            lease=lease,
            worker=worker,
            started=event.get("at"),
        )
        for row in event["trials"]
    ]
    if event["dequeued"]:
        history = history.dequeue(event["dequeued"])
    if event.get("again"):
        history = history.renew_leases(event["again"], lease, worker, at=event.get("at"))
    return history.add_pending(trials, codes) if trials else history


def _apply_proposed(event: Event, history: History) -> History:
    configs, source = [config_from_json(config) for config in event["configs"]], event["source"]
    codes = history.space.encode(configs)
    if not history.space.feasible.contains(codes).all():
        raise TrialError(f"a configuration that {source!r:.80} proposes is not feasible")
    note = event.get("note", "")
    return history.propose(
        [
            OpenProposal(source, note, config, code)
            for config, code in zip(configs, codes, strict=True)
        ]
    )


def _apply_observed(
    event: Event, history: History, codes: Codes | None
) -> tuple[History, tuple[Observation, ...]]:
    rows, space = event["outcomes"], history.space
    for i, row in enumerate(rows):
        known = None if "origin" in row else history.find(row["id"])
        if known is not None and config_from_json(row["config"]) != known.config:
            raise TrialError(
                f"outcomes[{i}].config is {row['config']!r:.80}, but trial {known.id} is {dict(known.config)!r:.80}"
            )
    added = [row for row in rows if "origin" in row]
    unsuggested = {}
    for i, row in enumerate(added):
        trial = Trial(row["id"], config_from_json(row["config"]), None, row["origin"])
        try:
            (code,) = space.encode([trial.config]) if codes is None else codes[[i]]
        except ConfigError:
            if trial.origin != "imported":
                raise
            code = np.full(space.width, np.nan)
        inside = trial.origin != "imported" or (
            not np.isnan(code).any() and bool(space.feasible.contains(code[None, :])[0])
        )
        unsuggested[trial.id] = (trial, code if inside else None)
    outcomes = [read_outcome(row) for row in rows]
    return history.complete(outcomes, unsuggested, event.get("at"))
