"""Random configurations near elites, as irace draws its candidates (López-Ibáñez et al. 2016, section 2.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from baco_like._typing import Codes, Rng
from baco_like.parameters.protocol import ParameterKind
from baco_like.spaces.space import Space
from baco_like.strategies.geometry.continuous import UnitBox


@dataclass(frozen=True)
class EliteDraws:
    """Settings of the draws near elites.

    Attributes:
        count: Number of draws.
        spread: Standard deviation on the unit box.
        closeness: Probability that a categorical parameter has its elite's value.
    """

    count: int
    spread: float
    closeness: float


def draw_near_elites(space: Space, elites: Codes, draws: EliteDraws, rng: Rng) -> Codes:
    """Return feasible rows near elites, ``(2 count, w)``; the z-th of E elites has weight E - z + 1 (irace).

    Coordinates on the unit box are truncated normal draws around the elite's. Categorical parameters keep the elite's
    value with a probability; otherwise any value is drawn. Infeasible rows are replaced by the nearest feasible ones.

    Args:
        space: The space.
        elites: The elites, best first, ``(E, w)``.
        draws: Settings.
        rng: Random generator.
    """
    from scipy.special import ndtr, ndtri

    box = UnitBox.of(space)
    weights = np.arange(len(elites), 0, -1.0)
    parents = rng.choice(len(elites), 2 * draws.count, p=weights / weights.sum())
    centres = box.to_unit(elites)[parents]
    low, high = ndtr(-centres / draws.spread), ndtr((1.0 - centres) / draws.spread)
    points = centres + draws.spread * ndtri(low + (high - low) * rng.random(centres.shape))
    is_unordered = np.array([p.kind is ParameterKind.UNORDERED for p in space.parameters.values()])
    starts = np.array([space.columns[name].start for name in space.names])
    unordered = box.binned_axes[np.isin(box.binned, starts[is_unordered])]
    kept = rng.random((len(points), len(unordered))) < draws.closeness
    anywhere = rng.random((len(points), len(unordered)))
    points[:, unordered] = np.where(kept, centres[:, unordered], anywhere)
    rows = box.from_unit(points)
    infeasible = ~space.feasible.contains(rows)
    rows[infeasible] = space.feasible.nearest(rows[infeasible], rng)
    return rows
