"""Base classes of the parameter types; `ListedParameter` is also the base of most custom types."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Codes, Column, Ints, Mask, Rng
from baco_like.exceptions import ConfigError, SpaceError
from baco_like.parameters import priors
from baco_like.parameters.protocol import Parameter, ParameterKind
from baco_like.parameters.values import (
    ColumnKind,
    Extent,
    Lookup,
    Value,
    extent_of,
    indices,
    is_number,
    shorten,
    text_readings,
)

_DTYPES: Mapping[ColumnKind, type] = {
    ColumnKind.BOOL: np.bool_,
    ColumnKind.INT: np.int64,
    ColumnKind.FLOAT: np.float64,
    ColumnKind.NUMBER: np.float64,
}
"""Types of the arrays of listed values; those of other kinds hold Python objects."""

TYPE_NAMES: dict[Callable[..., Any], str] = {}
"""Name of each built-in or registered type; `baco_like.parameters.registry` fills it."""


class ParameterDefaults:
    """Members of parameters without intervals whose constructor arguments describe them completely."""

    def value_from_text(self: Parameter, text: Any) -> Any | None:
        """Return the value that a cell of a table or a JSON value means, or None."""
        return first_own_value(self, text_readings(text))

    def interval_lengths(self, codes: Codes) -> Array | None:
        """Return None: the values have no intervals, or all of the same length."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON description: the registered name of the type and the arguments of the constructor.

        Raises:
            SpaceError: The type is not registered, so that no reader would know its name.
        """
        own_type = type(self)
        if own_type not in TYPE_NAMES:
            raise SpaceError(
                f"the parameter type {own_type.__name__} is not registered; "
                f"call register_parameter('a_name', {own_type.__name__}) first, or define its to_dict"
            )
        arguments = inspect.signature(own_type).parameters
        described = {name: priors.to_json(getattr(self, name)) for name in arguments}
        return {"type": TYPE_NAMES[own_type], **described}


def first_own_value(parameter: Parameter, readings: Iterable[Any]) -> Any | None:
    """Return the parameter's own value of the first reading that it contains, or None."""
    for reading in readings:
        if parameter.contains(reading):
            return parameter.decode(parameter.encode([reading]))[0]
    return None


def checked_default(parameter: Parameter, default: Any | None) -> Any | None:
    """Return a default as the parameter's own value; None stays None.

    Args:
        parameter: Its domain must be complete.
        default: As the user gave it.

    Raises:
        SpaceError: The default is outside the domain.
    """
    try:
        return None if default is None else parameter.decode(parameter.encode([default]))[0]
    except ConfigError as error:
        raise SpaceError(f"default {error}") from None


