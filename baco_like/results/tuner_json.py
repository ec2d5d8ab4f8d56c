"""The JSON files of other tuners: T4 results, caches of Kernel Tuner (complete or cut off), and results of KTT.

T4 is the format of the benchmark hub, and the other format of KTT. A result of KTT has a configuration (a list of names
and values), a status and durations in the file's unit of time; it measures durations only, each once. Values without a
place in a format are written to the row under our own key, which other readers ignore.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from baco_like.exceptions import RunFileError
from baco_like.journal.events import config_from_json
from baco_like.parameters.values import as_tuple
from baco_like.records.objective import Direction
from baco_like.records.objective_values import finite_number
from baco_like.records.trial import FAILURE_WORDS, Outcome, Status, standard_error
from baco_like.results.files import json_bytes
from baco_like.results.recording import (
    OWN,
    Recording,
    document_recording,
    read_rows,
    write_attributes,
    write_rows,
)

TIME_UNITS: Mapping[str, tuple[str, float]] = {
    "nanoseconds": ("ns", 1e9),
    "microseconds": ("us", 1e6),
    "miliseconds": ("ms", 1e3),  # as files of the benchmark hub have it
    "milliseconds": ("ms", 1e3),
    "seconds": ("s", 1.0),
}
"""A file's unit of time -> our unit, and its number per second."""


def _objectives(declared: Any, chosen: str | None, known: Collection[Any]) -> tuple[str, str]:
    """Return the measurement to use as the value, and the objective of the file.

    Args:
        declared: Its name, or a list of names, from the file.
        chosen: The caller's choice, or None.
        known: Names of all measurements.

    Raises:
        RunFileError: The file has several objectives and the caller chooses none, or the chosen one was not measured.
    """
    names = declared if isinstance(declared, list) else [declared]
    if chosen is not None and chosen not in known:
        raise RunFileError(
            f"it has no measurement {chosen!r}; it has {', '.join(sorted(map(str, known)))}"
        )
    if chosen is None and len(names) != 1:
        raise RunFileError(
            f"it has several objectives ({', '.join(map(str, names))}); name the one that counts"
        )
    return str(names[0]) if chosen is None else chosen, str(names[0])


def _default_direction(objective: str) -> Direction | None:
    """Return ``maximize`` for an objective that Kernel Tuner maximises by default (``GFLOP/s``), else None."""
    maximised = re.fullmatch(r"fitness|[GT](FLOP/s|FLOP/J|FLOPS/W|B/s)", objective)
    return "maximize" if maximised else None


def _measured(
    value: float,
    repeats: tuple[float, ...],
    seconds: Mapping[str, float],
    metrics: Mapping[str, float] | None = None,
) -> Outcome:
    """Return an outcome whose value comes from the file (often the mean of the repeats)."""
    return Outcome(
        0,
        Status.OK,
        value=value,
        repeats=repeats or (value,),
        sem=standard_error(repeats),
        metrics=metrics or {},
        extra={"seconds": dict(seconds)} if seconds else {},
    )


def _failure(word: str, message: str, seconds: Mapping[str, float]) -> Outcome:
    """Return a failed outcome with the times of its stages."""
    return Outcome.failure(0, word, message, extra={"seconds": dict(seconds)} if seconds else {})


def _stages(
    times: Mapping[str, Any], names: Mapping[str, str], per_second: float
) -> dict[str, float]:
    """Return the positive times of stages in seconds, by our names."""
    _numbers = ((ours, finite_number(times.get(theirs)) or 0.0) for theirs, ours in names.items())
    return {name: time / per_second for name, time in _numbers if time > 0}


def _milliseconds(seconds: Any) -> float:
    """Return seconds as milliseconds such that dividing by 1,000 gives the same float again, if possible."""
    exact = finite_number(seconds) or 0.0
    near = 1e3 * exact
    around = (near, math.nextafter(near, 0.0), math.nextafter(near, math.inf))
    return next((number for number in around if number / 1e3 == exact), near)


def _numbers(values: Iterable[Any]) -> tuple[float, ...]:
    """Return those of the values that are finite numbers."""
    read = (  # nearly all are floats already, and there may be millions
        value if type(value) is float and math.isfinite(value) else finite_number(value)
        for value in values
    )
    return tuple(value for value in read if value is not None)


# T4 -------------------------------------------------------------------------------------------------------------------

