"""Choose the next trials: expired ones, enqueued ones, those of other sources, the strategy's, then uniform draws.

Pure functions of the state and the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from baco_like._plugins import name_of
from baco_like._random import Purpose
from baco_like._typing import Codes, Rng
from baco_like.acquisitions.protocol import IsExcluded
from baco_like.exceptions import PluginError, SpaceExhausted, TrialError
from baco_like.journal.events import suggested_event
from baco_like.optimizer.arguments import Sharing, default_points, resolve_task
from baco_like.optimizer.state import Draft, OptimizerState
from baco_like.records import History, Status, Trial
from baco_like.records.leases import Moment
from baco_like.records.rows import row_keys
from baco_like.records.sources import EXPERIENCE, OpenProposal, next_proposals
from baco_like.records.trial import PROPOSED
from baco_like.spaces.design import uniform
from baco_like.strategies.choosing import choose, metrics_count
from baco_like.strategies.moves import step_to_neighbours
from baco_like.strategies.multi_task import MultiTask
from baco_like.strategies.protocol import Predictive, Problem, Proposals, check_proposals

_LIKELY = 0.5
"""Probability of running from which a proposal is ranked by its predicted value; others come last."""

Ask = Callable[[OptimizerState, int], Sequence[Trial]]
"""Returns at most n trials for a state."""


def build_suggestion(
    state: OptimizerState, n: int, now: Moment, sharing: Sharing, ask: Ask | None = None
) -> Draft:
    """Return the ``suggested`` event of the next n trials; fewer if the space has no more.

    Args:
        state: The state of the run.
        n: Number of trials.
        now: The present moment.
        sharing: Lease, worker and task of the trials.
        ask: Returns the trials that come from the strategy; None asks it now.

    Raises:
        SpaceExhausted: No trial is left.
        PluginError: The strategy has broken its contract.
    """
    history = state.history
    again = [] if sharing.lease is None else history.find_expired(now)
    task = resolve_task(sharing.task, history.space)
    if task is not None:
        again = [i for i in again if is_of_task(history, history.pending[i].config, task)]
        if len(history.space.task_columns.tasks) > 1:  # with one task, any strategy proposes for it
            state = replace(state, problem=replace(state.problem, task=task))
    again = again[:n]
    trials, dequeued = _take_from_queue(state, n - len(again), task)
    state = _assume(state, trials)
    # With a store, the trials are chosen under the lock of the run, which a model would hold for long.
    proposed = _take_proposals(state, n - len(again) - len(trials), task, ask is None)
    state, trials = _assume(state, proposed), [*trials, *proposed]
    if missing := n - len(again) - len(trials):
        trials += (
            ask_strategy(state, missing, sharing.stream) if ask is None else ask(state, missing)
        )
    if not trials and not again:
        raise _exhausted(state)
    return Draft(suggested_event(trials, dequeued, again, sharing.start_lease(now), sharing.worker))


def build_single_suggestion(
    state: OptimizerState,
    config: Mapping[str, Any],
    code: Codes,
    now: Moment,
    sharing: Sharing,
    origin: str = "enqueued",
    tag: Any = None,
) -> Draft:
    """Return the ``suggested`` event of one given configuration, with its codes, (1, w), and the trial's origin."""
    trial = Trial(state.history.next_id, config, tag, origin)
    is_next = origin == "enqueued" and config == next(iter(state.history.queue), None)
    event = suggested_event([trial], int(is_next), (), sharing.start_lease(now), sharing.worker)
    return Draft(event, code)


def _assume(state: OptimizerState, trials: Sequence[Trial]) -> OptimizerState:
    """Return the state in which these new trials are pending."""
    if not trials:
        return state
    codes = state.problem.space.encode([trial.config for trial in trials])
    return replace(state, history=state.history.add_pending(trials, codes))


def find_candidates(state: OptimizerState, n: int, stream: int | None) -> list[Trial]:
    """Return at most n configurations to build that were not built before, see `Optimizer.candidates`."""
    built = state.history.built
    found = _find_given(state)
    if not found and metrics_count(state.problem, state.history):
        if built:
            codes = np.array([candidate.code for candidate in built])
            state = replace(state, history=state.history.leave_out(codes))
        return _draw_candidates(state, n, stream)
    known = [candidate.trial.config for candidate in built]
    found = found or ask_strategy(state, 1, stream)
    return [trial for trial in found if trial.config not in known]


