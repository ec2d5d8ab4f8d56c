"""Random configurations around elites, as irace draws its candidates (López-Ibáñez et al. 2016, section 2.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from baco_like._typing import Codes, Rng
from baco_like.parameters.protocol import ParameterKind
from baco_like.spaces.space import Space
from baco_like.strategies.geometry.continuous import UnitBox


@dataclass(frozen=True)
class Draws:
    """How candidates are drawn around elites.

    Attributes:
        count: How many.
        spread: Standard deviation on the unit box.
        closeness: Probability that a categorical parameter takes its elite's value at once.
    """

    count: int
    spread: float
    closeness: float


def around(space: Space, elites: Codes, draws: Draws, rng: Rng) -> Codes:
    """Return feasible rows near elites, which stand best first (irace: the z-th of E with weight E - z + 1).

    Coordinates are truncated normal draws around the elite's on the unit box, so random keys for permutations;
    categorical values are the elite's with a probability, and else any. Infeasible rows become the nearest feasible.
    """
    from scipy.special import ndtr, ndtri

    box = UnitBox.of(space)
    weights = np.arange(len(elites), 0, -1.0)
    parents = rng.choice(len(elites), 2 * draws.count, p=weights / weights.sum())
    centres = box.to_unit(elites)[parents]
    low, high = ndtr(-centres / draws.spread), ndtr((1.0 - centres) / draws.spread)
    points = centres + draws.spread * ndtri(low + (high - low) * rng.random(centres.shape))
    free = np.array([p.kind is ParameterKind.UNORDERED for p in space.parameters.values()])
    starts = np.array([space.columns[name].start for name in space.names])
    unordered = box.binned_axes[np.isin(box.binned, starts[free])]
    same = rng.random((len(points), len(unordered))) < draws.closeness
    anywhere = rng.random((len(points), len(unordered)))
    points[:, unordered] = np.where(same, centres[:, unordered], anywhere)
    rows = box.from_unit(points)
    bad = ~space.feasible.contains(rows)
    rows[bad] = space.feasible.nearest(rows[bad], rng)
    return rows
