"""Which trials come next: those offered again, enqueued ones, the strategy's, then uniform draws.

Pure functions of what is known and of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from baco_like._random import Purpose, generator
from baco_like._typing import Codes
from baco_like.exceptions import SpaceExhausted
from baco_like.journal.events import Event, suggested_event
from baco_like.records.history import History, row_keys
from baco_like.records.trial import Proposal, Trial
from baco_like.spaces.design import uniform
from baco_like.strategies.protocol import Problem, Strategy


@dataclass(frozen=True)
class Ask:
    """What is asked for.

    Attributes:
        n: How many trials.
        seed: The run's only seed.
        lease: Seconds after which a trial that has not come out is offered again, or None.
        time: Seconds since 1970.
    """

    n: int
    seed: int
    lease: float | None
    time: float


def suggestion(
    problem: Problem, history: History, strategy: Strategy[Any], state: Any, ask: Ask
) -> Event:
    """Return the event that tells of the next trials, n unless the space has no more.

    Raises:
        SpaceExhausted: There is none.
        RuntimeError: The strategy has broken its contract.
    """
    again = [] if ask.lease is None else history.expired(ask.time)[: ask.n]
    trials, dequeued = _from_queue(problem, history, ask.n - len(again))
    missing = ask.n - len(again) - len(trials)
    if missing:
        codes = problem.space.encode([t.config for t in trials])
        beyond = history.suggested(trials, codes) if trials else history
        trials += _from_strategy(problem, beyond, strategy, state, ask.seed, missing)
    if not trials and not again:
        if problem.noise == "repeat" and history.pending:
            taken, way = "failed or pending", "observe one of the pending first"
        else:
            taken, way = "observed or pending", "stop here, or enlarge the space"
        raise SpaceExhausted(
            f"{_all(problem)} are {taken} ({len(history)} observed, {len(history.pending)} pending); {way}"
        )
    until = None if ask.lease is None else ask.time + ask.lease
    return suggested_event(trials, dequeued, again, until)


def _all(problem: Problem) -> str:
    if problem.space.feasible.count is None:
        return "all feasible configurations that many draws find"
    return "all feasible configurations"


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
        if key not in seen and not problem.is_excluded(history, code)[0]:
            trials.append(Trial(history.next_id + len(trials), config, None, "enqueued"))
        seen.add(key)
    return trials, dequeued


def _from_strategy(
    problem: Problem, history: History, strategy: Strategy[Any], state: Any, seed: int, n: int
) -> list[Trial]:
    number = history.next_id
    count = problem.space.feasible.count
    n = n if count is None else min(n, count)
    asked = strategy.ask(problem, history, state, n, generator(seed, Purpose.ASK, number))
    codes = np.array([p.code for p in asked]).reshape(-1, problem.space.width)
    _check(problem, history, type(strategy).__name__, asked, codes, n)
    fill = np.empty((0, problem.space.width))
    if len(codes) < n:
        beyond = history.assuming(codes)
        rng = generator(seed, Purpose.FILL, number)
        fill = uniform(
            problem.space, n - len(codes), rng, lambda rows: problem.is_excluded(beyond, rows)
        )
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
    if problem.is_excluded(history, codes).any() or len(set(row_keys(codes))) < len(codes):
        raise RuntimeError(f"bug in strategy {name}: it proposed a configuration that is taken")
