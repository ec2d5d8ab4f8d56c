"""Exploration of the branches of conditional parameters beside the best configuration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from baco_like._typing import Codes, Mask, Rng
from baco_like.records import History, Proposal, Status
from baco_like.spaces.design import Branch, branch_of, enter
from baco_like.strategies.composite.wrappers import StrategyWrapper
from baco_like.strategies.protocol import Problem, Proposals

_NEEDED = 2
"""Number of successes that a model needs."""

_RECENT = 5
"""Number of the model's suggestions over which a run is judged as converged."""

_NEGLIGIBLE = 0.01
"""Gain over these suggestions, as a share of the difference of the median and the best cost, that counts as none."""


@final
@dataclass(frozen=True)
class BranchExploration(StrategyWrapper):
    """Lets every second suggestion enter a branch of the conditions that has too few trials.

    A model that has seen one bad configuration of a branch expects that the whole branch is bad, although the branch's
    own parameters have not been varied. Considered are the branches that differ from the best configuration's in one
    choice (`Branch.neighbours`). Each gets at least ln t of t trials, the rate at which the best policies for
    independent arms try inferior ones (Lai and Robbins 1985, "Asymptotically efficient adaptive allocation rules",
    theorem 2). Once the model's own suggestions bring no gain worth mentioning, the branches get every second trial,
    each in inverse proportion to the rank of its best cost.

    The first trial of a branch is the best configuration with that choice changed; parameters that become active begin
    in their middle. Afterwards the other strategy proposes within the branch (`Problem.region`), and a gain is one over
    the best of the branch.

    Attributes:
        then: The strategy with the model.
    """

    def ask(self, problem: Problem, history: History, state: Any, n: int, rng: Rng) -> Proposals:
        """Return the proposal in a branch if one is due, then proposals of the other strategy."""
        branch = self._find_due(problem, history)
        if branch is None:
            return self.then.ask(problem, history, state, n, rng)
        entered = self._enter(problem, history, branch, state, rng)  # none if no row is left there
        return self.ask_after(entered, problem, history, state, n, rng)

    def _enter(
        self, problem: Problem, history: History, branch: Branch, state: Any, rng: Rng
    ) -> list[Proposal]:
        """Return a proposal in a branch; the first one stays as near as possible to the best configuration."""
        if not branch.contains(_known_rows(history)).any():
            rows = enter(branch, history.codes[_find_best(history)], rng)
            rows = rows[~problem.is_excluded(history, rows)]
            if len(rows):
                return [Proposal(rows[0], {"phase": "branch", "branch": branch.text})]
        within = replace(problem, region=branch.contains)
        return [
            replace(proposal, tag={**(proposal.tag or {}), "branch": branch.text})
            for proposal in self.then.ask(within, history, state, 1, rng)
        ]

    @staticmethod
    def _find_due(problem: Problem, history: History) -> Branch | None:
        """Return the branch for the next trial, or None if the other strategy chooses freely."""
        space, ok = problem.space, _successes(history)
        if not space.conditions or ok.sum() < _NEEDED:
            return None
        last = max([*history.trials[-1:], *history.pending.values()], key=lambda trial: trial.id)
        if _is_step_into_branch(last.tag):
            return None
        rows = _known_rows(history)
        codes, costs = history.codes[ok], history.costs[ok]
        branches = branch_of(space, history.codes[_find_best(history)]).neighbours()
        if not branches:  # every condition reads a parameter of very many values, or a constant
            return None
        counts = np.array([int(branch.contains(rows).sum()) for branch in branches])
        if counts.min() < math.log(len(rows)):
            return branches[int(np.argmin(counts))]
        if not _has_converged(history):
            return None
        best = [costs[branch.contains(codes)].min(initial=math.inf) for branch in branches]
        ranks = 1 + np.argsort(np.argsort(best, kind="stable"))
        return branches[int(np.argmin(counts * ranks))]


def _known_rows(history: History) -> Codes:
    """Return the observed and pending rows of the space, ``(n, w)``."""
    rows = np.concatenate([history.codes, history.pending_codes])
    return np.asarray(rows[~np.isnan(rows).any(axis=1)])


def _find_best(history: History) -> int:
    """Return the index of the best success."""
    return int(np.argmin(np.where(_successes(history), history.costs, np.inf)))


def _successes(history: History) -> Mask:
    """Return which observations are successes inside the space, ``(n,)``; imported ones may have no codes."""
    return np.asarray(history.where(Status.OK) & ~np.isnan(history.codes).any(axis=1))


def _is_step_into_branch(tag: Any) -> bool:
    """Return whether a trial with this tag was a step into a branch."""
    return isinstance(tag, Mapping) and "branch" in tag


def _has_converged(history: History) -> bool:
    """Return whether the model's last suggestions have brought no gain worth mentioning."""
    own = [
        i
        for i, trial in enumerate(history.trials)
        if trial.read_tag("phase") == "model" and not _is_step_into_branch(trial.tag)
    ]
    ok = history.where(Status.OK)
    if len(own) < _RECENT or not ok[: own[-_RECENT]].any():
        return False
    costs = np.where(ok, history.costs, np.inf)
    before, best = costs[: own[-_RECENT]].min(), costs.min()
    return bool(before - best <= _NEGLIGIBLE * (np.median(costs[ok]) - best))
