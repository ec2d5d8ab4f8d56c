"""Read and write results in the formats of several tools, with one function each.

The formats: T4, Kernel Tuner's caches, KTT's JSON, BaCO's and HyperMapper's CSV, a plain CSV table, and (read only)
our journals.
"""

from __future__ import annotations

import csv
import io
import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from baco_like._output import JOURNAL_BEGINNING, replace_file
from baco_like.exceptions import BacoWarning, RunFileError
from baco_like.records.trial import Status
from baco_like.results.files import (
    check_cells,
    check_number,
    check_table,
    is_packed,
    read_beginning,
    read_text,
)
from baco_like.results.hypermapper_csv import from_samples, samples_bytes, writable
from baco_like.results.recording import Recording, by_measurement, from_journal, split_rows
from baco_like.results.table_csv import from_table, is_table, table_bytes
from baco_like.results.tuner_json import (
    cache_bytes,
    cut_off_cache,
    from_cache,
    from_ktt,
    from_t4,
    ktt_bytes,
    t4_bytes,
)

FORMATS: Mapping[str, Callable[..., bytes]] = {
    "t4": t4_bytes,
    "kernel_tuner": cache_bytes,
    "ktt": ktt_bytes,
    "baco": samples_bytes,
    "csv": table_bytes,
}
"""Writers of the formats, by name."""

_TRIED = (
    "a journal of baco-like, T4 results (JSON with 'results'), a cache of Kernel Tuner's (JSON with 'cache'), "
    "results of KTT's (JSON with 'Results'), a CSV file (a line of names with commas)"
)


def read(
    path: str | os.PathLike[str], objective: str | None = None, *, large: bool = False
) -> Recording:
    """Read a file of results. The format is recognised by the content, plain or compressed by gzip.

    Args:
        path: The file.
        objective: Name of the measurement to use as the value; None uses the one that the file names.
        large: Whether the file may have more than 64 MiB, unpacked, or 150,000 results. Journals may in any case.

    Raises:
        RunFileError: The file cannot be read, is too large, has an unknown format (the message lists the
            known ones), is damaged, or lacks the measurement.
        JournalError: The file is a damaged journal.
    """
    file = Path(path)
    beginning = read_beginning(file, len(JOURNAL_BEGINNING), large)
    is_journal = beginning == JOURNAL_BEGINNING
    text = "" if is_journal else read_text(file, large)
    try:
        if is_journal and is_packed(file):
            raise RunFileError("it is a compressed journal; unpack it first")
        recorded = from_journal(file) if is_journal else _read(text, objective, large)
    except RunFileError as error:
        raise RunFileError(f"{file}: {_line(error)}") from None
    except (LookupError, TypeError, ValueError, AttributeError, csv.Error) as error:
        reason = f"{type(error).__name__}: {_line(error)}"
        raise RunFileError(f"{file}: a damaged file of results ({reason})") from None
    if objective in (None, recorded.objective):
        return recorded
    return _change_objective(file, recorded, objective)


def _change_objective(file: Path, recorded: Recording, objective: str) -> Recording:
    """Return a recording with another measurement as the value."""
    pairs = zip(recorded.configs, recorded.outcomes, strict=True)
    kept = by_measurement(pairs, objective, recorded.objective)
    if not any(outcome.status is Status.OK for _, outcome in kept):
        raise RunFileError(
            f"{file}: its objective is {recorded.objective!r}, and it has no measurement {objective!r}"
        )
    left_out = len(recorded) - len(kept)
    note = f"rows without the measurement {objective!r} that were left out: {left_out}"
    rows, outcomes = split_rows(recorded.names, kept)
    return replace(
        recorded,
        rows=rows,
        outcomes=outcomes,
        objective=objective,
        unit="",
        direction=None,
        notes=(*recorded.notes, note) if left_out else recorded.notes,
        further_objectives=(),
    )


def write(
    recorded: Recording,
    path: str | os.PathLike[str],
    kind: str,
    metadata: Mapping[str, Any] | None = None,
    inputs: Iterable[str | os.PathLike[str]] = (),
) -> int:
    """Write recorded results completely or not at all, and return their number; warn of results that are left out.

    Args:
        recorded: The results.
        path: A file name; one that ends in ``.gz`` is compressed.
        kind: One of `FORMATS`.
        metadata: Additional entries of the file, such as ``device_name``, ``kernel_name`` and ``problem_size`` of
            Kernel Tuner's cache. CSV files have none.
        inputs: Files that must not be replaced, such as the file that the results come from.

    Raises:
        ValueError: The format is unknown or cannot hold these results; the message says why.
        OSError: The file cannot be written, or is an input or a journal.
    """
    if kind not in FORMATS:
        raise ValueError(f"the format {kind!r} is unknown; it is one of {', '.join(FORMATS)}")
    if metadata and kind in ("baco", "csv"):
        raise ValueError(f"a file of the format {kind!r} has no place for metadata; leave it out")
    kept = writable(recorded) if kind == "baco" else recorded
    data = FORMATS[kind](kept, metadata) if metadata else FORMATS[kind](kept)
    replace_file(Path(path), data, inputs)
    if len(kept) < len(recorded):
        warnings.warn(
            f"{len(recorded) - len(kept)} of {len(recorded)} results are not in {Path(path).name}: a file of the "
            f"format {kind!r} holds values of the space only",
            BacoWarning,
            stacklevel=3,
        )
    return len(kept)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]


def _read(text: str, objective: str | None, large: bool) -> Recording:
    is_json = text.lstrip()[:1] in ("{", "[")
    if is_json:
        check_cells(text, large, "values")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = cut_off_cache(text)
    if isinstance(document, dict):
        for key, (kind, read_document) in _DOCUMENTS.items():
            if isinstance(document.get(key), kind):
                check_number(len(document[key]), large)
                return read_document(document, objective)
        for key, what in _SPACES.items():
            if key in document:
                raise RunFileError(f"it describes a space, {what}, and holds no results")
    first_line = text.partition("\n")[0]
    is_text = "\0" not in first_line  # a database begins with a name and a zero byte
    if document is None and is_text and "," in first_line and not is_json:
        check_table(text, large)
        return _read_csv(text, objective)
    raise RunFileError(f"unknown format; known formats are {_TRIED}")


_DOCUMENTS: Mapping[str, tuple[type, Callable[..., Recording]]] = {
    "results": (list, from_t4),
    "cache": (dict, from_cache),
    "Results": (list, lambda document, objective: from_ktt(document)),
}
"""The member with the results in each JSON format, its type, and the reader of the format."""

_SPACES: Mapping[str, str] = {
    "ConfigurationSpace": "for Space.from_t1",
    "input_parameters": "for Space.from_baco",
    "parameters": "for Space.from_dict",
}


def _read_csv(text: str, objective: str | None) -> Recording:
    """Read a CSV file; an incomplete last line is left out."""
    whole = text[: text.rfind("\n") + 1]
    lines = list(filter(None, csv.reader(io.StringIO(whole, newline=""), skipinitialspace=True)))
    if not lines:
        raise RunFileError("a CSV file without a complete line; a line ends with a line break")
    return from_table(lines) if is_table(lines[0]) else from_samples(lines, objective)
