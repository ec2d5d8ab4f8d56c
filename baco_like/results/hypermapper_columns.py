"""The columns of BaCO's and HyperMapper's messages and files.

A row has the parameters in the scenario's order, the objectives, whether the configuration ran, and a time stamp. Whole
numbers have no ``.0``, permutations look like ``(0, 1, 2)``, and a failed row may have any numbers as its objectives.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from baco_like.exceptions import ConfigError, SpaceError
from baco_like.parameters import (
    Categorical,
    Integer,
    Ordinal,
    Parameter,
    Permutation,
    Real,
    SteppedReal,
    is_sequence,
)
from baco_like.parameters.bases import first_own_value
from baco_like.records.reading import number_in
from baco_like.records.trial import Outcome

Cells = Mapping[str, str]
"""Cells of a row by column name."""

_MAX_OBJECTIVE = 1000
"""Most characters of the cell of an objective; the journal and every history keep the cells of failed rows."""

_SINGLE = 1e-6
"""Relative error of numbers in single precision, in which BaCO keeps its data."""


@dataclass(frozen=True)
class Feasibility:
    """The column that says whether a configuration ran.

    Attributes:
        name: Of the column.
        yes: The word for a configuration that ran.
        no: The word for a configuration that did not run.
        required: Whether every reply and every file must have the column.
    """

    name: str = "Valid"
    yes: str = "True"
    no: str = "False"
    required: bool = False

    def read(self, text: str) -> bool:
        """Return whether the configuration ran: by the two words in any case, or by true, 1, false and 0.

        Raises:
            ValueError: The word is unknown.
        """
        words = {"true": True, "1": True, "false": False, "0": False}
        words |= {self.yes.casefold(): True, self.no.casefold(): False}
        ran = {self.yes: True, self.no: False}.get(text, words.get(text.casefold()))
        if ran is None:
            raise ValueError(
                f"{self.name} = {text!r:.40} is neither {self.yes!r} nor {self.no!r}; "
                "feasible_output of the scenario has the two words"
            )
        return ran


@dataclass(frozen=True)
class Layout:
    """The columns of a message or file.

    Attributes:
        parameters: In the order of the columns.
        objective: Name of the objective's column.
        feasibility: The column that says what ran.
        timestamp: Name of the column of time stamps; readers find it in any case.
        further: Names of the columns of further objectives, which follow the first one.
        conditional: Parameters that a configuration may lack; their cell is then empty.

    Raises:
        SpaceError: Two columns have the same name, or a name or value contains characters with a meaning in CSV; UTF-8
            cannot encode a name.
    """

    parameters: Mapping[str, Parameter]
    objective: str = "Value"
    feasibility: Feasibility = field(default_factory=Feasibility)
    timestamp: str = "Timestamp"
    further: tuple[str, ...] = ()
    conditional: Collection[str] = ()

    def __post_init__(self) -> None:
        names = [*self.parameters, *self.objectives, self.feasibility.name, self.timestamp]
        for name in names:
            if (
                not name
                or name != name.strip()
                or set(name) & set(",\r\n")
                or name[0] in '("'
                or not _is_encodable(name)
            ):
                raise SpaceError(
                    f"the name {name!r} cannot be written to a line of the protocol; leave out commas"
                )
            if names.count(name) > 1:
                raise SpaceError(f"two columns are named {name!r}; rename one of them")
        for name, parameter in self.parameters.items():
            _check_texts(name, parameter)

    @property
    def objectives(self) -> tuple[str, ...]:
        """Names of the columns of all objectives."""
        return (self.objective, *self.further)

    def write(self, config: Mapping[str, Any]) -> list[str]:
        """Return the cells of a configuration, in order."""
        return [
            "" if name not in config and name in self.conditional else write_value(p, config[name])
            for name, p in self.parameters.items()
        ]

    def read(self, cells: Cells) -> dict[str, Any]:
        """Return the configuration of a row.

        Raises:
            ConfigError: A column is missing, or its cell is not a value of the parameter.
        """
        config = {}
        for name, parameter in self.parameters.items():
            if name not in cells:
                raise ConfigError(f"there is no column {name!r}")
            try:
                config[name] = read_value(parameter, cells[name])
            except ConfigError as error:
                raise ConfigError(f"parameter {name!r}: {error}") from None
        return config

    def outcome(self, trial_id: int, cells: Cells, stamp: str) -> Outcome:
        """Return the outcome in a row.

        A row that did not run, or with an objective that is not a finite number, is a failure. ``extra["reported"]``
        keeps the objective's cell (with several objectives a list of their cells) and ``extra["timestamp"]`` the time
        stamp, all as text.

        Args:
            trial_id: Id of the trial.
            cells: The row, with the objectives.
            stamp: Its time stamp, or an empty text.

        Raises:
            ValueError: The word in the feasibility column is unknown, or an objective's cell is too long.
        """
        texts, ran = [cells[name] for name in self.objectives], cells.get(self.feasibility.name)
        for name, text in zip(self.objectives, texts, strict=True):
            if len(text) > _MAX_OBJECTIVE:
                raise ValueError(f"{name} = {text[:20]!r}... has {len(text)} characters")
        extra: dict[str, Any] = {"timestamp": stamp} if stamp else {}
        values = {name: number(text) for name, text in zip(self.objectives, texts, strict=True)}
        known = {name: value for name, value in values.items() if value is not None}
        if ran is not None and not self.feasibility.read(ran):
            reason = f"{self.feasibility.name} = {ran}"
        elif len(known) < len(values):
            name = next(name for name in values if name not in known)
            reason = f"{name} = {cells[name]!r:.200} is not a finite number"
        else:
            value = known.pop(self.objective)
            return Outcome.success(trial_id, (value,), metrics=known, extra=extra)
        reported = texts if self.further else texts[0]
        return Outcome.failure(trial_id, "runtime", reason, extra={"reported": reported, **extra})


def _check_texts(name: str, parameter: Parameter) -> None:
    """Refuse values that a reader could not distinguish or that break a line."""
    values: tuple[Any, ...] = ()
    if is_sequence(parameter):
        raise SpaceError(
            f"parameter {name!r}: the protocol has no sequences; use the journal or the table of `baco-like export`"
        )
    if isinstance(parameter, Permutation):
        values = parameter.elements
    elif isinstance(parameter, Categorical | Ordinal):
        values = parameter.values
    for text, times in Counter("" if value is None else str(value) for value in values).items():
        if text != text.strip() or not text or set(text) & set(',()"\r\n'):
            raise SpaceError(
                f"parameter {name!r}: the value {text!r} cannot be written to a line of the protocol; "
                "leave out commas, brackets, quotes and line ends"
            )
        if times > 1:
            raise SpaceError(f"parameter {name!r}: two values are written {text!r}; rename one")


def _is_encodable(text: str) -> bool:
    """Return whether UTF-8 can encode a text; JSON may contain halves of characters (surrogates)."""
    return text.encode("utf-8", "ignore").decode("utf-8") == text


def number(text: str) -> float | None:
    """Return the finite number in a text, or None; digits joined by underscores are text."""
    return None if "_" in text else number_in(text)


def write_value(parameter: Parameter, value: Any) -> str:
    """Return a value as BaCO and HyperMapper write it."""
    if isinstance(parameter, Permutation):
        inner = ", ".join(map(str, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(parameter, Real | SteppedReal):
        return repr(float(value))
    if isinstance(parameter, Ordinal) and not isinstance(value, str):
        whole = all(float(listed).is_integer() for listed in parameter.values)
        return str(int(value)) if whole else repr(float(value))
    return str(value)


def read_value(parameter: Parameter, text: str) -> Any:
    """Return the parameter's value in a cell.

    ``16.0`` is the whole number 16. A number may be off by the error of single precision, in which BaCO keeps its
    data: it is then the nearest value of an ordinal, and a real just outside its bounds is the bound.

    Raises:
        ConfigError: The cell is not a value of the parameter.
    """
    match parameter:
        case Permutation():
            return _read_order(parameter, text)
        case Real(low=low, high=high) | SteppedReal(low=low, high=high):
            real = float(_read_number(text))
            slack = _SINGLE * max(abs(low), abs(high))
            if not low - slack <= real <= high + slack:
                raise ConfigError(f"{real!r} is not in [{low!r}, {high!r}]")
            real = min(max(real, low), high)
            return real if isinstance(parameter, Real) else _nearest_step(parameter, real)
        case Integer():
            return parameter.decode(parameter.encode([_read_number(text)]))[0]
        case Ordinal() if not isinstance(parameter.values[0], str):
            return _nearest(parameter, text)
        case Categorical() | Ordinal():
            for value in parameter.values:
                if str(value) == text:
                    return value
    raise ConfigError(f"{text!r:.60} is not one of its values")


def _read_number(text: str) -> int | float:
    decimal = number(text)
    if decimal is None:
        raise ConfigError(f"{text!r:.60} is not a finite number")
    try:
        return int(text)
    except ValueError:
        return decimal


def _nearest(parameter: Ordinal, text: str) -> Any:
    exact = _read_number(text)
    own = first_own_value(parameter, [exact])
    if own is not None:
        return own
    numbers = [value for value in parameter.values if not isinstance(value, str)]
    nearest = min(numbers, key=lambda value: abs(value - exact))
    if not math.isclose(nearest, exact, rel_tol=_SINGLE):
        raise ConfigError(f"{text!r:.60} is not one of its values")
    return nearest


def _nearest_step(parameter: SteppedReal, real: float) -> float:
    (near,) = parameter.decode(np.rint([[(real - parameter.low) / parameter.step]]))
    if not math.isclose(near, real, rel_tol=_SINGLE, abs_tol=_SINGLE * parameter.step):
        raise ConfigError(f"{real!r} is not one of its values")
    return float(near)


def _read_order(parameter: Permutation, text: str) -> tuple[Any, ...]:
    elements = {str(element): element for element in parameter.elements}
    inner = text.strip().strip("()[]").rstrip(",")
    order = tuple(elements.get(part.strip()) for part in inner.split(","))
    if None in order or not parameter.contains(order):
        raise ConfigError(f"{text!r:.60} is not an order of its elements")
    return order
