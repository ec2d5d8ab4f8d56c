"""Kernel Tuner's cache files: complete, or cut off when a run was interrupted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from baco_like.journal.events import config_from_json
from baco_like.parameters.values import as_tuple
from baco_like.records.reading import finite_number
from baco_like.records.trial import Outcome, Status
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
    OWN,
    Recording,
    described_space,
    read_attributes,
    read_rows,
    recording,
    write_attributes,
    write_rows,
)

_WORDS: Mapping[str, str] = {
    "InvalidConfig": "constraints",
    "CompilationFailedConfig": "compile",
    "RuntimeFailedConfig": "runtime",
}
"""From Kernel Tuner's failures to our words."""

_ERRORS: Mapping[str, str] = {word: error for error, word in _WORDS.items()}

_FAILED = 1e20
"""Value of failed configurations in old caches."""

_STAGES: Mapping[str, str] = {
    "compile_time": "compile",
    "benchmark_time": "run",
    "verification_time": "check",
}

_OTHER_TIMES = ("strategy_time", "framework_time")

# Reading --------------------------------------------------------------------------------------------------------


def from_cache(document: Mapping[str, Any], objective: str | None = None) -> Recording:
    """Return the recording of a parsed cache file.

    Args:
        document: The file.
        objective: Name of the measurement to use as the value; None uses the file's objective, else ``time``.

    Raises:
        RunFileError: The file has several objectives and no name is given, lacks the measurement, or has no rows.
        LookupError, TypeError, ValueError, AttributeError: The file is damaged.
    """
    names = tuple(document["tune_params_keys"])
    rows = document["cache"].values()
    measurements = {name for row in rows for name in row} - {*names, *_STAGES, *_OTHER_TIMES}
    declared = document.get("objective", "time")
    objective = one_objective(declared, objective, measurements)
    own = str(declared[0] if isinstance(declared, list) else declared)
    recorded = recording(
        read_rows(rows, partial(_read_row, names=names, objective=objective), objective, own),
        described_space(document),
        names=names,
        domains={name: tuple(map(as_tuple, document["tune_params"][name])) for name in names},
        objective=objective,
        unit=_unit(objective),
        direction=default_direction(objective),
    )
    return read_attributes(recorded, document)


def _unit(objective: str) -> str:
    return "ms" if objective == "time" else ""


def _read_row(
    row: Mapping[str, Any], names: Sequence[str], objective: str
) -> tuple[dict[str, Any], Outcome]:
    config = config_from_json({name: row[name] for name in names if name in row})
    return config, cache_outcome(row, names, objective)


def cache_outcome(row: Mapping[str, Any], names: Sequence[str], objective: str) -> Outcome:
    """Return the outcome in a row of Kernel Tuner, from a cache file or from a run.

    Args:
        row: Values of the parameters, times, and measurements.
        names: The parameters.
        objective: Name of the value.
    """
    seconds = stages(row, _STAGES, 1e3)
    raw = row.get(objective)
    error = row.get("__error__", raw if isinstance(raw, str) else None)
    value = finite_number(raw)
    if error is not None or value is None or value >= _FAILED:
        message = str(raw if error is None else error)
        return failure(_WORDS.get(message, "runtime"), message, seconds)
    known = {*names, objective, *_STAGES, *_OTHER_TIMES}
    others = {name: finite_number(cell) for name, cell in row.items() if name not in known}
    metrics = {name: number for name, number in others.items() if number is not None}
    return measured(value, numbers(row.get("times", ())), seconds, metrics)


def cut_off_cache(text: str) -> dict[str, Any] | None:
    """Read an interrupted cache up to the last complete entry; return None if the text is not a cache."""
    start = re.search(r'"cache"\s*:\s*\{', text)
    if start is None:
        return None
    try:
        document = json.loads(text[: start.start()].rstrip().rstrip(",") + "}")
    except (ValueError, RecursionError):
        return None
    return {**document, "cache": dict(_entries(text, start.end()))}


def _entries(text: str, position: int) -> Iterator[tuple[str, Any]]:
    decoder = json.JSONDecoder()
    before = re.compile(r'[\s,]*("(?:[^"\\]|\\.)*")\s*:\s*')
    while (key := before.match(text, position)) is not None:
        try:
            entry, position = decoder.raw_decode(text, key.end())
        except (ValueError, RecursionError):
            return
        yield json.loads(key[1]), entry


# Writing --------------------------------------------------------------------------------------------------------


def cache_bytes(recorded: Recording, metadata: Mapping[str, Any] | None = None) -> bytes:
    """Return the content of a complete cache file, which Kernel Tuner can simulate or resume.

    Device, kernel and problem size come from ``metadata`` (``device_name``, ``kernel_name``, ``problem_size``); Kernel
    Tuner checks them when it resumes. It uses the first of several results of a configuration.

    Raises:
        ValueError: A value has no JSON form, or a parameter has the name of a measurement.
    """
    names, objective = recorded.names, recorded.objective
    for name in (objective, *_STAGES, *_OTHER_TIMES, "times", "__error__", OWN):
        if name in names:
            raise ValueError(f"a cache of Kernel Tuner has its own {name!r}; rename the parameter")
    write = partial(_write_row, objective=objective)
    read = partial(_read_row, names=names, objective=objective)
    rows: dict[str, Any] = {}
    for values, row in zip(recorded.rows, write_rows(recorded, write, read), strict=True):
        key = ",".join(map(str, values))
        while key in rows:
            key += ",again"
        rows[key] = row
    document = {
        **dict.fromkeys(("device_name", "kernel_name", "problem_size"), "unknown"),
        **(metadata or {}),
        "tune_params_keys": list(names),
        "tune_params": {name: list(values) for name, values in recorded.domains.items()},
        "objective": objective,
        **write_attributes(recorded, _unit(objective)),
        "cache": rows,
    }
    return json_bytes(document, "a cache of Kernel Tuner")


def _write_row(config: Mapping[str, Any], outcome: Outcome, objective: str) -> dict[str, Any]:
    seconds = outcome.extra.get("seconds", {})
    times = {theirs: milliseconds(seconds.get(ours)) for theirs, ours in _STAGES.items()}
    times |= dict.fromkeys(_OTHER_TIMES, 0.0)
    if outcome.status is not Status.OK:
        error = _ERRORS.get(outcome.failed or "", "RuntimeFailedConfig")
        return {**config, "__error__": error, **times}
    repeats = {"times": list(outcome.repeats)}
    return {**outcome.metrics, **config, objective: outcome.value, **repeats, **times}
