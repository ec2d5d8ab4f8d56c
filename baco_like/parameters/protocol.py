"""The parameter protocol: one dimension of a space in its three representations.

A *value* is plain Python (int, float, str, bool, tuple): users write it and evaluators receive it. A *code* is a row
of float64 columns: the number itself for a real, the index of the value for integers, ordinals and categoricals, the
position of every element for a permutation. *Features* are the columns that a model sees.

To add a parameter type, write a class with these members (most types can subclass
`baco_like.parameters.ListedParameter`), call `register_parameter` for it, and run `baco_like.testing.parameters`
on it; ``examples/parameter_type.py`` is a complete one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np

from baco_like._typing import Array, Codes, Column, Features, Ints, Mask, Rng
from baco_like.parameters.values import Extent, Value, is_number


class ParameterKind(Enum):
    """How the values of a parameter are related; algorithms choose their moves by it."""

    CONTINUOUS = "continuous"
    """Every number of an interval; the parameter is a `ContinuousParameter`."""
    ORDERED = "ordered"
    """Neighbouring codes are similar values."""
    UNORDERED = "unordered"
    """Any two values are equally far apart."""
    PERMUTATION = "permutation"
    """An order of elements; the parameter is a `PermutationParameter`."""
    SEQUENCE = "sequence"
    """A list of elements of any length; the parameter is a `SequenceParameter`."""


@runtime_checkable
class Parameter(Protocol):
    """One dimension of a space; implementations are final frozen dataclasses that do not know their own name."""

    @property
    def kind(self) -> ParameterKind:
        """How the values are related."""

    @property
    def width(self) -> int:
        """Number of code columns: 1, or m for a permutation of m elements or a sequence of at most m.

        A custom type may have several.

        `kind` decides how algorithms change the values, whatever the width.
        """

    @property
    def cardinality(self) -> int | float:
        """Number of values: an exact int, or ``inf`` for a real that is not a constant."""

    @property
    def values(self) -> Sequence[Any] | None:
        """The values in the order of their codes, or None if the parameter is not defined by a list of values.

        With several code columns, except in permutations, only listed values are counted, and constraints
        that read the parameter prune them before draws; without a list the draws are tested.
        """

    @property
    def default(self) -> Any | None:
        """Value in the default configuration, or None."""

    @property
    def code_range(self) -> tuple[float, float]:
        """The smallest and the largest number that occurs in a code column."""

    @property
    def extent(self) -> Extent:
        """Type and bounds of the array that `column` returns; known constraints are compiled for it."""

    def contains(self, value: Any) -> bool:
        """Whether ``value`` is one of the values, type included (True is not 1)."""

    def encode(self, values: Sequence[Any]) -> Codes:
        """Return codes, ``(n, width)``.

        Raises:
            ConfigError: A value is not in the domain; the message names the value.
        """

    def decode(self, codes: Codes) -> list[Any]:
        """Return n plain Python values; the inverse of `encode`."""

    def value_from_text(self, text: Any) -> Any | None:
        """Return the value that a cell of a table or a JSON value means, or None if it is not in the domain.

        ``"16"``, ``"16.0"`` and ``16.0`` are read as the integer 16, ``"true"`` as True, ``"i,j,k"`` as an order or a
        sequence.
        """

    def column(self, codes: Codes) -> Column:
        """Return the array that known constraints read: values ``(n,)``, or ``(n, m)`` for orders and sequences."""

    def legal(self, codes: Codes) -> Mask:
        """Whether each row of codes, ``(n, width)``, is the code of a value."""

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n codes drawn from the prior, ``(n, width)``; without a prior as `sample_uniform`."""

    def sample_uniform(self, n: int, rng: Rng) -> Codes:
        """Return n codes drawn uniformly on the parameter's scale, ``(n, width)``; the prior is ignored."""

    def log_density(self, codes: Codes) -> Array:
        """Return the log ratio of the prior's density to the uniform density, ``(n, width)`` -> ``(n,)``."""

    def to_unit(self, codes: Codes) -> Array:
        """Return coordinates in [0, 1] for legal codes, ``(n, width)`` -> ``(n, width)``.

        A number has its position on the parameter's scale; each of n listed values has the middle of its interval.
        """

    def from_unit(self, points: Array) -> Codes:
        """Return the codes at coordinates in [0, 1], ``(n, width)`` -> ``(n, width)``; `to_unit` up to rounding."""

    def interval_lengths(self, codes: Codes) -> Array | None:
        """Return the relative lengths of the values' intervals on the unit scale, ``(n, 1)`` -> ``(n,)``.

        None if all values have intervals of the same length.
        """

    def neighbours(self, codes: Codes) -> tuple[Codes, Ints]:
        """Return the values next to each of n legal codes, ``(m, width)``, and the row each belongs to, ``(m,)``.

        They are the previous and the next value (ordered), all other values (unordered), the swaps of two elements
        at consecutive positions (permutation), or all sequences after one move; continuous parameters have no
        neighbours. Rows increase. Searches find those of one code, which follow from the kind, in
        `baco_like.spaces.neighbourhoods.single_change`, and call this method for wider codes only.
        """

    def distance(self, a: Codes, b: Codes) -> Array:
        """Return the BaCO paper's distance between all rows, ``(n, width)`` and ``(m, width)`` -> ``(n, m)``."""

    def features(self, codes: Codes) -> Features:
        """Return ``(n, k)`` columns whose Euclidean distance is the scaled distance (at most 1).

        For the permutation semimetrics it is the square root of the scaled distance. A constant has no columns.
        """

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON description: the registered ``type`` and the arguments of the constructor."""


@runtime_checkable
class ContinuousParameter(Parameter, Protocol):
    """A parameter of kind `ParameterKind.CONTINUOUS`: every number between two bounds; its code is the number."""

    def narrowed(self, low: float, high: float) -> Parameter:
        """Return the parameter between two closer bounds, without default and prior."""


@runtime_checkable
class PermutationParameter(Parameter, Protocol):
    """A parameter of kind `ParameterKind.PERMUTATION`: orders of elements; a code is the position of each element."""

    @property
    def elements(self) -> tuple[Value, ...]:
        """The distinct elements, in the order of the code columns."""

    def index(self, element: Any) -> int | None:
        """Return the number of an element among the elements, or None if it is unknown."""


@runtime_checkable
class SequenceParameter(Parameter, Protocol):
    """A parameter of kind `ParameterKind.SEQUENCE`: lists of elements; a code is the element at each place, then -1."""

    @property
    def elements(self) -> tuple[Value, ...]:
        """The distinct elements, in the order of their codes."""

    @property
    def min_length(self) -> int:
        """Fewest elements of a value; `width` is the greatest number."""

    @property
    def distinct(self) -> bool:
        """Whether a value has each element at most once."""

    @property
    def ordered(self) -> bool:
        """Whether the order of the elements matters; else they are distinct, and the codes of a value increase."""

    def index(self, element: Any) -> int | None:
        """Return the code of an element, or None if it is unknown."""

    def sample_long(self, shares: Array, rng: Rng) -> Codes:
        """Return random sequences whose lengths are these shares, ``(n,)``, of the way from half to all of it."""

    def change(self, codes: Codes, rng: Rng) -> Codes:
        """Return sequences after one random move, ``(n, width)``."""

    def cross(self, keeping: Codes, filling: Codes, rng: Rng) -> Codes:
        """Return children that begin as one sequence and end as another, ``(n, width)``."""

    def nearest(self, codes: Codes, rng: Rng) -> Codes:
        """Return legal sequences close to rows of any numbers, ``(n, width)``."""


def listed_values(parameter: Parameter) -> Sequence[Any] | None:
    """Return what constraints compare with: the elements of a permutation or sequence, or the values, if listed."""
    if is_permutation(parameter) or is_sequence(parameter):
        return parameter.elements
    return parameter.values


def nearest_number(parameter: Parameter, number: float) -> Any:
    """Return the number of a scalar parameter that is nearest to another one; None if it has no numbers.

    The nearest one has the ratio nearest to 1 if all are positive.
    """
    values = parameter.values or parameter.decode(np.array(parameter.code_range)[:, None])
    own = [value for value in values if is_number(value) and parameter.contains(value)]
    if not own:
        return None
    # Far beyond the ends, rounding would make all numbers equally near; and infinity cannot be rounded.
    number = min(max(number, min(own)), max(own))
    legal = [*own, *filter(parameter.contains, (round(number), number))]
    if number > 0 and all(value > 0 for value in legal):
        return min(legal, key=lambda v: abs(math.log(v) - math.log(number)))
    return min(legal, key=lambda v: abs(v - number))


def is_continuous(parameter: Parameter | None) -> TypeGuard[ContinuousParameter]:
    """Whether a parameter is one continuous number."""
    if parameter is None or parameter.width > 1:
        return False
    return parameter.kind is ParameterKind.CONTINUOUS


def is_permutation(parameter: Parameter | None) -> TypeGuard[PermutationParameter]:
    """Whether a parameter is a permutation."""
    return parameter is not None and parameter.kind is ParameterKind.PERMUTATION


def is_sequence(parameter: Parameter | None) -> TypeGuard[SequenceParameter]:
    """Whether a parameter is a sequence."""
    return parameter is not None and parameter.kind is ParameterKind.SEQUENCE
