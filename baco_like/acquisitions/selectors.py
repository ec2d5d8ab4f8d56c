"""Kernel Tuner's strategy: acquisition functions take turns, and exploration follows the model's uncertainty.

Multi and advanced multi (Willemsen et al. 2021, section III-G): each function makes one proposal in turn. Its
*discounted observation score* is the sum of its observed costs, each weighted by the discount to the power of its age,
so that recent ones count more. All updates are pure functions of a frozen state. Defaults are those of the paper's
Table I, which differs from the factors named in its text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from baco_like.acquisitions.functions import (
    ExpectedImprovement,
    LowerConfidenceBound,
    ProbabilityOfImprovement,
)
from baco_like.acquisitions.protocol import AcquisitionFunction

ACQUISITIONS: Mapping[str, Callable[[float], AcquisitionFunction]] = {
    "ei": ExpectedImprovement,
    "poi": ProbabilityOfImprovement,
    "lcb": LowerConfidenceBound,
}
"""Acquisition functions by name, made from an exploration factor: the margin of the first two, the number of standard
deviations of the third. The order is the order of turns (Table I)."""


@dataclass(frozen=True)
class AcquisitionRecord:
    """Results of the proposals of one acquisition function.

    Attributes:
        name: Its key in `ACQUISITIONS`.
        score: Discounted sum of its observed costs.
        weight: The same sum with every cost replaced by 1, so that sums of different length can be compared.
        observed: Number of its observations.
        duplicates: Number of its proposals that another function made too (multi).
        above: Number of rounds with a clearly worse mean than the average (advanced multi).
        below: Number of rounds with a clearly better mean.
    """

    name: str
    score: float = 0.0
    weight: float = 0.0
    observed: int = 0
    duplicates: int = 0
    above: int = 0
    below: int = 0

    @property
    def mean(self) -> float:
        """The score per unit of weight; infinity without an observation."""
        return self.score / self.weight if self.weight else float("inf")

    def add_cost(self, cost: float, discount: float) -> AcquisitionRecord:
        """Return the record after one more observation."""
        score, weight = self.score * discount + cost, self.weight * discount + 1.0
        return replace(self, score=score, weight=weight, observed=self.observed + 1)

    def compare(self, low: float, high: float) -> AcquisitionRecord:
        """Return the record after a round in which costs below ``low`` or above ``high`` are clearly different."""
        above, below = self.above + (self.mean > high), self.below + (self.mean < low)
        return replace(self, above=above, below=below)


@dataclass(frozen=True)
class Turns:
    """The acquisition functions still in use, and whose turn it is.

    Attributes:
        records: One per function, in the order of turns.
        taken: Number of observed turns.
    """

    records: tuple[AcquisitionRecord, ...]
    taken: int = 0

    @classmethod
    def of(cls, names: Iterable[str] = tuple(ACQUISITIONS)) -> Turns:
        """Return the state before the first turn."""
        return cls(tuple(AcquisitionRecord(name) for name in names))

    def next(self, pending: int) -> str:
        """Return the name of the function whose turn it is while ``pending`` proposals are not observed."""
        return self.records[(self.taken + pending) % len(self.records)].name

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the functions still in use."""
        return tuple(record.name for record in self.records)

    def add_cost(self, name: str, cost: float, discount: float) -> Turns:
        """Return the state after an observation; a function no longer in use changes nothing."""
        records = tuple(r.add_cost(cost, discount) if r.name == name else r for r in self.records)
        return Turns(records, self.taken + (name in self.names))


class AcquisitionSelector(Protocol):
    """Decides which acquisition functions stay in use: `Multi` or `AdvancedMulti`."""

    def update(self, turns: Turns, name: str, cost: float, same: Iterable[str]) -> Turns:
        """Return the state after one observation.

        Args:
            turns: The state before.
            name: The acquisition function that made the proposal.
            cost: The observed cost (for an invalid configuration the median of the valid costs).
            same: All functions that would have proposed the same configuration then, including ``name``.
        """


