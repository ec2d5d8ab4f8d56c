"""Dual annealing (Xiang et al. 1997; scipy's is the reference): generalised simulated annealing with local searches.

In every iteration a Markov chain of 2 k visits, of which the first k change all coordinates and the others one each, by
the distorted Cauchy-Lorentz distribution of Tsallis and Stariolo (1996) at a falling temperature; then a local search
from the best point, if it is a new one. Scipy's second kind of local search, from the chain's own minimum, comes after
1,000 iterations without improvement, and then after every k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np

from baco_like._typing import Array, Rng
from baco_like.strategies.direct.local_minimiser import LocalMinimiser, check_method
from baco_like.strategies.direct.program import Objective
from baco_like.strategies.direct.replay import Replayed
from baco_like.strategies.geometry.repaired_box import RepairedBox
from baco_like.strategies.protocol import Problem
from baco_like.strategies.survey_defaults import DUAL_ANNEALING, resolved

_TAIL = 1e8
"""Longer visits are cut off at a random share of it."""

_EDGE = 1e-10
"""A coordinate is not nearer to its lower bound."""

FIRST_WAIT = 1000
"""Iterations without improvement until the first local search from the chain's minimum."""

Place = tuple[Array, float]
"""A point of the box with its cost."""


@dataclass(frozen=True)
class Annealing:
    """Where dual annealing stands.

    Attributes:
        current: Where the chain is.
        best: The best point of the run.
        chain: The chain's own minimum, from which a local search starts after long.
        patience: So many iterations without improvement lead to a local search from the chain's minimum.
        iteration: Iterations since the temperature was highest.
        visit: Visits of this iteration; 2 k before the local searches, 2 k + 1 before the second of them.
        improved: Whether the best point is new in this iteration.
        idle: Iterations without improvement.
    """

    current: Place
    best: Place
    chain: Place
    patience: int
    iteration: int = 0
    visit: int = 0
    improved: bool = False
    idle: int = 0


@final
@dataclass(frozen=True)
class VisitingDistribution:
    """The distorted Cauchy-Lorentz distribution; Tsallis and Stariolo 1996, p. 405, generates it from two normals.

    Attributes:
        visiting: The parameter q_v in (1, 3): the greater, the heavier the tail.
    """

    visiting: float

    @cached_property
    def _constants(self) -> tuple[float, float]:
        q = self.visiting
        factor2 = math.exp((4.0 - q) * math.log(q - 1.0))
        factor3 = math.exp((2.0 - q) * math.log(2.0) / (q - 1.0))
        factor4 = math.sqrt(math.pi) * factor2 / (factor3 * (3.0 - q))
        shape = 1.0 - (1.0 / (q - 1.0) - 0.5)
        factor6 = math.pi * shape / math.sin(math.pi * shape) / math.gamma(1.0 + shape)
        return factor4, factor6

    def draw(self, temperature: float, count: int, rng: Rng) -> Array:
        """Return that many independent displacements, ``(count,)``."""
        q = self.visiting
        factor4, factor6 = self._constants
        x, y = rng.normal(size=(count, 2)).T
        factor4 *= math.exp(math.log(temperature) / (q - 1.0))
        width = math.exp(-(q - 1.0) * math.log(factor6 / factor4) / (3.0 - q))
        drawn: Array = x * width / np.exp((q - 1.0) * np.log(np.abs(y)) / (3.0 - q))
        return drawn

    def visited(self, point: Array, visit: int, temperature: float, rng: Rng) -> Array:
        """Return the next point of a chain, ``(k,)``, wrapped around the unit box."""
        k = len(point)
        moved = np.arange(k) if visit < k else np.array([visit - k])
        drawn = self.draw(temperature, len(moved), rng)
        drawn = _cut_together(drawn, rng) if visit < k else _cut_alone(drawn, rng)
        found = point.copy()
        wrapped = np.fmod(np.fmod(point[moved] + drawn, 1.0) + 1.0, 1.0)
        found[moved] = np.where(np.abs(wrapped) < _EDGE, wrapped + _EDGE, wrapped)
        return found


def _cut_together(drawn: Array, rng: Rng) -> Array:
    above, below = rng.uniform(size=2)
    return np.where(drawn > _TAIL, _TAIL * above, np.where(drawn < -_TAIL, -_TAIL * below, drawn))


def _cut_alone(drawn: Array, rng: Rng) -> Array:
    return np.sign(drawn) * _TAIL * rng.uniform() if abs(drawn[0]) > _TAIL else drawn


