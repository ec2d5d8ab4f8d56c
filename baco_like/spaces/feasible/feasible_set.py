"""The feasible set: a chain of trees, i.e. a product of independent factors that is never listed as a whole.

This is the structure of Rasch et al. that BaCO uses (section 4.2). Counts multiply, and a configuration's rank has one
digit for each factor in mixed radix, the first one being the most significant; ranks beyond int64 are Python integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.exceptions import ConfigError, SpaceError
from baco_like.parameters.permutation import Ranks, rank_dtype
from baco_like.spaces.feasible.factor import Box, Factor
from baco_like.spaces.feasible.rules import join_ranks, split_ranks
from baco_like.spaces.feasible.single_rows import SingleRows
from baco_like.spaces.rows import as_slice, pair_by_owner, replace_columns, sort_by_owner

_FEW_ROWS = 24
"""More rows than this are tested faster with arrays."""

KEPT = 32_768
"""Most rows that are kept once they have been listed."""


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
        return math.prod(self._counts) if len(self._counts) == len(self.chain) else None

    @cached_property
    def _counts(self) -> list[int]:
        return [factor.count for factor in self.chain if factor.count is not None]

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

    @cached_property
    def chain(self) -> tuple[Factor, ...]:
        """The factors, in which boxes that follow each other are one: with hundreds of flags, calls take most time."""
        return _join_boxes(self.factors)

    @cached_property
    def _checked(self) -> list[tuple[Factor, slice | Ints]]:
        """The factors for `contains` with their columns: all boxes are one, and a slice takes no copy."""
        boxes_first = sorted(self.factors, key=lambda factor: not isinstance(factor, Box))
        return [(factor, as_slice(factor.columns)) for factor in _join_boxes(boxes_first)]

    def contains(self, codes: Codes) -> Mask:
        """Whether each row, ``(n, w)``, is a legal code and satisfies every constraint."""
        good = np.ones(len(codes), dtype=np.bool_)
        for factor, columns in self._checked:
            good &= factor.contains(codes[:, columns])
        return good

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n rows drawn independently and uniformly over the feasible configurations."""
        return self._join_parts(n, [factor.sample(n, rng) for factor in self.chain])

    def spread(self, n: int, rng: Rng) -> Codes:
        """Return n independent rows for a strategy: as `sample`, but the length of a sequence is uniform.

        Nearly all sequences have the greatest length, which is seldom the best one.
        """
        return self._join_parts(n, [factor.spread(n, rng) for factor in self.chain])

    def walk(self, n: int, rng: Rng) -> Codes:
        """Return n rows drawn by walking every tree from its root, choosing children uniformly.

        It favours configurations in sparse subtrees and depends on the order of the parameters (Hellsten et al.,
        section 4.2); `sample` does not.
        """
        return self._join_parts(n, [factor.walk(n, rng) for factor in self.chain])

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
        self._known_count()
        ranks = [factor.rank(codes[:, factor.columns]) for factor in self.chain]
        return join_ranks(ranks, self._counts)

    def unindex(self, indices: Sequence[int] | Ranks) -> Codes:
        """Return the rows with these ranks; the inverse of `index`.

        Raises:
            SpaceError: `count` is None.
            IndexError: A rank is not in ``range(count)``.
        """
        count = self._known_count()
        if len(indices) and not (min(indices) >= 0 and max(indices) < count):
            raise IndexError(f"an index is outside range({count})")
        ranks = split_ranks(np.array(indices, dtype=rank_dtype(count)), self._counts)
        parts = [factor.unrank(own) for factor, own in zip(self.chain, ranks, strict=True)]
        return self._join_parts(len(indices), parts)

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

        `feasible.tree` defines the distance, summed over the parameters. With reals or rejection the row is
        feasible and close, but not always the closest.
        """
        parts = [factor.nearest(codes[:, factor.columns], rng) for factor in self.chain]
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
        for columns, part in zip(self._places, parts, strict=True):
            rows[:, columns] = part
        return rows

    @cached_property
    def _places(self) -> list[slice | Ints]:
        return [as_slice(factor.columns) for factor in self.chain]


def _join_boxes(factors: Sequence[Factor]) -> tuple[Factor, ...]:
    """Return the factors, in which boxes that follow each other are one."""
    joined: list[Factor] = []
    for factor in factors:
        last = joined[-1] if joined else None
        if isinstance(factor, Box) and isinstance(last, Box):
            joined[-1] = last.joined(factor)
        else:
            joined.append(factor)
    return tuple(joined)
