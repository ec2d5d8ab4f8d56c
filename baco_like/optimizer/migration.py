"""Going on in a changed space: a new journal with what the old one's observations mean there.

The old journal stays as it is, and the new one is written whole or not at all.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from baco_like.exceptions import SpaceWarning
from baco_like.journal.events import Event, enqueued_event, observed_event, suggested_event
from baco_like.journal.header import Header
from baco_like.journal.json_lines import write_journal
from baco_like.journal.warm_start_results import WarmStartResults, numbered
from baco_like.optimizer.setup import default_points, read_records
from baco_like.optimizer.state import apply_events, initial_state
from baco_like.records.trial import Status, Trial
from baco_like.spaces.inputs import GivenParameter, describe_differences
from baco_like.spaces.space import Space
from baco_like.strategies.random_search import RandomSearch

Config = Mapping[str, Any]


@dataclass(frozen=True)
class Migration:
    """What became of a run in its new space.

    Attributes:
        difference: Readable lines on how the spaces differ.
        inside: Observations that count in the new space.
        outside: Observations that are kept as imported ones, not modelled.
        waiting: Pending and enqueued configurations that are suggested next.
        dropped: Pending and enqueued configurations that are not in the new space.
    """

    difference: tuple[str, ...]
    inside: int
    outside: int
    waiting: int
    dropped: int


def migrate(
    old: str | os.PathLike[str],
    new: str | os.PathLike[str],
    space: Space | Mapping[str, GivenParameter],
) -> Migration:
    """Write a journal for a changed space from an existing one; go on with ``Optimizer(space, storage=new, ...)``.

    A parameter that the old space lacks is taken to have had its default; where it has none, no observation counts, and
    a warning says so. An observation counts if its configuration, read so, is feasible in the new space and every
    parameter that the new space lacks had its default. All others are kept as imported observations. Trials get new
    numbers in the order of arrival; what was pending or enqueued is suggested next. Of a warm start's results those are
    kept that count in the new space.

    Args:
        old: The journal of the old space; it stays as it is.
        new: The new journal; there must be no such file.
        space: The new space, or what one is built from.

    Raises:
        JournalError: The old journal cannot be read, or the new one cannot be written.
    """
    space = space if isinstance(space, Space) else Space(space)
    header, _, records = read_records(Path(old))
    before = Space.from_dict({**header.space, "constraints": []})  # callables cannot be written
    past, _ = apply_events(
        initial_state(header, before, RandomSearch()), records, RandomSearch(), str(old)
    )
    reading = _Reading(before, space, _defaults(before), _defaults(space))
    _warn_of_unknown(reading)
    earlier = tuple(
        found for part in header.earlier if (found := _earlier(part, reading)) is not None
    )
    first = sum(len(part.trials) for part in earlier if part.mode == "data")
    own = past.history.trials[past.history.warm :]
    observed = [_observed(first + i, trial, reading) for i, trial in enumerate(own)]
    pending = [trial.config for trial in past.history.pending.values()]
    waiting = [reading(config) for config in (*pending, *past.history.queue)]
    legal = [config for config in waiting if config is not None]
    changed = Header(space.to_dict(), header.options, _first_points(header, reading), earlier)
    queue = initial_state(changed, space, RandomSearch()).history.queue
    known = [*(trial.config for trial in observed), *legal]
    fresh = [config for config in changed.queue if config not in known]
    events: list[Event] = [
        changed.event(),
        # What the header enqueues was suggested before, or waits; where trials may repeat it would come once more.
        *([suggested_event([], dequeued=len(queue))] if queue else []),
        *(observed_event([trial]) for trial in observed),
        *([enqueued_event([*fresh, *legal])] if fresh or legal else []),
    ]
    write_journal(Path(new), events)
    inside = sum(space.contains(trial.config) for trial in observed)
    return Migration(
        tuple(describe_differences(header.space, space.to_dict())),
        inside,
        len(observed) - inside,
        len(legal),
        len(waiting) - len(legal),
    )


@dataclass(frozen=True)
class _Reading:
    """Reads a configuration of the old space as one of the new."""

    before: Space
    space: Space
    old: Mapping[str, Any]
    new: Mapping[str, Any]

    def __call__(self, config: Config) -> dict[str, Any] | None:
        """Return what a configuration is in the new space, or None."""
        gone = [name for name in config if name not in self.new]
        if any(self.old.get(name) is None or config[name] != self.old[name] for name in gone):
            return None
        read = {name: config.get(name, default) for name, default in self.new.items()}
        return (
            self.space.decode(self.space.encode([read]))[0] if self.space.contains(read) else None
        )


def _warn_of_unknown(reading: _Reading) -> None:
    unknown = [n for n, value in reading.new.items() if value is None and n not in reading.old]
    if unknown:
        warnings.warn(
            f"no observation counts in the new space: {unknown[0]!r} is new and has no default; "
            "give it the one that was meant",
            SpaceWarning,
            stacklevel=3,
        )


def _defaults(space: Space) -> dict[str, Any]:
    """Return for each parameter its default, the only value of a constant, or None."""
    alone = {name: Space({name: p}).default_config for name, p in space.parameters.items()}
    return {name: None if config is None else config[name] for name, config in alone.items()}


def _observed(number: int, trial: Trial, reading: _Reading) -> Trial:
    assert trial.outcome is not None
    outcome = replace(trial.outcome, trial_id=number)
    config = reading(trial.config)
    if config is None:
        return Trial(number, trial.config, None, "imported", outcome)
    return Trial(number, config, None, "told", outcome)


def _earlier(part: WarmStartResults, reading: _Reading) -> WarmStartResults | None:
    """Return what a warm start is in the new space, or None where nothing of it is left."""
    read = [(reading(trial.config), trial.outcome) for trial in part.trials]
    rows = [
        (config, outcome) for config, outcome in read if config is not None and outcome is not None
    ]
    if not any(outcome.status is Status.OK for _, outcome in rows):
        return None
    lost = (
        {"they are not in the changed space": len(read) - len(rows)}
        if len(rows) < len(read)
        else {}
    )
    return replace(part, trials=numbered(rows), left_out={**part.left_out, **lost})


def _first_points(header: Header, reading: _Reading) -> tuple[Config, ...]:
    """Return what an optimizer that opens the new journal takes for its first points."""
    points = list(map(dict, header.queue))
    if not points or points == default_points(reading.before):
        return tuple(default_points(reading.space))
    return tuple(found for point in points if (found := reading(point)) is not None)
