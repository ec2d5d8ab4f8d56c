"""A file of results that several runs may share: one JSON object per line.

The first line lists what the results depend on in addition to the configuration (the context). A run with another
context is refused. Lines are appended under a file lock, so that several processes may write.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from baco_like.exceptions import EvaluatorError, JournalError
from baco_like.journal.events import normalise, observed_event, read_outcome
from baco_like.journal.lock import locked
from baco_like.records.trial import Outcome, Status, Trial
from baco_like.results.files import hash_of_files

_VERSION = 1

_LASTING_FAILURES = ("compile", "constraints", "correctness")
"""Failures that would happen again; a crash or a limit may be chance."""


class ResultCache:
    """Known results by configuration.

    Args:
        path: The file; the first result creates it.
        context: Everything else that the values depend on, as JSON values by name: kernel, problem size, machine.

    Raises:
        EvaluatorError: The file cannot be read, is not a cache, or has another context.
    """

    def __init__(self, path: Path, context: Mapping[str, Any]) -> None:
        self._path = path
        self._head = {"cache": _VERSION, "context": json.loads(json.dumps(dict(context)))}
        self._rows: dict[str, Mapping[str, Any]] = {}
        self._offset = 0  # in the file, of the first byte not read yet
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

        Raises:
            EvaluatorError: The file cannot be written.
        """
        if trial.status is not Status.OK and trial.failure not in _LASTING_FAILURES:
            return
        try:
            row = normalise(observed_event([trial]))["outcomes"][0]
            with locked(self._path, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX) as fd:
                head = [] if os.fstat(fd).st_size else [self._head]
                _append(fd, [*head, row])
        except (JournalError, ValueError, TypeError) as error:
            raise EvaluatorError(f"the cache {self._path}: {error}") from error
        self._rows[_key(trial.config)] = row

    def _read_new_lines(self) -> None:
        """Read the lines written since the last call, except an incomplete last line."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        except OSError as error:
            raise EvaluatorError(f"the cache {self._path} cannot be read: {error}") from error
        complete = data[: data.rfind(b"\n") + 1]
        for line in complete.splitlines():
            self._read_line(line)
            self._offset += len(line) + 1

    def _read_line(self, line: bytes) -> None:
        try:
            row = json.loads(line)
            if self._offset == 0:
                return self._check_head(row)
            read_outcome(row)
            self._rows[_key(row["config"])] = row
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise EvaluatorError(
                f"the cache {self._path} is damaged at byte {self._offset} "
                f"({type(error).__name__}: {error}); remove it"
            ) from None

    def _check_head(self, head: Any) -> None:
        if head.get("cache") != _VERSION:
            raise ValueError(f"not a cache of version {_VERSION}")
        old, new = head["context"], self._head["context"]
        for name in (*old, *new):
            if old.get(name) != new.get(name):
                raise EvaluatorError(
                    f"the cache {self._path} has results of another context: {name} was {old.get(name)!r:.80} and is "
                    f"{new.get(name)!r:.80}; name another file, or remove it"
                )


def digest(path: Path) -> str:
    """Return a hash of a file's content.

    Raises:
        EvaluatorError: The file cannot be read.
    """
    try:
        return hash_of_files([path])
    except OSError as error:
        raise EvaluatorError(f"{path} cannot be read: {error}") from None


def _key(config: Mapping[str, Any]) -> str:
    return json.dumps(dict(config), sort_keys=True)


def _append(fd: int, rows: list[Any]) -> None:
    """Write lines at the end of a file, over an incomplete line that a killed writer has left there."""
    text = b"".join(json.dumps(row, allow_nan=False).encode("ascii") + b"\n" for row in rows)
    end = os.lseek(fd, 0, os.SEEK_END)
    if end and os.pread(fd, 1, end - 1) != b"\n":
        end = os.pread(fd, end, 0).rfind(b"\n") + 1
        os.ftruncate(fd, end)
    os.lseek(fd, end, os.SEEK_SET)
    while text:
        text = text[os.write(fd, text) :]
