"""Keep finished runs in a file, so that an interrupted comparison can continue.

The file is a journal like the journal of a run (`journal.json_lines`): one record per run with a checksum; a torn last
record is dropped. A ``specified`` record contains everything that decides the runs after it. A later call with more
repeats, strategies or spaces adds such a record; a call that contradicts the file raises an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np

from baco_like.benchmarking.comparison.runs import StrategyRun
from baco_like.exceptions import JournalError
from baco_like.journal.events import SCHEMA, START, Event, Mark, normalise
from baco_like.journal.json_lines import JsonlJournal

RunKey = tuple[str, str, int]

_PARTS = {"common": "", "spaces": "space ", "contenders": "strategy "}
"""The parts of a specification, and the start of messages about their entries."""


@dataclass(frozen=True)
class ComparisonSpecification:
    """Everything that decides the results of a comparison's runs, as JSON values.

    Attributes:
        common: Values for all runs, by name.
        spaces: Digest and budget of each recorded space.
        contenders: Strategy and settings of each label.
    """

    common: Mapping[str, Any]
    spaces: Mapping[str, Any]
    contenders: Mapping[str, Any]

    def event(self) -> Event:
        """Return the specification as a record."""
        parts = {part: dict(getattr(self, part)) for part in _PARTS}
        return normalise({"event": "specified", "schema": SCHEMA, **parts})


@final
@dataclass
class RunStore:
    """The finished runs of one comparison. Create it by `RunStore.open`.

    Attributes:
        path: The file.
        runs: The runs in the file, by space, label and seed.
    """

    path: Path
    runs: dict[RunKey, StrategyRun] = field(default_factory=dict)
    _specified: dict[str, dict[str, Any]] = field(default_factory=dict)
    _mark: Mark = START

    @classmethod
    def open(cls, path: Path, specification: ComparisonSpecification) -> RunStore:
        """Read the file, or create it.

        Raises:
            JournalError: The file is damaged, or its runs have another specification; the file is unchanged.
        """
        store = cls(path)
        for event, mark in JsonlJournal(path).read(START):
            store._apply(event, mark)
        event = specification.event()
        store._check(event)
        if any(set(event[part]) - set(store._specified.get(part, {})) for part in _PARTS):
            store._append(event)
        return store

    def add(self, run: StrategyRun) -> None:
        """Write a finished run to the disk.

        Raises:
            JournalError: It cannot be written.
        """
        event: dict[str, Any] = {"event": "finished"}
        event |= {"space": run.space, "label": run.label, "seed": run.seed}
        event |= {"cpu": round(run.cpu, 6), "rows": run.rows.tolist()}
        if run.drawn is not None:
            event["drawn"] = [None if np.isnan(cost) else cost for cost in run.drawn.tolist()]
        if run.penalised is not None:
            event["penalised"] = run.penalised.tolist()
        self._append(event)

    def _append(self, event: Event) -> None:
        self._apply(event, JsonlJournal(self.path).append(event, self._mark))

    def _apply(self, event: Event, mark: Mark) -> None:
        self._mark = mark
        if event["event"] == "specified":
            for part in _PARTS:
                self._specified.setdefault(part, {}).update(event[part])
            return
        if event["event"] != "finished":
            raise JournalError(
                f"{self.path} holds no finished runs (record {mark.number - 1}: {event['event']!r}); "
                "it is another kind of journal, choose another folder by --out"
            )
        types = {"rows": np.int64, "drawn": np.float64, "penalised": np.int64}
        arrays: dict[str, Any] = {
            name: np.array(event[name], types[name]) for name in types if name in event
        }
        run = StrategyRun(event["space"], event["label"], event["seed"], cpu=event["cpu"], **arrays)
        self.runs[run.key] = run

    def _check(self, event: Event) -> None:
        for part, entries in self._specified.items():
            for name, old in entries.items():
                new = event[part].get(name, old)
                difference = _difference(f"{_PARTS[part]}{name}", old, new)
                if difference is not None:
                    raise JournalError(
                        f"{self.path} has runs with {difference}; keep the old value, or choose another folder by --out"
                    )


def _difference(name: str, old: Any, new: Any) -> str | None:
    """Return a description of the first difference of two JSON values, or None."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = dict.fromkeys([*old, *new])
        differences = (_difference(f"{name}: {key}", old.get(key), new.get(key)) for key in keys)
        return next(filter(None, differences), None)
    return None if old == new else f"{name} = {old!r:.100}, now it is {new!r:.100}"
