"""T4 files, the results format that Kernel Tuner, KTT and the public benchmark hub share (schema 1.0.0).

A file is one JSON object with one row per configuration. Information without a place in the format (bounds of censored
values, repeats that are not in milliseconds, other failure words) is written to the row under our own key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from baco_like.journal.events import config_from_json
from baco_like.records.reading import finite_number
from baco_like.records.trial import FAILURE_WORDS, Outcome, Status
from baco_like.results.files import json_bytes
from baco_like.results.measurements import (
    TIME_UNITS,
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
    described_space,
    read_attributes,
    read_rows,
    recording,
    write_attributes,
    write_rows,
)

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

_MESSAGE_LENGTH = 200


# Writing --------------------------------------------------------------------------------------------------------


def t4_bytes(recorded: Recording, metadata: Mapping[str, Any] | None = None) -> bytes:
    """Return the content of a T4 file.

    Raises:
        ValueError: A value has no JSON form.
    """
    attributes = write_attributes(recorded, recorded.unit or "ms")
    document = {
        "schema_version": "1.0.0",
        "metadata": {"timeunit": "milliseconds", **(metadata or {}), **attributes},
        "results": write_rows(
            recorded,
            partial(_write_row, recorded),
            partial(_read_row, objective=recorded.objective),
        ),
    }
    return json_bytes(document, "a T4 file")


def _write_row(recorded: Recording, config: Mapping[str, Any], outcome: Outcome) -> dict[str, Any]:
    ran = outcome.status is Status.OK
    word = "timeout" if outcome.status is Status.CENSORED else outcome.failed or "runtime"
    message = outcome.message.partition("\n")[0]
    if word not in FAILURE_WORDS:
        word, message = "runtime", f"{word}: {message}"
    value = {
        "name": recorded.objective,
        "value": outcome.value if ran else message[:_MESSAGE_LENGTH],
        "unit": recorded.unit,
    }
    others = [
        {"name": name, "value": number, "unit": ""}
        for name, number in outcome.metrics.items()
        if name != recorded.objective  # other readers find the value by its name
    ]
    seconds = outcome.extra.get("seconds", {})
    return {
        "configuration": dict(config),
        "times": {  # in milliseconds; other readers require all of these keys
            "framework": 0,
            "search_algorithm": 0,
            **{theirs: milliseconds(seconds.get(ours)) for ours, theirs in _WRITTEN.items()},
            "runtimes": list(outcome.repeats) if recorded.unit == "ms" else [],
        },
        "invalidity": "correct" if ran else word,
        "correctness": int(ran),
        "measurements": [value, *others],
        "objectives": [recorded.objective],
    }


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
    first = results[0] if results else {}
    known = {m.get("name") for row in results for m in row.get("measurements", ())}
    declared = first.get("objectives") or ["time"]
    objective = one_objective(declared, objective, known)
    own = str(declared[0] if isinstance(declared, list) else declared)
    metadata = document.get("metadata", {})
    unit, per_second = TIME_UNITS.get(str(metadata.get("timeunit", "")), ("", 1e3))
    texts = str(metadata.get("autotuner", "")) == "KTT"
    read = partial(_read_row, objective=objective, per_second=per_second, texts=texts)
    recorded = recording(
        read_rows(results, read, objective, own),
        objective=objective,
        unit=_find_measurement(first, objective).get("unit", "") or unit,
        direction=default_direction(objective),
        described=described_space(metadata),
    )
    return read_attributes(recorded, metadata)


def _find_measurement(row: Mapping[str, Any], objective: str) -> Mapping[str, Any]:
    """Return the measurement with the objective's name, or an empty mapping."""
    return next((m for m in row.get("measurements", ()) if m.get("name") == objective), {})


def _read_row(
    row: Mapping[str, Any], objective: str, per_second: float = 1e3, texts: bool = False
) -> tuple[dict[str, Any], Outcome]:
    """Return the configuration in a row and its outcome.

    Args:
        row: A row of the file.
        objective: Name of the measurement to use as the value.
        per_second: Number of the file's time units per second.
        texts: Whether numbers are written as texts, as KTT does.
    """
    config = config_from_json(row["configuration"])
    if texts:
        config = {name: _read_number(value) for name, value in config.items()}
    times = row.get("times", {})
    seconds = stages(times, _READ, per_second)
    raw = _find_measurement(row, objective).get("value")
    word, value = row["invalidity"], finite_number(raw)
    if word in FAILURE_WORDS or value is None:
        message = raw if raw is not None else _find_measurement(row, "__error__").get("value", "")
        known = word if word in FAILURE_WORDS else "runtime"
        return config, failure(known, str(message), seconds)
    repeats = numbers(times.get("runtimes", ()))
    if repeats and "benchmark" not in times and "benchmark_time" not in times:
        seconds["run"] = sum(repeats) / per_second
    metrics = {str(m["name"]): finite_number(m.get("value")) for m in row["measurements"]}
    others = {k: v for k, v in metrics.items() if v is not None and k != objective}
    return config, measured(value, repeats, seconds, others)


def _read_number(value: Any) -> Any:
    """Return the integer or decimal number in a text, else the text."""
    if not isinstance(value, str):
        return value
    if re.fullmatch(r"[+-]?\d{1,18}", value):
        return int(value)
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", value):
        return float(value)
    return value == "true" if value in ("true", "false") else value