class IndexedParameter(ParameterDefaults):
    """A parameter whose codes are ``range(cardinality)``.

    Attributes:
        kind: `ParameterKind.ORDERED` or `ParameterKind.UNORDERED`.
        default: Value in the default configuration, or None.
        prior: One weight for each value, or None.
    """

    kind: ParameterKind
    width = 1
    default: Any | None = None
    prior: Any = None

    @property
    def cardinality(self) -> int:
        """Number of values."""
        raise NotImplementedError

    @property
    def code_range(self) -> tuple[float, float]:
        """The first and the last code."""
        return 0.0, self.cardinality - 1.0

    def legal(self, codes: Codes) -> Mask:
        """Whether each code is a whole number of the range."""
        column = codes[:, 0]
        within = (column >= 0) & (column < self.cardinality)
        return np.asarray(within & (column == np.floor(column)))

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n codes from the prior, by default as `sample_uniform`."""
        if self.prior is None:
            return self.sample_uniform(n, rng)
        return priors.sample_weighted(self.prior, n, rng).astype(np.float64)[:, None]

    def sample_uniform(self, n: int, rng: Rng) -> Codes:
        """Return n uniformly drawn codes."""
        return rng.integers(0, self.cardinality, size=(n, 1)).astype(np.float64)

    def log_density(self, codes: Codes) -> Array:
        """Return the log ratio of the prior's probability to the uniform one, ``(n, 1)`` -> ``(n,)``."""
        if self.prior is None:
            return np.zeros(len(codes))
        return priors.weights_log_density(self.prior)[indices(codes)]

    def to_unit(self, codes: Codes) -> Array:
        """Return the middles of the values' intervals, ``(n, 1)`` -> ``(n, 1)``: all have the same length."""
        return np.asarray((codes + 0.5) / self.cardinality)

    def from_unit(self, points: Array) -> Codes:
        """Return the codes of the intervals that contain the points, ``(n, 1)`` -> ``(n, 1)``."""
        return np.minimum(np.floor(points * self.cardinality), self.cardinality - 1.0)

    def neighbours(self, codes: Codes) -> tuple[Codes, Ints]:
        """Return the codes one below and one above, or all others if unordered, and the row each belongs to."""
        count, rows = self.cardinality, np.arange(len(codes))
        if self.kind is ParameterKind.ORDERED:
            others = (codes + np.array([-1.0, 1.0])).reshape(-1, 1)
            owner = np.repeat(rows, 2)
            kept = ((others >= 0) & (others < count))[:, 0]
        else:
            others = np.tile(np.arange(count, dtype=np.float64), len(codes))[:, None]
            owner = np.repeat(rows, count)
            kept = (others != codes[owner])[:, 0]
        return others[kept], owner[kept]


class ListedParameter(IndexedParameter):
    """A parameter whose code is the index in its list of values.

    Subclasses set `kind`, `values` and, if they have them, `default` and `prior`; they define ``distance`` and
    ``features``. The inherited ``to_dict`` suits a registered type whose attributes have the names of the constructor's
    arguments; other types define their own.

    Attributes:
        kind: `ParameterKind.ORDERED` or `ParameterKind.UNORDERED`.
        values: Distinct values in the order of the codes.
        default: Value in the default configuration, or None.
        prior: One weight for each value, or None.
    """

    values: tuple[Any, ...]

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(self.values)

    @cached_property
    def _column(self) -> Column:
        dtype = _DTYPES.get(self.extent.kind, object)
        return np.fromiter(self.values, dtype, len(self.values))

    @property
    @override
    def cardinality(self) -> int:
        """Number of values."""
        return len(self.values)

    @cached_property
    def extent(self) -> Extent:
        """Type and bounds of `column`."""
        return extent_of(self.values)

    @override
    def value_from_text(self, text: Any) -> Any | None:
        """Return the value that a cell of a table or a JSON value means, or None.

        A number may have been the text ``1.10`` in the table: it means the only text of this number, if it has one.
        """
        found = next(filter(self.contains, text_readings(text)), None)
        if is_number(text) and isinstance(found, str | None):
            texts = [value for value in self.values if isinstance(value, str)]
            alike = [t for t in texts if next(filter(is_number, text_readings(t)), None) == text]
            found = alike[0] if len(alike) == 1 else None
        return None if found is None else self.decode(self.encode([found]))[0]

    def contains(self, value: Any) -> bool:
        """Whether it is one of the values; ``2.0`` is accepted for ``2``, ``True`` is not accepted for ``1``."""
        return self._lookup.find(value) is not None

    def encode(self, values: Sequence[Any]) -> Codes:
        """Return indices, ``(n, 1)``.

        Raises:
            ConfigError: A value is not in the domain.
        """
        codes = self._lookup.find_all(values)
        if None in codes:
            raise ConfigError(f"{values[codes.index(None)]!r} is not one of {shorten(self.values)}")
        return np.array(codes, dtype=np.float64)[:, None]

    def decode(self, codes: Codes) -> list[Any]:
        """Return the values at these indices."""
        return [self.values[index] for index in indices(codes)]

    def column(self, codes: Codes) -> Column:
        """Return the values as one array, ``(n, 1)`` -> ``(n,)``: bools, ints, floats (or both), or objects."""
        return self._column[indices(codes)]


