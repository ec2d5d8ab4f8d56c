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
from typing_extensions import override

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.exceptions import ConfigError, SpaceError
from baco_like.parameters.bases import IndexedParameter
from baco_like.parameters.numeric import Real
from baco_like.parameters.permutation import (
    Ranks,
    permutation_ranks,
    permutations_from_ranks,
    rank_dtype,
)
from baco_like.parameters.protocol import Parameter, ParameterKind, is_permutation, is_sequence
from baco_like.parameters.sequence import sequence_ranks, sequences_from_ranks
from baco_like.spaces.feasible.rules import join_ranks, list_domain, split_ranks, whole_numbers
from baco_like.spaces.feasible.single_rows import SingleRows, ValueStep, is_small
from baco_like.spaces.feasible.tree import one_level, random_ranks
from baco_like.spaces.rows import as_slice


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
        """Return for each row, legal or not, a feasible row at the least distance (see `tree`)."""

    def steps(self) -> Sequence[ValueStep] | None:
        """Return one step for each column, or None if a parameter is not a scalar of a few values."""


class FactorDefaults:
    """Members of most factors."""

    @property
    def acceptance(self) -> float:
        """Return 1.0: every draw is kept."""
        return 1.0

    @property
    def uses_every_value(self) -> bool:
        """Return True: every value occurs in some row."""
        return True

    def spread(self: Factor, n: int, rng: Rng) -> Codes:
        """Return n uniform rows: there is no sequence."""
        return self.sample(n, rng)

    def walk(self: Factor, n: int, rng: Rng) -> Codes:
        """Return n uniform rows: the tree has one level, or equally many children at every node."""
        return self.sample(n, rng)

    def steps(self) -> Sequence[ValueStep] | None:
        """Return None: the rows are treated with arrays only."""
        return None


_LISTED = 2**14
"""More values than this are never listed: a search then draws some, half of them near a row's own value."""


