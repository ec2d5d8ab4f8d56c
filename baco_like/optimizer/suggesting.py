"""Choose the next trials: expired ones, enqueued ones, the strategy's proposals, then uniform draws.

Pure functions of the state and the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from baco_like._random import Purpose, generator
from baco_like._typing import Codes
from baco_like.exceptions import SpaceExhausted
from baco_like.journal.events import Event, suggested_event
from baco_like.optimizer.state import OptimizerState
from baco_like.records.history import History, row_keys
from baco_like.records.trial import Proposal, Trial
from baco_like.spaces.design import uniform
from baco_like.strategies.protocol import Problem, Strategy


class Request(NamedTuple):
    """Arguments of one suggestion.

    Attributes:
        n: Number of trials.
        lease: Seconds after which an unreported trial is suggested again, or None.
        time: Current Unix time in seconds.
    """

    n: int
    lease: float | None
    time: float

    @property
    def until(self) -> float | None:
        """When the lease of the suggested trials expires (Unix seconds), or None."""
        return None if self.lease is None else self.time + self.lease


def build_suggestion(state: OptimizerState, strategy: Strategy[Any], request: Request) -> Event:
    """Return the ``suggested`` event of the next n trials; fewer if the space has no more.

    Raises:
        SpaceExhausted: No trial is left.
        RuntimeError: The strategy has broken its contract.
    """
    problem, history = state.problem, state.history
    again = [] if request.lease is None else history.find_expired(request.time)[: request.n]
    trials, dequeued = _take_from_queue(problem, history, request.n - len(again))
    missing = request.n - len(again) - len(trials)
    if missing:
        codes = problem.space.encode([t.config for t in trials])
        beyond = history.add_pending(trials, codes) if trials else history
        trials += _ask_strategy(state, beyond, strategy, missing)
    if not trials and not again:
        raise _exhausted(problem, history)
    return suggested_event(trials, dequeued, again, request.until)


def _exhausted(problem: Problem, history: History) -> SpaceExhausted:
    if problem.noise == "repeat" and history.pending:
        reason, remedy = "failed or pending", "observe a pending trial first"
    else:
        reason, remedy = "observed or pending", "stop here, or enlarge the space"
    # A feasible set without a count is sampled by rejection, so rare configurations may be missed.
    counted = problem.space.feasible.count is not None
    which = "" if counted else " that repeated random draws find"
    return SpaceExhausted(
        f"all feasible configurations{which} are {reason} ({len(history)} observed, {len(history.pending)} pending); "
        f"{remedy}"
    )


def _take_from_queue(problem: Problem, history: History, n: int) -> tuple[list[Trial], int]:
    """Return at most n trials for enqueued configurations, and how many configurations leave the queue.

    Configurations that were observed or suggested in the meantime leave the queue without becoming a trial.
    """
    trials: list[Trial] = []
    seen: set[bytes] = set()
    dequeued = 0
    for config in history.queue:
        if len(trials) == n:
            break
        dequeued += 1
        code = problem.space.encode([config])
        (key,) = row_keys(code)
        if key not in seen and not history.is_excluded(code, problem.noise)[0]:
            trials.append(Trial(history.next_id + len(trials), config, None, "enqueued"))
        seen.add(key)
    return trials, dequeued


def _ask_strategy(
    state: OptimizerState, history: History, strategy: Strategy[Any], n: int
) -> list[Trial]:
    """Return at most n trials from the strategy, filled up with uniform draws."""
    problem, seed, number = state.problem, state.options.seed, history.next_id
    space = problem.space
    n = n if space.feasible.count is None else min(n, space.feasible.count)
    rng = generator(seed, Purpose.ASK, number)
    proposals = strategy.ask(problem, history, state.strategy_state, n, rng)
    codes = np.array([proposal.code for proposal in proposals]).reshape(-1, space.width)
    _check_proposals(problem, history, type(strategy).__name__, proposals, codes, n)
    fill = np.empty((0, space.width))
    if len(codes) < n:
        beyond = history.assume_pending(codes)
        rng = generator(seed, Purpose.FILL, number)
        fill = uniform(
            space, n - len(codes), rng, lambda rows: beyond.is_excluded(rows, problem.noise)
        )
    configs = space.decode(np.concatenate([codes, fill]))
    notes = [(p.tag, "strategy") for p in proposals] + [(None, "fill")] * len(fill)
    return [
        Trial(number + i, config, tag, origin)
        for i, (config, (tag, origin)) in enumerate(zip(configs, notes, strict=True))
    ]


def _check_proposals(
    problem: Problem,
    history: History,
    name: str,
    proposals: Sequence[Proposal],
    codes: Codes,
    n: int,
) -> None:
    """Raise an error that names the strategy if it breaks its contract."""
    if len(proposals) > n:
        raise RuntimeError(f"bug in strategy {name}: {len(proposals)} proposals, asked for {n}")
    if not len(proposals):
        return
    if not problem.space.feasible.contains(codes).all():
        raise RuntimeError(f"bug in strategy {name}: it proposed an infeasible configuration")
    excluded = history.is_excluded(codes, problem.noise).any()
    if excluded or len(set(row_keys(codes))) < len(codes):
        raise RuntimeError(
            f"bug in strategy {name}: it proposed an observed, pending or repeated configuration"
        )