class ArrangedParameter(ParameterDefaults):
    """A parameter whose values are tuples of elements: permutations and sequences.

    Subclasses define ``_codes_of`` and ``_description``.

    Attributes:
        elements: Distinct strings or numbers.
        default: Value in the default configuration, or None.
    """

    values = None

    elements: tuple[Value, ...]
    default: tuple[Value, ...] | None
    _lookup: Lookup

    @property
    def width(self) -> int:
        """Number of code columns."""
        raise NotImplementedError

    @property
    def _description(self) -> str:
        """What a value is, for messages."""
        raise NotImplementedError

    def _codes_of(self, value: Sequence[Any]) -> list[int] | None:
        """Return the first codes of a row, which ends in -1, or None if it is not a value."""
        raise NotImplementedError

    @property
    def extent(self) -> Extent:
        """Objects: constraints read places and elements, never the whole value."""
        return Extent(ColumnKind.OBJECT)

    def index(self, element: Any) -> int | None:
        """Return the number of an element among the elements, or None if it is unknown."""
        return self._lookup.find(element)

    @override
    def value_from_text(self, text: Any) -> Any | None:
        """Return the value that a text such as ``i,j,k`` or ``('i', 'j', 'k')``, or a list, means, or None."""
        if not isinstance(text, str):
            listed = [tuple(text)] if isinstance(text, Sequence) else []
            texts = [str(part) for part in text] if listed else None
        else:
            text, listed = text.strip(), []
            if text[:1] + text[-1:] in ("()", "[]"):  # Python writes a comma after an only element
                text = text[1:-1].rstrip().removesuffix(",")
            texts = self._split(text)
        by_text = {str(element): element for element in self.elements}
        if texts is not None and all(part in by_text for part in texts):
            listed.append(tuple(by_text[part] for part in texts))
        own = (value for value in listed if self.contains(value))
        return next((self.decode(self.encode([value]))[0] for value in own), None)

    def _split(self, text: str) -> list[str] | None:
        """Return the texts of the elements that commas separate, also of elements with commas; None if unknown."""
        known = set(map(str, self.elements))
        found: list[str] = []
        part = ""
        for piece in text.split(",") if text else ():
            part = f"{part},{piece}" if part else piece
            if (element := part.strip().strip("'\"")) in known:
                found.append(element)
                part = ""
        return None if part else found

    def _read(self, value: Any) -> list[int] | None:
        if isinstance(value, np.ndarray):
            value = value.tolist()
        return self._codes_of(value) if isinstance(value, tuple | list) else None

    def contains(self, value: Any) -> bool:
        """Whether it is a tuple or list of elements that the parameter allows."""
        return self._read(value) is not None

    def encode(self, values: Sequence[Any]) -> Codes:
        """Return the codes of values, ``(n, m)``.

        Raises:
            ConfigError: A value is not in the domain.
        """
        codes = np.full((len(values), self.width), -1.0)
        for row, value in enumerate(values):
            own = self._read(value)
            if own is None:
                raise ConfigError(f"{value!r:.200} is not {self._description}")
            codes[row, : len(own)] = own
        return codes

    def column(self, codes: Codes) -> Column:
        """Return the codes as integers, ``(n, m)``."""
        return codes.astype(np.int64)

    def decode(self, codes: Codes) -> list[Any]:
        """Return tuples of elements."""
        raise NotImplementedError

    def sample_uniform(self, n: int, rng: Rng) -> Codes:
        """Return n random values."""
        raise NotImplementedError

    def sample(self, n: int, rng: Rng) -> Codes:
        """Return n values as `sample_uniform` does: there is no prior."""
        return self.sample_uniform(n, rng)

    def log_density(self, codes: Codes) -> Array:
        """Return zeros, ``(n, m)`` -> ``(n,)``: there is no prior."""
        return np.zeros(len(codes))
