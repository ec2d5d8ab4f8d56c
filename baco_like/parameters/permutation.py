"""An order of elements, such as the loops of a nest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from baco_like._typing import Array, Codes, Features, Ints, Mask, Rng
from baco_like.exceptions import SpaceError
from baco_like.parameters import distances
from baco_like.parameters.bases import ArrangedParameter, checked_default
from baco_like.parameters.protocol import ParameterKind
from baco_like.parameters.values import Lookup, Value, domain_values, shorten

Ranks = npt.NDArray[Any]
"""Ranks, ``(n,)``: int64, or Python integers (dtype object) if a count exceeds int64."""

INT64_LIMIT = 2**63


def rank_dtype(count: int) -> type:
    """Return the dtype that holds ranks below ``count``."""
    return np.int64 if count < INT64_LIMIT else object


def are_permutations(codes: Codes) -> Mask:
    """Whether each row, ``(n, m)``, holds every position 0 to m - 1 once."""
    expected = np.arange(codes.shape[1])
    return np.asarray((np.sort(codes, axis=1) == expected).all(axis=1))


def permutation_ranks(codes: Codes) -> Ranks:
    """Return lexicographic ranks in ``range(m!)`` of permutations, ``(n, m)`` -> ``(n,)``."""
    m = codes.shape[1]
    dtype = rank_dtype(math.factorial(m))
    ranks: Ranks = np.zeros(len(codes), dtype=dtype)
    for i in range(m):
        smaller_later = (codes[:, i + 1 :] < codes[:, i : i + 1]).sum(axis=1)
        ranks = ranks + smaller_later.astype(dtype) * math.factorial(m - 1 - i)
    return ranks


def permutations_from_ranks(ranks: Ranks, m: int) -> Ints:
    """Return the permutations with these ranks, ``(n,)`` -> ``(n, m)``; the inverse of `permutation_ranks`."""
    rows = np.zeros((len(ranks), m), dtype=np.int64)
    for i in range(m):
        unit = math.factorial(m - 1 - i)
        rows[:, i] = ranks // unit
        ranks = ranks % unit
    for i in range(m - 2, -1, -1):
        rows[:, i + 1 :] += rows[:, i + 1 :] >= rows[:, i : i + 1]
    return rows


def adjacent_swaps(codes: Codes) -> tuple[Codes, Ints]:
    """Return, for each permutation, its m - 1 swaps of two elements at consecutive positions.

    Args:
        codes: Positions of the elements, ``(n, m)``.

    Returns:
        The rows, ``(n (m - 1), m)``, and their owners, increasing.
    """
    n, m = codes.shape
    owner = np.repeat(np.arange(n), m - 1)
    first = np.tile(np.arange(m - 1), n)[:, None]
    rows = codes[owner]
    swapped = np.where(rows == first, first + 1, np.where(rows == first + 1, first, rows))
    return swapped.astype(np.float64), owner


def all_swaps(codes: Codes) -> tuple[Codes, Ints]:
    """Return, for each permutation, its m (m - 1) / 2 swaps of two elements, and their owners."""
    n, m = codes.shape
    first, second = np.triu_indices(m, 1)
    owner = np.repeat(np.arange(n), len(first))
    rows = codes[owner]
    entry = np.arange(len(rows))
    a, b = np.tile(first, n), np.tile(second, n)
    rows[entry, a], rows[entry, b] = codes[owner, b], codes[owner, a]
    return rows, owner


MAX_ELEMENTS = 64
"""The position matrix of more elements has over 4,096 feature columns."""

_NAIVE_LISTED = 5
"""Most elements for which the naive metric's features are one-hot over all permutations (120 columns)."""

_NAIVE_COLUMNS = 512
"""Number of hashed signs that encode a longer permutation under the naive metric."""

_Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class _Metric:
    """A distance between orders and the features that measure it.

    Attributes:
        distance: Returns the distance between all rows, ``(n, m)`` and ``(k, m)`` -> ``(n, k)``.
        largest: Returns the largest distance between two orders of m elements, m > 1.
        features: Returns columns whose squared Euclidean distance is the distance over its maximum; takes the codes,
            ``(n, m)``, and this maximum.
    """

    distance: Callable[[Codes, Codes], Array]
    largest: Callable[[int], float]
    features: Callable[[Codes, float], Features]


