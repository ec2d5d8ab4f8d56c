"""Basin hopping (Wales and Doye 1997) and dual annealing (Xiang et al. 1997), step by step as in scipy.

Both alternate random steps with local minimisations. Dual annealing is generalised simulated annealing with local
searches. The local minimisers are scipy's, with steps of the size of a value and a limit on their calls.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Rng
from baco_like.strategies.direct import base
from baco_like.strategies.direct.base import C, CostedPoint, Objective, ReplayedStrategy
from baco_like.strategies.geometry import RepairedBox
from baco_like.strategies.settings import BASIN_HOPPING, BY_BUDGET, DUAL_ANNEALING, setting

METHODS: Mapping[str, Any] = {
    "powell": "Powell",
    "cobyla": "COBYLA",
    "slsqp": "SLSQP",
    "lbfgsb": "L-BFGS-B",
    "nelder_mead": "Nelder-Mead",
    "cg": "CG",
}
"""Scipy's names of the minimisers of Schoonhoven et al. 2022 (section III-C2)."""

_CALLS_PER_AXIS, _MOST_CALLS = 40, 400
"""Limits on the calls of one minimisation."""

_COBYLA_CALLS = 24
"""Calls of COBYLA, which is plain Python in scipy (0.6 ms a call) and needs k + 1 calls for its first simplex."""

_SMALLEST_STEP = 1e-3
"""Step on axes with more than 1,000 values."""

_TRUST = 0.25
"""First radius of COBYLA's trust region; scipy's default of 1 is the whole box."""


class Minimum(NamedTuple):
    """Result of a minimisation.

    Attributes:
        point: The minimum, ``(k,)``.
        cost: The objective there.
        success: Whether the minimiser finished and reports success.
    """

    point: Array
    cost: float
    success: bool


class _CallLimitReached(Exception):
    pass


@dataclass(frozen=True, eq=False)
class LocalMinimiser:
    """A minimiser of scipy on a box with a given number of values per axis.

    Differences are taken over the size of one value, and minimisation stops at steps of this size: points that are
    closer together represent the same configuration.

    Attributes:
        method: A key of `METHODS`.
        counts: Number of values on each axis, ``(k,)``.
    """

    method: str
    counts: Array

    @property
    def calls(self) -> int:
        """Limit on the calls of one minimisation."""
        axes = len(self.counts)
        if self.method == "cobyla":
            return max(axes + 9, _COBYLA_CALLS)
        return min(_CALLS_PER_AXIS * (axes + 1), _MOST_CALLS)

    @property
    def lookup_limit(self) -> int:
        """Number of consecutive known answers after which a search should start again elsewhere."""
        return _COBYLA_CALLS if self.method == "cobyla" else _MOST_CALLS

    def __call__(self, objective: Objective, start: Array) -> Minimum:
        """Return the minimum from a start in the box, ``(k,)``; at the limit of the calls, the best point so far."""
        from scipy.optimize import minimize

        best, remaining = Minimum(start, math.inf, success=False), self.calls

        def limited(point: Array) -> float:
            """Return the cost of a point, note the best one, and end the minimisation at the limit of calls."""
            nonlocal best, remaining
            if not remaining:
                raise _CallLimitReached
            remaining -= 1
            inside = np.clip(point, 0.0, 1.0)
            cost = objective(inside)
            if cost < best.cost:
                best = Minimum(inside, cost, success=False)
            return cost

        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # SLSQP and CG warn about flat functions
            try:
                result = minimize(
                    limited, start, method=METHODS[self.method], **self.arguments(start)
                )
            except _CallLimitReached:
                return best
        return Minimum(np.clip(result.x, 0.0, 1.0), float(result.fun), bool(result.success))

    def arguments(self, start: Array) -> dict[str, Any]:
        """Return the arguments of `scipy.optimize.minimize` except the method."""
        step = np.maximum(1.0 / self.counts, _SMALLEST_STEP)
        finest = float(step.min()) / 2.0
        options: dict[str, dict[str, Any]] = {
            "powell": {"xtol": finest},
            "cobyla": {"rhobeg": _TRUST, "tol": finest},
            "slsqp": {"eps": step},
            "lbfgsb": {"eps": step},
            "nelder_mead": {
                "initial_simplex": base.right_angled_simplex(start, np.maximum(step, _TRUST)),
                "xatol": finest,
            },
            "cg": {"eps": step},
        }
        # CG accepts no bounds; the objective clips its points.
        bounds = {} if self.method == "cg" else {"bounds": [(0.0, 1.0)] * len(start)}
        return {"options": options[self.method], **bounds}


