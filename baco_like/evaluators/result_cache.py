"""A file of results that several runs may share: a journal whose first event lists what the results depend on.

That is everything besides the configuration (the context); a run with another context is refused. Every further event
holds one result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from baco_like.exceptions import EvaluatorError, JournalConflict, JournalError, TrialError
from baco_like.journal.events import START, Event, Mark, normalise, observed_event, read_outcome
from baco_like.journal.fields import check_outcomes
from baco_like.journal.header import describe_changes
from baco_like.journal.json_lines import JsonlJournal
from baco_like.records.trial import Outcome, Status, Trial

_VERSION = 3
"""Version of the format."""

_LASTING_FAILURES = ("compile", "constraints", "correctness")
"""Failures that would happen again; a crash or a limit may be chance."""


class ResultCache:
    """Known results by configuration.

    Args:
        path: The file; the first result creates it.
        context: Everything else that the values depend on, as JSON values by name: kernel, problem size, machine.

    Raises:
        EvaluatorError: The file cannot be read, is damaged, is not a cache, or has another context.
    """

    def __init__(self, path: Path, context: Mapping[str, Any]) -> None:
        self._path, self._journal = path, JsonlJournal(path)
        self._context = json.loads(json.dumps(dict(context)))
        self._rows: dict[str, Event] = {}
        self._mark = START
        self._read_new()

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, trial: Trial) -> Outcome | None:
        """Return the known outcome of a configuration, or None; includes results that others wrote meanwhile.

        Raises:
            EvaluatorError: The file cannot be read.
        """
        key = _key(trial.config)
        if key not in self._rows:
            self._read_new()
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
            self._append({"event": "result", **row})
        except (JournalError, ValueError, TypeError) as error:
            raise EvaluatorError(f"the cache {self._path}: {error}") from error

    def _append(self, event: Event) -> None:
        if not self._mark.number:
            head = {"event": "cache", "version": _VERSION, "context": self._context}
            with suppress(JournalConflict):  # another run has begun the file
                self._journal.append(head, START)
        with self._journal.reserve():
            self._mark = self._journal.append(event, self._read_new())

    def _read_new(self) -> Mark:
        """Read the results that were written since the last call, and return the position behind them."""
        mark = self._mark
        try:
            for event, end in self._journal.read(mark):
                if end.number == 1:
                    self._check_head(event)
                else:
                    check_outcomes([event])  # a checksum protects from damage, not from edits
                    self._rows[_key(event["config"])] = event
                mark = end
        except JournalError as error:
            if error.record == 0:
                raise self._not_a_cache() from None
            if error.record is None:
                raise EvaluatorError(f"the cache {self._path} cannot be read: {error}") from error
            raise self._damaged(error.record) from error
        except TrialError as error:
            raise self._damaged(mark.number) from error
        self._mark = mark
        return mark

    def _check_head(self, head: Event) -> None:
        context = head.get("context")
        if head.get("event") != "cache" or not isinstance(context, dict):
            raise self._not_a_cache()
        if head.get("version") != _VERSION:
            raise EvaluatorError(
                f"the cache {self._path} has version {head.get('version')!r:.20}, this program reads {_VERSION}; "
                "name another file"
            )
        if changes := describe_changes(context, self._context):
            raise EvaluatorError(
                f"the cache {self._path} has results of another context: {'; '.join(changes)}; "
                "name another file, or remove it"
            )

    def _damaged(self, number: int) -> EvaluatorError:
        return EvaluatorError(
            f"the cache {self._path} is damaged in line {number + 1}; remove it, or name another file"
        )

    def _not_a_cache(self) -> EvaluatorError:
        return EvaluatorError(f"{self._path} is not a cache of results; name another file")


def _key(config: Mapping[str, Any]) -> str:
    return json.dumps(dict(config), sort_keys=True)
