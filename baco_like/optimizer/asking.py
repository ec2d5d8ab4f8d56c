"""Which trials come next: enqueued ones, then the strategy's, then uniform draws. Pure functions of what is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from baco_like._random import Purpose, generator
from baco_like._typing import Codes
from baco_like.exceptions import SpaceExhausted
from baco_like.records.history import History, row_keys
from baco_like.records.journal import Event, suggested_event
from baco_like.records.trial import Proposal, Trial
from baco_like.spaces.design import uniform
from baco_like.strategies.protocol import Problem, Strategy


def suggestion(
    problem: Problem, history: History, strategy: Strategy[Any], state: Any, seed: int, n: int
) -> Event:
    """Return the event that tells of the next trials, n unless the space has no more.

    Raises:
        SpaceExhausted: There is none.
        RuntimeError: The strategy has broken its contract.
    """
    trials, dequeued = _from_queue(problem, history, n)
    codes = problem.space.encode([t.config for t in trials])
    missing = n - len(trials)
    if missing:
        beyond = history.suggested(trials, codes)
        trials += _from_strategy(problem, beyond, strategy, state, seed, missing)
    if not trials:
        raise SpaceExhausted(
            f"all feasible configurations are observed or pending ({len(history)} observed, "
            f"{len(history.pending)} pending); stop here, or enlarge the space"
        )
    return suggested_event(trials, dequeued)


def _from_queue(problem: Problem, history: History, n: int) -> tuple[list[Trial], int]:
    """Return trials for enqueued configurations, and how many leave the queue; taken ones do so silently."""
    trials: list[Trial] = []
    seen: set[bytes] = set()
    dequeued = 0
    for config in history.queue:
        if len(trials) == n:
            break
        dequeued += 1
        code = problem.space.encode([config])
        (key,) = row_keys(code)
        if key not in seen and not problem.taken(history, code)[0]:
            trials.append(Trial(history.next_id + len(trials), config, None, "enqueued"))
        seen.add(key)
    return trials, dequeued


def _from_strategy(
    problem: Problem, history: History, strategy: Strategy[Any], state: Any, seed: int, n: int
) -> list[Trial]:
    number = history.next_id
    asked = strategy.ask(problem, history, state, n, generator(seed, Purpose.ASK, number))
    codes = np.array([p.code for p in asked]).reshape(-1, problem.space.width)
    _check(problem, history, type(strategy).__name__, asked, codes, n)
    fill = np.empty((0, problem.space.width))
    if len(codes) < n:
        beyond = history.assuming(codes)
        rng = generator(seed, Purpose.FILL, number)
        fill = uniform(problem.space, n - len(codes), rng, lambda rows: problem.taken(beyond, rows))
    configs = problem.space.decode(np.concatenate([codes, fill]))
    notes = [(p.tag, "strategy") for p in asked] + [(None, "fill")] * len(fill)
    return [
        Trial(number + i, config, tag, origin)
        for i, (config, (tag, origin)) in enumerate(zip(configs, notes, strict=True))
    ]


def _check(
    problem: Problem, history: History, name: str, asked: Sequence[Proposal], codes: Codes, n: int
) -> None:
    """A strategy that breaks its contract is a bug, and is named as such."""
    if len(asked) > n:
        raise RuntimeError(f"bug in strategy {name}: {len(asked)} proposals, asked for {n}")
    if not len(asked):
        return
    if not problem.space.feasible.contains(codes).all():
        raise RuntimeError(f"bug in strategy {name}: it proposed an infeasible configuration")
    if problem.taken(history, codes).any() or len(set(row_keys(codes))) < len(codes):
        raise RuntimeError(f"bug in strategy {name}: it proposed a configuration that is taken")
