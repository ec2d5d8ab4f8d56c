"""Results by configuration in a file that several runs may share, one JSON object a line.

The first line says what the results depend on besides the configuration; a run for which that is different is refused.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from baco_like.exceptions import EvaluatorError, JournalError
from baco_like.journal.events import normalise, observed_event, read_outcome
from baco_like.journal.lock import locked
from baco_like.records.trial import Outcome, Status, Trial

_VERSION = 1

_LASTING = ("compile", "constraints", "correctness")
"""Failures that would come again; a crash or a limit may be chance."""


class ResultCache:
    """What is known of configurations.

    Args:
        path: The file; it need not exist, and is made with the first result.
        context: What the values depend on besides, as JSON values by name: kernel, problem size, machine.

    Raises:
        EvaluatorError: The file cannot be read, is no such cache, or is of another context.
    """

    def __init__(self, path: Path, context: Mapping[str, Any]) -> None:
        self._path = path
        self._head = {"cache": _VERSION, "context": json.loads(json.dumps(dict(context)))}
        self._known: dict[str, Mapping[str, Any]] = {}
        self._place = 0
        self._refresh()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, trial: Trial) -> Outcome | None:
        """Return what is known of a configuration, also by others that have written since, or None.

        Raises:
            EvaluatorError: The file cannot be read.
        """
        key = _key(trial.config)
        if key not in self._known:
            self._refresh()
        row = self._known.get(key)
        return None if row is None else read_outcome(row)

    def keep(self, trial: Trial) -> None:
        """Write the outcome of a trial, where it is one that would come again.

        Raises:
            EvaluatorError: It cannot be written.
        """
        outcome = trial.outcome
        if outcome is None or not (outcome.status is Status.OK or outcome.failed in _LASTING):
            return
        try:
            row = normalise(observed_event([trial]))["outcomes"][0]
            with locked(self._path, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX) as fd:
                lines = [] if os.fstat(fd).st_size else [self._head]
                _append(fd, [*lines, row])
        except (JournalError, ValueError, TypeError) as error:
            raise EvaluatorError(f"the cache {self._path}: {error}") from error
        self._known[_key(trial.config)] = row

    def _refresh(self) -> None:
        """Read what has been written since; a last line that is torn is left for later."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._place)
                data = file.read()
        except FileNotFoundError:
            return
        except OSError as error:
            raise EvaluatorError(f"the cache {self._path} cannot be read: {error}") from error
        whole = data[: data.rfind(b"\n") + 1]
        for line in whole.splitlines():
            self._take(line)
            self._place += len(line) + 1

    def _take(self, line: bytes) -> None:
        try:
            row = json.loads(line)
            if self._place == 0:
                return self._check(row)
            read_outcome(row)
            self._known[_key(row["config"])] = row
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise EvaluatorError(
                f"the cache {self._path} is damaged at byte {self._place} "
                f"({type(error).__name__}: {error}); remove it"
            ) from None

    def _check(self, head: Any) -> None:
        if head.get("cache") != _VERSION:
            raise ValueError(f"not a cache of version {_VERSION}")
        old, new = head["context"], self._head["context"]
        for name in (*old, *new):
            if old.get(name) != new.get(name):
                raise EvaluatorError(
                    f"the cache {self._path} is of other values: {name} was {old.get(name)!r:.80} and is "
                    f"{new.get(name)!r:.80}; name another file, or remove it"
                )


def digest(path: Path) -> str:
    """Return a text that changes with the content of a file.

    Raises:
        EvaluatorError: It cannot be read.
    """
    try:
        return sha256(path.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise EvaluatorError(f"{path} cannot be read: {error}") from None


def _key(config: Mapping[str, Any]) -> str:
    return json.dumps(dict(config), sort_keys=True)


def _append(fd: int, rows: list[Any]) -> None:
    """Write lines at the end, after cutting off a torn one there."""
    text = b"".join(json.dumps(row, allow_nan=False).encode("ascii") + b"\n" for row in rows)
    end = os.lseek(fd, 0, os.SEEK_END)
    if end and os.pread(fd, 1, end - 1) != b"\n":
        end = _last_line_end(fd, end)
        os.ftruncate(fd, end)
    os.lseek(fd, end, os.SEEK_SET)
    while text:
        text = text[os.write(fd, text) :]


def _last_line_end(fd: int, end: int) -> int:
    data = os.pread(fd, end, 0)
    return data.rfind(b"\n") + 1