def _naive_features(codes: Codes, _largest: float) -> Features:
    """Return one-hot columns over all orders, or pseudo-random signs that depend on the whole order."""
    n, m = codes.shape
    if m <= _NAIVE_LISTED:
        return distances.one_hot(permutation_ranks(codes), math.factorial(m)) / math.sqrt(2.0)
    key: _Words = np.zeros(n, dtype=np.uint64)
    for column in range(m):
        key = scramble(key + codes[:, column].astype(np.uint64) + np.uint64(1))
    number: _Words = np.arange(_NAIVE_COLUMNS // 64, dtype=np.uint64)
    words = scramble(key[:, None] + number)
    bits = (words[:, :, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    # Two rows differ in about half of the columns, each difference adding 2 / 512 to the squared distance.
    return bits.reshape(n, _NAIVE_COLUMNS).astype(np.float64) * math.sqrt(2.0 / _NAIVE_COLUMNS)


def scramble(key: _Words) -> _Words:
    """Return a one-to-one scrambling of 64-bit words (the finaliser of splitmix64); overflow is meant to wrap."""
    key = key + np.uint64(0x9E3779B97F4A7C15)
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    scrambled: _Words = key ^ (key >> np.uint64(31))
    return scrambled


_METRICS: Mapping[str, _Metric] = {
    "spearman": _Metric(
        distances.spearman,
        lambda m: m * (m * m - 1) / 3,
        lambda codes, largest: codes / math.sqrt(largest),
    ),
    "kendall": _Metric(
        distances.kendall,
        lambda m: m * (m - 1) / 2,
        lambda codes, largest: distances.pair_orders(codes) / math.sqrt(largest),
    ),
    "hamming": _Metric(
        distances.permutation_hamming,
        lambda m: m,
        lambda codes, largest: distances.position_matrix(codes) / math.sqrt(2.0 * largest),
    ),
    "naive": _Metric(distances.naive, lambda m: 1, _naive_features),
}
"""The metrics by name; a further metric needs one entry here and nothing else."""


@final
@dataclass(frozen=True, init=False)
class Permutation(ArrangedParameter):
    """An order of elements; a value is a tuple of all of them, outermost first.

    Its code is one column for each element, in the order of ``elements``: the element's position. The four metrics
    are those of Hellsten et al. 2023, section 4.1; ``distance`` returns the paper's numbers, and the features'
    Euclidean distance is the square root of the number over its maximum, which is what makes a valid kernel.

    Attributes:
        elements: Distinct strings or numbers, at most 64.
        metric: ``spearman`` (squared movements), ``kendall`` (discordant pairs), ``hamming`` (moved elements) or
            ``naive`` (same or not).
        default: Order in the default configuration, or None.

    Raises:
        SpaceError: The list is empty or too long, or an element occurs twice; the metric is unknown; the default is not
            an order of the elements.
    """

    kind = ParameterKind.PERMUTATION

    elements: tuple[Value, ...]
    metric: str = "spearman"
    default: tuple[Value, ...] | None = None
    _lookup: Lookup = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        elements: Iterable[Any],
        metric: str = "spearman",
        default: Sequence[Any] | None = None,
    ) -> None:
        listed = domain_values(elements, "elements")
        if len(listed) > MAX_ELEMENTS:
            raise SpaceError(
                f"a permutation has at most {MAX_ELEMENTS} elements, got {len(listed)}"
            )
        if not isinstance(metric, str) or metric not in _METRICS:
            raise SpaceError(f"metric {metric!r} is unknown; it is one of {', '.join(_METRICS)}")
        vars(self).update(elements=listed, metric=metric, _lookup=Lookup(listed))
        vars(self).update(default=checked_default(self, default))

    @property
    @override
    def width(self) -> int:
        """One code column for each element."""
        return len(self.elements)

    @property
    def code_range(self) -> tuple[float, float]:
        """The first and the last position."""
        return 0.0, len(self.elements) - 1.0

    @property
    def cardinality(self) -> int | float:
        """Number of orders, m! for m elements, as an exact int."""
        return math.factorial(len(self.elements))

    @property
    @override
    def _description(self) -> str:
        return f"an order of {shorten(self.elements)}"

    @override
    def _codes_of(self, value: Sequence[Any]) -> list[int] | None:
        """Return the position of every element, or None if the value is not an order of the elements."""
        positions = [-1] * len(self.elements)
        for position, element in enumerate(value):
            index = self.index(element)
            if index is None or positions[index] >= 0:
                return None
            positions[index] = position
        return None if -1 in positions else positions

    @override
    def decode(self, codes: Codes) -> list[Any]:
        """Return tuples of elements, outermost first."""
        orders = np.argsort(codes, axis=1).tolist()
        return [tuple(self.elements[element] for element in order) for order in orders]

    def legal(self, codes: Codes) -> Mask:
        """Whether each row has every position once."""
        return are_permutations(codes)

    @override
    def sample_uniform(self, n: int, rng: Rng) -> Codes:
        """Return n uniformly drawn orders."""
        rows = np.tile(np.arange(len(self.elements), dtype=np.float64), (n, 1))
        return rng.permuted(rows, axis=1)

    def to_unit(self, codes: Codes) -> Array:
        """Return random keys (Bean 1994): one coordinate for each element, ordered as the elements."""
        return np.asarray((codes + 0.5) / self.width)

    def from_unit(self, points: Array) -> Codes:
        """Return the orders that sort the elements by their coordinates, ``(n, m)`` -> ``(n, m)``."""
        order = np.argsort(points, axis=1, kind="stable")
        return np.argsort(order, axis=1).astype(np.float64)

    def neighbours(self, codes: Codes) -> tuple[Codes, Ints]:
        """Return the swaps of two elements at consecutive positions, ``(m, width)``, and the row of each, ``(m,)``."""
        return adjacent_swaps(codes)

    @property
    def max_distance(self) -> float:
        """The largest distance between two orders: m (m^2 - 1) / 3, m (m - 1) / 2, m or 1 by the metric."""
        m = len(self.elements)
        return float(_METRICS[self.metric].largest(m)) if m > 1 else 0.0

    def distance(self, a: Codes, b: Codes) -> Array:
        """Return the paper's distance between all rows, ``(n, m)`` and ``(k, m)`` -> ``(n, k)``; a squared one."""
        return _METRICS[self.metric].distance(a, b)

    def features(self, codes: Codes) -> Features:
        """Return columns whose squared Euclidean distance is ``distance / max_distance``, ``(n, k)``.

        Positions for Spearman, the order of each pair for Kendall, the position matrix for Hamming. The naive metric
        has an exact embedding only in as many columns as there are orders, so above five elements it has 512 signs
        hashed from the order, whose squared distances are 1 to within a few per cent.
        """
        if len(self.elements) == 1:
            return np.empty((len(codes), 0))
        return _METRICS[self.metric].features(codes, self.max_distance)
