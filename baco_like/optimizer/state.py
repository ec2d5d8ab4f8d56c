"""The state of an optimizer as a value, and how the events of a journal change it. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from baco_like._random import Purpose, generator
from baco_like._typing import Array, Codes
from baco_like.exceptions import ConfigError, JournalError, TrialError
from baco_like.journal.events import START, Event, Mark, apply, new_configs
from baco_like.journal.header import Header, Options
from baco_like.journal.warm_start_results import numbered
from baco_like.records.history import History
from baco_like.records.trial import Observation, Outcome
from baco_like.spaces.space import Space
from baco_like.strategies.protocol import Problem, Strategy

_INVALID_RECORD = (
    TrialError,
    ConfigError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
)
"""Errors that a malformed record can cause."""

_BATCH = 500
"""Number of records whose configurations are encoded together, several times as fast as separately."""


class Draft(NamedTuple):
    """An event that is not recorded yet.

    Attributes:
        event: The event.
        codes: Codes of the configurations that it adds, see `baco_like.journal.events.encode_new`; None if unknown.
        outcomes: The reported outcomes, in the order of the event.
    """

    event: Event
    codes: Codes | None = None
    outcomes: Sequence[Outcome] = ()


@dataclass(frozen=True)
class OptimizerState:
    """Everything an optimizer knows; replaced as a whole.

    Attributes:
        options: The options of the run.
        problem: The problem as strategies see it.
        history: Observations, pending trials and the queue.
        strategy_state: The strategy's own state.
        mark: The position in the journal up to which this is true.
    """

    options: Options
    problem: Problem
    history: History
    strategy_state: Any
    mark: Mark

    def is_excluded(self, code: Array) -> bool:
        """Whether a row of codes, (w,), must not be suggested."""
        return bool(self.history.is_excluded(code[None, :], self.problem.noise)[0])


def initial_state(header: Header, space: Space, strategy: Strategy[Any]) -> OptimizerState:
    """Return the state before the first event. Strategies refuse unsuitable spaces here.

    Raises:
        JournalError: Results of a warm start do not belong to the space.
    """
    options = header.options
    problem = Problem(space, options.budget, options.noise, options.direction)
    known = [trial for part in header.earlier if part.mode == "data" for trial in part.trials]
    first = [t.config for part in header.earlier if part.mode == "configs" for t in part.trials]
    warm = numbered([(t.config, t.outcome) for t in known if t.outcome is not None])
    try:
        space.encode(first)
        history, observations = History.start(space, options.direction).add_warm_start(warm)
    except _INVALID_RECORD as error:
        raise JournalError(
            f"the warm start of record 0 does not fit its space: {error}", 0
        ) from error
    history = history.enqueue(header.queue).enqueue(first)
    state = strategy.init(problem, generator(options.seed, Purpose.INIT))
    initial = OptimizerState(options, problem, history, state, START)
    return _tell(initial, strategy, history, observations)


def apply_event(
    state: OptimizerState,
    event: Event,
    mark: Mark,
    strategy: Strategy[Any],
    codes: Codes | None = None,
) -> tuple[OptimizerState, tuple[Observation, ...]]:
    """Return the state after one event, and the observations that it adds.

    Args:
        state: The state before.
        event: The event, in the form that the journal returns.
        mark: The position behind it.
        strategy: Gets every observation.
        codes: Codes of the configurations that the event adds, (n, w), if known.

    Raises:
        TrialError: A trial is not pending, or its outcome is inconsistent.
        ConfigError: A configuration does not belong to the space.
        LookupError, TypeError, ValueError, AttributeError: The event is malformed.
    """
    history, observations = apply(event, state.history, codes)
    return replace(_tell(state, strategy, history, observations), mark=mark), observations


def _tell(
    state: OptimizerState,
    strategy: Strategy[Any],
    history: History,
    observations: Iterable[Observation],
) -> OptimizerState:
    own = state.strategy_state
    for observation in observations:
        rng = generator(state.options.seed, Purpose.TELL, observation.id)
        own = strategy.tell(state.problem, own, observation, rng)
    return replace(state, history=history, strategy_state=own)


def apply_events(
    state: OptimizerState,
    records: Iterable[tuple[Event, Mark]],
    strategy: Strategy[Any],
    name: str,
) -> tuple[OptimizerState, list[Observation]]:
    """Return the state after some records of a journal, and the observations that they add.

    Args:
        state: The state before.
        records: Events, each with the position behind it.
        strategy: Gets every observation.
        name: The journal's name, for messages.

    Raises:
        JournalError: A record does not fit those before it.
    """
    added: list[Observation] = []
    for event, mark, codes in _with_codes(records, state.problem.space):
        try:
            history, observations = apply(event, state.history, codes)
        except _INVALID_RECORD as error:
            number = mark.number - 1
            raise JournalError(
                f"{name}: record {number} does not fit those before it: {error}", number
            ) from error
        state = replace(_tell(state, strategy, history, observations), mark=mark)
        added += observations
    return state, added


def _with_codes(
    records: Iterable[tuple[Event, Mark]], space: Space
) -> Iterator[tuple[Event, Mark, Codes | None]]:
    """Yield records with the codes of the configurations that they add, encoded in batches."""
    remaining = iter(records)
    while batch := list(islice(remaining, _BATCH)):
        try:
            configs = [new_configs(event) for event, _ in batch]
            codes = space.encode([config for few in configs for config in few])
        except _INVALID_RECORD:  # the wrong record is found when it is applied alone
            yield from ((event, mark, None) for event, mark in batch)
            continue
        ends = np.cumsum([len(few) for few in configs])
        for (event, mark), part in zip(batch, np.split(codes, ends[:-1]), strict=True):
            yield event, mark, part