@dataclass(frozen=True, eq=False)
class Box(FactorDefaults):
    """All values of some parameters, which no constraint reads.

    Draws are uniform on their scales and ignore their priors.

    Attributes:
        columns: Code columns of the space.
        parameters: The parameters, in the order of their columns.
    """

    columns: Ints
    parameters: tuple[Parameter, ...]

    def joined(self, other: Box) -> Box:
        """Return the box of the parameters of both."""
        columns = np.concatenate([self.columns, other.columns])
        return Box(columns, (*self.parameters, *other.parameters))

    @cached_property
    def _places(self) -> list[tuple[Parameter, slice]]:
        """Each parameter with its columns inside the factor."""
        ends = np.cumsum([p.width for p in self.parameters]).tolist()
        placed = zip(self.parameters, ends, strict=True)
        return [(parameter, slice(end - parameter.width, end)) for parameter, end in placed]

    @cached_property
    def _counts(self) -> list[int]:
        """Number of values of each parameter whose values are numbered: not reals, or numbers of several columns."""
        return [
            int(p.cardinality)
            for p in self.parameters
            if p.cardinality < math.inf and (p.width == 1 or is_permutation(p) or is_sequence(p))
        ]

    @cached_property
    def count(self) -> int | None:
        """Number of rows, or None if the values of a parameter are not numbered."""
        return math.prod(self._counts) if len(self._counts) == len(self.parameters) else None

    @cached_property
    def _bounds(self) -> Array:
        """The least and the greatest code of each column, ``(2, w)``."""
        return np.array([p.code_range for p in self.parameters for _ in range(p.width)]).T

    @cached_property
    def _checks(self) -> tuple[Ints, Array, Array, Mask, list[tuple[Parameter, slice]]]:
        """The columns that are checked in one pass, their bounds, whether each is a real, and the other parameters.

        With hundreds of flags, calls for each took most of the time of `contains`.
        """
        rules = [getattr(type(p), "legal", None) for p in self.parameters]
        checked = [rule in (IndexedParameter.legal, Real.legal) for rule in rules]
        widths = [p.width for p in self.parameters]
        columns = np.flatnonzero(np.repeat(checked, widths))
        own = [place for place, known in zip(self._places, checked, strict=True) if not known]
        real = np.repeat([rule is Real.legal for rule in rules], widths)
        return columns, *self._bounds[:, columns], real[columns], own

    def contains(self, codes: Codes) -> Mask:
        """Whether each row is a legal code."""
        columns, low, high, real, own = self._checks
        checked = codes[:, columns] if own else codes
        whole = real | (checked == np.floor(checked))
        legal = ((checked >= low) & (checked <= high) & whole).all(axis=1)
        for parameter, at in own:
            legal &= parameter.legal(codes[:, at])
        return np.asarray(legal)

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n independent rows."""
        return self._draw(n, rng)

    @override
    def spread(self, n: int, rng: Rng) -> Codes:
        """Return n independent rows; the lengths of sequences are uniform."""
        return self._draw(n, rng, uniform_lengths=True)

    def _draw(self, n: int, rng: Rng, *, uniform_lengths: bool = False) -> Codes:
        rows = np.empty((n, len(self.columns)))
        for parameter, at in self._places:  # twice as fast as to concatenate hundreds of columns
            if is_sequence(parameter) and not uniform_lengths:
                ranks = random_ranks(int(parameter.cardinality), n, rng)
                rows[:, at] = sequences_from_ranks(ranks, parameter)
            else:
                rows[:, at] = parameter.sample_uniform(n, rng)
        return rows

    def rank(self, codes: Codes) -> Ranks:
        """Return ranks, or -1 for codes that are not legal; those of one permutation are lexicographic."""
        ranks: list[Ranks] = []
        for (parameter, at), count in zip(self._places, self._counts, strict=True):
            own = codes[:, at]
            if is_permutation(parameter):
                ranks.append(np.where(parameter.legal(own), permutation_ranks(own), -1))
            elif is_sequence(parameter):
                legal = parameter.legal(own)
                own = np.where(
                    legal[:, None], own, parameter.nearest(own, np.random.default_rng(0))
                )
                ranks.append(np.where(legal, sequence_ranks(own, parameter), -1))
            else:
                ranks.append(whole_numbers(own[:, 0] - parameter.code_range[0], count))
        return join_ranks(ranks, self._counts)

    def unrank(self, ranks: Ranks) -> Codes:
        """Return the rows with these ranks."""
        parts: list[Array] = []
        for parameter, own in zip(self.parameters, split_ranks(ranks, self._counts), strict=True):
            if is_permutation(parameter):
                parts.append(permutations_from_ranks(own, parameter.width).astype(np.float64))
            elif is_sequence(parameter):
                parts.append(sequences_from_ranks(own, parameter))
            else:
                parts.append(own.astype(np.float64)[:, None] + parameter.code_range[0])
        return np.concatenate(parts, axis=1)

    def used(self, column: int) -> Array | None:
        """Return all codes, unless there are too many to list."""
        parameter, at = next(place for place in self._places if column < place[1].stop)
        if is_permutation(parameter):
            return np.arange(parameter.width, dtype=np.float64)
        if is_sequence(parameter):
            first = 0 if column - at.start < parameter.min_length else -1
            return np.arange(first, len(parameter.elements), dtype=np.float64)
        if parameter.width > 1 or parameter.cardinality > _LISTED:
            return None
        return parameter.code_range[0] + np.arange(parameter.cardinality, dtype=np.float64)

    def nearest(self, codes: Codes, rng: Rng | None = None) -> Codes:
        """Return the closest codes; ties between the elements of permutations are broken at random."""
        rows = codes.copy()
        for parameter, at in self._places:
            if is_permutation(parameter):
                rows[:, at] = sort_elements(codes[:, at], rng)
            elif is_sequence(parameter):
                rows[:, at] = parameter.nearest(codes[:, at], rng or np.random.default_rng(0))
            elif parameter.width == 1 and parameter.cardinality < math.inf:
                rows[:, at] = np.rint(rows[:, at])
        return np.clip(rows, *self._bounds)

    @override
    def steps(self) -> Sequence[ValueStep] | None:
        """Return one step for each parameter, or None if one has too many values."""
        steps: list[ValueStep] = []
        for (parameter, _), column in zip(self._places, self.columns.tolist(), strict=False):
            is_ordered = parameter.kind is ParameterKind.ORDERED
            if parameter.width > 1 or not is_small(parameter.cardinality, is_ordered):
                return None
            domain = list_domain("", parameter)
            (level,) = one_level(domain.size).levels
            steps.append(ValueStep(column, domain, level, domain.codes[:, 0]))
        return steps


def sort_elements(targets: Codes, rng: Rng | None = None) -> Codes:
    """Return the permutations that sort elements by numbers, ``(n, m)``; ties are broken at random, or by number."""
    chance = np.zeros(targets.shape) if rng is None else rng.random(targets.shape)
    order = np.lexsort((chance, targets), axis=1)
    return np.argsort(order, axis=1).astype(np.float64)


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
