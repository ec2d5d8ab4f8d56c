"""Answer the proposals of a source: accepted, or refused with the reason and the nearest allowed configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from baco_like._checks import as_tuple
from baco_like._random import Purpose
from baco_like._typing import Codes, Rng
from baco_like.exceptions import ConfigError
from baco_like.optimizer.arguments import Config
from baco_like.optimizer.state import OptimizerState
from baco_like.parameters.protocol import Parameter, nearest_number
from baco_like.records import History, Status, Trial
from baco_like.records.objective_values import finite_number
from baco_like.records.rows import row_keys
from baco_like.records.sources import PROBATION, SourceRecord, read_sources
from baco_like.spaces import Space, neighbourhoods
from baco_like.spaces.design import uniform

_STEPS = (neighbourhoods.adjacent, neighbourhoods.adjacent, neighbourhoods.hamming)
"""The neighbours that are searched around a configuration that is not allowed, then around those."""

_MOST_IN_RING = 64
"""Largest number of configurations whose neighbours are searched next."""


@dataclass(frozen=True)
class ProposalAnswer:
    """The answer to one proposal of `Optimizer.propose`.

    Attributes:
        config: The given configuration, unchanged.
        reason: Why it is refused: ``infeasible``, ``observed``, ``failed``, ``pending``, ``enqueued``, ``proposed`` or
            ``stopped``, a colon, and the details; empty if it is accepted.
        nearest: For a refused one, the nearest feasible configuration that may be proposed; None if there is none.
    """

    config: Mapping[str, Any] = field(hash=False)
    reason: str = ""
    nearest: Mapping[str, Any] | None = field(default=None, hash=False)

    @property
    def accepted(self) -> bool:
        """Whether the configuration is now an open proposal."""
        return not self.reason


def answer_proposals(
    state: OptimizerState, configs: Sequence[Config], source: str
) -> tuple[list[ProposalAnswer], list[Config]]:
    """Return the answer to each configuration, and those that are accepted, in the values of the space.

    Raises:
        ConfigError: A configuration is not a mapping.
    """
    space = state.problem.space
    history = state.history
    waiting = [*history.queue, *(proposal.config for proposal in history.open_proposals)]
    codes = space.encode(waiting)
    record = read_sources(history).get(source, SourceRecord(source))
    answers: list[ProposalAnswer] = []
    accepted: list[Config] = []
    for config in configs:
        reason = _find_reason(state, config, record, accepted)
        if not reason:
            codes = np.concatenate([codes, row := space.encode([config])])
            accepted += space.decode(row)
        near = find_nearest(state, config, codes) if reason and not record.is_stopped else None
        answers.append(ProposalAnswer(dict(config), reason, near))
    return answers, accepted


def _find_reason(
    state: OptimizerState, config: Config, record: SourceRecord, accepted: Sequence[Config]
) -> str:
    """Return why a configuration is refused, or an empty text."""
    space, history = state.problem.space, state.history
    if violated := space.explain(config):
        return f"infeasible: {'; '.join(violated)}"
    code = space.encode([config])
    (plain,) = space.decode(code)
    if state.is_excluded(code):
        trial = history.find_pending(code[0])
        return f"pending: trial {trial.id}" if trial else _describe(history.trials_of(plain)[-1])
    if plain in history.queue:
        return "enqueued: it is suggested next"
    (key,) = row_keys(code)
    for proposal in history.open_proposals:
        if row_keys(proposal.code[None, :])[0] == key:
            return f"proposed: by {proposal.source!r:.80}, and not tried yet"
    if plain in accepted:
        return f"proposed: by {record.source!r:.80}, in the same call"
    if record.is_stopped:
        return (
            f"stopped: the first {PROBATION} proposals of {record.source!r:.80} have failed, or are pending; "
            "propose under another source if the reason is gone"
        )
    return ""


def _describe(trial: Trial) -> str:
    """Return the result of a trial as a reason."""
    if trial.status is Status.FAILED:
        return f"failed: trial {trial.id}, {trial.failure}"
    value = f"at least {trial.bound:.6g}" if trial.value is None else f"{trial.value:.6g}"
    return f"observed: trial {trial.id}, {value}"


def find_nearest(state: OptimizerState, config: Config, waiting: Codes) -> dict[str, Any] | None:
    """Return the nearest feasible configuration that is neither excluded nor waiting, or None.

    Values that are missing or mean nothing become those of the best configuration, else the default ones.

    Args:
        state: The state of the run.
        config: Any mapping.
        waiting: The codes of enqueued configurations and open proposals, (m, w).
    """
    space = state.problem.space
    rng = state.generator(Purpose.PROPOSE, len(state.history))
    history = state.history.assume_pending(waiting)
    is_excluded = partial(state.problem.is_excluded, history)
    code = _read_leniently(space, config, _base_of(history, rng))
    ring = neighbourhoods.nearest(space, code, rng)
    for step in (*_STEPS, None):
        allowed = ring[~is_excluded(ring)]
        if len(allowed):
            return space.decode(_closest(space, allowed, code))[0]
        if step is not None:
            ring = step(space, ring[:_MOST_IN_RING], rng)[0]
    return next(iter(space.decode(uniform(space, 1, rng, is_excluded))), None)


def _closest(space: Space, rows: Codes, code: Codes) -> Codes:
    """Return the row of some, (n, w), whose features are the closest to those of a code, (1, w)."""
    squared = np.square(space.features(rows) - space.features(code)).sum(axis=1)
    return rows[[int(np.argmin(squared))]]


def _base_of(history: History, rng: Rng) -> Codes:
    """Return the best configuration, or the default, or a random one, (1, w)."""
    best, space = history.best(), history.space
    if best is not None and best.code is not None:
        return best.code[None, :]
    default = space.default_config
    return space.feasible.sample(1, rng) if default is None else space.encode([default])


def _read_leniently(space: Space, config: Config, base: Codes) -> Codes:
    """Return the codes of a configuration, (1, w): of an illegal value those of the closest one, else the base's."""
    rows = base.copy()
    for name, parameter in space.parameters.items():
        if name in config and (code := _closest_code(parameter, config[name])) is not None:
            rows[:, space.columns[name]] = code
    return space.activity.at_rest(rows)


def _closest_code(parameter: Parameter, value: Any) -> Codes | None:
    """Return the code, (1, width), of a value, or of the closest number of the parameter; None if there is none."""
    value = as_tuple(value) if isinstance(value, list) else value
    try:
        return parameter.encode([value])
    except ConfigError:
        number = finite_number(value)
    if number is None or parameter.width > 1:
        return None
    nearest = nearest_number(parameter, number)
    return None if nearest is None else parameter.encode([nearest])
