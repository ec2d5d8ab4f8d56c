"""T4 files, the results format that Kernel Tuner, KTT and the public benchmark hub share (schema 1.0.0).

A file is one JSON object with one row per configuration. Information without a place in the format (bounds of censored
values, repeats that are not in milliseconds, other failure words) is written to the row under our own key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from baco_like.journal.events import config_from_json
from baco_like.records.reading import finite_number
from baco_like.records.trial import FAILURE_WORDS, Outcome, Status
from baco_like.results.files import json_bytes
from baco_like.results.measurements import (
    default_direction,
    failure,
    measured,
    milliseconds,
    numbers,
    one_objective,
    stages,
)
from baco_like.results.recording import (
    Recording,
    about,
    as_told,
    completed,
    own_part,
    recording,
)

VERSION = "1.0.0"
"""Of the schema."""

_WRITTEN: Mapping[str, str] = {"compile": "compilation", "run": "benchmark", "check": "validation"}
"""Our names of stages -> written names."""

_READ: Mapping[str, str] = {
    "compilation": "compile",
    "compilation_time": "compile",
    "benchmark": "run",
    "benchmark_time": "run",
    "validation": "check",
    "verification_time": "check",
}
"""Names of stages in T4 files -> ours."""

_TIME_UNITS: Mapping[str, tuple[str, float]] = {
    "nanoseconds": ("ns", 1e9),
    "microseconds": ("us", 1e6),
    "milliseconds": ("ms", 1e3),
    "miliseconds": ("ms", 1e3),  # as files of the benchmark hub have it
    "seconds": ("s", 1.0),
}
"""A file's unit of time -> our unit, and its number per second."""

_MESSAGE_LENGTH = 200


# Writing --------------------------------------------------------------------------------------------------------


def t4_bytes(found: Recording, metadata: Mapping[str, Any] | None = None) -> bytes:
    """Return the content of a T4 file.

    Raises:
        ValueError: A value has no JSON form.
    """
    rows = [
        completed(_row(config, one, found), config, one, lambda row: _pair(row, found.objective))
        for config, one in zip(found.configs, found.outcomes, strict=True)
    ]
    document = {
        "schema_version": VERSION,
        "metadata": {
            "timeunit": "milliseconds",
            **(metadata or {}),
            **about(found, found.unit or "ms"),
        },
        "results": rows,
    }
    return json_bytes(document, "a T4 file")


def _row(config: Mapping[str, Any], outcome: Outcome, found: Recording) -> dict[str, Any]:
    ran = outcome.status is Status.OK
    word, message = _failure(outcome)
    value = {
        "name": found.objective,
        "value": outcome.value if ran else message,
        "unit": found.unit,
    }
    others = [
        {"name": name, "value": number, "unit": ""} for name, number in outcome.metrics.items()
    ]
    return {
        "configuration": dict(config),
        "times": _times(outcome, found.unit),
        "invalidity": "correct" if ran else word,
        "correctness": int(ran),
        "measurements": [value, *others],
        "objectives": [found.objective],
    }


def _times(outcome: Outcome, unit: str) -> dict[str, Any]:
    """Return the times in milliseconds; other readers require all of these keys."""
    seconds = outcome.extra.get("seconds", {})
    times: dict[str, Any] = {"framework": 0, "search_algorithm": 0}
    for ours, theirs in _WRITTEN.items():
        times[theirs] = milliseconds(seconds.get(ours))
    times["runtimes"] = list(outcome.repeats) if unit == "ms" else []
    return times


def _failure(outcome: Outcome) -> tuple[str, str]:
    """Return a failure word of the format and the first line of the message."""
    word = "timeout" if outcome.status is Status.CENSORED else outcome.failed or "runtime"
    message = outcome.message.partition("\n")[0]
    if word not in FAILURE_WORDS:
        word, message = "runtime", f"{word}: {message}"
    return word, message[:_MESSAGE_LENGTH]


# Reading --------------------------------------------------------------------------------------------------------


def from_t4(document: Mapping[str, Any], objective: str | None = None) -> Recording:
    """Return the recording in a parsed T4 file.

    Args:
        document: The file.
        objective: Name of the measurement to use as the value; None uses the one that the file names.

    Raises:
        RunFileError: The file has several objectives and no name is given, lacks the measurement, or has no rows.
        LookupError, TypeError, ValueError, AttributeError: The file is damaged.
    """
    results = document["results"]
    objective = _objective(results, objective)
    metadata = document.get("metadata", {})
    unit, per_second = _TIME_UNITS.get(str(metadata.get("timeunit", "")), ("", 1e3))
    texts = str(metadata.get("autotuner", "")) == "KTT"
    found = [_pair(row, objective, per_second, texts) for row in results]
    told = _named(results[0], objective).get("unit", "") if results else ""
    known = {
        "objective": objective,
        "unit": told or unit,
        "direction": default_direction(objective),
    }
    return as_told(recording(found, **known), metadata)


def _objective(results: Sequence[Mapping[str, Any]], wanted: str | None) -> str:
    told = results[0].get("objectives") or ["time"] if results else ["time"]
    known = {m.get("name") for row in results for m in row.get("measurements", ())}
    return one_objective(told, wanted, known)


def _named(row: Mapping[str, Any], objective: str) -> Mapping[str, Any]:
    """Return the measurement with the objective's name, or an empty mapping."""
    return next((m for m in row.get("measurements", ()) if m.get("name") == objective), {})


def _pair(
    row: Mapping[str, Any], objective: str, per_second: float = 1e3, texts: bool = False
) -> tuple[dict[str, Any], Outcome]:
    """Return the configuration in a row and its outcome.

    Args:
        row: A row of the file.
        objective: Name of the measurement to use as the value.
        per_second: Number of the file's time units per second.
        texts: Whether numbers are written as texts, as KTT does.
    """
    own = own_part(row)
    if own is not None:
        return own
    config = config_from_json(row["configuration"])
    if texts:
        config = {name: _untexted(value) for name, value in config.items()}
    return config, _outcome(row, objective, per_second)


def _outcome(row: Mapping[str, Any], objective: str, per_second: float) -> Outcome:
    times = row.get("times", {})
    seconds = stages(times, _READ, per_second)
    raw = _named(row, objective).get("value")
    word, value = row["invalidity"], finite_number(raw)
    if word in FAILURE_WORDS or value is None:
        said = raw if raw is not None else _named(row, "__error__").get("value", "")
        known = word if word in FAILURE_WORDS else "runtime"
        return failure(known, str(said), seconds)
    repeats = numbers(times.get("runtimes", ()))
    if repeats and "benchmark" not in times and "benchmark_time" not in times:
        seconds["run"] = sum(repeats) / per_second
    return measured(value, repeats, seconds, _metrics(row, objective))


def _metrics(row: Mapping[str, Any], objective: str) -> dict[str, float]:
    told = {str(m["name"]): finite_number(m.get("value")) for m in row["measurements"]}
    return {name: one for name, one in told.items() if one is not None and name != objective}


def _untexted(value: Any) -> Any:
    """Return the integer or decimal number in a text, else the text."""
    if not isinstance(value, str):
        return value
    if re.fullmatch(r"[+-]?\d{1,18}", value):
        return int(value)
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", value):
        return float(value)
    return value == "true" if value in ("true", "false") else value
