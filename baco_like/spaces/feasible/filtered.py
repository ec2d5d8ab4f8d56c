"""A factor whose configurations cannot be listed: drawn from a superset, put at rest where inactive, and tested.

The superset already satisfies every constraint among listable parameters, so only the rules and constraints that read a
real, a wide integer or a long permutation are left. The draws are exactly uniform over the rows that satisfy the
constraints; only the number of tries is random.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Codes, Column, Ints, Mask, Rng
from baco_like.constraints.callables import REMEDY, CallableConstraint
from baco_like.constraints.conditions import RestingConstraint
from baco_like.constraints.protocol import Constraint
from baco_like.exceptions import SpaceError
from baco_like.parameters.permutation import Ranks
from baco_like.parameters.protocol import Parameter
from baco_like.spaces.feasible.conflict import quote
from baco_like.spaces.feasible.feasible_set import FactorDefaults, FeasibleSet
from baco_like.spaces.feasible.machines import core
from baco_like.spaces.feasible.work_limit import Work, row_cost

MAX_TRIES = 2**22
"""Consecutive rejected draws after which a space counts as hopeless."""

_BATCH = 2**16

_FEW = 2**6
"""Draws that explain a failure when the work is used up."""

_MIXTURES = 2**10


class Hopeless(SpaceError):
    """No random configuration satisfies the constraints; it is unknown whether any configuration does."""

    def __init__(self, constraints: Sequence[Constraint], tries: int) -> None:
        found = f"{tries} random configurations all violate {quote(constraints)}"
        if not tries:
            found = f"it takes too much work to test {quote(constraints)}"
        remedy = (
            "give the parameters fewer or listed values, or write an equation as one parameter "
            "computed from the others"
        )
        if any(isinstance(core(constraint), CallableConstraint) for constraint in constraints):
            remedy = f"a Python function cannot be solved; {REMEDY}"
        super().__init__(f"{found}: {remedy}")


@dataclass(frozen=True, eq=False)
class Filtered(FactorDefaults):
    """Rows of a superset, with inactive parameters at rest, that satisfy the remaining constraints.

    Of two rows of the superset that become the same one by resting, each counts: a combination of the other parameters
    is as likely whether a real, a wide integer or a long permutation is active or not.

    Attributes:
        columns: Code columns of the space.
        superset: Rows to draw from; its columns are those of the factor, in order.
        places: The parameters of the factor with their columns inside it.
        resting: The rules of conditional parameters, applied to every draw.
        constraints: Tested on every draw.
        passed: Share of draws that passed the tests when the space was made.
    """

    columns: Ints
    superset: FeasibleSet
    places: Mapping[str, tuple[Parameter, slice]]
    resting: tuple[RestingConstraint, ...]
    constraints: tuple[Constraint, ...]
    passed: float = 1.0
    count = None

    @property
    @override
    def acceptance(self) -> float:
        """Share of draws that pass every stage of rejection."""
        return self.passed * self.superset.acceptance

    @property
    def draw_cost(self) -> float:
        """Operations for one draw that is tested, on average."""
        inner = (f.draw_cost / f.passed for f in self.superset.factors if isinstance(f, Filtered))
        return sum(map(row_cost, self.constraints)) + sum(inner)

    @property
    @override
    def uses_every_value(self) -> bool:
        """As far as the superset knows."""
        return self.superset.uses_every_value

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is legal and satisfies every constraint, and its inactive parameters rest."""
        good = self.superset.contains(codes)
        if good.any():
            rules = (*self.resting, *self.constraints)
            good[good] = np.all(self._held(rules, codes[good]), axis=0)
        return good

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n independent rows, uniform over those that satisfy the constraints.

        Raises:
            SpaceError: All of `MAX_TRIES` draws were rejected.
        """
        return self._draw(self.superset.sample, n, rng)

    @override
    def spread(self, n: int, rng: Rng) -> Codes:
        """Return n rows of draws with uniform lengths that passed."""
        return self._draw(self.superset.spread, n, rng)

    @override
    def walk(self, n: int, rng: Rng) -> Codes:
        """Return n rows of biased draws that passed."""
        return self._draw(self.superset.walk, n, rng)

    def rank(self, codes: Codes) -> Ranks:
        """Refuse: the rows are not numbered."""
        raise SpaceError("configurations that are drawn and tested have no ranks")

    def unrank(self, ranks: Ranks) -> Codes:
        """Refuse: the rows are not numbered."""
        raise SpaceError("configurations that are drawn and tested have no ranks")

    def used(self, column: int) -> Array | None:
        """Return the codes that the superset uses in a column, or None."""
        return self.superset.used(column)

    def nearest(self, codes: Codes, rng: Rng) -> Codes:
        """Return for each row a feasible row that is close: the superset's nearest, or the best of many mixtures.

        A mixture takes some parameters from the row and the rest from a random feasible row; reals are then moved
        back towards the row as far as the constraints allow.
        """
        rows = self._rest(self.superset.nearest(codes, rng))
        for i in np.flatnonzero(~self.contains(rows)):
            rows[i] = self._mix(rows[i], rng)
        return rows

    def _mix(self, row: Array, rng: Rng) -> Array:
        drawn = self.sample(_MIXTURES, rng)
        spread = np.ptp(drawn, axis=0) + 1e-12
        share = rng.random((_MIXTURES, 1))
        mixed = drawn.copy()
        for _, at in self.places.values():
            kept = (rng.random((_MIXTURES, 1)) < share)[:, 0]
            mixed[kept, at] = row[at]
        candidates = np.concatenate([mixed[self.contains(mixed)], drawn])
        best = candidates[np.argmin((np.abs(candidates - row) / spread).sum(axis=1))]
        # Move the reals towards the row, by bisection on the way.
        way = np.zeros_like(row)
        reals = [at.start for p, at in self.places.values() if p.cardinality == math.inf]
        way[reals] = row[reals] - best[reals]
        low, high = 0.0, 1.0
        for _ in range(30 if reals else 0):
            middle = 0.5 * (low + high)
            good = self.contains((best + middle * way)[None])[0]
            low, high = (middle, high) if good else (low, middle)
        return np.asarray(best + low * way)

    def _draw(self, draw: Callable[[int, Rng], Codes], n: int, rng: Rng) -> Codes:
        if not self.constraints:
            return self._rest(draw(n, rng))
        kept: list[Codes] = [np.empty((0, len(self.columns)))]
        have = tries = 0
        while have < n:
            batch = int(min(_BATCH, 16 + 1.2 * (n - have) / self.passed))
            rows = self._rest(draw(batch, rng))
            rows = rows[self.passes(rows)]
            tries = 0 if len(rows) else tries + batch
            if tries > MAX_TRIES:
                raise Hopeless(self.constraints, tries)
            kept.append(rows)
            have += len(rows)
        return np.concatenate(kept)[:n]

    def _rest(self, codes: Codes) -> Codes:
        """Return rows with every inactive parameter at its resting value; the given ones are changed."""
        columns = self._columns(codes) if self.resting else {}
        for rule in self.resting:
            _, at = self.places[rule.name]
            inactive = ~rule.conditions.active(rule.name, columns)
            codes[inactive, at] = rule.conditions.resting[rule.name]
        return codes

    def passes(self, codes: Codes) -> Mask:
        """Return which rows of the superset, at rest, satisfy all constraints."""
        return np.asarray(np.all(self._held(self.constraints, codes), axis=0))

    def _held(self, rules: Sequence[Constraint], codes: Codes) -> list[Mask]:
        """Return for each constraint which legal rows satisfy it."""
        columns = self._columns(codes)
        return [c.holds({name: columns[name] for name in c.parameters}) for c in rules]

    def _columns(self, codes: Codes) -> dict[str, Column]:
        return {name: p.column(codes[:, at]) for name, (p, at) in self.places.items()}

    def measured(self, work: Work) -> Filtered:
        """Return the factor with its measured acceptance.

        Raises:
            SpaceError: All draws were rejected: `MAX_TRIES`, or as many as the work allows.
        """
        if not self.constraints:
            return self
        rng = np.random.default_rng(0)  # only the estimate of the acceptance depends on it
        tries = passed = 0
        batch = 2**10
        cost = self.draw_cost
        while passed < 64 and tries < MAX_TRIES and not (passed and tries >= 2**18):
            batch = min(batch, int(work.left / cost))
            if not batch:
                break
            work.spend(batch * cost)
            passed += int(self.passes(self._rest(self.superset.sample(batch, rng))).sum())
            tries += batch
            batch = min(2 * batch, _BATCH)
        if passed == 0:
            few = _BATCH if work.left >= _BATCH * cost else min(tries, _FEW)
            rows = self._rest(self.superset.sample(few, rng))
            needed = _find_needed(self.constraints, self._held(self.constraints, rows))
            raise Hopeless(needed, tries)
        return replace(self, passed=passed / tries)


def _find_needed(constraints: Sequence[Constraint], held: Sequence[Mask]) -> list[Constraint]:
    """Return constraints that together reject every row, without those that are not needed for this.

    Args:
        constraints: The constraints.
        held: For each, which rows satisfy it; no row satisfies all.
    """
    core = list(zip(constraints, held, strict=True))
    violated = np.sum(~np.array(held), axis=0)  # constraints of the core, for each row
    for entry in list(core):
        rest = violated - ~entry[1]
        if len(core) > 1 and np.all(rest > 0):
            core = [other for other in core if other is not entry]
            violated = rest
    return [constraint for constraint, _ in core]