@final
@dataclass(frozen=True)
class AnnealingProgram:
    """Dual annealing as a program: each visit and each local search is a stage.

    Attributes:
        minimise: The local minimiser.
        distribution: Of the visits.
        acceptance: The parameter q_a of the generalised Metropolis rule.
        temperature: At first.
        restart: The share of the first temperature at which the annealing begins anew.
    """

    minimise: LocalMinimiser
    distribution: VisitingDistribution
    acceptance: float
    temperature: float
    restart: float

    @property
    def lookups(self) -> int:
        """How many known answers in a row make it begin again elsewhere."""
        return self.minimise.lookups

    def begin(self, start: Array, cost: float, before: Annealing | None) -> Annealing:
        """Return the checkpoint at a start; of an annealing before, the best point and the chain's stay."""
        here = (start, cost)
        if before is None:
            return Annealing(here, here, here, FIRST_WAIT)
        best = here if cost < before.best[1] else before.best
        return replace(before, current=here, best=best, iteration=0, visit=0)

    def stage(self, at: Annealing, objective: Objective, rng: Rng) -> Annealing | None:
        """Return the checkpoint after the next visit or local search."""
        visits = 2 * len(at.current[0])
        if at.visit == visits:
            return self._search_best(at, objective)
        if at.visit > visits:
            return self._search_chain(at, objective)
        if at.visit == 0 and self._heat(at) < self.temperature * self.restart:
            point = rng.uniform(size=len(at.current[0]))
            return replace(at, current=(point, objective(point)), iteration=0)
        return self._visit(at, objective, rng)

    def _heat(self, at: Annealing) -> float:
        """Return the temperature of an iteration: T_0 (2^(q_v - 1) - 1) / ((2 + i)^(q_v - 1) - 1)."""
        power = self.distribution.visiting - 1.0
        return float(self.temperature * (2.0**power - 1.0) / ((at.iteration + 2.0) ** power - 1.0))

    def _visit(self, at: Annealing, objective: Objective, rng: Rng) -> Annealing:
        if at.visit == 0:
            at = replace(at, improved=at.iteration == 0, idle=at.idle + 1)
        heat = self._heat(at)
        point = self.distribution.visited(at.current[0], at.visit, heat, rng)
        cost = objective(point)
        if cost < at.current[1]:
            at = replace(at, current=(point, cost))
            if cost < at.best[1]:
                at = replace(at, best=at.current, improved=True, idle=0)
        else:
            step_heat = heat / (at.iteration + 1)
            at = self._moved(at, (point, cost), step_heat, rng)
        return _after(replace(at, visit=at.visit + 1))

    def _moved(self, at: Annealing, to: Place, heat: float, rng: Rng) -> Annealing:
        """Return the checkpoint after a visit that is no improvement: with some probability it is the next place.

        The probability is (1 - (1 - q_a) (new - old) / T)^(1 / (1 - q_a)), or 0 where the base is negative.
        """
        rest = 1.0 - self.acceptance
        base = 1.0 - rest * (to[1] - at.current[1]) / heat
        if rng.uniform() <= (base ** (1.0 / rest) if base > 0 else 0.0):
            at = replace(at, current=to, chain=(to[0], at.chain[1]))
        if at.idle >= at.patience and (at.visit == 0 or at.current[1] < at.chain[1]):
            at = replace(at, chain=at.current)
        return at

    def _search_best(self, at: Annealing, objective: Objective) -> Annealing:
        """Return the checkpoint after the local search from the best point."""
        found = self.minimise(objective, at.best[0])
        if found.cost < at.best[1]:
            place = (found.point, found.cost)
            at = replace(at, best=place, current=place, idle=0)
        return _after(replace(at, visit=at.visit + 1))

    def _search_chain(self, at: Annealing, objective: Objective) -> Annealing:
        """Return the checkpoint after the local search from the chain's minimum."""
        found = self.minimise(objective, at.chain[0])
        place = (found.point, found.cost) if found.cost < at.chain[1] else at.chain
        at = replace(at, chain=place, idle=0, patience=len(place[0]))
        if place[1] < at.best[1]:
            at = replace(at, best=place, current=place)
        return _after(replace(at, visit=at.visit + 1))


def _after(at: Annealing) -> Annealing:
    """Return the checkpoint at the next visit, past the local searches that there is no reason for."""
    visits = 2 * len(at.current[0])
    if at.visit < visits or (at.visit == visits and at.improved):
        return at
    if at.visit <= visits + 1 and at.idle >= at.patience:
        return replace(at, visit=visits + 1)
    return replace(at, visit=0, iteration=at.iteration + 1)


@final
@dataclass(frozen=True)
class DualAnnealing:
    """Settings of dual annealing; the minimiser, if left open, follows Table III of Schoonhoven et al. 2022.

    Attributes:
        method: Local minimiser: powell, cobyla, slsqp, lbfgsb, nelder_mead or cg.
        temperature: At first; costs are in units of the first start's.
        visiting: Parameter q_v of the visiting distribution, between 1 and 3; the greater, the farther.
        acceptance: Parameter q_a of the acceptance, at most -5; the less, the fewer worse points are accepted.
        restart: The share of the first temperature at which the annealing begins anew.

    Raises:
        ValueError: A setting has a wrong value.
    """

    method: str | None = None
    temperature: float = 5230.0
    visiting: float = 2.62
    acceptance: float = -5.0
    restart: float = 2e-5

    def __post_init__(self) -> None:
        if self.method is not None:
            check_method(self.method)
        if not 0.01 < self.temperature <= 5e4:
            raise ValueError(f"temperature is {self.temperature}; give one over 0.01 up to 50,000")
        if not 1 < self.visiting < 3:
            raise ValueError(f"visiting is {self.visiting}; give a number between 1 and 3")
        if not -1e4 < self.acceptance <= -5:
            raise ValueError(
                f"acceptance is {self.acceptance}; give a number over -10,000 up to -5"
            )
        if not 0 < self.restart < 1:
            raise ValueError(f"restart is {self.restart}; give a share between 0 and 1")

    @property
    def name(self) -> str:
        """What stands in the tags of proposals."""
        return "dual_annealing"

    def program(self, problem: Problem, box: RepairedBox) -> AnnealingProgram:
        """Return the program for a problem."""
        settings = resolved(DUAL_ANNEALING, problem.budget, {"method": self.method})
        return AnnealingProgram(
            LocalMinimiser(settings["method"], box.counts),
            VisitingDistribution(self.visiting),
            self.acceptance,
            self.temperature,
            self.restart,
        )


def dual_annealing(
    method: str | None = None,
    temperature: float = 5230.0,
    visiting: float = 2.62,
    acceptance: float = -5.0,
    restart: float = 2e-5,
) -> Replayed[Annealing]:
    """Dual annealing; method: powell, cobyla, slsqp, lbfgsb, nelder_mead, cg; None: by budget, as the survey."""
    return Replayed(DualAnnealing(method, temperature, visiting, acceptance, restart))
