"""Rules that select the next arm of a portfolio: an AUC bandit and round robin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from baco_like._typing import Array, Rng
from baco_like.strategies.settings import CheckedSettings, setting

ArmUse = tuple[int, bool]
"""The arm that made a proposal, and whether the proposal's value was the best so far."""


@dataclass(frozen=True)
class ArmUses:
    """The proposals of all arms.

    Attributes:
        totals: Number of observed and pending proposals of each arm.
        pending: Number of pending proposals of each arm.
        log: The observed proposals, oldest first, limited to the rule's window.
    """

    totals: tuple[int, ...]
    pending: tuple[int, ...]
    log: Sequence[ArmUse]


class ArmRule(Protocol):
    """Selects the next arm."""

    @property
    def window(self) -> int:
        """Number of the latest observed proposals that the rule reads."""

    def scores(self, uses: ArmUses) -> Array:
        """Return a score for each arm, ``(arms,)``; the highest is selected, ties at random."""


@final
@dataclass(frozen=True)
class RoundRobin:
    """Selects the arm with the fewest proposals."""

    window: int = 0

    def scores(self, uses: ArmUses) -> Array:
        """Return minus the number of proposals; of equal arms the first scores higher."""
        arms = len(uses.totals)
        return -np.asarray(uses.totals, dtype=np.float64) - np.arange(arms) / arms


@final
@dataclass(frozen=True)
class AreaUnderCurve(CheckedSettings):
    """The AUC bandit of OpenTuner (Ansel et al., PACT 2014, section 5), after Fialho et al. 2010.

    Let V_1, ..., V_h be the uses of an arm among the last ``window`` uses: 1 if the use gave a new best value, else 0.
    The score is 2 / (h (h + 1)) * sum of i V_i, the area under a curve that rises at every success, plus
    ``exploration`` times sqrt(2 log2(H) / h), where H is the number of uses of all arms. In the second term, h and H
    include pending uses so that a batch is shared out. An arm without uses comes first.

    Attributes:
        window: Number of uses that count, at least 1 (500 in OpenTuner and pyATF).
        exploration: Weight of the second term, 0 or more (0.05 there).

    Raises:
        ValueError: The window is not positive, or the exploration is negative.
    """

    window: int = setting(500, within="[1, inf)")
    exploration: float = setting(0.05, within="[0, inf)")

    def scores(self, uses: ArmUses) -> Array:
        """Return the score of each arm, ``(arms,)``."""
        arms = len(uses.totals)
        log = uses.log[-self.window :]
        total = len(log) + sum(uses.pending)
        scores = np.full(arms, np.inf)
        for arm in range(arms):
            improved = [was_best for used, was_best in log if used == arm]
            count = len(improved) + uses.pending[arm]
            if count:
                spread = math.sqrt(2.0 * math.log2(total) / count)
                scores[arm] = area_under_curve(improved) + self.exploration * spread
        return scores


def area_under_curve(improved: Sequence[bool]) -> float:
    """Return 2 / (h (h + 1)) times the sum of the indices, from 1 to h, of the improvements; 0 if h is 0."""
    indices = sum(index for index, success in enumerate(improved, 1) if success)
    return 2.0 * indices / (len(improved) * (len(improved) + 1)) if improved else 0.0


def select_arm(scores: Array, rng: Rng) -> int:
    """Return the index of the highest score; ties are broken at random."""
    best = np.flatnonzero(scores == scores.max())
    return int(best[0] if len(best) == 1 else rng.choice(best))
