"""The factor of the parameters that no constraint reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.parameters.bases import IndexedParameter
from baco_like.parameters.permutation_codes import (
    Ranks,
    permutation_ranks,
    permutations_from_ranks,
)
from baco_like.parameters.protocol import Parameter, ParameterKind, is_permutation
from baco_like.parameters.real import Real
from baco_like.spaces.feasible.factor import FactorDefaults
from baco_like.spaces.feasible.ragged import sort_by_owner
from baco_like.spaces.feasible.rules import join_ranks, list_domain, split_ranks, whole_numbers
from baco_like.spaces.feasible.single_rows import ValueStep, is_small
from baco_like.spaces.feasible.tree import one_level

_LISTED = 2**14
"""More values than this are never listed: a search then draws some, half of them near a row's own value."""


@dataclass(frozen=True, eq=False)
class Box(FactorDefaults):
    """All values of some parameters; draws are uniform on their scales and ignore their priors.

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
            if p.cardinality < math.inf and (p.width == 1 or is_permutation(p))
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
        rows = np.empty((n, len(self.columns)))
        for parameter, at in self._places:  # twice as fast as to concatenate hundreds of columns
            rows[:, at] = parameter.sample_uniform(n, rng)
        return rows

    def rank(self, codes: Codes) -> Ranks:
        """Return ranks, or -1 for codes that are not legal; those of one permutation are lexicographic."""
        ranks: list[Ranks] = []
        for (parameter, at), count in zip(self._places, self._counts, strict=True):
            own = codes[:, at]
            if is_permutation(parameter):
                ranks.append(np.where(parameter.legal(own), permutation_ranks(own), -1))
            else:
                ranks.append(whole_numbers(own[:, 0] - parameter.code_range[0], count))
        return join_ranks(ranks, self._counts)

    def unrank(self, ranks: Ranks) -> Codes:
        """Return the rows with these ranks."""
        parts: list[Array] = []
        for parameter, own in zip(self.parameters, split_ranks(ranks, self._counts), strict=True):
            if is_permutation(parameter):
                parts.append(permutations_from_ranks(own, parameter.width).astype(np.float64))
            else:
                parts.append(own.astype(np.float64)[:, None] + parameter.code_range[0])
        return np.concatenate(parts, axis=1)

    def used(self, column: int) -> Array | None:
        """Return all codes, unless there are too many to list."""
        parameter = next(p for p, at in self._places if column < at.stop)
        if is_permutation(parameter):
            return np.arange(parameter.width, dtype=np.float64)
        if parameter.width > 1 or parameter.cardinality > _LISTED:
            return None
        return parameter.code_range[0] + np.arange(parameter.cardinality, dtype=np.float64)

    def nearest(self, codes: Codes, rng: Rng | None = None) -> Codes:
        """Return the closest codes; ties between the elements of permutations are broken at random."""
        rows = codes.copy()
        for parameter, at in self._places:
            if is_permutation(parameter):
                rows[:, at] = sort_elements(codes[:, at], rng)
            elif parameter.width == 1 and parameter.cardinality < math.inf:
                rows[:, at] = np.rint(rows[:, at])
        return np.clip(rows, *self._bounds)

    def closest_others(self, codes: Codes) -> tuple[Codes, Ints, Array]:
        """Return the neighbours of a legal row (a real has none), or the closest row to another one."""
        good = self.contains(codes)
        legal, illegal = np.flatnonzero(good), np.flatnonzero(~good)
        closest = self.nearest(codes)
        distance = np.where(good, np.inf, np.abs(codes - closest).sum(axis=1))
        rows, owners = [closest[illegal]], [illegal]
        for parameter, at in self._places:
            values, owner = parameter.neighbours(codes[legal][:, at])
            owners.append(legal[owner])
            rows.append(codes[owners[-1]])
            rows[-1][:, at] = values
            distance[owners[-1]] = 1.0
        return *sort_by_owner(np.concatenate(rows), np.concatenate(owners)), distance

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
