"""Finished runs in a file, one record a run: an interrupted comparison goes on, another one is refused.

The file is a journal like that of a run (`journal.json_lines`): appended a record at a time, with checksums, and
what a crash has torn off is cut off. A ``specified`` record says what the runs after it depend on. A later call with
more of the same (repeats, strategies, spaces) adds one; a call that contradicts it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np

from baco_like.benchmarking.comparison.runs import Run
from baco_like.exceptions import JournalError
from baco_like.journal.events import START, Event, Mark, normalise
from baco_like.journal.json_lines import JsonlJournal

Key = tuple[str, str, int]


@dataclass(frozen=True)
class Specification:
    """What the runs of a comparison depend on, as JSON values.

    Attributes:
        common: What holds for all of them, by name: the budget's rule, say.
        spaces: Of each recorded space what its runs depend on: its digest and budget.
        contenders: Strategy and settings of each label.
    """

    common: Mapping[str, Any]
    spaces: Mapping[str, Any]
    contenders: Mapping[str, Any]

    def event(self) -> Event:
        """Return it as a record."""
        parts = {"common": self.common, "spaces": self.spaces, "contenders": self.contenders}
        return normalise({"event": "specified", **{k: dict(v) for k, v in parts.items()}})


@final
@dataclass
class Store:
    """The finished runs of one comparison. Make it with `Store.open`.

    Attributes:
        path: The file.
        runs: Those in the file, by space, label and seed.
    """

    path: Path
    runs: dict[Key, Run] = field(default_factory=dict)
    _known: dict[str, dict[str, Any]] = field(default_factory=dict)
    _mark: Mark = START

    @classmethod
    def open(cls, path: Path, wanted: Specification) -> Store:
        """Read the file, or begin one.

        Raises:
            JournalError: It is damaged, or its runs were specified otherwise; nothing was written.
        """
        store = cls(path)
        for event, mark in JsonlJournal(path).read(START):
            store._take(event, mark)
        new = wanted.event()
        store._check(new)
        if any(set(new[part]) - set(store._known.get(part, {})) for part in _PARTS):
            store._append(new)
        return store

    def add(self, run: Run) -> None:
        """Keep a finished run; when this returns it is on the disk.

        Raises:
            JournalError: It cannot be written.
        """
        event = {
            "event": "finished",
            "space": run.space,
            "label": run.label,
            "seed": run.seed,
            "cpu": round(run.cpu, 6),
            "rows": run.rows.tolist(),
        }
        if run.drawn is not None:
            event["drawn"] = [None if np.isnan(cost) else cost for cost in run.drawn.tolist()]
        if run.penalised is not None:
            event["penalised"] = run.penalised.tolist()
        self._append(event)

    def _append(self, event: Event) -> None:
        self._take(event, JsonlJournal(self.path).append(event, self._mark))

    def _take(self, event: Event, mark: Mark) -> None:
        self._mark = mark
        if event["event"] == "specified":
            for part in _PARTS:
                self._known.setdefault(part, {}).update(event[part])
            return
        if event["event"] != "finished":
            raise JournalError(
                f"{self.path} holds no finished runs (record {mark.number - 1}: {event['event']!r}); "
                "it is another kind of journal, choose another folder by --out"
            )
        drawn, penalised = event.get("drawn"), event.get("penalised")
        run = Run(
            event["space"],
            event["label"],
            event["seed"],
            np.array(event["rows"], dtype=np.int64),
            event["cpu"],
            None if drawn is None else np.array(drawn, dtype=float),
            None if penalised is None else np.array(penalised, dtype=np.int64),
        )
        self.runs[run.key] = run

    def _check(self, new: Event) -> None:
        for part, known in self._known.items():
            for name, old in known.items():
                told = _difference(f"{_PARTS[part]}{name}", old, new[part].get(name, old))
                if told is not None:
                    raise JournalError(
                        f"{self.path} has runs with {told}; ask for the same, or choose another folder by --out"
                    )


_PARTS = {"common": "", "spaces": "space ", "contenders": "strategy "}
"""The parts of a specification, and how messages begin to speak of their entries."""


def _difference(name: str, old: Any, new: Any) -> str | None:
    """Return the first difference of two JSON values, or None."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = dict.fromkeys([*old, *new])
        found = (_difference(f"{name}: {key}", old.get(key), new.get(key)) for key in keys)
        return next((told for told in found if told is not None), None)
    return None if old == new else f"{name} = {_shown(old)}, now it is {_shown(new)}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:97] + "..."