_T4_WRITTEN: Mapping[str, str] = {
    "compile": "compilation",
    "run": "benchmark",
    "check": "validation",
}
"""Our names of stages -> written names."""

_T4_STAGES: Mapping[str, str] = {
    **{theirs: ours for ours, theirs in _T4_WRITTEN.items()},
    **{"compilation_time": "compile", "benchmark_time": "run", "verification_time": "check"},
}
"""Names of stages in T4 files -> ours."""

_MESSAGE_LENGTH = 200


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
            partial(_write_t4_row, recorded),
            partial(_read_t4_row, objective=recorded.objective),
        ),
    }
    return json_bytes(document, "a T4 file")


def _write_t4_row(
    recorded: Recording, config: Mapping[str, Any], outcome: Outcome
) -> dict[str, Any]:
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
            **{theirs: _milliseconds(seconds.get(ours)) for ours, theirs in _T4_WRITTEN.items()},
            "runtimes": list(outcome.repeats) if recorded.unit == "ms" else [],
        },
        "invalidity": "correct" if ran else word,
        "correctness": int(ran),
        "measurements": [value, *others],
        "objectives": [recorded.objective],
    }


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
    objective, own = _objectives(declared, objective, known)
    metadata = document.get("metadata", {})
    unit, per_second = TIME_UNITS.get(str(metadata.get("timeunit", "")), ("", 1e3))
    texts = str(metadata.get("autotuner", "")) == "KTT"
    read = partial(_read_t4_row, objective=objective, per_second=per_second, texts=texts)
    return document_recording(
        metadata,
        own,
        read_rows(results, read, objective, own),
        objective=objective,
        unit=_find_measurement(first, objective).get("unit", "")
        or (unit if objective == own else ""),
        direction=_default_direction(objective),
    )


def _find_measurement(row: Mapping[str, Any], objective: str) -> Mapping[str, Any]:
    """Return the measurement with the objective's name, or an empty mapping."""
    return next((m for m in row.get("measurements", ()) if m.get("name") == objective), {})


