"""Initial designs: fixed ones, and one that finds out whether the middle of the space is a good place to begin."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from typing_extensions import override

from baco_like._random import Purpose, generator
from baco_like._typing import Codes, Mask, Rng
from baco_like.parameters.protocol import ParameterKind
from baco_like.records import History, Observation, Proposal, Status, Trial
from baco_like.records.objective_values import number_within
from baco_like.spaces.design import (
    changes_of_default,
    exclude_nothing,
    has_distinct_middle,
    latin_hypercube,
    middle,
    middle_of_branch,
    uniform,
)
from baco_like.spaces.space import Space
from baco_like.strategies.protocol import Problem, Proposals
from baco_like.strategies.wrappers import StrategyWrapper

Design = Callable[[Space, int, Rng, Callable[[Codes], Mask]], Codes]
"""Chooses n distinct feasible rows that are not excluded; the functions of `baco_like.spaces.design` are designs."""

MOST = 8
"""Most trials of the default design."""

MOST_OF_MANY = 9
"""Trials of the default design with many parameters: the default configuration, and eight changes of it."""

MIDDLE = "middle"
SPREAD = "latin_hypercube"

BRANCHES = "branches"

CHANGES = "changes of the default"

MOST_BRANCHES = 16
"""Most trials that enter the branches of a space with conditional parameters before a model begins."""

_LOST = "the middle did not win against spread points"


SIZES_BY_ORDERS = (3, 10)
"""Smallest and largest number of trials that `size_by_orders` returns."""


def size_by_orders(space: Space) -> int:
    """Return the number of trials before a model: 3, or up to 10 if permutations or sequences have many values.

    It is log2 of the number of orders, rounded down (9 for six loops). After only three trials a model stays near the
    best order for a long time: in a run of the demo, 54 of 60 trials had the order of the first one.
    """
    active = (space.parameters[name] for name in space.active)
    lists = ParameterKind.PERMUTATION, ParameterKind.SEQUENCE
    bits = sum(math.log2(p.cardinality) for p in active if p.kind in lists)
    fewest, most = SIZES_BY_ORDERS
    return min(most, max(fewest, int(bits)))


@final
@dataclass(frozen=True)
class Phased(StrategyWrapper):
    """Proposes an initial design, then the proposals of another strategy.

    Use it to give a model-based strategy its first observations.

    Attributes:
        then: The strategy after the design. It receives every observation from the start of the run.
        initial: Number of trials in the design, 0 or more. Observed and pending trials of any origin count.
        design: Chooses the rows of the design.
        before_success: Replaces ``design`` until the first success; None keeps ``design``.

    Raises:
        ValueError: ``initial`` is negative.
    """

    initial: int = 10
    design: Design = uniform
    before_success: Design | None = None

    def __post_init__(self) -> None:
        number_within("initial", self.initial, "[0, inf)")

    @override
    def propose_first(
        self, problem: Problem, history: History, state: Any, n: int, rng: Rng
    ) -> Proposals:
        """Return the missing points of the design."""
        missing = min(n, max(0, self.initial - len(history) - len(history.pending)))
        if not missing:
            return []
        design = self.design
        if self.before_success is not None and not history.where(Status.OK).any():
            design = self.before_success
        # A design never repeats a configuration, even if noise="repeat" lets the later strategy do so.
        rows = design(problem.space, missing, rng, history.is_excluded)
        return [Proposal(row, {"phase": "design"}) for row in rows]


@dataclass(frozen=True)
class AdaptiveDesignState:
    """The state of the later strategy, and the seed of the spread points.

    Attributes:
        later: The state of the later strategy.
        seed: Seed of the Latin hypercube.
    """

    later: Any
    seed: int


@final
@dataclass(frozen=True)
class AdaptiveDesign(StrategyWrapper):
    """Compares points near the middle with spread points; the model begins later if the middle loses.

    On many GPU kernels the middle of every scale is far better than random configurations, and a model that begins
    there is ahead for the whole run. On other kernels it is among the worst fifth. So the first trials are near the
    middle and one is a point of a Latin hypercube. If the middle wins more than half of the comparisons between the
    two kinds, the later strategy begins, after further points near the middle if permutations have many orders
    (`size_by_orders`). If not, more points of the hypercube follow, and the comparison is repeated
    after each of them. A space without a distinct middle (flags, choices and orders) gets points of the hypercube only.
    The decision is a function of the history. In a space with conditional parameters, each trial enters as many new
    branches as possible, near their middle, until every branch has one (`middle_of_branch`).

    Attributes:
        then: The strategy after the design.
        middles: Number of trials near the middle, 1 or more.
        most: Number of trials before the later strategy if the middle never wins, more than ``middles``. Observed and
            pending trials of any origin count.
        many: Whether the trials are changes of the default configuration (`changes_of_default`), which is the first of
            them; points of the hypercube if there is no default. Conditions come before this.

    Raises:
        ValueError: ``middles`` is below 1, or not below ``most``.
    """

    middles: int = 2
    most: int = MOST
    many: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.middles < self.most:
            raise ValueError(
                f"middles = {self.middles}: expected 1 or more trials, and less than {self.most}"
            )

    @override
    def init(self, problem: Problem, rng: Rng) -> AdaptiveDesignState:
        """Return the first state of the later strategy with a new seed."""
        later = self.then.init(problem, rng)
        return AdaptiveDesignState(later, int(rng.integers(2**31)))

    @override
    def state_of_then(self, state: AdaptiveDesignState) -> Any:
        """Return the state of the later strategy."""
        return state.later

    @override
    def tell(
        self, problem: Problem, state: AdaptiveDesignState, observation: Observation, rng: Rng
    ) -> AdaptiveDesignState:
        """Pass the observation on."""
        later = self.then.tell(problem, state.later, observation, rng)
        return replace(state, later=later)

    @override
    def propose_first(
        self, problem: Problem, history: History, state: AdaptiveDesignState, n: int, rng: Rng
    ) -> Proposals:
        """Return the missing points of the design."""
        proposals: list[Proposal] = []
        assumed = history
        while len(proposals) < n:
            # The comparison reads results; the branches of the proposals before this one are entered.
            known = assumed if problem.space.conditions else history
            ahead = 0 if problem.space.conditions else len(proposals)
            tag = self._next(problem.space, known, ahead, state.seed)
            row = (
                None
                if tag is None
                else self._row(problem.space, assumed, tag["design"], state.seed, rng)
            )
            if row is None or not len(row):
                break
            proposals.append(Proposal(row[0], tag))
            assumed = assumed.assume_pending(row)
        return proposals

    def describe_size(self, space: Space, seed: int) -> str:
        """Return the number of trials in words; ``seed`` is the seed of the state."""
        if space.conditions:
            return f"one trial in each branch of the conditions, at most {MOST_BRANCHES}"
        if self.many:
            return f"{self.most} of the design"
        if has_distinct_middle(space, generator(seed, Purpose.MODEL)):
            return f"{self.middles + 1} of the design, up to {self.most} if the middle loses"
        return f"{self.most} of the design, as the space has no distinct middle"

    def _next(self, space: Space, history: History, ahead: int, seed: int) -> dict[str, str] | None:
        """Return the tag of the next point of the design; None if the design is over."""
        done = len(history) + len(history.pending) + ahead
        if space.conditions:
            return self._next_branch(space, history, done, seed)
        if done >= self.most:
            return None
        if self.many:
            return {"phase": "design", "design": CHANGES if space.default_config else SPREAD}
        if not has_distinct_middle(space, generator(seed, Purpose.MODEL)):
            return {"phase": "design", "design": SPREAD}
        if done <= self.middles:
            return {"phase": "design", "design": MIDDLE if done < self.middles else SPREAD}
        share = share_of_wins(history)
        if share is None:
            # The comparison is pending, or trials of the user took its place and the model begins with them.
            waiting = ahead > 0 or any(_design_of(t) for t in history.pending.values())
            return {"phase": "design", "design": SPREAD} if waiting else None
        if share > 0.5:
            # Points near the middle differ in their orders, which have no middle.
            return {"phase": "design", "design": MIDDLE} if done < size_by_orders(space) else None
        return {"phase": "design", "design": SPREAD, "note": _LOST}

    def _next_branch(
        self, space: Space, history: History, done: int, seed: int
    ) -> dict[str, str] | None:
        if done >= MOST_BRANCHES:
            return None
        if len(self._new_branch(space, history, generator(seed, Purpose.MODEL))):
            return {"phase": "design", "design": BRANCHES}
        return {"phase": "design", "design": SPREAD} if done <= self.middles else None

    @staticmethod
    def _new_branch(space: Space, history: History, rng: Rng) -> Codes:
        seen = np.concatenate([history.codes[history.inside], history.pending_codes])
        return middle_of_branch(space, seen, rng, history.is_excluded)

    def _row(self, space: Space, history: History, design: str, seed: int, rng: Rng) -> Codes:
        """Return one more row of a kind, ``(1, w)``; ``(0, w)`` if the space has no more."""
        if design == BRANCHES:
            return self._new_branch(space, history, generator(seed, Purpose.MODEL))
        if design == MIDDLE:
            return middle(space, 1, rng, history.is_excluded)
        # The same hypercube at every call, so that the points of single calls spread as those of one call do.
        shared = generator(seed, Purpose.MODEL, 1)
        if design == CHANGES:  # of the default configuration, which is the first trial
            cube = changes_of_default(space, self.most - 1, shared, exclude_nothing)
        else:
            cube = latin_hypercube(space, self.most, shared, exclude_nothing)
        free = cube[~history.is_excluded(cube)]
        return free[:1] if len(free) else uniform(space, 1, rng, history.is_excluded)


def share_of_wins(history: History) -> float | None:
    """Return the share of pairs (middle, spread) whose middle has the lower cost; None without a pair.

    A failure has infinite cost, and equal costs count as half a win.
    """
    costs: dict[str, list[float]] = {MIDDLE: [], SPREAD: []}
    for trial, cost in zip(history.trials, history.costs, strict=True):
        design = _design_of(trial)
        if design in costs:
            costs[design].append(float(cost) if np.isfinite(cost) else np.inf)
    if not costs[MIDDLE] or not costs[SPREAD]:
        return None
    own, other = np.array(costs[MIDDLE])[:, None], np.array(costs[SPREAD])
    return float(np.mean((own < other) + 0.5 * (own == other)))


def _design_of(trial: Trial) -> str | None:
    """Return the design that chose a trial, or None."""
    design = trial.read_tag("design")
    return design if isinstance(design, str) else None
