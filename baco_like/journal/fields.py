"""Types and ranges of the fields of events.

A checksum shows that a line is what was written. It does not show that a run has written it: programs and people edit
journals and compute the checksum again. Therefore every field that a reader uses is checked here, before an event takes
effect and before it is written. Unknown fields are ignored.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from baco_like.exceptions import TrialError
from baco_like.records.trial import AFTER_SEARCH, CANDIDATE, CONTROL, PROPOSED

_LARGEST = sys.float_info.max


class Field(NamedTuple):
    """The rule of one field.

    Attributes:
        is_valid: Whether a JSON value is allowed.
        expected: The allowed values in words.
        required: Whether the field must be present.
    """

    is_valid: Callable[[Any], bool]
    expected: str
    required: bool = True

    def optional(self) -> Field:
        """Return the same rule for a field that may be missing."""
        return self._replace(required=False)


def is_number(value: Any) -> bool:
    """Whether a JSON value is a number within the range of floats; bools are rejected."""
    return type(value) in (float, int) and -_LARGEST <= value <= _LARGEST


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _list_of(is_valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(is_valid, value))


def _object_of(is_valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(is_valid, value.values()))


def _one_of(*words: str) -> Field:
    return Field(
        lambda value: isinstance(value, str) and value in words,
        f"one of {', '.join(map(repr, words))}",
    )


def _is_lease(value: Any) -> bool:
    if not isinstance(value, dict) or not _is_duration(value.get("seconds")):
        return False
    if value.get("boot") is None and value.get("uptime") is None:
        return True
    return isinstance(value.get("boot"), str) and _is_duration(value.get("uptime"))


def _is_duration(value: Any) -> bool:
    return is_number(value) and value >= 0


_COUNT = Field(_is_count, "a whole number from 0")
_NUMBER = Field(is_number, "a finite number")
_POSITIVE = Field(_is_duration, "a finite number from 0")
_TEXT = Field(lambda value: isinstance(value, str), "a text")
_OBJECT = Field(_is_object, "a JSON object")
_OBJECTS = Field(_list_of(_is_object), "a list of JSON objects")
_NUMBERS = Field(_list_of(is_number), "a list of finite numbers")
_NUMBERS_BY_NAME = Field(_object_of(is_number), "finite numbers by name")

_REQUEST = Field(
    lambda value: (
        isinstance(value, list)
        and len(value) in (3, 4)
        and isinstance(value[0], str)
        and type(value[1]) in (str, int)
        and isinstance(value[2], str)
        and all(map(_is_count, value[3:]))
    ),
    "name of the client, id of its request (a text or a whole number), digest, and perhaps a number of trials",
    required=False,
)
"""The request of a client that an event answers, see `baco_like.service`; every event may have one."""

_EVENTS: Mapping[str, Mapping[str, Field]] = {
    "opened": {
        "space": _OBJECT,
        "options": _OBJECT,
        "queue": _OBJECTS,
        "warm_start": _OBJECTS.optional(),
        "experience": _OBJECTS.optional(),
        "versions": Field(_object_of(_TEXT.is_valid), "texts by name", required=False),
        "host": _OBJECT.optional(),
        "created": _TEXT.optional(),
    },
    "suggested": {
        "trials": _OBJECTS,
        # It may exceed the queue: a repair drops damaged "enqueued" events.
        "dequeued": _COUNT,
        "again": Field(_list_of(_is_count), "a list of whole numbers from 0", required=False),
        "until": _POSITIVE.optional(),
        "worker": _TEXT.optional(),
        "lease": Field(_is_lease, "seconds, and boot with uptime or neither", required=False),
        "at": _POSITIVE.optional(),  # Unix seconds
    },
    "observed": {"outcomes": _OBJECTS, "at": _POSITIVE.optional()},
    "renewed": {
        "ids": Field(_list_of(_is_count), "a list of whole numbers from 0"),
        "until": _POSITIVE,
        "lease": Field(_is_lease, "seconds, and boot with uptime or neither"),
    },
    "built": {"builds": _OBJECTS},
    "abandoned": {"id": _COUNT, "reason": _TEXT.optional()},
    "enqueued": {"configs": _OBJECTS},
    "proposed": {"source": _TEXT, "note": _TEXT.optional(), "configs": _OBJECTS},
    "confirming": {
        "configs": _OBJECTS,
        "observed": Field(
            _list_of(lambda value: value is None or _is_count(value)),
            "a list of whole numbers from 0, or nulls",
        ),
        "default": Field(
            lambda value: value is None or _is_count(value), "a whole number from 0, or null"
        ),
        "confidence": Field(
            lambda value: is_number(value) and 0 < value < 1, "a number between 0 and 1"
        ),
        "tolerance": _POSITIVE,
        "known": Field(_list_of(_NUMBERS.is_valid), "lists of finite numbers", required=False),
        "exact": Field(lambda value: type(value) is bool, "true or false", required=False),
        "simplification": _OBJECT.optional(),
    },
}
"""The fields of each kind of event."""

_SIMPLIFICATION: Mapping[str, Field] = {
    **dict.fromkeys(("trial", "measurements", "budget", "elements"), _COUNT),
    **dict.fromkeys(("dropped", "kept"), Field(_list_of(_TEXT.is_valid), "a list of texts")),
    "is_minimal": Field(lambda value: type(value) is bool, "true or false"),
}
"""The fields of ``simplification`` in a ``confirming`` event."""

_TRIAL: Mapping[str, Field] = {
    "id": _COUNT,
    "config": _OBJECT,
    "origin": _one_of("strategy", "fill", "enqueued", PROPOSED, CANDIDATE, CONTROL, *AFTER_SEARCH),
    "tag": Field(lambda value: True, "a JSON value"),
    "known": _COUNT.optional(),  # number of events that the strategy knew, of a proposal made ahead of time
    "ahead": _COUNT.optional(),  # number of proposals in store at that time
}
"""The fields of a row of a ``suggested`` event."""

_BUILT: Mapping[str, Field] = {
    "id": _COUNT,  # of the trial that it would have been at that time
    "config": _OBJECT,
    "origin": _one_of("strategy", "fill", "enqueued", PROPOSED),
    "tag": Field(lambda value: True, "a JSON value"),
    "build": _NUMBERS_BY_NAME,
    "program": _TEXT.optional(),
    "seconds": _POSITIVE.optional(),
}
"""The fields of a row of a ``built`` event."""

PARTS: Mapping[str, Field] = {
    "value": _NUMBER,
    "repeats": _NUMBERS,
    "sem": _POSITIVE,
    "failed": _TEXT,
    "message": _TEXT,
    "bound": _NUMBER,
    "metrics": _NUMBERS_BY_NAME,
    "extra": _OBJECT,
    "metric_repeats": Field(_object_of(_NUMBERS.is_valid), "lists of finite numbers by name"),
    "metric_sems": Field(_object_of(_POSITIVE.is_valid), "numbers from 0 by name"),
    "build": _NUMBERS_BY_NAME,
}
"""The parts of an outcome that a row has besides trial and status."""

_OPTIONS: Mapping[str, Field] = {
    "strategy": _OBJECT,
    "context": _OBJECT,
    "noise": _one_of("none", "repeat"),
}
"""The fields of the options that `Options` does not check."""

_SPACE: Mapping[str, Field] = {
    "parameters": _OBJECT,
    "constraints": Field(lambda value: isinstance(value, list), "a list"),
}
"""The fields of the space that `Space.from_dict` expects."""

_OUTCOME: Mapping[str, Field] = {
    "id": _COUNT,
    "status": _one_of("ok", "failed", "censored"),
    **{name: field.optional() for name, field in PARTS.items()},
    "config": _OBJECT,
    "origin": _one_of("told", "imported", "late").optional(),
}
"""The fields of a row of an ``observed`` event."""

_ADVICE: Mapping[str, Field] = {"config": _OBJECT, "note": _TEXT}
"""The fields of a row of ``experience`` in the header."""

_PARTS_OF_OTHERS = {"ok": ("failed", "bound"), "failed": ("value", "bound"), "censored": ("value",)}
"""The parts that an outcome with a status cannot have."""

_WARM_START: Mapping[str, Field] = {
    "source": _TEXT,
    "found": _COUNT,
    "left_out": Field(_object_of(_is_count), "whole numbers from 0 by name"),
    "notes": Field(_list_of(_TEXT.is_valid), "a list of texts"),
    "objective": _TEXT.optional(),
    "rows": _OBJECTS,
}
"""The fields of a warm start in the header, besides its mode."""


def check_event(event: Mapping[str, Any]) -> None:
    """Check all fields of an event except those that need the space, the history or `Options`.

    Raises:
        KeyError: The kind of the event is unknown.
        TrialError: A field is missing or has a wrong value; the message names it.
    """
    kind = event["event"]
    _check_fields(event, _EVENTS[kind])
    if "request" in event:
        _check_fields(event, {"request": _REQUEST})
    if kind == "opened":
        _check_fields(event["options"], _OPTIONS, "options.")
        _check_fields(event["space"], _SPACE, "space.")
        for i, row in enumerate(event.get("experience", ())):
            _check_fields(row, _ADVICE, f"experience[{i}].")
    elif kind == "suggested":
        for i, row in enumerate(event["trials"]):
            _check_fields(row, _TRIAL, f"trials[{i}].")
    elif kind == "built":
        for i, row in enumerate(event["builds"]):
            _check_fields(row, _BUILT, f"builds[{i}].")
    elif kind == "observed":
        check_outcomes(event["outcomes"], "outcomes")
    elif kind == "confirming" and "simplification" in event:
        _check_fields(event["simplification"], _SIMPLIFICATION, "simplification.")


def check_outcomes(rows: list[Any], name: str) -> None:
    """Check the rows of an ``observed`` event or a warm start.

    Args:
        rows: JSON objects.
        name: Name of the list, for messages.

    Raises:
        TrialError: A field is missing or has a wrong value; the message names it.
    """
    for i, row in enumerate(rows):
        where = f"{name}[{i}]."
        _check_fields(row, _OUTCOME, where)
        status = row["status"]
        for part in _PARTS_OF_OTHERS[status]:
            if part in row:
                raise TrialError(
                    f"{where}{part} is {row[part]!r:.80}, but its status is {status!r}"
                )
        if status == "ok" and "value" not in row:
            raise TrialError(f"{where}value is missing, but its status is 'ok'")


def check_warm_start(part: Mapping[str, Any], where: str) -> None:
    """Check the fields of a warm start except its mode.

    Raises:
        TrialError: A field is missing or has a wrong value; the message names it after ``where``.
    """
    _check_fields(part, _WARM_START, where)
    check_outcomes(part["rows"], f"{where}rows")


def _check_fields(values: Mapping[str, Any], fields: Mapping[str, Field], where: str = "") -> None:
    """Check the fields of a JSON object; unknown fields are ignored.

    Args:
        values: The object.
        fields: The rules by name.
        where: What stands before the name of the field in messages.

    Raises:
        TrialError: A field is missing or has a wrong value; the message names it.
    """
    for name, field in fields.items():
        if name not in values:
            if field.required:
                raise TrialError(f"{where}{name} is missing; expected {field.expected}")
        elif not field.is_valid(values[name]):
            raise TrialError(f"{where}{name} is {values[name]!r:.80}; expected {field.expected}")