def _read_t4_row(
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
    seconds = _stages(times, _T4_STAGES, per_second)
    raw = _find_measurement(row, objective).get("value")
    word, value = row["invalidity"], finite_number(raw)
    if word in FAILURE_WORDS or value is None:
        message = raw if raw is not None else _find_measurement(row, "__error__").get("value", "")
        known = word if word in FAILURE_WORDS else "runtime"
        return config, _failure(known, str(message), seconds)
    repeats = _numbers(times.get("runtimes", ()))
    if repeats and "benchmark" not in times and "benchmark_time" not in times:
        seconds["run"] = sum(repeats) / per_second
    metrics = {str(m["name"]): finite_number(m.get("value")) for m in row["measurements"]}
    others = {k: v for k, v in metrics.items() if v is not None and k != objective}
    return config, _measured(value, repeats, seconds, others)


def _read_number(value: Any) -> Any:
    """Return the integer or decimal number in a text, else the text."""
    if not isinstance(value, str):
        return value
    if re.fullmatch(r"[+-]?\d{1,18}", value):
        return int(value)
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", value):
        return float(value)
    return value == "true" if value in ("true", "false") else value


# Kernel Tuner's caches ------------------------------------------------------------------------------------------------

_CACHE_WORDS: Mapping[str, str] = {
    "InvalidConfig": "constraints",
    "CompilationFailedConfig": "compile",
    "RuntimeFailedConfig": "runtime",
}
"""From Kernel Tuner's failures to our words."""

_CACHE_ERRORS: Mapping[str, str] = {word: error for error, word in _CACHE_WORDS.items()}

_CACHE_FAILED = 1e20
"""Value of failed configurations in old caches."""

_CACHE_STAGES: Mapping[str, str] = {
    "compile_time": "compile",
    "benchmark_time": "run",
    "verification_time": "check",
}

_CACHE_OTHER_TIMES = ("strategy_time", "framework_time")


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
    measurements = {name for row in rows for name in row} - {
        *names,
        *_CACHE_STAGES,
        *_CACHE_OTHER_TIMES,
    }
    declared = document.get("objective", "time")
    objective, own = _objectives(declared, objective, measurements)
    read = partial(_read_cache_row, names=names, objective=objective)
    return document_recording(
        document,
        own,
        read_rows(rows, read, objective, own),
        names=names,
        domains={name: tuple(map(as_tuple, document["tune_params"][name])) for name in names},
        objective=objective,
        unit=_cache_unit(objective),
        direction=_default_direction(objective),
    )


def _cache_unit(objective: str) -> str:
    return "ms" if objective == "time" else ""


def _read_cache_row(
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
    seconds = _stages(row, _CACHE_STAGES, 1e3)
    raw = row.get(objective)
    error = row.get("__error__", raw if isinstance(raw, str) else None)
    value = finite_number(raw)
    if error is not None or value is None or value >= _CACHE_FAILED:
        message = str(raw if error is None else error)
        return _failure(_CACHE_WORDS.get(message, "runtime"), message, seconds)
    known = {*names, objective, *_CACHE_STAGES, *_CACHE_OTHER_TIMES}
    others = {name: finite_number(cell) for name, cell in row.items() if name not in known}
    metrics = {name: number for name, number in others.items() if number is not None}
    return _measured(value, _numbers(row.get("times", ())), seconds, metrics)


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


def cache_bytes(recorded: Recording, metadata: Mapping[str, Any] | None = None) -> bytes:
    """Return the content of a complete cache file, which Kernel Tuner can simulate or resume.

    Device, kernel and problem size come from ``metadata`` (``device_name``, ``kernel_name``, ``problem_size``); Kernel
    Tuner checks them when it resumes. It uses the first of several results of a configuration.

    Raises:
        ValueError: A value has no JSON form, or a parameter has the name of a measurement.
    """
    names, objective = recorded.names, recorded.objective
    for name in (objective, *_CACHE_STAGES, *_CACHE_OTHER_TIMES, "times", "__error__", OWN):
        if name in names:
            raise ValueError(f"a cache of Kernel Tuner has its own {name!r}; rename the parameter")
    write = partial(_write_cache_row, objective=objective)
    read = partial(_read_cache_row, names=names, objective=objective)
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
        **write_attributes(recorded, _cache_unit(objective)),
        "cache": rows,
    }
    return json_bytes(document, "a cache of Kernel Tuner")


def _write_cache_row(config: Mapping[str, Any], outcome: Outcome, objective: str) -> dict[str, Any]:
    seconds = outcome.extra.get("seconds", {})
    times = {theirs: _milliseconds(seconds.get(ours)) for theirs, ours in _CACHE_STAGES.items()}
    times |= dict.fromkeys(_CACHE_OTHER_TIMES, 0.0)
    if outcome.status is not Status.OK:
        error = _CACHE_ERRORS.get(outcome.failed or "", "RuntimeFailedConfig")
        return {**config, "__error__": error, **times}
    repeats = {"times": list(outcome.repeats)}
    return {**outcome.metrics, **config, objective: outcome.value, **repeats, **times}


# KTT's results (``Tuner::SaveResults`` with ``OutputFormat::JSON``) ---------------------------------------------------

_KTT_WORDS: Mapping[str, str] = {
    "ComputationFailed": "runtime",
    "ValidationFailed": "correctness",
    "CompilationFailed": "compile",
    "DeviceLimitsExceeded": "runtime",
}
"""Status of a failed result -> our failure word."""

_KTT_STATUSES: Mapping[str, str] = {
    "runtime": "ComputationFailed",
    "timeout": "ComputationFailed",
    "correctness": "ValidationFailed",
    "compile": "CompilationFailed",
    "constraints": "CompilationFailed",
}
"""Our failure word -> KTT's status, as in KTT's own T4 files."""

_KTT_OK = "Ok"

_KTT_STAGES: Mapping[str, str] = {"CompilationOverhead": "compile", "ValidationOverhead": "check"}

_KTT_OTHER_OVERHEADS = ("DataMovementOverhead", "ProfilingOverhead")

_KTT_TYPES: Mapping[type, str] = {float: "Double", bool: "Bool"}


def from_ktt(document: Mapping[str, Any]) -> Recording:
    """Return the recording in a parsed file.

    Raises:
        RunFileError: The file has no results.
        LookupError, TypeError, ValueError, AttributeError: The file is damaged.
    """
    metadata = document.get("Metadata", {})
    unit, per_second = TIME_UNITS[str(metadata.get("TimeUnit", "milliseconds")).lower()]
    rows = read_rows(document["Results"], partial(_read_ktt_row, per_second=per_second))
    objective = str(document.get("UserData", {}).get("objective", "time"))
    return document_recording(document, objective, rows, objective=objective, unit=unit)


def _read_ktt_row(row: Mapping[str, Any], per_second: float) -> tuple[dict[str, Any], Outcome]:
    config = {str(pair["Name"]): pair["Value"] for pair in row["Configuration"]}
    seconds = _ktt_seconds(row, per_second)
    value, status = finite_number(row["TotalDuration"]), str(row["Status"])
    if status != _KTT_OK or value is None:
        return config, _failure(_KTT_WORDS.get(status, "runtime"), status, seconds)
    return config, _measured(value, (), seconds | {"run": value / per_second})


def _ktt_seconds(row: Mapping[str, Any], per_second: float) -> dict[str, float]:
    """Return the times of the stages; older files have only the total of all overheads."""
    has_stages = any(name in row for name in _KTT_STAGES)
    others = _KTT_OTHER_OVERHEADS if has_stages else ("TotalOverhead",)
    overhead = sum(finite_number(row.get(name)) or 0.0 for name in others)
    times = {**row, "overhead": overhead}
    return _stages(times, {**_KTT_STAGES, "overhead": "overhead"}, per_second)


def ktt_bytes(recorded: Recording, metadata: Mapping[str, Any] | None = None) -> bytes:
    """Return the content of a file that KTT reads.

    Args:
        recorded: The results, in a unit of time; an unknown unit is written as milliseconds.
        metadata: Additional entries of ``Metadata``, such as ``Device``.

    Raises:
        ValueError: The unit is not a unit of time, or a value has no JSON form.
    """
    unit = recorded.unit or "ms"
    units = {ours: (name, per_second) for name, (ours, per_second) in TIME_UNITS.items()}
    if unit not in units:
        raise ValueError(
            f"the unit {unit!r} is not a unit of time, and KTT's files have only durations; write t4 or csv"
        )
    name, per_second = units[unit]
    write = partial(_write_ktt_row, per_second=per_second)
    document = {
        "Metadata": {**_KTT_METADATA, "TimeUnit": name.capitalize(), **(metadata or {})},
        "Results": write_rows(recorded, write, partial(_read_ktt_row, per_second=per_second)),
        "UserData": {"objective": recorded.objective},
        **write_attributes(recorded, unit),
    }
    return json_bytes(document, "a file of KTT's")


_KTT_METADATA: Mapping[str, str] = {
    "ComputeApi": "CUDA",
    "GlobalSizeType": "CUDA",
    "Platform": "unknown",
    "Device": "unknown",
    "KttVersion": "unknown",
    "Timestamp": "",
}
"""Entries that KTT expects."""

_KTT_NO_TIMES = ("ExtraDuration", "ExtraOverhead", "SearcherOverhead", "ProfilingOverhead")

_KTT_SIZE = {"X": 1, "Y": 1, "Z": 1}


def _write_ktt_row(
    config: Mapping[str, Any], outcome: Outcome, per_second: float
) -> dict[str, Any]:
    ran = outcome.status is Status.OK
    seconds = outcome.extra.get("seconds", {})
    overheads = {
        theirs: (finite_number(seconds.get(ours)) or 0.0) * per_second
        for theirs, ours in [*_KTT_STAGES.items(), ("DataMovementOverhead", "overhead")]
    }
    duration = outcome.value if ran else 0.0
    kernel = {  # KTT sums up the durations of kernels again when it reads the file
        "KernelFunction": "kernel",
        "Duration": duration,
        "Overhead": 0.0,
        "CompilationOverhead": overheads["CompilationOverhead"],
        "GlobalSize": _KTT_SIZE,
        "LocalSize": _KTT_SIZE,
    }
    return {
        "KernelName": "kernel",
        "Status": _KTT_OK if ran else _KTT_STATUSES.get(outcome.failed or "", "ComputationFailed"),
        "TotalDuration": duration,
        "TotalOverhead": sum(overheads.values()),
        **dict.fromkeys(_KTT_NO_TIMES, 0.0),
        **overheads,
        "Configuration": [_ktt_value(name, value) for name, value in config.items()],
        "ComputationResults": [kernel] if ran else [],
    }


def _ktt_value(name: str, value: Any) -> dict[str, Any]:
    """Return a parameter with its value; a permutation becomes a text."""
    if type(value) is int:
        return {"Name": name, "ValueType": "UnsignedInt" if value >= 0 else "Int", "Value": value}
    value = ",".join(map(str, value)) if isinstance(value, tuple) else value
    return {"Name": name, "ValueType": _KTT_TYPES.get(type(value), "String"), "Value": value}
