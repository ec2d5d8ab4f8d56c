"""KTT's results as it saves them in JSON (``Tuner::SaveResults`` with ``OutputFormat::JSON``).

A result has a configuration (a list of names and values), a status and durations in the file's unit of time. KTT
measures durations only, each once; all other information is written to the row under our own key.
`baco_like.results.t4` reads and writes KTT's other format.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from baco_like.records.reading import finite_number
from baco_like.records.trial import Outcome, Status
from baco_like.results.files import json_bytes
from baco_like.results.measurements import TIME_UNITS, failure, measured, stages
from baco_like.results.recording import (
    Recording,
    described_space,
    read_attributes,
    read_rows,
    recording,
    write_attributes,
    write_rows,
)

_WORDS: Mapping[str, str] = {
    "ComputationFailed": "runtime",
    "ValidationFailed": "correctness",
    "CompilationFailed": "compile",
    "DeviceLimitsExceeded": "runtime",
}
"""Status of a failed result -> our failure word."""

_STATUSES: Mapping[str, str] = {
    "runtime": "ComputationFailed",
    "timeout": "ComputationFailed",
    "correctness": "ValidationFailed",
    "compile": "CompilationFailed",
    "constraints": "CompilationFailed",
}
"""Our failure word -> KTT's status, as in KTT's own T4 files."""

_OK = "Ok"

_STAGES: Mapping[str, str] = {"CompilationOverhead": "compile", "ValidationOverhead": "check"}

_OTHER_OVERHEADS = ("DataMovementOverhead", "ProfilingOverhead")

_VALUE_TYPES: Mapping[type, str] = {float: "Double", bool: "Bool"}


# Reading --------------------------------------------------------------------------------------------------------


def from_ktt(document: Mapping[str, Any]) -> Recording:
    """Return the recording in a parsed file.

    Raises:
        RunFileError: The file has no results.
        LookupError, TypeError, ValueError, AttributeError: The file is damaged.
    """
    metadata = document.get("Metadata", {})
    unit, per_second = TIME_UNITS[str(metadata.get("TimeUnit", "milliseconds")).lower()]
    rows = read_rows(document["Results"], partial(_read_row, per_second=per_second))
    objective = str(document.get("UserData", {}).get("objective", "time"))
    described = described_space(document)
    recorded = recording(rows, described, objective=objective, unit=unit)
    return read_attributes(recorded, document)


def _read_row(row: Mapping[str, Any], per_second: float) -> tuple[dict[str, Any], Outcome]:
    config = {str(pair["Name"]): pair["Value"] for pair in row["Configuration"]}
    seconds = _seconds(row, per_second)
    value, status = finite_number(row["TotalDuration"]), str(row["Status"])
    if status != _OK or value is None:
        return config, failure(_WORDS.get(status, "runtime"), status, seconds)
    return config, measured(value, (), seconds | {"run": value / per_second})


def _seconds(row: Mapping[str, Any], per_second: float) -> dict[str, float]:
    """Return the times of the stages; older files have only the total of all overheads."""
    has_stages = any(name in row for name in _STAGES)
    others = _OTHER_OVERHEADS if has_stages else ("TotalOverhead",)
    overhead = sum(finite_number(row.get(name)) or 0.0 for name in others)
    times = {**row, "overhead": overhead}
    return stages(times, {**_STAGES, "overhead": "overhead"}, per_second)


# Writing --------------------------------------------------------------------------------------------------------


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
    write = partial(_write_row, per_second=per_second)
    document = {
        "Metadata": {**_METADATA, "TimeUnit": name.capitalize(), **(metadata or {})},
        "Results": write_rows(recorded, write, partial(_read_row, per_second=per_second)),
        "UserData": {"objective": recorded.objective},
        **write_attributes(recorded, unit),
    }
    return json_bytes(document, "a file of KTT's")


_METADATA: Mapping[str, str] = {
    "ComputeApi": "CUDA",
    "GlobalSizeType": "CUDA",
    "Platform": "unknown",
    "Device": "unknown",
    "KttVersion": "unknown",
    "Timestamp": "",
}
"""Entries that KTT expects."""

_NO_TIMES = ("ExtraDuration", "ExtraOverhead", "SearcherOverhead", "ProfilingOverhead")

_SIZE = {"X": 1, "Y": 1, "Z": 1}


def _write_row(config: Mapping[str, Any], outcome: Outcome, per_second: float) -> dict[str, Any]:
    ran = outcome.status is Status.OK
    seconds = outcome.extra.get("seconds", {})
    overheads = {
        theirs: (finite_number(seconds.get(ours)) or 0.0) * per_second
        for theirs, ours in [*_STAGES.items(), ("DataMovementOverhead", "overhead")]
    }
    duration = outcome.value if ran else 0.0
    kernel = {  # KTT sums up the durations of kernels again when it reads the file
        "KernelFunction": "kernel",
        "Duration": duration,
        "Overhead": 0.0,
        "CompilationOverhead": overheads["CompilationOverhead"],
        "GlobalSize": _SIZE,
        "LocalSize": _SIZE,
    }
    return {
        "KernelName": "kernel",
        "Status": _OK if ran else _STATUSES.get(outcome.failed or "", "ComputationFailed"),
        "TotalDuration": duration,
        "TotalOverhead": sum(overheads.values()),
        **dict.fromkeys(_NO_TIMES, 0.0),
        **overheads,
        "Configuration": [_value(name, value) for name, value in config.items()],
        "ComputationResults": [kernel] if ran else [],
    }


def _value(name: str, value: Any) -> dict[str, Any]:
    """Return a parameter with its value; a permutation becomes a text."""
    if type(value) is int:
        return {"Name": name, "ValueType": "UnsignedInt" if value >= 0 else "Int", "Value": value}
    value = ",".join(map(str, value)) if isinstance(value, tuple) else value
    return {"Name": name, "ValueType": _VALUE_TYPES.get(type(value), "String"), "Value": value}
