"""Continue a run in a changed space: write a new journal with the observations that are valid there.

The old journal is not changed, and the new one is written completely or not at all.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from baco_like.exceptions import SpaceWarning
from baco_like.journal.events import (
    Event,
    enqueued_event,
    observed_event,
    proposed_event,
    suggested_event,
)
from baco_like.journal.header import Header, WarmStartResults, numbered
from baco_like.journal.json_lines import write_journal
from baco_like.optimizer.arguments import Config, default_points, plugin_versions, read_events
from baco_like.optimizer.state import apply_events, initial_state
from baco_like.optimizer.warm_start import default_values, map_config
from baco_like.records.trial import Status, Trial
from baco_like.spaces.inputs import GivenParameter, describe_differences
from baco_like.spaces.space import Space
from baco_like.strategies.baselines import RandomSearch

_ConfigMove = Callable[[Config], dict[str, Any] | None]
"""Maps a configuration of the old space to a feasible one of the new space, or to None."""


@dataclass(frozen=True)
class Migration:
    """Report of a migration.

    Attributes:
        difference: Readable lines on how the spaces differ.
        inside: Number of observations that count in the new space.
        outside: Number of observations that are kept as imported ones and not modelled.
        waiting: Number of pending and enqueued configurations that are suggested next.
        dropped: Number of pending and enqueued configurations outside the new space.
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
    """Write a journal for a changed space from an existing one; continue with ``Optimizer(space, storage=new, ...)``.

    A parameter that the old space lacks is assumed to have had its default; if it has none, no observation counts, and
    a warning says so. An observation counts if its configuration is then feasible in the new space and every parameter
    that the new space lacks had its default. All others are kept as imported observations. Trials get new numbers in
    the order of arrival; pending and enqueued configurations are suggested next. Results of a warm start are kept if
    they are valid in the new space.

    Args:
        old: The journal of the old space; it is not changed.
        new: The new journal; the file must not exist.
        space: The new space, or a mapping that one is built from.

    Raises:
        JournalError: The old journal cannot be read, or the new one cannot be written.
    """
    space = space if isinstance(space, Space) else Space(space)
    header, _, old_events = read_events(Path(old))
    old_space = Space.from_dict({**header.space, "constraints": []})  # callables are not written
    strategy = RandomSearch()  # its state is empty, so replaying is quick
    past = apply_events(initial_state(header, old_space, strategy), old_events, str(old))[0].history
    move = _config_move(old_space, space)
    results = [_move_warm_start(part, move) for part in header.earlier]
    warm = tuple(part for part in results if part is not None)
    first_id = sum(len(part.trials) for part in warm if part.mode == "data")
    observed = [_move_trial(i, t, move) for i, t in enumerate(past.trials[past.warm :], first_id)]
    waiting = [move(config) for config in (*past.pending.values(), *past.queue)]
    kept = [config for config in waiting if config is not None]
    points: list[Config] = list(map(dict, header.queue))
    if not points or points == default_points(old_space):
        points = default_points(space)  # an optimizer that opens the new journal expects them
    else:
        points = [moved for point in points if (moved := move(point)) is not None]
    changed = Header(space.to_dict(), header.options, tuple(points), warm, header.host)
    queue = initial_state(changed, space, strategy).history.queue
    known = [*(trial.config for trial in observed), *kept]
    fresh = [config for config in changed.queue if config not in known]
    events: list[Event] = [
        changed.event(plugin_versions(header.options.strategy)),
        # Empty the queue of the header: its configurations were suggested before or follow below. With repeats allowed
        # they would be suggested once more.
        *([suggested_event([], dequeued=len(queue))] if queue else []),
        *(observed_event([t], [t.outcome]) for t in observed if t.outcome is not None),
        *([enqueued_event([*fresh, *kept])] if fresh or kept else []),
        *(
            proposed_event(proposal.source, proposal.note, [config])
            for proposal in past.open_proposals
            if (config := move(proposal.config)) is not None
        ),
    ]
    write_journal(Path(new), events)
    inside = sum(space.contains(trial.config) for trial in observed)
    return Migration(
        tuple(describe_differences(header.space, space.to_dict())),
        inside,
        len(observed) - inside,
        len(kept),
        len(waiting) - len(kept),
    )


def _config_move(old_space: Space, space: Space) -> _ConfigMove:
    """Return the map of feasible configurations to the new space; warn if no configuration can be mapped."""
    defaults, old_defaults = default_values(space), default_values(old_space)
    unknown = [n for n, value in defaults.items() if value is None and n not in old_defaults]
    if unknown:
        warnings.warn(
            f"no observation counts in the new space: {unknown[0]!r} is new and has no default; "
            "set the default to the value that the old observations had",
            SpaceWarning,
            stacklevel=3,
        )
    removed = {name: old_defaults[name] for name in old_space.names if name not in defaults}
    known = {*old_space.names, *space.names}

    def move(config: Config) -> dict[str, Any] | None:
        # Imported configurations may have parameters of neither space, which have no default.
        if not known.issuperset(config):
            return None
        if any(config[n] != value for n, value in removed.items() if n in config):
            return None
        moved, _ = map_config(config, space, defaults.get, exact=True)
        return moved if moved is not None and space.contains(moved) else None

    return move


def _move_trial(number: int, trial: Trial, move: _ConfigMove) -> Trial:
    assert trial.outcome is not None
    outcome = replace(trial.outcome, trial_id=number)
    config = move(trial.config)
    if config is None:
        return Trial(number, trial.config, None, "imported", outcome)
    return Trial(number, config, None, "told", outcome)


def _move_warm_start(part: WarmStartResults, move: _ConfigMove) -> WarmStartResults | None:
    """Return the results of a warm start in the new space, or None if no success is left."""
    moved = [(move(trial.config), trial.outcome) for trial in part.trials]
    rows = [(config, outcome) for config, outcome in moved if config and outcome is not None]
    if not any(outcome.status is Status.OK for _, outcome in rows):
        return None
    lost = len(moved) - len(rows)
    left_out = {"they are not in the changed space": lost} if lost else {}
    return replace(part, trials=numbered(rows), left_out={**part.left_out, **left_out})
