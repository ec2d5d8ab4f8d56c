"""Feasible configurations near a single row, found by plain walks through the trees of a feasible set.

The searches of `baco_like.spaces` treat many rows at a time; the population algorithms repair and mutate a few. For
these, dictionaries that tell which value may follow which are several times faster than arrays, and what is found is
exact however many neighbours there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import final
from weakref import WeakKeyDictionary

import numpy as np

from baco_like._typing import Array, Codes, Mask, Rng
from baco_like.spaces.feasible.chain import Chain
from baco_like.spaces.feasible.factor import Factor
from baco_like.spaces.feasible.free import FreeScalar, Listed
from baco_like.spaces.feasible.group import TreeGroup
from baco_like.spaces.moves import every_value_used
from baco_like.spaces.space import Space
from baco_like.strategies.geometry.trail import Row, Step, Trail

_VALUES = 1024
"""Parameters of more values are left to arrays."""

_UNORDERED = 64
"""So are categorical parameters of more: all their values count as adjacent."""

_FEW = 24
"""More rows at a time are tested faster with arrays."""

_TRIES = 32
"""So many single changes are tried before the feasible ones are listed."""

_LONELY = 20_000
"""Rows without neighbours that are kept."""

Definition = Callable[[Step, float], Sequence[float]]
"""Says which codes of a step make a neighbour of a row with a given code."""


@final
@dataclass(frozen=True, eq=False)
class Paths:
    """A feasible set in which every parameter is a scalar of a few values: at most 1,024, a categorical one 64.

    Attributes:
        trails: Those of its factors.
        definitions: What strictly adjacent and adjacent neighbours are made of; the same where every value is used.
        values: All values of all parameters: whose they are, the column and the code.
        lonely: Rows without neighbours that were met, and what replaces them; it says nothing about a run.
    """

    trails: tuple[Trail, ...]
    definitions: Sequence[Definition]
    values: Sequence[tuple[Trail, int, float]]
    lonely: dict[Row, Row] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, space: Space) -> Paths | None:
        """Return the paths of a space, or None where it has other parameters or is decided by rejection; it is kept."""
        chain = space.feasible
        if chain not in _KEPT:
            _KEPT[chain] = _paths(space)
        return _KEPT[chain]

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is feasible, ``(n, w)`` -> ``(n,)``."""
        return np.fromiter((self.feasible(row) for row in codes.tolist()), bool, len(codes))

    def feasible(self, row: Row) -> bool:
        """Whether a row is feasible."""
        return all(trail.follows(row) for trail in self.trails)

    def hamming(self, row: Row) -> list[tuple[int, float]]:
        """Return the columns and codes of the single changes that make a row feasible, or leave it so."""
        bad = [trail for trail in self.trails if not trail.follows(row)]
        if len(bad) > 1:
            return []
        return [change for trail in bad or self.trails for change in trail.changes(row)]

    def mutated(self, row: Row, rng: Rng) -> Row:
        """Return a random Hamming neighbour of a feasible row, each as likely; the row itself where it has none."""
        for number in rng.integers(0, len(self.values), _TRIES).tolist():
            trail, column, code = self.values[number]
            new = changed(row, column, code)
            if code != row[column] and trail.follows(new):
                return new
        changes = self.hamming(row)
        return changed(row, *changes[rng.integers(len(changes))]) if changes else row

    def mended(self, row: Row, neighbour: Callable[[], Row | None]) -> Row:
        """Return a neighbour of an infeasible row, or the nearest row where it has none."""
        key = tuple(row)
        found = self.lonely.get(key)
        if found is None:
            near = neighbour()
            if near is not None:
                return near
            found = self.nearest(row)
            if len(self.lonely) >= _LONELY:
                self.lonely.clear()
            self.lonely[key] = found
        return found

    def nearest(self, row: Row) -> Row:
        """Return a feasible row at the least index-distance; which of equally near ones depends on the row only."""
        rng = np.random.default_rng(np.array(row).view(np.uint32))
        found = self.assembled(trail.nearest(row, rng) for trail in self.trails)
        assert found is not None
        return found

    def assembled(self, parts: Iterable[Row | None]) -> Row | None:
        """Return the row made of one path of each factor, or None where one is missing; none are made after it."""
        row = [0.0] * sum(len(trail.steps) for trail in self.trails)
        for trail, path in zip(self.trails, parts, strict=False):
            if path is None:
                return None
            for step, code in zip(trail.steps, path, strict=True):
                row[step.column] = code
        return row


def changed(row: Row, column: int, code: float) -> list[float]:
    """Return a row after a single change."""
    new = list(row)
    new[column] = code
    return new


_KEPT: WeakKeyDictionary[Chain, Paths | None] = WeakKeyDictionary()


def contains(space: Space, codes: Codes) -> Mask:
    """Whether each row is feasible, ``(n, w)`` -> ``(n,)``; for a few rows faster than the feasible set itself."""
    paths = Paths.of(space) if len(codes) <= _FEW else None
    return space.feasible.contains(codes) if paths is None else paths.contains(codes)


def _paths(space: Space) -> Paths | None:
    steps = [_steps(factor) for factor in space.feasible.factors]
    trails = tuple(Trail.of(one) for one in steps if one is not None)
    if len(trails) < len(steps):
        return None
    every = (Step.adjacent,) if every_value_used(space) else (Step.adjacent, Step.nearest_used)
    values = [
        (trail, step.column, code) for trail in trails for step in trail.steps for code in step.used
    ]
    return Paths(trails, every, values)


def _steps(factor: Factor) -> tuple[Step, ...] | None:
    """Return the steps of a factor, or None where some parameter is not a scalar of a few values."""
    if isinstance(factor, FreeScalar):
        if not _few_values(factor.count, factor.ordered):
            return None
        return (_alone(factor, factor.ordered, np.arange(factor.count, dtype=np.float64)),)
    if not isinstance(factor, Listed | TreeGroup):
        return None
    domains = (factor.domain,) if isinstance(factor, Listed) else factor.domains
    if any(one.width > 1 or not _few_values(one.size, one.ordered) for one in domains):
        return None
    if isinstance(factor, Listed):
        return (_alone(factor, factor.domain.ordered, factor.domain.codes[:, 0]),)
    return tuple(
        Step(
            int(factor.columns[i]),
            domain.ordered,
            domain.codes[:, 0],
            level.start,
            level.value,
            level.child.astype(np.intp),  # which `take` reads without converting them
            _used(factor, i),
        )
        for i, (domain, level) in enumerate(zip(factor.domains, factor.tree.levels, strict=True))
    )


def _few_values(count: int, ordered: bool) -> bool:
    return count <= (_VALUES if ordered else _UNORDERED)


def _alone(factor: Factor, ordered: bool, codes: Array) -> Step:
    """Return the step of a single parameter."""
    every, ends = np.arange(len(codes)), np.array([0, len(codes)])
    column = int(factor.columns[0])
    return Step(column, ordered, codes, ends, every, np.zeros_like(every), _used(factor, 0))


def _used(factor: Factor, column: int) -> tuple[float, ...]:
    codes = factor.used(column)
    assert codes is not None
    return tuple(codes.tolist())
