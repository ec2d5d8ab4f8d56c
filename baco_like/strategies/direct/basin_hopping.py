"""Basin hopping (Wales and Doye 1997): minimise, displace, minimise again, accept by Metropolis; as scipy has it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from baco_like._typing import Array, Rng
from baco_like.strategies.direct.local_minimiser import LocalMinimiser, Minimum, check_method
from baco_like.strategies.direct.program import Objective
from baco_like.strategies.direct.replay import Replayed
from baco_like.strategies.geometry.repaired_box import RepairedBox
from baco_like.strategies.protocol import Problem
from baco_like.strategies.survey_defaults import BASIN_HOPPING, resolved

_INTERVAL, _TARGET, _FACTOR = 50, 0.5, 0.9
"""Every so many hops the step is adapted, so that this share of hops is accepted, by this factor (scipy's)."""


@dataclass(frozen=True)
class Hops:
    """Where basin hopping stands.

    Attributes:
        minimum: The minimum that the next hop starts from; before the first minimisation, the start.
        step: Largest displacement of a coordinate.
        hops: Hops made, or -1 before the first minimisation.
        accepted: Those of them that were accepted.
    """

    minimum: Minimum
    step: float
    hops: int = -1
    accepted: int = 0


@final
@dataclass(frozen=True)
class HoppingProgram:
    """Basin hopping as a program: each minimisation is a stage.

    Attributes:
        minimise: The local minimiser.
        temperature: Of the acceptance, in units of the first start's cost.
        step: Largest displacement of a coordinate at first.
    """

    minimise: LocalMinimiser
    temperature: float
    step: float

    @property
    def lookups(self) -> int:
        """How many known answers in a row make it begin again elsewhere."""
        return self.minimise.lookups

    def begin(self, start: Array, cost: float, before: Hops | None) -> Hops:
        """Return the checkpoint at a start."""
        return Hops(Minimum(start, cost, success=True), self.step)

    def stage(self, at: Hops, objective: Objective, rng: Rng) -> Hops | None:
        """Return the checkpoint after the next minimisation."""
        if at.hops < 0:
            return replace(at, minimum=self.minimise(objective, at.minimum.point), hops=0)
        at = _adapted(replace(at, hops=at.hops + 1))
        shift = rng.uniform(-at.step, at.step, at.minimum.point.shape)
        found = self.minimise(objective, np.clip(at.minimum.point + shift, 0.0, 1.0))
        if not _accepted(found, at.minimum, self.temperature, rng):
            return at
        return replace(at, minimum=found, accepted=at.accepted + 1)


def _adapted(at: Hops) -> Hops:
    """Return the checkpoint with the step adapted to the share of hops that were accepted, if it is time."""
    if at.hops % _INTERVAL:
        return at
    many = at.accepted / at.hops > _TARGET
    return replace(at, step=at.step / _FACTOR if many else at.step * _FACTOR)


def _accepted(new: Minimum, old: Minimum, temperature: float, rng: Rng) -> bool:
    """Return whether a minimum replaces another: with probability exp(-(new - old) / T), always where it is lower."""
    worse = new.cost - old.cost
    chance = math.exp(-worse / temperature) if worse > 0 and temperature else float(worse <= 0)
    return chance >= rng.uniform() and (new.success or not old.success)


@final
@dataclass(frozen=True)
class BasinHopping:
    """Settings of basin hopping; those left open follow Table III of Schoonhoven et al. 2022 by the budget.

    Attributes:
        method: Local minimiser: powell, cobyla, slsqp, lbfgsb, nelder_mead or cg.
        temperature: Of the acceptance, in units of the first start's cost.
        step: Largest displacement of a coordinate of the unit box at first.

    Raises:
        ValueError: A setting has a wrong value.
    """

    method: str | None = None
    temperature: float | None = None
    step: float = 0.5

    def __post_init__(self) -> None:
        if self.method is not None:
            check_method(self.method)
        if self.temperature is not None and not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature is {self.temperature}; give a number of 0 or more")
        if not 0 < self.step <= 1:
            raise ValueError(f"step is {self.step}; give a share of the box, over 0 up to 1")

    @property
    def name(self) -> str:
        """What stands in the tags of proposals."""
        return "basin_hopping"

    def program(self, problem: Problem, box: RepairedBox) -> HoppingProgram:
        """Return the program for a problem."""
        given = {"method": self.method, "temperature": self.temperature}
        settings = resolved(BASIN_HOPPING, problem.budget, given)
        minimise = LocalMinimiser(settings["method"], box.counts)
        return HoppingProgram(minimise, settings["temperature"], self.step)


def basin_hopping(
    method: str | None = None, temperature: float | None = None, step: float = 0.5
) -> Replayed[Hops]:
    """Basin hopping; method: powell, cobyla, slsqp, lbfgsb, nelder_mead, cg; None: by budget, as the survey."""
    return Replayed(BasinHopping(method, temperature, step))
