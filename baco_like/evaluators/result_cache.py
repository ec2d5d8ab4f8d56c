"""A file of results that several runs may share: lines with checksums, as in journals.

The first line lists what the results depend on in addition to the configuration (the context). A run with another
context is refused. Every other line holds one result and a digest of its context; a damaged line is skipped. Lines are
appended under a file lock, so that several processes may write.
"""

from __future__ import annotations

import fcntl
import json
import os
import warnings
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from baco_like._output import open_regular_file, sync_folder
from baco_like.exceptions import BacoWarning, EvaluatorError, JournalError
from baco_like.journal.events import Event, normalise, observed_event, read_outcome
from baco_like.journal.fields import check_outcomes
from baco_like.journal.header import describe_changes
from baco_like.journal.json_lines import (
    LONGEST_LINE,
    decode_line,
    encode_line,
    end_of_lines,
    write_at,
)
from baco_like.journal.lock import locked
from baco_like.records.trial import Outcome, Status, Trial

_VERSION = 2
"""Version of the format."""

_HEAD, _RESULT = 0, 1
"""Numbers of the lines: those of results have one number, because their order does not matter."""

_START = b'{"crc":"'
"""Beginning of every line."""

_LASTING_FAILURES = ("compile", "constraints", "correctness")
"""Failures that would happen again; a crash or a limit may be chance."""

_MALFORMED = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


class ResultCache:
    """Known results by configuration.

    A line that is damaged, or cut off by a crash, is skipped with a warning.

    Args:
        path: The file; the first result creates it.
        context: Everything else that the values depend on, as JSON values by name: kernel, problem size, machine.

    Raises:
        EvaluatorError: The file cannot be read, is not a cache, or has another context.
    """

    def __init__(self, path: Path, context: Mapping[str, Any]) -> None:
        if "\0" in str(path):
            raise EvaluatorError(f"the cache {str(path)!r} has a null character in its name")
        self._path = path
        self._context = json.loads(json.dumps(dict(context)))
        text = json.dumps(self._context, sort_keys=True)
        self._digest = sha256(text.encode()).hexdigest()[:16]
        self._rows: dict[str, Mapping[str, Any]] = {}
        self._offset = 0  # in the file, of the first byte not read yet
        self._is_cut = False
        self._read_new_lines()

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, trial: Trial) -> Outcome | None:
        """Return the known outcome of a configuration, or None; includes results that others wrote meanwhile.

        Raises:
            EvaluatorError: The file cannot be read.
        """
        key = _key(trial.config)
        if key not in self._rows:
            self._read_new_lines()
        row = self._rows.get(key)
        return None if row is None else read_outcome(row)

    def keep(self, trial: Trial) -> None:
        """Write the outcome of a trial, if it is a value or a failure that would happen again.

        It is on the disk afterwards.

        Raises:
            EvaluatorError: The file cannot be written; the outcome is known to this object only.
        """
        outcome, is_success = trial.outcome, trial.status is Status.OK
        if outcome is None or not (is_success or trial.failure in _LASTING_FAILURES):
            return
        try:
            row = normalise(observed_event([trial], [outcome]))["outcomes"][0]
            self._rows[_key(trial.config)] = row
            entry = {"event": "result", "context": self._digest, **row}
            self._append(encode_line(_RESULT, entry))
        except (JournalError, ValueError, TypeError) as error:
            raise EvaluatorError(f"the cache {self._path}: {error}") from error

    def _append(self, line: bytes) -> None:
        """Write a line at the end of the file, over an incomplete line that a killed writer has left there."""
        with locked(self._path, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX) as fd:
            size = os.fstat(fd).st_size
            end = end_of_lines(fd, 0, size)
            if end == 0:
                self._check_start(os.pread(fd, 64, 0))
                head = {"event": "cache", "version": _VERSION, "context": self._context}
                line = encode_line(_HEAD, head) + line
            elif os.pread(fd, 1, end - 1) != b"\n":  # no line, but too long for an incomplete one
                line = b"\n" + line
            if end < size:
                os.ftruncate(fd, end)
            write_at(fd, line, end, self._path)
            if end == 0:
                sync_folder(self._path.parent)

    def _read_new_lines(self) -> None:
        """Read the lines written since the last call, except an incomplete last line."""
        damaged: list[int] = []
        try:
            with open_regular_file(self._path) as file:
                if os.fstat(file.fileno()).st_size < self._offset:
                    self._offset = 0  # the file was cut or replaced
                file.seek(self._offset)
                while line := file.readline(LONGEST_LINE):
                    if not line.endswith(b"\n") and len(line) < LONGEST_LINE:
                        break
                    if not self._read_line(line[:-1]):
                        damaged.append(self._offset)
                    self._offset += len(line)
        except FileNotFoundError:
            return
        except OSError as error:
            raise EvaluatorError(f"the cache {self._path} cannot be read: {error}") from error
        if self._offset == 0 and line and not self._is_cut:
            self._check_start(line[:64])
            self._is_cut = True  # warn once
            self._warn("was cut off within its first line; the next result starts it again")
        if damaged:
            self._warn(f"has {len(damaged)} damaged lines, the first at byte {damaged[0]}; skipped")

    def _warn(self, problem: str) -> None:
        warnings.warn(f"the cache {self._path} {problem}", BacoWarning, stacklevel=5)

    def _read_line(self, line: bytes) -> bool:
        """Read a line without its line end; return whether it is intact."""
        if self._offset == 0:
            return self._read_head(line)
        row = _decode(line, _RESULT)
        if row is None or row.get("context") != self._digest:
            return False
        try:
            check_outcomes([row])  # a checksum protects from damage, not from edits
            self._rows[_key(row["config"])] = row
        except _MALFORMED:
            return False
        return True

    def _read_head(self, line: bytes) -> bool:
        """Read the first line; return whether it is intact.

        Raises:
            EvaluatorError: The file is not a cache, or has another context.
        """
        self._check_start(line[:64])
        head = _decode(line, _HEAD)
        if head is None:
            return False
        if head.get("event") != "cache":
            raise self._not_a_cache()
        if head.get("version") != _VERSION:
            raise EvaluatorError(
                f"the cache {self._path} has version {head.get('version')!r:.20}, this program reads {_VERSION}; "
                "name another file"
            )
        context = head.get("context")
        if not isinstance(context, dict):
            raise self._not_a_cache()
        if changes := describe_changes(context, self._context):
            raise EvaluatorError(
                f"the cache {self._path} has results of another context: {'; '.join(changes)}; "
                "name another file, or remove it"
            )
        return True

    def _check_start(self, beginning: bytes) -> None:
        """Refuse a file of another kind; the first line may be incomplete, or have a damaged byte.

        Raises:
            EvaluatorError: The file is not a cache.
        """
        pairs = list(zip(beginning.rstrip(b"\0"), _START, strict=False))
        if sum(a != b for a, b in pairs) > (len(pairs) == len(_START)):
            raise self._not_a_cache()

    def _not_a_cache(self) -> EvaluatorError:
        return EvaluatorError(f"{self._path} is not a cache of results; name another file")


def _key(config: Mapping[str, Any]) -> str:
    return json.dumps(dict(config), sort_keys=True)


def _decode(line: bytes, number: int) -> Event | None:
    """Return the content of a line with a valid checksum, or None."""
    decoded = decode_line(line, number)
    return None if decoded is None else decoded[0]
