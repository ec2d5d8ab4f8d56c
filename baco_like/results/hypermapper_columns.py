"""The columns of BaCO's and HyperMapper's messages and files.

A row has the parameters in the scenario's order, the objective, whether the configuration ran, and a time stamp. Whole
numbers have no ``.0``, permutations look like ``(0, 1, 2)``, and a failed row may have any number as its objective.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from baco_like.exceptions import ConfigError, SpaceError
from baco_like.parameters.categorical import Categorical
from baco_like.parameters.integer import Integer
from baco_like.parameters.ordinal import Ordinal
from baco_like.parameters.permutation import Permutation
from baco_like.parameters.protocol import Parameter
from baco_like.parameters.real import Real
from baco_like.records.trial import Outcome

Cells = Mapping[str, str]
"""Cells of a row by column name."""

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
        for word, said in ((text, {self.yes: True, self.no: False}), (text.casefold(), self._any)):
            if word in said:
                return said[word]
        raise ValueError(
            f"{self.name} = {text!r:.40} is neither {self.yes!r} nor {self.no!r}; "
            "feasible_output of the scenario has the two words"
        )

    @property
    def _any(self) -> Mapping[str, bool]:
        common = {"true": True, "1": True, "false": False, "0": False}
        return {**common, self.yes.casefold(): True, self.no.casefold(): False}

    def write(self, ran: bool) -> str:
        """Return the word."""
        return self.yes if ran else self.no


@dataclass(frozen=True)
class Layout:
    """The columns of a message or file.

    Attributes:
        parameters: In the order of the columns.
        objective: Name of the objective's column.
        feasibility: The column that says what ran.
        timestamp: Name of the column of time stamps; readers find it in any case.

    Raises:
        SpaceError: Two columns have the same name, or a name or value contains characters with a meaning in CSV.
    """

    parameters: Mapping[str, Parameter]
    objective: str = "Value"
    feasibility: Feasibility = field(default_factory=Feasibility)
    timestamp: str = "Timestamp"

    def __post_init__(self) -> None:
        ours = (self.objective, self.feasibility.name, self.timestamp)
        names = [*self.parameters, *ours]
        for name in names:
            if not _fits(name):
                raise SpaceError(
                    f"the name {name!r} cannot be written to a line of the protocol; leave out commas"
                )
            if names.count(name) > 1:
                raise SpaceError(f"two columns are named {name!r}; rename one of them")
        for name, parameter in self.parameters.items():
            _check_texts(name, parameter)

    def write(self, config: Mapping[str, Any]) -> list[str]:
        """Return the cells of a configuration, in order."""
        return [write_value(one, config[name]) for name, one in self.parameters.items()]

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

        A row that did not run, or whose objective is not a finite number, is a failure. ``extra["reported"]`` keeps the
        objective's cell and ``extra["timestamp"]`` the time stamp, both as text.

        Args:
            trial_id: Id of the trial.
            cells: The row, with the objective.
            stamp: Its time stamp, or an empty text.

        Raises:
            ValueError: The word in the feasibility column is unknown.
        """
        text = cells[self.objective]
        ran = self.feasibility.name not in cells or self.feasibility.read(
            cells[self.feasibility.name]
        )
        extra = {"timestamp": stamp} if stamp else {}
        value = number(text)
        if ran and value is not None:
            return Outcome.success(trial_id, (value,), extra=extra)
        reason = (
            f"{self.objective} = {text!r:.200} is not a finite number"
            if ran
            else f"{self.feasibility.name} = {cells[self.feasibility.name]}"
        )
        return Outcome.failure(trial_id, "runtime", reason, extra={"reported": text, **extra})


def _fits(name: str) -> bool:
    """Return whether a name can be a cell of a line, and has no blanks around it."""
    return (
        bool(name) and name == name.strip() and not set(name) & set(",\r\n") and name[0] not in '("'
    )


def _check_texts(name: str, parameter: Parameter) -> None:
    """Refuse values that a reader could not distinguish or that break a line."""
    if isinstance(parameter, Permutation):
        values: tuple[Any, ...] = parameter.elements
    elif isinstance(parameter, (Categorical, Ordinal)):
        values = parameter.values
    else:
        return
    texts = Counter(str(value) for value in values)
    for text, times in texts.items():
        if text != text.strip() or not text or set(text) & set(',()"\r\n'):
            raise SpaceError(
                f"parameter {name!r}: the value {text!r} cannot be written to a line of the protocol; "
                "leave out commas, brackets, quotes and line ends"
            )
        if times > 1:
            raise SpaceError(f"parameter {name!r}: two values are written {text!r}; rename one")


def number(text: str) -> float | None:
    """Return the finite number in a text, or None."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) and "_" not in text else None


def write_value(parameter: Parameter, value: Any) -> str:
    """Return a value as BaCO and HyperMapper write it."""
    if isinstance(parameter, Permutation):
        inner = ", ".join(map(str, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(parameter, Real):
        return repr(float(value))
    if isinstance(parameter, Ordinal) and not isinstance(value, str):
        whole = all(float(one).is_integer() for one in parameter.values)
        return str(int(value)) if whole else repr(float(value))
    return str(value)


def read_value(parameter: Parameter, text: str) -> Any:
    """Return the parameter's value in a cell.

    ``16.0`` is the whole number 16. A number may be off by the error of single precision, in which BaCO keeps its
    data: it is then the nearest value of an ordinal, and a real just outside its bounds is the bound.

    Raises:
        ConfigError: The cell is not a value of the parameter.
    """
    if isinstance(parameter, Permutation):
        return _order(parameter, text)
    if isinstance(parameter, Real):
        return _within(parameter, _needed_number(text))
    if isinstance(parameter, Integer):
        return parameter.decode(parameter.encode([_whole(text)]))[0]
    if isinstance(parameter, Ordinal) and not isinstance(parameter.values[0], str):
        return _nearest(parameter, text)
    listed = parameter.values if isinstance(parameter, (Categorical, Ordinal)) else ()
    for value in listed:
        if str(value) == text:
            return value
    raise ConfigError(f"{text!r:.60} is not one of its values")


def _needed_number(text: str) -> float:
    found = number(text)
    if found is None:
        raise ConfigError(f"{text!r:.60} is not a finite number")
    return found


def _whole(text: str) -> int | float:
    found = _needed_number(text)
    try:
        return int(text)
    except ValueError:
        return found


def _within(parameter: Real, value: float) -> float:
    slack = _SINGLE * max(abs(parameter.low), abs(parameter.high))
    if parameter.low - slack <= value <= parameter.high + slack:
        return min(max(value, parameter.low), parameter.high)
    raise ConfigError(f"{value!r} is not in [{parameter.low!r}, {parameter.high!r}]")


def _nearest(parameter: Ordinal, text: str) -> Any:
    exact = _whole(text)
    if parameter.contains(exact):
        return parameter.decode(parameter.encode([exact]))[0]
    numbers = [value for value in parameter.values if not isinstance(value, str)]
    nearest = min(numbers, key=lambda value: abs(value - exact))
    if not math.isclose(nearest, exact, rel_tol=_SINGLE):
        raise ConfigError(f"{text!r:.60} is not one of its values")
    return nearest


def _order(parameter: Permutation, text: str) -> tuple[Any, ...]:
    known = {str(element): element for element in parameter.elements}
    inner = text.strip().strip("()[]").rstrip(",")
    told = tuple(known.get(part.strip()) for part in inner.split(","))
    if None in told or not parameter.contains(told):
        raise ConfigError(f"{text!r:.60} is not an order of its elements")
    return told
