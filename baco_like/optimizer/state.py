"""All that an optimizer knows, as a value, and how the events of a journal change it. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from baco_like._random import Purpose, generator
from baco_like.exceptions import ConfigError, JournalError, TrialError
from baco_like.journal.events import START, Event, Known, Mark, apply, suggested_configs
from baco_like.journal.header import Header, Options
from baco_like.journal.warm_start_results import numbered
from baco_like.records.history import History
from baco_like.records.trial import Trial
from baco_like.spaces.space import Space
from baco_like.strategies.protocol import Problem, Strategy

_NO_EVENT = (
    TrialError,
    ConfigError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
)
"""What comes of a record that somebody has forged."""

_AT_ONCE = 500
"""Records whose configurations are encoded together."""


@dataclass(frozen=True)
class OptimizerState:
    """All that an optimizer knows, replaced as a whole."""

    options: Options
    problem: Problem
    history: History
    state: Any
    mark: Mark


def initial_state(header: Header, space: Space, strategy: Strategy[Any]) -> OptimizerState:
    """Return what is known before the first event; a strategy refuses a space here.

    Raises:
        JournalError: Earlier results do not belong to the space.
    """
    options = header.options
    problem = Problem(space, options.budget, options.noise, options.direction)
    known = [trial for part in header.earlier if part.mode == "data" for trial in part.trials]
    wanted = [t.config for part in header.earlier if part.mode == "configs" for t in part.trials]
    warm = numbered([(t.config, t.outcome) for t in known if t.outcome is not None])
    try:
        space.encode(wanted)
        history = History.start(space, options.direction).warmed(warm)
    except _NO_EVENT as error:
        raise JournalError(
            f"the warm start of record 0 does not fit its space: {error}", 0
        ) from error
    history = history.enqueued(header.queue).enqueued(wanted)
    state = strategy.init(problem, generator(options.seed, Purpose.INIT))
    for trial in warm:
        rng = generator(options.seed, Purpose.TELL, trial.id)
        state = strategy.tell(problem, state, trial, rng)
    return OptimizerState(options, problem, history, state, START)


def apply_events(
    now: OptimizerState, records: Iterable[tuple[Event, Mark]], strategy: Strategy[Any], name: str
) -> tuple[OptimizerState, Sequence[Trial]]:
    """Return what is known after some records, and the trials that they observed.

    Args:
        now: What is known before.
        records: Events, each with the place behind it.
        strategy: Is told of every observation.
        name: What messages call the journal.

    Raises:
        JournalError: A record does not fit those before it.
    """
    history, state, mark = now.history, now.state, now.mark
    seen: list[Trial] = []
    for (event, mark), known in _with_codes(records, now.problem.space):
        try:
            history, observed = apply(event, history, known)
        except _NO_EVENT as error:
            number = mark.number - 1
            raise JournalError(
                f"{name}: record {number} does not fit those before it: {error}", number
            ) from error
        for trial in observed:
            rng = generator(now.options.seed, Purpose.TELL, trial.id)
            state = strategy.tell(now.problem, state, trial, rng)
        seen += observed
    if mark is now.mark:
        return now, seen
    return replace(now, history=history, state=state, mark=mark), seen


def _with_codes(
    records: Iterable[tuple[Event, Mark]], space: Space
) -> Iterator[tuple[tuple[Event, Mark], Known | None]]:
    """Yield records with the codes of what they suggest: many are encoded at once, which is several times as fast."""
    rest = iter(records)
    while some := list(islice(rest, _AT_ONCE)):
        try:
            configs = [suggested_configs(event) for event, _ in some]
            codes = space.encode([config for few in configs for config in few])
        except _NO_EVENT:  # which record is wrong is found when it is applied alone
            yield from ((record, None) for record in some)
            continue
        at = 0
        for record, few in zip(some, configs, strict=True):
            yield record, (few, codes[at : at + len(few)])
            at += len(few)