@dataclass(frozen=True)
class MinimisingStrategy(ReplayedStrategy[C]):
    """Base of strategies that minimise locally between random steps."""

    method: str = setting(BY_BUDGET, choices=METHODS)

    @override
    def lookup_limit(self, box: RepairedBox) -> int:
        """Return the limit of the local minimiser."""
        return LocalMinimiser(self.method, box.counts).lookup_limit


_INTERVAL, _TARGET, _FACTOR = 50, 0.5, 0.9
"""Every 50 hops the step is changed by the factor 0.9, so that half of the hops are accepted (scipy's values)."""


@dataclass(frozen=True)
class Hops:
    """Checkpoint of basin hopping.

    Attributes:
        minimum: The minimum from which the next hop starts; before the first minimisation, the start.
        step: Largest displacement of a coordinate.
        hops: Number of hops, or -1 before the first minimisation.
        accepted: Number of accepted hops.
    """

    minimum: Minimum
    step: float
    hops: int = -1
    accepted: int = 0


@final
@dataclass(frozen=True)
class BasinHopping(MinimisingStrategy[Hops]):
    """Basin hopping; method: powell, cobyla, slsqp, lbfgsb, nelder_mead, cg; None: by budget, as the survey.

    It minimises locally, displaces the minimum at random, minimises again, and accepts the new minimum by the
    Metropolis rule. Use it for numerical parameters with smooth effects and many local minima. Source: Wales and Doye
    1997; open settings follow Table III of Schoonhoven et al. 2022. Each minimisation is a stage.

    Attributes:
        method: Local minimiser, a key of `METHODS`; None: by the budget.
        temperature: Temperature of the Metropolis rule, 0 or more, in units of the first start's cost; None: by the
            budget.
        step: First value of the largest displacement, as a share of the range of a parameter, in (0, 1].

    Raises:
        ValueError: A setting has an invalid value.
    """

    temperature: float = setting(BY_BUDGET, within="[0, inf)")
    step: float = setting(0.5, within="(0, 1]")

    phase: ClassVar[str] = "basin_hopping"
    survey: ClassVar = BASIN_HOPPING

    @override
    def begin(self, box: RepairedBox, start: Array, cost: float, previous: Hops | None) -> Hops:
        """Return the checkpoint at a start."""
        return Hops(Minimum(start, cost, success=True), self.step)

    @override
    def stage(self, box: RepairedBox, at: Hops, objective: Objective, rng: Rng) -> Hops:
        """Return the checkpoint after the next minimisation."""
        minimise = LocalMinimiser(self.method, box.counts)
        if at.hops < 0:
            return replace(at, minimum=minimise(objective, at.minimum.point), hops=0)
        at = _adapt_step(replace(at, hops=at.hops + 1))
        shift = rng.uniform(-at.step, at.step, at.minimum.point.shape)
        new = minimise(objective, np.clip(at.minimum.point + shift, 0.0, 1.0))
        if not self._accepts(new, at.minimum, rng):
            return at
        return replace(at, minimum=new, accepted=at.accepted + 1)

    def _accepts(self, new: Minimum, old: Minimum, rng: Rng) -> bool:
        """Whether a minimum replaces another: with probability exp(-(new - old) / T), or 1 if it is lower."""
        worse = new.cost - old.cost
        probability = float(worse <= 0)
        if worse > 0 and self.temperature:
            probability = math.exp(-worse / self.temperature)
        return probability >= rng.uniform() and (new.success or not old.success)


def _adapt_step(at: Hops) -> Hops:
    """Return the checkpoint with the step adapted to the share of accepted hops, every 50 hops."""
    if at.hops % _INTERVAL:
        return at
    too_small = at.accepted / at.hops > _TARGET
    return replace(at, step=at.step / _FACTOR if too_small else at.step * _FACTOR)


_TAIL = 1e8
"""Longer displacements are replaced by a random share of this length, as in scipy."""

_EDGE = 1e-10
"""Smallest distance of a coordinate from its lower bound, as in scipy."""

FIRST_PATIENCE = 1000
"""Iterations without improvement before the first local search from the chain's minimum, as in scipy."""