def _draw_candidates(state: OptimizerState, n: int, stream: int | None) -> list[Trial]:
    """Return half of the candidates from the strategy, the others by random steps from the best and by uniform draws.

    The strategy knows the parameters alone, and stays where they predict good values.
    """
    trials = ask_strategy(state, (n + 1) // 2, stream)
    rng = state.generator(Purpose.FALLBACK, state.history.next_id, stream)
    for draw, most in ((step_from_best, (3 * n + 3) // 4), (draw_uniform, n)):
        history = _assume(state, trials).history
        missing = min(most, n) - len(trials)
        if missing > 0:
            codes = draw(state.problem, history, missing, rng)
            configs = state.problem.space.decode(codes)
            trials += [
                Trial(history.next_id + i, config, None, "fill") for i, config in enumerate(configs)
            ]
    return trials


def _find_given(state: OptimizerState, is_ranked: bool = True) -> list[Trial]:
    """Return the next trial if it is enqueued or proposed by a source."""
    return _take_from_queue(state, 1)[0] or _take_proposals(state, 1, None, is_ranked)


def build_choice(state: OptimizerState, now: Moment, sharing: Sharing) -> Draft:
    """Return the ``suggested`` event of the most promising built configuration.

    While the metrics do not count, it is the next suggestion. So it is without any built configuration, and if the next
    one is enqueued or proposed by a source.
    """
    history, candidates = state.history, state.history.built
    if not candidates or _find_given(state, is_ranked=False):  # whichever it is
        return build_suggestion(state, 1, now, sharing)
    if not metrics_count(state.problem, history):
        return build_suggestion(state, 1, now, sharing)
    own = (i for i, candidate in enumerate(candidates) if candidate.trial.id == history.next_id)
    rng = state.generator(Purpose.CHOOSE, history.next_id, sharing.stream)
    index, tag = choose(state.problem, history, candidates, next(own, None), rng)
    trial, code, *_ = candidates[index]
    known = trial.tag if isinstance(trial.tag, Mapping) else {}
    given = now, sharing, trial.origin, {**known, **tag}
    return build_single_suggestion(state, trial.config, code[None], *given)


def _exhausted(state: OptimizerState) -> SpaceExhausted:
    history = state.history
    if state.problem.noise == "repeat" and history.pending:
        reason, remedy = "failed or pending", "observe a pending trial first"
    else:
        reason, remedy = "observed or pending", "stop here, or enlarge the space"
    # A feasible set without a count is sampled by rejection, so rare configurations may be missed.
    counted = history.space.feasible.count is not None
    which = "" if counted else " that repeated random draws find"
    return SpaceExhausted(
        f"all feasible configurations{which} are {reason} ({len(history)} observed, {len(history.pending)} pending); "
        f"{remedy}"
    )


def is_of_task(history: History, config: Mapping[str, Any], task: int) -> bool:
    """Whether a configuration belongs to the task with this index."""
    tasks = history.space.tasks
    return tasks is not None and tasks.find(config) == tasks.descriptors[task]


def _take_from_queue(
    state: OptimizerState, n: int, task: int | None = None
) -> tuple[list[Trial], int]:
    """Return at most n trials for enqueued configurations, and how many configurations leave the queue.

    Configurations that were observed or suggested in the meantime leave the queue without becoming a trial; but the
    default is measured even if a warm start has a result, because all others are compared with it. With a task,
    configurations of other tasks stay; those behind them leave the queue when they come to its head.
    """
    history = state.history
    own: list[Mapping[str, Any]] = []
    if history.warm and history.queue:
        measured = [*history.pending.values(), *history.trials[history.warm :]]
        known = [dict(trial.config) for trial in measured]
        own = [point for point in default_points(history.space) if point not in known]
    trials: list[Trial] = []
    seen: set[bytes] = set()
    dequeued = 0
    has_passed = False
    for config in history.queue:
        if len(trials) == n:
            break
        if task is not None and not is_of_task(history, config, task):
            has_passed = True
            continue
        dequeued += not has_passed
        code = history.space.encode([config])
        (key,) = row_keys(code)
        if key not in seen and (config in own or not state.is_excluded(code)):
            trials.append(Trial(history.next_id + len(trials), config, None, "enqueued"))
        seen.add(key)
    return trials, dequeued


def _take_proposals(
    state: OptimizerState, n: int, task: int | None, is_ranked: bool = True
) -> list[Trial]:
    """Return the trials among the next n for which a source has a proposal, see `baco_like.records.sources`.

    Of one source the proposal with the best prediction comes first if the strategy has a model, else the oldest one.
    """
    history = state.history
    allowed = [
        proposal
        for proposal in history.open_proposals
        if (task is None or is_of_task(history, proposal.config, task))
        and not state.is_excluded(proposal.code[None, :])
    ]
    chosen = next_proposals(history, allowed, n)
    if is_ranked and chosen and len(allowed) > len(chosen):
        chosen = next_proposals(history, _rank(state, allowed), n)
    return [
        Trial(i, p.config, {"source": p.source, "note": p.note}, PROPOSED)
        for i, p in enumerate(chosen, history.next_id)
    ]


def _rank(state: OptimizerState, proposals: Sequence[OpenProposal]) -> Sequence[OpenProposal]:
    """Return the proposals, those with the best predicted value first; `EXPERIENCE` keeps its order.

    In the runs of benchmarks/quality/results/proposals.md a useless source cost less so than with the oldest first.
    """
    history, strategy = state.history, state.strategy
    own = [proposal for proposal in proposals if proposal.source != EXPERIENCE]
    if not own or history.objectives or not isinstance(strategy, Predictive):
        return proposals
    codes = np.array([proposal.code for proposal in own])
    rng = state.generator(Purpose.MODEL, len(history))
    try:
        found = strategy.predict(state.problem, history, state.strategy_state, codes, rng)
    except TrialError:  # no model, or too few trials for one
        return proposals
    scores = np.where(found.feasible < _LIKELY, np.inf, found.median)
    ranked = [own[i] for i in np.argsort(scores, kind="stable")]
    return [*(p for p in proposals if p.source == EXPERIENCE), *ranked]


def ask_strategy(state: OptimizerState, n: int, stream: int | None = None) -> list[Trial]:
    """Return at most n trials from the strategy, filled up with uniform draws.

    Args:
        state: The state of the run.
        n: Number of trials.
        stream: The random stream of this optimizer, see `Sharing`.

    Raises:
        PluginError: The strategy has broken its contract.
    """
    problem, history, strategy = state.problem, state.history, state.strategy
    space, number = problem.space, history.next_id
    n = n if space.feasible.count is None else min(n, space.feasible.count)
    rng = state.generator(Purpose.ASK, number, stream)
    proposals: Proposals = ()
    if problem.task is None or isinstance(strategy, MultiTask):
        proposals = strategy.ask(problem, history, state.strategy_state, n, rng)
    codes = check_proposals(strategy, space, proposals, n)
    if state.is_excluded(codes) or len(set(row_keys(codes))) < len(codes):
        raise PluginError(
            f"bug in strategy {name_of(strategy)}: it proposed an observed, pending or repeated configuration"
        )
    notes = [(proposal.tag, "strategy") for proposal in proposals]
    if len(codes) < n:
        excluded = partial(problem.is_excluded, history.assume_pending(codes))
        rng = state.generator(Purpose.FILL, number, stream)
        fill = _draw_missing(problem, n - len(codes), rng, excluded)
        codes = np.concatenate([codes, fill])
        notes += [(None, "fill")] * len(fill)
    return [
        Trial(number + i, config, tag, origin)
        for i, (config, (tag, origin)) in enumerate(zip(space.decode(codes), notes, strict=True))
    ]


def _draw_missing(problem: Problem, n: int, rng: Rng, is_excluded: IsExcluded) -> Codes:
    """Return at most n uniform rows; of one task if only that may be proposed."""
    space, task = problem.space, problem.task
    if task is None:
        return uniform(space, n, rng, is_excluded)
    columns = space.task_columns
    rows = uniform(
        space.at_task(task), n, rng, lambda rows: is_excluded(columns.with_task(rows, task))
    )
    return columns.with_task(rows, task)


_PARENTS = 5
"""Smallest number of best configurations around which random steps begin; otherwise it is a tenth of the successes."""


def step_from_best(problem: Problem, history: History, n: int, rng: Rng) -> Codes:
    """Return at most n new rows one or two steps from the best tenth of the successes."""
    ok = np.flatnonzero(history.where(Status.OK))
    best = ok[np.argsort(history.costs[ok], kind="stable")[: max(_PARENTS, len(ok) // 10)]]
    parents = history.codes[rng.choice(best, n)]
    steps = np.arange(max(2, len(problem.space.active))) < rng.integers(1, 3, (n, 1))
    rows = np.unique(step_to_neighbours(problem.space, parents, steps, rng), axis=0)
    return rng.permutation(rows[~problem.is_excluded(history, rows)])  # whole rows


def draw_uniform(problem: Problem, history: History, n: int, rng: Rng) -> Codes:
    """Return at most n new uniform rows."""
    return uniform(problem.space, n, rng, partial(problem.is_excluded, history))
