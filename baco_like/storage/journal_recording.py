"""A journal of ours as recorded results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from baco_like.exceptions import JournalError, RunFileError
from baco_like.records.header import Header
from baco_like.records.journal import START, plain, read_outcome
from baco_like.records.trial import Trial
from baco_like.storage.jsonl import JsonlJournal
from baco_like.storage.recording import Recording, recorded_trials


def from_journal(path: Path) -> Recording:
    """Return the observations of a journal, in the order in which they came.

    The unit is that of the run's context (``[objective] unit``, as ``baco-like tune`` writes it).

    Raises:
        JournalError: It is damaged.
        RunFileError: Nothing was observed.
    """
    records = iter(JsonlJournal(path).read(START))
    header = Header.read(next(records)[0], str(path))
    asked: dict[int, dict[str, Any]] = {}
    found: list[Trial] = []
    for event, mark in records:
        try:
            _take(event, asked, found)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            number = mark.number - 1
            raise JournalError(f"{path}: record {number} is wrong: {error!r}", number) from error
    if not found:
        raise RunFileError(f"{path}: nothing was observed in this run")
    options = header.options
    return recorded_trials(
        found,
        names=tuple(header.space["parameters"]),
        objective=options.objective,
        unit=str(options.context.get("[objective] unit", "")),
        goal=options.direction,
        described=dict(header.space),
    )


def _take(event: Mapping[str, Any], asked: dict[int, dict[str, Any]], found: list[Trial]) -> None:
    if event["event"] == "suggested":
        asked.update({row["id"]: plain(row["config"]) for row in event["trials"]})
    if event["event"] == "observed":
        for row in event["outcomes"]:
            config = plain(row["config"]) if "config" in row else asked[row["id"]]
            found.append(Trial(row["id"], config, outcome=read_outcome(row)))
