"""The parameter protocol: one dimension of a space in its three representations.

*Value* is what users write and evaluators get (plain Python: int, float, str, bool, tuple). *Code* is a row of
float64 columns: the number itself for a real, the index of the value for integer, ordinal and categorical, the
position of every element for a permutation. *Feature* is what a model sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from baco_like._typing import Array, Codes, Column, Features, Mask, Rng


@runtime_checkable
class Parameter(Protocol):
    """One dimension; every implementation is a final frozen dataclass without its name (the space knows it)."""

    @property
    def width(self) -> int:
        """Number of code columns: 1, or m for a permutation of m elements."""

    @property
    def cardinality(self) -> int | float:
        """Number of values: an exact int, or ``inf`` for a real that is not a constant."""

    @property
    def default(self) -> Any | None:
        """The user's default value, or None."""

    def contains(self, value: Any) -> bool:
        """Whether ``value`` is one of the values, type included (True is not 1)."""

    def encode(self, values: Sequence[Any]) -> Codes:
        """Return codes, ``(n, width)``.

        Raises:
            ConfigError: A value is not in the domain; the message names it.
        """

    def decode(self, codes: Codes) -> list[Any]:
        """Return n plain Python values; the inverse of `encode`."""

    def column(self, codes: Codes) -> Column:
        """Return values as one array for constraints: ``(n,)``, or positions ``(n, m)`` for a permutation."""

    def legal(self, codes: Codes) -> Mask:
        """Whether each row of codes, ``(n, width)``, stands for a value."""

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n codes drawn from the prior (uniform on the parameter's scale by default)."""

    def log_density(self, codes: Codes) -> Array:
        """Return log of the prior's density over that of no prior, ``(n, width)`` -> ``(n,)``."""

    def distance(self, a: Codes, b: Codes) -> Array:
        """Return the paper's distance between all rows, ``(n, width)`` and ``(m, width)`` -> ``(n, m)``."""

    def features(self, codes: Codes) -> Features:
        """Return ``(n, k)`` columns whose Euclidean distance is the scaled distance (at most 1).

        For the permutation semimetrics it is the square root of the scaled distance. A constant has no columns.
        """

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON description; `spaces.formats.native.parameter_from_dict` is the inverse."""
