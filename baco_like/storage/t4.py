"""Results as a T4 file, the results format that Kernel Tuner, KTT and the public benchmark hub share (schema 1.0.0).

One JSON object with one row per configuration. What a row cannot say (named metrics, the bound of a censored value,
repeats in other units than milliseconds) stays in the journal. `baco_like.evaluators.recorded.load` reads the files.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from baco_like.records.objective import Objective
from baco_like.records.trial import FAILURE_WORDS, Status, Trial

VERSION = "1.0.0"
"""Of the schema."""

_STAGES: Mapping[str, str] = {
    "compilation": "build",
    "benchmark": "run",
    "validation": "check",
}
"""The file's names of stages, and those of our evaluators."""

_MESSAGE_LENGTH = 200


def write_t4(
    path: str | os.PathLike[str],
    trials: Iterable[Trial],
    objective: Objective,
    metadata: Mapping[str, Any] | None = None,
) -> int:
    """Write trials that have come out as a T4 file, all or nothing, and return how many there were.

    A censored trial becomes a timeout. A failure word that is none of the format's becomes ``runtime``, with the word
    before the message. A permutation is a JSON list.

    Args:
        path: A name that ends in ``.gz`` is compressed, byte for byte the same each time.
        trials: Pending and abandoned ones are left out.
        objective: Its name and unit are written.
        metadata: Further entries of the file's ``metadata``, such as the machine.

    Raises:
        ValueError: A value is no JSON (a number that is not finite, an object).
        OSError: The file cannot be written.
    """
    rows = list(_rows(trials, objective))
    document = {
        "schema_version": VERSION,
        "metadata": {"timeunit": "milliseconds", **(metadata or {})},
        "results": rows,
    }
    try:
        text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    except TypeError as error:
        raise ValueError(f"a T4 file cannot hold this: {error}; use JSON values") from error
    _replace(Path(path), text.replace('{"configuration"', '\n{"configuration"').encode("utf-8"))
    return len(rows)


def _rows(trials: Iterable[Trial], objective: Objective) -> Iterator[dict[str, Any]]:
    for trial in trials:
        if trial.status in (Status.OK, Status.FAILED, Status.CENSORED):
            yield _row(trial, objective)


def _row(trial: Trial, objective: Objective) -> dict[str, Any]:
    ran = trial.status is Status.OK
    word, message = _failure(trial)
    return {
        "configuration": {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in trial.config.items()
        },
        "times": _times(trial, objective),
        "invalidity": "correct" if ran else word,
        "correctness": int(ran),
        "measurements": [
            {
                "name": objective.name,
                "value": trial.value if ran else message,
                "unit": objective.unit,
            }
        ],
        "objectives": [objective.name],
    }


def _times(trial: Trial, objective: Objective) -> dict[str, Any]:
    """Return the times in milliseconds; the format asks for all but the benchmark's."""
    told = trial.extra.get("seconds")
    seconds: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
    times: dict[str, Any] = {"framework": 0, "search_algorithm": 0}
    for theirs, ours in _STAGES.items():
        times[theirs] = round(1e3 * float(seconds.get(ours, 0.0)), 3)
    times["runtimes"] = list(trial.repeats) if objective.unit == "ms" else []
    return times


def _failure(trial: Trial) -> tuple[str, str]:
    """Return a word of the format and what the failing tool said first."""
    word = "timeout" if trial.status is Status.CENSORED else trial.failed or "runtime"
    message = trial.message.partition("\n")[0]
    if word not in FAILURE_WORDS:
        word, message = "runtime", f"{word}: {message}"
    return word, message[:_MESSAGE_LENGTH]


def _replace(path: Path, data: bytes) -> None:
    """Write a file under another name beside the wanted one, then give it that name."""
    packed = gzip.compress(data, mtime=0) if path.suffix == ".gz" else data
    other = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        other.write_bytes(packed)
        os.replace(other, path)
    finally:
        other.unlink(missing_ok=True)