@dataclass(frozen=True)
class Annealing:
    """Checkpoint of dual annealing.

    Attributes:
        current: The current point of the chain.
        best: The best point of the run.
        chain: The chain's own minimum, where the second kind of local search starts.
        patience: Iterations without improvement before this local search.
        iteration: Iterations since the temperature was highest.
        visit: Visits of this iteration; 2 k before the local search from the best point, 2 k + 1 before the one from
            the chain's minimum.
        improved: Whether the best point is new in this iteration.
        idle: Iterations without improvement.
    """

    current: CostedPoint
    best: CostedPoint
    chain: CostedPoint
    patience: int
    iteration: int = 0
    visit: int = 0
    improved: bool = False
    idle: int = 0


@lru_cache
def _visiting_factors(q: float) -> tuple[float, float]:
    """Return factors 4 and 6 of Tsallis and Stariolo 1996, without the temperature."""
    factor2 = math.exp((4.0 - q) * math.log(q - 1.0))
    factor3 = math.exp((2.0 - q) * math.log(2.0) / (q - 1.0))
    factor4 = math.sqrt(math.pi) * factor2 / (factor3 * (3.0 - q))
    shape = 1.0 - (1.0 / (q - 1.0) - 0.5)
    factor6 = math.pi * shape / math.sin(math.pi * shape) / math.gamma(1.0 + shape)
    return factor4, factor6


def draw_displacements(q: float, temperature: float, count: int, rng: Rng) -> Array:
    """Draw from the distorted Cauchy-Lorentz distribution by two normals (Tsallis and Stariolo 1996, p. 405).

    Args:
        q: The parameter q_v in (1, 3); the greater, the heavier the tail.
        temperature: The temperature, above 0.
        count: Number of independent draws.
        rng: Random generator.

    Returns:
        The displacements, ``(count,)``.
    """
    factor4, factor6 = _visiting_factors(q)
    x, y = rng.normal(size=(count, 2)).T
    factor4 *= math.exp(math.log(temperature) / (q - 1.0))
    width = math.exp(-(q - 1.0) * math.log(factor6 / factor4) / (3.0 - q))
    displacements: Array = x * width / np.exp((q - 1.0) * np.log(np.abs(y)) / (3.0 - q))
    return displacements


def visit_from(point: Array, visit: int, q: float, temperature: float, rng: Rng) -> Array:
    """Return the next point of a chain, ``(k,)``, wrapped around the unit box.

    The first k visits change all coordinates, the others one coordinate each.
    """
    k = len(point)
    axes = np.arange(k) if visit < k else np.array([visit - k])
    shift = draw_displacements(q, temperature, len(axes), rng)
    if visit < k:
        above, below = rng.uniform(size=2)
        shift = np.where(shift > _TAIL, _TAIL * above, shift)
        shift = np.where(shift < -_TAIL, -_TAIL * below, shift)
    elif abs(shift[0]) > _TAIL:
        shift = np.sign(shift) * _TAIL * rng.uniform()
    wrapped = np.fmod(np.fmod(point[axes] + shift, 1.0) + 1.0, 1.0)
    visited = point.copy()
    visited[axes] = np.where(np.abs(wrapped) < _EDGE, wrapped + _EDGE, wrapped)
    return visited


