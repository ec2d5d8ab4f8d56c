"""Basin hopping (Wales and Doye 1997), step by step as in scipy."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Rng
from baco_like.strategies.direct.base import Objective, ReplayedStrategy
from baco_like.strategies.direct.local_minimiser import METHODS, LocalMinimiser, Minimum
from baco_like.strategies.geometry import RepairedBox
from baco_like.strategies.settings import BASIN_HOPPING, BY_BUDGET, setting

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
class BasinHopping(ReplayedStrategy[Hops]):
    """Basin hopping; method: powell, cobyla, slsqp, lbfgsb, nelder_mead, cg; None: by budget, as the survey.

    It minimises locally, displaces the minimum at random, minimises again, and accepts the new minimum by the
    Metropolis rule. Use it for numerical parameters with smooth effects and many local minima. Source: Wales and Doye
    1997; open settings follow Table III of Schoonhoven et al. 2022. Each minimisation is a stage.

    Attributes:
        method: Local minimiser, a key of `local_minimiser.METHODS`; None: by the budget.
        temperature: Temperature of the Metropolis rule, 0 or more, in units of the first start's cost; None: by the
            budget.
        step: First value of the largest displacement, as a share of the range of a parameter, in (0, 1].

    Raises:
        ValueError: A setting has an invalid value.
    """

    method: str = setting(BY_BUDGET, choices=METHODS)
    temperature: float = setting(BY_BUDGET, within="[0, inf)")
    step: float = setting(0.5, within="(0, 1]")

    phase: ClassVar[str] = "basin_hopping"
    survey: ClassVar = BASIN_HOPPING

    @override
    def lookup_limit(self, box: RepairedBox) -> int:
        """Return the limit of the local minimiser."""
        return LocalMinimiser(self.method, box.counts).lookup_limit

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