@dataclass(frozen=True)
class Multi:
    """Drops functions that keep proposing the same configurations as a better one.

    Attributes:
        discount: Weight of an observation relative to the next one.
        skip_threshold: Number of duplicates after which the functions involved compete; the best of them stays.
    """

    discount: float = 0.65
    skip_threshold: int = 5

    def update(self, turns: Turns, name: str, cost: float, same: Iterable[str]) -> Turns:
        """Return the state after one observation; see `AcquisitionSelector.update`."""
        turns = turns.add_cost(name, cost, self.discount)
        conflict = set(same)
        if len(conflict) < 2:
            return turns
        records = [
            replace(r, duplicates=r.duplicates + (r.name in conflict)) for r in turns.records
        ]
        rivals = [r for r in records if r.name in conflict and r.duplicates >= self.skip_threshold]
        if len(rivals) > 1:
            best = min(rivals, key=lambda r: r.mean)
            kept = [r for r in records if r is best or r not in rivals]
            records = [replace(r, duplicates=0) for r in kept]
        return replace(turns, records=tuple(records))


@dataclass(frozen=True)
class AdvancedMulti:
    """Compares functions by their scores alone: drops clearly worse ones, keeps only a clearly better one.

    Functions are compared when a round is complete: when the least observed one has one more observation.

    Attributes:
        discount: Weight of an observation relative to the next one.
        skip_threshold: Number of bad (good) rounds after which a function is dropped (is the only one kept).
        improvement: Distance from the mean of the scores, relative to it, that counts as clearly worse or better.
    """

    discount: float = 0.75
    skip_threshold: int = 5
    improvement: float = 0.1

    def update(self, turns: Turns, name: str, cost: float, same: Iterable[str]) -> Turns:
        """Return the state after one observation; ``same`` is not used. See `AcquisitionSelector.update`."""
        before = min(r.observed for r in turns.records)
        turns = turns.add_cost(name, cost, self.discount)
        if len(turns.records) == 1 or min(r.observed for r in turns.records) == before:
            return turns
        mean = sum(r.mean for r in turns.records) / len(turns.records)
        margin = self.improvement * abs(mean)
        compared = tuple(r.compare(mean - margin, mean + margin) for r in turns.records)
        for record in compared:
            if record.below >= self.skip_threshold:
                return replace(turns, records=(record,))
        kept = tuple(r for r in compared if r.above < self.skip_threshold)
        if len(kept) < len(compared):
            kept = tuple(replace(r, above=0, below=0) for r in kept)
        return replace(turns, records=kept)


def exploration_factor(
    mean_variance: float, best: float, initial_mean: float, initial_variance: float
) -> float:
    """Return lambda = (mean_variance / (initial_mean / best)) / initial_variance, at least 0.

    Source: Willemsen et al. 2021, section III-F. The factor shrinks as the model becomes certain and as the best cost
    improves on the mean of the first sample.

    Args:
        mean_variance: Mean posterior variance over the candidates now.
        best: Lowest cost so far, in the user's unit. Negative costs are rates that are maximised; the time that
            corresponds to a rate is its inverse, so the ratio is inverted for them.
        initial_mean: Mean cost of the first sample, in the user's unit.
        initial_variance: Mean posterior variance over the candidates after the first sample.

    Returns:
        The factor. A ratio that is undefined (division by zero, or costs of both signs) counts as 1, its value before
        any improvement.
    """
    now, then = (initial_mean, best) if initial_mean < 0.0 else (best, initial_mean)
    remaining = now / then if then != 0.0 else 1.0
    if not math.isfinite(remaining) or remaining < 0.0:
        remaining = 1.0
    explored = mean_variance / initial_variance if initial_variance > 0.0 else 1.0
    return max(0.0, remaining * explored)
