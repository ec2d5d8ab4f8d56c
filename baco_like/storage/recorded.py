"""Tables that other tuners have recorded: every configuration with its value or its failure.

Read are the T4 results format (`invalidity` says what failed) and Kernel Tuner's cache files,
closed or cut off in the middle of a write; both plain or compressed by gzip.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from baco_like.exceptions import EvaluatorError
from baco_like.records.reading import finite_number
from baco_like.records.trial import FAILURE_WORDS

_LARGEST_FILE = 2**30


_KERNEL_TUNER_WORDS: Mapping[str, str] = {
    "InvalidConfig": "constraints",
    "CompilationFailedConfig": "compile",
    "RuntimeFailedConfig": "runtime",
}

_KERNEL_TUNER_FAILED = 1e20
"""What old caches hold in place of a time."""

_STAGES: Mapping[str, str] = {
    "compilation": "compile",
    "compilation_time": "compile",
    "compile_time": "compile",
    "benchmark": "run",
    "benchmark_time": "run",
    "validation": "check",
    "verification_time": "check",
}
"""Names of stages in the files and here."""


@dataclass(frozen=True)
class Entry:
    """What was recorded of one configuration.

    Attributes:
        value: The objective, or None if it failed.
        repeats: Single measurements, where the file has them.
        failed: The failure word, or None.
        message: What the file says of the failure.
        seconds: How long each stage took (compile, run, check), as far as the file says.
    """

    value: float | None
    repeats: tuple[float, ...] = ()
    failed: str | None = None
    message: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Recorded:
    """A recorded table.

    Attributes:
        names: The parameters.
        domains: Per parameter its values; what a space can be built from.
        entries: What was recorded, by the values in the order of ``names``.
        objective: What was measured.
        unit: Its unit, or an empty text where the file does not say.
    """

    names: tuple[str, ...]
    domains: Mapping[str, tuple[Any, ...]]
    entries: Mapping[tuple[Any, ...], Entry]
    objective: str
    unit: str

    def entry(self, config: Mapping[str, Any]) -> Entry | None:
        """Return what was recorded of a configuration, or None."""
        return self.entries.get(tuple(config[name] for name in self.names))

    def measured(self, config: Mapping[str, Any]) -> bool:
        """Whether the table has this configuration; usable as a constraint of a space."""
        return self.entry(config) is not None


def load(path: str | Path) -> Recorded:
    """Read a recorded table.

    Raises:
        EvaluatorError: The file cannot be read, or is none of the formats.
    """
    place = Path(path)
    text = _text(place)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = _cut_off_cache(text)
    try:
        if isinstance(document, dict) and isinstance(document.get("results"), list):
            return _from_t4(document)
        if isinstance(document, dict) and isinstance(document.get("cache"), dict):
            return _from_kernel_tuner(document)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        told = f"{type(error).__name__}: {error}"
        raise EvaluatorError(f"{place}: a damaged table of recorded results ({told})") from None
    raise EvaluatorError(f"{place}: neither T4 results nor a Kernel Tuner cache")


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else path.open("rb") as stream:
            data = stream.read(_LARGEST_FILE + 1)
    except (OSError, EOFError) as error:
        raise EvaluatorError(f"{path}: cannot be read: {error}") from None
    if len(data) > _LARGEST_FILE:
        raise EvaluatorError(f"{path} has more than {_LARGEST_FILE // 2**20} MiB")
    return data.decode("utf-8", errors="replace")


def _table(
    rows: Iterable[tuple[Mapping[str, Any], Entry]],
    names: tuple[str, ...],
    domains: Mapping[str, tuple[Any, ...]] | None,
    objective: str,
    unit: str,
) -> Recorded:
    entries = {tuple(config[name] for name in names): entry for config, entry in rows}
    if not entries:
        raise ValueError("no entries")
    found = domains or {
        name: _ordered({values[i] for values in entries}) for i, name in enumerate(names)
    }
    return Recorded(names, found, entries, objective, unit)


def _ordered(values: set[Any]) -> tuple[Any, ...]:
    numbers = all(isinstance(value, (int, float)) for value in values)
    return tuple(sorted(values) if numbers else sorted(values, key=str))


def _from_t4(document: Mapping[str, Any]) -> Recorded:
    results = document["results"]
    objective = str(results[0].get("objectives", ["time"])[0])
    rows = ((_hashable(row["configuration"]), _t4_entry(row, objective)) for row in results)
    unit = next(
        (m.get("unit", "") for m in results[0]["measurements"] if m["name"] == objective), ""
    )
    written = str(document.get("metadata", {}).get("timeunit", ""))
    if not unit and re.fullmatch(r"mill?iseconds", written):  # some files have it with one l
        unit = "ms"
    return _table(rows, tuple(results[0]["configuration"]), None, objective, unit)


def _hashable(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with its lists, which are permutations, as tuples."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in config.items()}


def _t4_entry(row: Mapping[str, Any], objective: str) -> Entry:
    times = row.get("times", {})
    seconds = _seconds(times)
    values = {m["name"]: m["value"] for m in row["measurements"]}
    word = row["invalidity"]
    if word in FAILURE_WORDS:
        return Entry(None, failed=word, message=str(values.get(objective, "")), seconds=seconds)
    value = finite_number(values.get(objective))
    if value is None:
        return Entry(None, failed="runtime", message=str(values.get(objective)), seconds=seconds)
    repeats = _numbers(times.get("runtimes", ()))
    if repeats and "run" not in seconds:
        seconds["run"] = sum(repeats) / 1e3
    return Entry(value, repeats, seconds=seconds)


def _from_kernel_tuner(document: Mapping[str, Any]) -> Recorded:
    names = tuple(document["tune_params_keys"])
    objective = str(document.get("objective", "time"))
    domains = {name: tuple(document["tune_params"][name]) for name in names}
    rows = ((row, cache_entry(row, objective)) for row in document["cache"].values())
    return _table(rows, names, domains, objective, "ms" if objective == "time" else "")


def cache_entry(row: Mapping[str, Any], objective: str) -> Entry:
    """Return what a row of Kernel Tuner's says, from a cache file or from a run."""
    seconds = _seconds(row)
    raw = row.get(objective)
    told = row["__error__"] if "__error__" in row else raw if isinstance(raw, str) else None
    if told is not None:
        word = _KERNEL_TUNER_WORDS.get(str(told), "runtime")
        return Entry(None, failed=word, message=str(told), seconds=seconds)
    value = finite_number(raw)
    if value is None or value >= _KERNEL_TUNER_FAILED:
        return Entry(None, failed="runtime", message=str(raw), seconds=seconds)
    return Entry(value, _numbers(row.get("times", ())), seconds=seconds)


def _seconds(times: Mapping[str, Any]) -> dict[str, float]:
    """Return the stages' times in seconds; the files have milliseconds."""
    found = {}
    for name, stage in _STAGES.items():
        number = finite_number(times.get(name))
        if number is not None and number > 0:
            found[stage] = number / 1e3
    return found


def _numbers(values: Iterable[Any]) -> tuple[float, ...]:
    return tuple(number for number in map(finite_number, values) if number is not None)


def _cut_off_cache(text: str) -> dict[str, Any] | None:
    """Read a Kernel Tuner cache that was never closed, up to the last entry that is whole."""
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
        yield key[1], entry
