"""Whose turn it is among several arms, by what their proposals brought: an AUC bandit, and round robin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from baco_like._typing import Array, Rng

Use = tuple[int, bool]
"""The arm that made a proposal, and whether its value was better than every one before it."""


@dataclass(frozen=True)
class Uses:
    """What was asked of some arms.

    Attributes:
        totals: Observed and pending proposals of each arm.
        pending: Those of them that are in flight.
        log: The observed ones, oldest first; older ones than the rule reads may be missing.
    """

    totals: tuple[int, ...]
    pending: tuple[int, ...]
    log: Sequence[Use]


class Rule(Protocol):
    """Decides which arm is next."""

    @property
    def window(self) -> int:
        """How many of the latest uses it reads."""

    def scores(self, uses: Uses) -> Array:
        """Return a score for each arm, ``(arms,)``; the highest is next, of equals a random one."""


@final
@dataclass(frozen=True)
class RoundRobin:
    """The arm that was used least."""

    window: int = 0

    def scores(self, uses: Uses) -> Array:
        """Return minus the number of uses; of equals the earlier arm is ahead."""
        arms = len(uses.totals)
        return -np.asarray(uses.totals, dtype=np.float64) - np.arange(arms) / arms


@final
@dataclass(frozen=True)
class AreaUnderCurve:
    """The AUC bandit of OpenTuner (Ansel et al., PACT 2014, section 5), after Fialho et al. 2010.

    Of the last ``window`` uses, let V_1, ..., V_h be those of an arm, 1 where the use gave a new best value and else 0.
    The score is 2 / (h (h + 1)) * sum of i V_i, the area under the curve that rises at every success, plus
    ``exploration`` times sqrt(2 log2(H) / h), where H is the number of uses of all arms. Uses in flight count in h and
    H of the second part, so that a batch is shared out. An arm that was never used comes first.

    Attributes:
        window: Uses that are remembered (500 in OpenTuner and pyATF).
        exploration: Weight of the second part (0.05 there).

    Raises:
        ValueError: The window is not positive, or the exploration negative.
    """

    window: int = 500
    exploration: float = 0.05

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ValueError(f"window is {self.window}; give at least 1 (500 is usual)")
        if not 0 <= self.exploration < math.inf:
            raise ValueError(f"exploration is {self.exploration}; give a number of 0 or more")

    def scores(self, uses: Uses) -> Array:
        """Return the scores."""
        arms = len(uses.totals)
        log = uses.log[-self.window :]
        total = len(log) + sum(uses.pending)
        scores = np.full(arms, np.inf)
        for arm in range(arms):
            wins = [improved for used, improved in log if used == arm]
            count = len(wins) + uses.pending[arm]
            if count:
                spread = math.sqrt(2.0 * math.log2(total) / count)
                scores[arm] = area_under_curve(wins) + self.exploration * spread
        return scores


def area_under_curve(wins: Sequence[bool]) -> float:
    """Return 2 / (h (h + 1)) times the sum of the places, from 1 to h, at which an arm has won; 0 where h is 0."""
    places = sum(place for place, won in enumerate(wins, 1) if won)
    return 2.0 * places / (len(wins) * (len(wins) + 1)) if wins else 0.0


def chosen(scores: Array, rng: Rng) -> int:
    """Return the place of the highest score, a random one of equals."""
    best = np.flatnonzero(scores == scores.max())
    return int(best[0] if len(best) == 1 else rng.choice(best))
