"""KTT's results as it saves them in JSON (``Tuner::SaveResults`` with ``OutputFormat::JSON``).

A result has a configuration (a list of names and values), a status and durations in the file's unit of time. KTT
measures durations only, each once; all other information is written to the row under our own key.
`baco_like.results.t4` reads and writes KTT's other format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from baco_like.records.reading import finite_number
from baco_like.records.trial import Outcome, Status
from baco_like.results.files import json_bytes
from baco_like.results.measurements import failure, measured
from baco_like.results.recording import Recording, about, as_told, completed, own_part, recording

_UNITS: Mapping[str, tuple[str, float]] = {
    "Nanoseconds": ("ns", 1e9),
    "Microseconds": ("us", 1e6),
    "Milliseconds": ("ms", 1e3),
    "Seconds": ("s", 1.0),
}
"""KTT's unit of time -> our unit, and its number per second."""

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

_VALUE_TYPES: Mapping[type, str] = {float: "Double", bool: "Bool", str: "String"}


# Reading --------------------------------------------------------------------------------------------------------


def from_ktt(document: Mapping[str, Any]) -> Recording:
    """Return the recording in a parsed file.

    Raises:
        RunFileError: The file has no results.
        LookupError, TypeError, ValueError, AttributeError: The file is damaged.
    """
    metadata = document.get("Metadata", {})
    unit, per_second = _UNITS[str(metadata.get("TimeUnit", "Milliseconds"))]
    found = [_pair(row, per_second) for row in document["Results"]]
    objective = str(document.get("UserData", {}).get("objective", "time"))
    return as_told(recording(found, objective=objective, unit=unit), document)


def _pair(row: Mapping[str, Any], per_second: float) -> tuple[dict[str, Any], Outcome]:
    own = own_part(row)
    if own is not None:
        return own
    config = {str(pair["Name"]): pair["Value"] for pair in row["Configuration"]}
    seconds = _seconds(row, per_second)
    value, status = finite_number(row["TotalDuration"]), str(row["Status"])
    if status != _OK or value is None:
        return config, failure(_WORDS.get(status, "runtime"), status, seconds)
    return config, measured(value, (), seconds | {"run": value / per_second})


def _seconds(row: Mapping[str, Any], per_second: float) -> dict[str, float]:
    """Return the times of the stages; older files have only the total of all overheads."""
    given = {ours: finite_number(row.get(theirs)) for theirs, ours in _STAGES.items()}
    others = [finite_number(row.get(name)) or 0.0 for name in _OTHER_OVERHEADS]
    if not any(name in row for name in _STAGES):
        others = [finite_number(row.get("TotalOverhead")) or 0.0]
    given["overhead"] = sum(others)
    return {name: one / per_second for name, one in given.items() if one is not None and one > 0}


# Writing --------------------------------------------------------------------------------------------------------


def ktt_bytes(found: Recording, metadata: Mapping[str, Any] | None = None) -> bytes:
    """Return the content of a file that KTT reads.

    Args:
        found: The results, in a unit of time; an unknown unit is written as milliseconds.
        metadata: Additional entries of ``Metadata``, such as ``Device``.

    Raises:
        ValueError: The unit is not a unit of time, or a value has no JSON form.
    """
    wanted = found.unit or "ms"
    named = {ours: (name, per_second) for name, (ours, per_second) in _UNITS.items()}
    if wanted not in named:
        raise ValueError(
            f"the unit {found.unit!r} is not a unit of time, and KTT's files have only durations; write t4 or csv"
        )
    unit, per_second = named[wanted]
    rows = [
        completed(_row(config, one, per_second), config, one, lambda row: _pair(row, per_second))
        for config, one in zip(found.configs, found.outcomes, strict=True)
    ]
    document = {
        "Metadata": {**_METADATA, "TimeUnit": unit, **(metadata or {})},
        "Results": rows,
        "UserData": {"objective": found.objective},
        **about(found, wanted),
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

_SIZE = {"X": 1, "Y": 1, "Z": 1}


def _row(config: Mapping[str, Any], outcome: Outcome, per_second: float) -> dict[str, Any]:
    ran = outcome.status is Status.OK
    seconds = outcome.extra.get("seconds", {})
    overheads = {
        theirs: (finite_number(seconds.get(ours)) or 0.0) * per_second
        for theirs, ours in [*_STAGES.items(), ("DataMovementOverhead", "overhead")]
    }
    duration = outcome.value if ran else 0.0
    return {
        "KernelName": "kernel",
        "Status": _OK if ran else _STATUSES.get(outcome.failed or "", "ComputationFailed"),
        "TotalDuration": duration,
        "TotalOverhead": sum(overheads.values()),
        "ExtraDuration": 0.0,
        "ExtraOverhead": 0.0,
        "SearcherOverhead": 0.0,
        "ProfilingOverhead": 0.0,
        **overheads,
        "Configuration": [_value(name, value) for name, value in config.items()],
        "ComputationResults": [_computation(duration, overheads)] if ran else [],
    }


def _computation(duration: Any, overheads: Mapping[str, float]) -> dict[str, Any]:
    """Return the kernel of a result; KTT sums up the durations again when it reads the file."""
    return {
        "KernelFunction": "kernel",
        "Duration": duration,
        "Overhead": 0.0,
        "CompilationOverhead": overheads["CompilationOverhead"],
        "GlobalSize": _SIZE,
        "LocalSize": _SIZE,
    }


def _value(name: str, value: Any) -> dict[str, Any]:
    """Return a parameter with its value; a permutation becomes a text."""
    if type(value) is int:
        return {"Name": name, "ValueType": "UnsignedInt" if value >= 0 else "Int", "Value": value}
    plain: Sequence[Any] = ",".join(map(str, value)) if isinstance(value, tuple) else value
    return {"Name": name, "ValueType": _VALUE_TYPES.get(type(plain), "String"), "Value": plain}
