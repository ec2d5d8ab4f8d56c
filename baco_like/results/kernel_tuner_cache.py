"""Kernel Tuner's cache files: complete, or cut off when a run was interrupted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from baco_like.journal.events import config_from_json
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
    about,
    as_told,
    completed,
    own_part,
    recording,
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
    objective = one_objective(document.get("objective", "time"), objective, measurements)
    domains = {name: tuple(map(_hashable, document["tune_params"][name])) for name in names}
    found = [_pair(row, names, objective) for row in rows]
    known = {
        "objective": objective,
        "unit": _unit(objective),
        "direction": default_direction(objective),
    }
    return as_told(recording(found, names=names, domains=domains, **known), document)


def _unit(objective: str) -> str:
    return "ms" if objective == "time" else ""


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _pair(
    row: Mapping[str, Any], names: Sequence[str], objective: str
) -> tuple[dict[str, Any], Outcome]:
    own = own_part(row)
    if own is not None:
        return own
    return config_from_json({name: row[name] for name in names if name in row}), cache_outcome(
        row, names, objective
    )


def cache_outcome(row: Mapping[str, Any], names: Sequence[str], objective: str) -> Outcome:
    """Return the outcome in a row of Kernel Tuner, from a cache file or from a run.

    Args:
        row: Values of the parameters, times, and measurements.
        names: The parameters.
        objective: Name of the value.
    """
    seconds = stages(row, _STAGES, 1e3)
    raw = row.get(objective)
    told = row["__error__"] if "__error__" in row else raw if isinstance(raw, str) else None
    if told is not None:
        return failure(_WORDS.get(str(told), "runtime"), str(told), seconds)
    value = finite_number(raw)
    if value is None or value >= _FAILED:
        return failure("runtime", str(raw), seconds)
    known = {*names, objective, *_STAGES, *_OTHER_TIMES}
    others = {name: finite_number(one) for name, one in row.items() if name not in known}
    metrics = {name: one for name, one in others.items() if one is not None}
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


def cache_bytes(found: Recording, metadata: Mapping[str, Any] | None = None) -> bytes:
    """Return the content of a complete cache file, which Kernel Tuner can simulate or resume.

    Device, kernel and problem size come from ``metadata`` (``device_name``, ``kernel_name``, ``problem_size``); Kernel
    Tuner checks them when it resumes. It uses the first of several results of a configuration.

    Raises:
        ValueError: A value has no JSON form, or a parameter has the name of a measurement.
    """
    for name in (found.objective, *_STAGES, *_OTHER_TIMES, "times", "__error__", OWN):
        if name in found.names:
            raise ValueError(f"a cache of Kernel Tuner has its own {name!r}; rename the parameter")
    rows: dict[str, Any] = {}
    for config, outcome in zip(found.configs, found.outcomes, strict=True):
        row = _row(config, outcome, found.objective)
        key = ",".join(map(str, config.values()))
        while key in rows:
            key += ",again"
        rows[key] = completed(
            row, config, outcome, lambda row: _pair(row, found.names, found.objective)
        )
    document = {
        "device_name": "unknown",
        "kernel_name": "unknown",
        "problem_size": "unknown",
        **(metadata or {}),
        "tune_params_keys": list(found.names),
        "tune_params": {name: list(values) for name, values in found.domains.items()},
        "objective": found.objective,
        **about(found, _unit(found.objective)),
        "cache": rows,
    }
    return json_bytes(document, "a cache of Kernel Tuner")


def _row(config: Mapping[str, Any], outcome: Outcome, objective: str) -> dict[str, Any]:
    seconds = outcome.extra.get("seconds", {})
    times = {theirs: milliseconds(seconds.get(ours)) for theirs, ours in _STAGES.items()}
    times |= dict.fromkeys(_OTHER_TIMES, 0.0)
    if outcome.status is not Status.OK:
        return {
            **config,
            "__error__": _ERRORS.get(outcome.failed or "", "RuntimeFailedConfig"),
            **times,
        }
    repeats = {"times": list(outcome.repeats)}
    return {**outcome.metrics, **config, objective: outcome.value, **repeats, **times}
