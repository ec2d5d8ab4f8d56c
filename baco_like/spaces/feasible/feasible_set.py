"""The feasible set: a chain of trees, i.e. a product of independent factors that is never listed as a whole.

This is the structure of Rasch et al. that BaCO uses (section 4.2). Counts multiply, and a configuration's rank has one
digit for each factor in mixed radix, the first one being the most significant; ranks beyond int64 are Python integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.exceptions import ConfigError, SpaceError
from baco_like.parameters.permutation_codes import Ranks, rank_dtype
from baco_like.spaces.feasible.ragged import pair_by_owner, replace_columns, sort_by_owner
from baco_like.spaces.feasible.single_rows import SingleRows, ValueStep

_FEW_ROWS = 24
"""More rows than this are tested faster with arrays."""

KEPT = 32_768
"""Most rows that are kept once they have been listed."""


class Factor(Protocol):
    """The feasible codes of some parameters; every array has only their code columns."""

    @property
    def columns(self) -> Ints:
        """Their code columns in the space."""

    @property
    def count(self) -> int | None:
        """Exact number of rows, or None if it is infinite or unknown."""

    @property
    def acceptance(self) -> float:
        """Estimated share of draws that `sample` keeps: 1.0, or less with rejection."""

    @property
    def uses_every_value(self) -> bool:
        """Whether every value of every ordered parameter occurs in some row, as far as that is known."""

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is legal and feasible."""

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n independent uniform rows."""

    def spread(self, n: int, rng: Rng) -> Codes:
        """Return n independent rows for a strategy: as `sample`, but the length of a sequence is uniform."""

    def walk(self, n: int, rng: Rng) -> Codes:
        """Return n rows drawn from root to leaf, choosing children uniformly at every node (biased)."""

    def rank(self, codes: Codes) -> Ranks:
        """Return ranks in ``range(count)``, or -1 for infeasible rows; only if `count` is known."""

    def unrank(self, ranks: Ranks) -> Codes:
        """Return the rows with these ranks; only if `count` is known."""

    def used(self, column: int) -> Array | None:
        """Return the codes that occur in one of the columns, increasing, or None if they are not listed."""

    def nearest(self, codes: Codes, rng: Rng) -> Codes:
        """Return for each row, legal or not, a feasible row at the least distance (see `distance`)."""

    def closest_others(self, codes: Codes) -> tuple[Codes, Ints, Array]:
        """Return all feasible rows at the least positive distance of each row, their owners, and the distances.

        If a factor is not listed, only rows at distance 1 (an adjacent value or swap) are returned.
        """

    def steps(self) -> Sequence[ValueStep] | None:
        """Return one step for each column, or None if a parameter is not a scalar of a few values."""


class FactorDefaults:
    """Members of most factors."""

    acceptance = 1.0
    uses_every_value = True

    def spread(self: Factor, n: int, rng: Rng) -> Codes:
        """Return n uniform rows: there is no sequence."""
        return self.sample(n, rng)

    def walk(self: Factor, n: int, rng: Rng) -> Codes:
        """Return n uniform rows: the tree has one level, or equally many children at every node."""
        return self.sample(n, rng)

    def steps(self) -> Sequence[ValueStep] | None:
        """Return None: the rows are treated with arrays only."""
        return None


@dataclass(frozen=True, eq=False)
class FeasibleSet:
    """The feasible set of a space.

    Attributes:
        width: Number of code columns.
        factors: Independent sets of parameters; together they have every column once.
        has_conditions: Whether a change of one parameter may switch others on or off.
    """

    width: int
    factors: tuple[Factor, ...]
    has_conditions: bool = False

    @cached_property
    def count(self) -> int | None:
        """Exact number of configurations, or None if it is infinite or unknown."""
        counts = [factor.count for factor in self.factors if factor.count is not None]
        return math.prod(counts) if len(counts) == len(self.factors) else None

    @property
    def acceptance(self) -> float:
        """Estimated share of draws that `sample` keeps: 1.0, or less with rejection."""
        return math.prod(factor.acceptance for factor in self.factors)

    @property
    def uses_every_value(self) -> bool:
        """Whether every value of every ordered parameter occurs in some row, as far as that is known."""
        return all(factor.uses_every_value for factor in self.factors)

    @cached_property
    def single_rows(self) -> SingleRows | None:
        """Operations on single rows, or None with conditions, or if a parameter is not a scalar of a few values."""
        if self.has_conditions:
            return None
        steps = [steps for factor in self.factors if (steps := factor.steps()) is not None]
        few_values = len(steps) == len(self.factors)
        return SingleRows(steps, self.uses_every_value) if few_values else None

    def contains_few(self, codes: Codes) -> Mask:
        """Return `contains`, faster for up to 24 rows; the first call prepares `single_rows`."""
        if len(codes) <= _FEW_ROWS and self.single_rows is not None:
            return self.single_rows.contains(codes)
        return self.contains(codes)

    def contains(self, codes: Codes) -> Mask:
        """Whether each row, ``(n, w)``, is a legal code and satisfies every constraint."""
        columns, counts = self._whole_numbers
        free = codes[:, columns]
        good = ((free >= 0) & (free < counts) & (free == np.floor(free))).all(axis=1)
        columns, low, high = self._intervals
        if columns.size:
            reals = codes[:, columns]
            good &= ((reals >= low) & (reals <= high)).all(axis=1)
        for factor in self._others:
            good &= factor.contains(codes[:, factor.columns])
        return np.asarray(good)

    @cached_property
    def _whole_numbers(self) -> tuple[Ints, Array]:
        """Columns and counts of the factors whose rows are all whole numbers below a count.

        `contains` checks them in one pass: with hundreds of flags, calls for each took most of its time.
        """
        counts = [getattr(factor, "whole_numbers", None) for factor in self.factors]
        columns = [
            f.columns for f, count in zip(self.factors, counts, strict=True) if count is not None
        ]
        known = np.array([count for count in counts if count is not None], dtype=np.float64)
        return np.concatenate([np.empty(0, dtype=np.int64), *columns]), known

    @cached_property
    def _intervals(self) -> tuple[Ints, Array, Array]:
        """Columns and bounds of the factors that are one real each; `contains` checks them in one pass, too."""
        found = [(f, ends) for f in self.factors if (ends := getattr(f, "interval", None))]
        columns = [factor.columns for factor, _ in found]
        low, high = np.array([ends for _, ends in found], dtype=np.float64).reshape(-1, 2).T
        return np.concatenate([np.empty(0, dtype=np.int64), *columns]), low, high

    @cached_property
    def _others(self) -> tuple[Factor, ...]:
        """The factors that have their own check."""
        return tuple(
            factor
            for factor in self.factors
            if getattr(factor, "whole_numbers", None) is None
            and getattr(factor, "interval", None) is None
        )

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n rows drawn independently and uniformly over the feasible configurations."""
        return self._join_parts(n, [factor.sample(n, rng) for factor in self.factors])

    def spread(self, n: int, rng: Rng) -> Codes:
        """Return n independent rows for a strategy: as `sample`, but the length of a sequence is uniform.

        Nearly all sequences have the greatest length, which is seldom the best one.
        """
        return self._join_parts(n, [factor.spread(n, rng) for factor in self.factors])

    def walk(self, n: int, rng: Rng) -> Codes:
        """Return n rows drawn by walking every tree from its root, choosing children uniformly.

        It favours configurations in sparse subtrees and depends on the order of the parameters (Hellsten et al.,
        section 4.2); `sample` does not.
        """
        return self._join_parts(n, [factor.walk(n, rng) for factor in self.factors])

    def index(self, codes: Codes) -> list[int]:
        """Return each feasible row's rank in ``range(count)``.

        Raises:
            SpaceError: `count` is None.
            ConfigError: A row is not feasible.
        """
        ranks = self.ranks(codes)
        bad = np.flatnonzero(ranks < 0)
        if len(bad):
            raise ConfigError(f"row {bad[0]} of {len(codes)} is not feasible, so it has no index")
        return [int(rank) for rank in ranks.tolist()]

    def ranks(self, codes: Codes) -> Ranks:
        """Return ranks as an array, or -1 for infeasible rows.

        Raises:
            SpaceError: `count` is None.
        """
        dtype = rank_dtype(self._known_count())
        total: Ranks = np.zeros(len(codes), dtype=dtype)
        good = np.ones(len(codes), dtype=np.bool_)
        for factor in self.factors:
            digit = factor.rank(codes[:, factor.columns])
            good &= digit >= 0
            total = total * factor.count + digit.astype(dtype)
        return np.where(good, total, -1)

    def unindex(self, indices: Sequence[int] | Ranks) -> Codes:
        """Return the rows with these ranks; the inverse of `index`.

        Raises:
            SpaceError: `count` is None.
            IndexError: A rank is not in ``range(count)``.
        """
        count = self._known_count()
        dtype = rank_dtype(count)
        if len(indices) and not (min(indices) >= 0 and max(indices) < count):
            raise IndexError(f"an index is outside range({count})")
        ranks: Ranks = np.array(indices, dtype=dtype)
        parts: list[Codes] = []
        for factor in reversed(self.factors):
            assert factor.count is not None
            digit = ranks % factor.count
            ranks = ranks // factor.count
            parts.append(factor.unrank(digit.astype(rank_dtype(factor.count))))
        return self._join_parts(len(indices), parts[::-1])

    def iterate(self, chunk: int = 65536) -> Iterator[Codes]:
        """Yield all rows in the order of their ranks, at most ``chunk`` at a time.

        Raises:
            SpaceError: `count` is None.
        """
        count = self._known_count()
        if count <= min(chunk, KEPT):
            yield self.listed
            return
        dtype = rank_dtype(count)
        for begin in range(0, count, chunk):
            size = min(chunk, count - begin)
            yield self.unindex(np.arange(size).astype(dtype) + begin)

    @cached_property
    def listed(self) -> Codes:
        """All rows in the order of their ranks, read-only; they are kept, so use it only for small sets."""
        rows = self.unindex(np.arange(self._known_count()))
        rows.flags.writeable = False
        return rows

    def used(self, column: int) -> Array | None:
        """Return the codes that occur in a column of some configuration, increasing, or None (reals, wide integers).

        With rejection, codes that no feasible row has may be among them.
        """
        for factor in self.factors:
            at = np.flatnonzero(factor.columns == column)
            if len(at):
                return factor.used(int(at[0]))
        raise IndexError(column)

    def nearest(self, codes: Codes, rng: Rng) -> Codes:
        """Return for each row, legal or not, a feasible row at the least distance; ties are broken at random.

        `feasible.distance` defines the distance, summed over the parameters. With reals or rejection the row is
        feasible and close, but not always the closest.
        """
        parts = [factor.nearest(codes[:, factor.columns], rng) for factor in self.factors]
        return self._join_parts(len(codes), parts)

    def closest_others(self, codes: Codes) -> tuple[Codes, Ints]:
        """Return all feasible rows at the least positive distance of each row, ``(n, w)``, and their owners.

        For a feasible row one factor changes; for an infeasible row, all of its infeasible factors.
        """
        good = [factor.contains(codes[:, factor.columns]) for factor in self.factors]
        closest = [factor.closest_others(codes[:, factor.columns]) for factor in self.factors]
        feasible = np.logical_and.reduce(good)
        least = np.min([distance for _, _, distance in closest], axis=0)
        rows, owners = [codes[:0]], [np.empty(0, dtype=np.int64)]
        repaired, repaired_owner = codes[~feasible], np.flatnonzero(~feasible)
        for factor, ok, (others, owner, distance) in zip(self.factors, good, closest, strict=True):
            chosen = feasible[owner] & (distance == least)[owner]
            rows.append(replace_columns(codes, owner[chosen], factor.columns, others[chosen]))
            owners.append(owner[chosen])
            rest = ~ok[owner]
            left, right = pair_by_owner(repaired_owner, owner[rest], len(codes))
            same = np.flatnonzero(ok[repaired_owner])
            changed = replace_columns(repaired, left, factor.columns, others[rest][right])
            repaired = np.concatenate([repaired[same], changed])
            repaired_owner = np.concatenate([repaired_owner[same], repaired_owner[left]])
        return sort_by_owner(
            np.concatenate([*rows, repaired]), np.concatenate([*owners, repaired_owner])
        )

    def _known_count(self) -> int:
        if self.count is None:
            raise SpaceError(
                "the feasible configurations cannot be numbered: there are reals, or constraints that need rejection"
            )
        return self.count

    def _join_parts(self, n: int, parts: Sequence[Codes]) -> Codes:
        rows = np.empty((n, self.width), dtype=np.float64)
        for factor, part in zip(self.factors, parts, strict=True):
            rows[:, factor.columns] = part
        return rows
