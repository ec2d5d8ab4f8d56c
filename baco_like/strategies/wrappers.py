"""Strategies that wrap another one and make some proposals before it: random draws, steps into other branches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from typing_extensions import override

from baco_like._typing import Codes, Rng
from baco_like.records import History, Observation, Proposal, Status
from baco_like.records.objective_values import number_within
from baco_like.spaces.design import Branch, branch_of, enter, uniform
from baco_like.strategies import protocol
from baco_like.strategies.baselines import RandomSearch
from baco_like.strategies.protocol import Prediction, Problem, Proposals, Strategy


@dataclass(frozen=True)
class StrategyWrapper:
    """Makes some proposals itself and leaves the others, and all else, to another strategy.

    The wrapped strategy receives every observation, and its state is also the wrapper's.

    Attributes:
        then: The wrapped strategy.
    """

    then: Strategy[Any]

    # The abilities of the wrapped strategy.
    draws_in_tell = property(lambda self: protocol.draws_in_tell(self.then))
    several_objectives = property(lambda self: protocol.optimises_several(self.then))
    uses_related_tasks = property(lambda self: protocol.uses_related_tasks(self.then))

    def propose_first(
        self, problem: Problem, history: History, state: Any, n: int, rng: Rng
    ) -> Proposals:
        """Return at most n proposals that come before those of the wrapped strategy, by default none."""
        return []

    def state_of_then(self, state: Any) -> Any:
        """Return the state of the wrapped strategy."""
        return state

    def init(self, problem: Problem, rng: Rng) -> Any:
        """Return the first state of the wrapped strategy."""
        return self.then.init(problem, rng)

    def ask(self, problem: Problem, history: History, state: Any, n: int, rng: Rng) -> Proposals:
        """Return the wrapper's proposals, and then those of the wrapped strategy."""
        first = self.propose_first(problem, history, state, n, rng)
        if len(first) == n:
            return first
        if first:
            history = history.assume_pending(protocol.proposed_rows(problem.space, first))
        own = self.state_of_then(state)
        return [*first, *self.then.ask(problem, history, own, n - len(first), rng)]

    def tell(self, problem: Problem, state: Any, observation: Observation, rng: Rng) -> Any:
        """Pass the observation on."""
        return self.then.tell(problem, state, observation, rng)

    def predict(
        self, problem: Problem, history: History, state: Any, codes: Codes, rng: Rng
    ) -> Prediction:
        """Return the predictions of the wrapped strategy.

        Raises:
            TrialError: It has no model, or there are too few observations.
        """
        own = self.state_of_then(state)
        return protocol.require_predictive(self.then).predict(problem, history, own, codes, rng)


@final
@dataclass(frozen=True)
class RandomInterleaving(StrategyWrapper):
    """Replaces proposals of another strategy by uniform draws, each with the same probability.

    Use it if a model may be wrong: in the long run every configuration is tried, whatever the model predicts (Hutter et
    al. 2011, "Sequential model-based optimization for general algorithm configuration", section 4.1).

    Attributes:
        then: The other strategy.
        share: The probability of a uniform draw, from 0 to 1.

    Raises:
        ValueError: The probability is not between 0 and 1.
    """

    share: float

    def __post_init__(self) -> None:
        number_within("random_share", self.share, "[0, 1]")

    @override
    def propose_first(
        self, problem: Problem, history: History, state: Any, n: int, rng: Rng
    ) -> Proposals:
        """Return the uniform draws."""
        count = int((rng.random(n) < self.share).sum())
        return RandomSearch().ask(problem, history, None, count, rng) if count else []


@final
@dataclass(frozen=True)
class RandomAfterStall(StrategyWrapper):
    """Makes one uniform draw when the model keeps expecting a gain that does not come.

    A model that is wrong in one region can return to it for the rest of a run. The tag of each suggestion of a model
    holds ``p_gain``, its probability of a new best. The sum over the suggestions since the last new best, or since the
    last of these draws, is the number of gains that the model expected. If its probabilities are right, the chance of
    none is at most exp(-sum), because 1 - p <= exp(-p): 5 % at 3. Then the next suggestion is a uniform draw, and its
    tag says why.

    Attributes:
        then: The strategy with the model.
        expected: Number of expected gains that is too many, above 0.

    Raises:
        ValueError: ``expected`` is not above 0.
    """

    expected: float = 3.0

    def __post_init__(self) -> None:
        number_within("expected", self.expected, "(0, inf)")

    @override
    def propose_first(
        self, problem: Problem, history: History, state: Any, n: int, rng: Rng
    ) -> Proposals:
        """Return the uniform draw if it is due."""
        pending = any(t.read_tag("phase") == "restart" for t in history.pending.values())
        expected = 0.0 if pending else self.count_expected(history)
        if expected < self.expected:
            return []
        rows = uniform(problem.space, 1, rng, history.is_excluded)
        note = f"the model expected {expected:.1f} gains since the last one, and none came"
        return [Proposal(row, {"phase": "restart", "note": note}) for row in rows]

    @staticmethod
    def count_expected(history: History) -> float:
        """Return the number of gains that the model expected since the last gain or restart."""
        if not history.where(Status.OK).any():
            return 0.0
        last_gain = int(np.nanargmin(history.costs))
        expected = 0.0
        for trial in history.trials[:last_gain:-1]:
            if trial.read_tag("phase") == "restart":
                break
            if isinstance(trial.tag, Mapping) and "branch" not in trial.tag:
                expected += trial.tag.get("p_gain", 0.0)
        return expected


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

    @override
    def propose_first(
        self, problem: Problem, history: History, state: Any, n: int, rng: Rng
    ) -> Proposals:
        """Return the proposal in a branch if one is due and a row is left there."""
        branch = self._find_due(problem, history)
        if branch is None:
            return []
        if not branch.contains(_known_rows(history)).any():
            # The first one stays as near as possible to the best configuration.
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
        space, ok = problem.space, history.where(Status.OK)
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
    return np.concatenate([history.codes[history.inside], history.pending_codes])


def _find_best(history: History) -> int:
    """Return the index of the best success."""
    return int(np.argmin(np.where(history.where(Status.OK), history.costs, np.inf)))


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