@final
@dataclass(frozen=True)
class DualAnnealing(MinimisingStrategy[Annealing]):
    """Dual annealing; method: powell, cobyla, slsqp, lbfgsb, nelder_mead, cg; None: by budget, as the survey.

    Each iteration is a Markov chain of 2 k visits at a falling temperature, then a local search from the best point if
    it is new. After 1,000 iterations without improvement, and then after every k, a local search from the chain's own
    minimum follows. Each visit and each local search is a stage.

    Use it for numerical parameters with many local minima. Source: Xiang et al. 1997; an open method follows Table III
    of Schoonhoven et al. 2022, the other defaults are scipy's.

    Attributes:
        method: Local minimiser, a key of `METHODS`; None: by the budget.
        temperature: First temperature in (0.01, 50,000], in units of the first start's cost.
        visiting: Parameter q_v of the visiting distribution in (1, 3); a greater one makes longer visits likelier.
        acceptance: Parameter q_a of the acceptance rule in (-10,000, -5]; a smaller one accepts fewer worse points.
        restart: Share of the first temperature, in (0, 1), at which the annealing starts again.

    Raises:
        ValueError: A setting has an invalid value.
    """

    temperature: float = setting(5230.0, within="(0.01, 50000]")
    visiting: float = setting(2.62, within="(1, 3)")
    acceptance: float = setting(-5.0, within="(-10000, -5]")
    restart: float = setting(2e-5, within="(0, 1)")

    phase: ClassVar[str] = "dual_annealing"
    survey: ClassVar = DUAL_ANNEALING

    @override
    def begin(
        self, box: RepairedBox, start: Array, cost: float, previous: Annealing | None
    ) -> Annealing:
        """Return the checkpoint at a start; the best point and the chain of a previous annealing are kept."""
        here = (start, cost)
        if previous is None:
            return Annealing(here, here, here, FIRST_PATIENCE)
        best = here if cost < previous.best[1] else previous.best
        return replace(previous, current=here, best=best, iteration=0, visit=0)

    @override
    def stage(self, box: RepairedBox, at: Annealing, objective: Objective, rng: Rng) -> Annealing:
        """Return the checkpoint after the next visit or local search."""
        visits = 2 * len(at.current[0])
        if at.visit >= visits:
            minimise = LocalMinimiser(self.method, box.counts)
            minimum = minimise(objective, (at.best if at.visit == visits else at.chain)[0])
            lowest = (minimum.point, minimum.cost)
            return _skip_searches(_use_minimum(at, lowest, from_best=at.visit == visits))
        if at.visit == 0 and self._temperature_at(at) < self.temperature * self.restart:
            point = rng.uniform(size=len(at.current[0]))
            return replace(at, current=(point, objective(point)), iteration=0)
        return _skip_searches(self._visit(at, objective, rng))

    def _temperature_at(self, at: Annealing) -> float:
        """Return the temperature of an iteration: T_0 (2^(q_v - 1) - 1) / ((2 + i)^(q_v - 1) - 1)."""
        power = self.visiting - 1.0
        return float(self.temperature * (2.0**power - 1.0) / ((at.iteration + 2.0) ** power - 1.0))

    def _visit(self, at: Annealing, objective: Objective, rng: Rng) -> Annealing:
        if at.visit == 0:
            at = replace(at, improved=at.iteration == 0, idle=at.idle + 1)
        temperature = self._temperature_at(at)
        point = visit_from(at.current[0], at.visit, self.visiting, temperature, rng)
        cost = objective(point)
        if cost < at.current[1]:
            at = replace(at, current=(point, cost))
            if cost < at.best[1]:
                at = replace(at, best=at.current, improved=True, idle=0)
        else:
            at = self._accept(at, (point, cost), temperature / (at.iteration + 1), rng)
        return replace(at, visit=at.visit + 1)

    def _accept(
        self, at: Annealing, visited: CostedPoint, temperature: float, rng: Rng
    ) -> Annealing:
        """Return the checkpoint after a visit without improvement, which may still become the current point.

        The probability is (1 - (1 - q_a) (new - old) / T)^(1 / (1 - q_a)), or 0 if that base is negative.
        """
        rest = 1.0 - self.acceptance
        factor = 1.0 - rest * (visited[1] - at.current[1]) / temperature
        if rng.uniform() <= (factor ** (1.0 / rest) if factor > 0 else 0.0):
            # Scipy, too, moves the chain's minimum here but keeps its cost.
            at = replace(at, current=visited, chain=(visited[0], at.chain[1]))
        if at.idle >= at.patience and (at.visit == 0 or at.current[1] < at.chain[1]):
            at = replace(at, chain=at.current)
        return at


def _use_minimum(at: Annealing, minimum: CostedPoint, *, from_best: bool) -> Annealing:
    """Return the checkpoint after a local search, from the best point or from the chain's minimum."""
    at = replace(at, visit=at.visit + 1)
    if from_best:
        better = minimum[1] < at.best[1]
        return replace(at, best=minimum, current=minimum, idle=0) if better else at
    chain = minimum if minimum[1] < at.chain[1] else at.chain
    at = replace(at, chain=chain, idle=0, patience=len(chain[0]))
    return replace(at, best=chain, current=chain) if chain[1] < at.best[1] else at


def _skip_searches(at: Annealing) -> Annealing:
    """Return the checkpoint at the next visit, without the local searches for which there is no reason."""
    visits = 2 * len(at.current[0])
    if at.visit < visits or (at.visit == visits and at.improved):
        return at
    if at.visit <= visits + 1 and at.idle >= at.patience:
        return replace(at, visit=visits + 1)
    return replace(at, visit=0, iteration=at.iteration + 1)
