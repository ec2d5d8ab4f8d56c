"""Whose turn it is among several acquisitions: multi and advanced multi (Willemsen et al. 2021, section III-G).

Acquisitions take turns, one proposal each. Their *discounted observation score* is the sum of their observations, each
weighted by the discount to the power of its age, so that recent ones count more. Pure functions on a frozen state;
defaults are those of the paper's Table I, which overrides the factors named in its text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

EI, POI, LCB = "ei", "poi", "lcb"
ORDER = (EI, POI, LCB)
"""The order of turns, Table I."""


@dataclass(frozen=True)
class Record:
    """What is known of one acquisition.

    Attributes:
        name: Of the acquisition.
        score: Discounted sum of its observations (costs).
        weight: The same sum of ones, so that sums of different length can be compared.
        observed: How many observations it has.
        duplicates: How often it has proposed the same as another (multi).
        above: How often it has scored clearly worse than the mean (advanced multi).
        below: How often it has scored clearly better.
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

    def after(self, cost: float, discount: float) -> Record:
        """Return the record after one more observation."""
        return replace(
            self,
            score=self.score * discount + cost,
            weight=self.weight * discount + 1.0,
            observed=self.observed + 1,
        )


@dataclass(frozen=True)
class Turns:
    """The acquisitions still in use, in their order, and how many turns were observed."""

    records: tuple[Record, ...]
    taken: int = 0

    @classmethod
    def of(cls, names: Iterable[str] = ORDER) -> Turns:
        """Return the state before the first turn."""
        return cls(tuple(Record(name) for name in names))

    def next(self, flying: int) -> str:
        """Return whose turn it is when so many proposals are in flight."""
        return self.records[(self.taken + flying) % len(self.records)].name

    @property
    def names(self) -> tuple[str, ...]:
        """The acquisitions still in use."""
        return tuple(record.name for record in self.records)


def observed(turns: Turns, name: str, cost: float, discount: float) -> Turns:
    """Return the state after an observation of one acquisition's proposal; one no longer in use changes nothing."""
    records = tuple(r.after(cost, discount) if r.name == name else r for r in turns.records)
    return Turns(records, turns.taken + (name in turns.names))


@dataclass(frozen=True)
class Multi:
    """Skips acquisitions that keep proposing the same as another.

    Attributes:
        discount: Of older observations.
        skip_threshold: So many duplicates pit the acquisitions of the conflict against each other.
    """

    discount: float = 0.65
    skip_threshold: int = 5

    def tell(self, turns: Turns, name: str, cost: float, same: Iterable[str]) -> Turns:
        """Return the state after one observation.

        Args:
            turns: The state before.
            name: Whose proposal it was.
            cost: What was observed (the median of the valid costs where it was invalid).
            same: The acquisitions that proposed the same configuration at that time, itself included.
        """
        turns = observed(turns, name, cost, self.discount)
        conflict = set(same)
        if len(conflict) > 1:
            counted = (
                replace(r, duplicates=r.duplicates + 1) if r.name in conflict else r
                for r in turns.records
            )
            turns = replace(turns, records=tuple(counted))
        rivals = [
            r for r in turns.records if r.name in conflict and r.duplicates >= self.skip_threshold
        ]
        if len(rivals) < 2:
            return turns
        best = min(rivals, key=lambda r: r.mean)
        lost = {r.name for r in rivals} - {best.name}
        kept = (replace(r, duplicates=0) for r in turns.records if r.name not in lost)
        return replace(turns, records=tuple(kept))


@dataclass(frozen=True)
class AdvancedMulti:
    """Judges acquisitions by their scores alone: the clearly worse are skipped, a clearly better one is promoted.

    They are judged when a round is complete, that is when the least observed one has one more observation.

    Attributes:
        discount: Of older observations.
        skip_threshold: So many bad (good) rounds skip (promote) an acquisition.
        improvement: How far from the mean of the scores, relative to it, is clearly worse or better.
    """

    discount: float = 0.75
    skip_threshold: int = 5
    improvement: float = 0.1

    def tell(self, turns: Turns, name: str, cost: float, same: Iterable[str]) -> Turns:
        """Return the state after one observation; see `Multi.tell`. ``same`` does not matter."""
        before = min(r.observed for r in turns.records)
        turns = observed(turns, name, cost, self.discount)
        if len(turns.records) == 1 or min(r.observed for r in turns.records) == before:
            return turns
        mean = sum(r.mean for r in turns.records) / len(turns.records)
        margin = self.improvement * abs(mean)
        judged = tuple(
            replace(
                r,
                above=r.above + (r.mean > mean + margin),
                below=r.below + (r.mean < mean - margin),
            )
            for r in turns.records
        )
        for record in judged:
            if record.below >= self.skip_threshold:
                return replace(turns, records=(record,))
        kept = tuple(r for r in judged if r.above < self.skip_threshold)
        if len(kept) < len(judged):
            kept = tuple(replace(r, above=0, below=0) for r in kept)
        return replace(turns, records=kept)
