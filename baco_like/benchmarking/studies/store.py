"""Keep finished runs in a file, so that an interrupted study can continue.

The file is a journal like the journal of a run (`journal.json_lines`): one record per run with a checksum; a torn last
record is dropped. A ``specified`` record contains everything that decides the runs after it. A later call with more
repeats, strategies or problems adds such a record; a call that contradicts the file raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TextIO, final

import numpy as np

from baco_like.benchmarking.studies.contenders import do_run
from baco_like.benchmarking.studies.parallel import run_parallel
from baco_like.benchmarking.studies.runs import RunJob, RunKey, StrategyRun
from baco_like.exceptions import BacoError, JournalError, StrategyError
from baco_like.journal.events import SCHEMA, START, Event, Mark, normalise
from baco_like.journal.json_lines import JsonlJournal
from baco_like.running.progress import Display

_PARTS = {"common": "", "problems": "problem ", "contenders": "strategy "}
"""The parts of a specification, and the start of messages about their entries."""

Specification = Mapping[str, Mapping[str, Any]]
"""Everything that decides the results of the runs, as JSON values: by part (see `_PARTS`) and name."""


_LINE_INTERVAL = 10.0
"""Seconds between two lines of progress."""


@final
@dataclass
class RunStore:
    """The finished runs of one study. Create it by `RunStore.open`.

    Attributes:
        path: The file.
        runs: The runs in the file, by problem, label and seed.
    """

    path: Path
    runs: dict[RunKey, StrategyRun] = field(default_factory=dict)
    _specified: dict[str, dict[str, Any]] = field(default_factory=dict)
    _mark: Mark = START

    @classmethod
    def open(cls, path: Path, specification: Specification) -> RunStore:
        """Read the file, or create it.

        Raises:
            JournalError: The file is damaged, or its runs have another specification; the file is unchanged.
        """
        store = cls(path)
        for event, mark in JsonlJournal(path).read(START):
            store._apply(event, mark)
        event = normalise({"event": "specified", "schema": SCHEMA, **specification})
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
        event |= {"problem": run.problem, "label": run.label, "seed": run.seed}
        event |= {"cpu": round(run.cpu, 6)}
        event["costs"] = [None if np.isnan(cost) else cost for cost in run.costs.tolist()]
        for name in ("rows", "penalised"):
            if (numbers := getattr(run, name)) is not None:
                event[name] = numbers.tolist()
        event["log"] = list(run.log)
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
        rows, penalised = (
            np.array(event[name], np.int64) if name in event else None
            for name in ("rows", "penalised")
        )
        key = event["problem"], event["label"], event["seed"]
        costs = np.array(event["costs"], np.float64)
        self.runs[key] = StrategyRun(
            *key, costs, event["cpu"], rows, penalised, event.get("log", ())
        )

    def _check(self, event: Event) -> None:
        for part, entries in self._specified.items():
            for name, old in entries.items():
                new = event[part].get(name, old)
                difference = _difference(f"{_PARTS[part]}{name}", old, new)
                if difference is not None:
                    raise JournalError(
                        f"{self.path} has runs with {difference}; keep the old value, give the changed one another "
                        "name, or choose another folder by --out"
                    )


def _difference(name: str, old: Any, new: Any) -> str | None:
    """Return a description of the first difference of two JSON values, or None."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = dict.fromkeys([*old, *new])
        differences = (_difference(f"{name}: {key}", old.get(key), new.get(key)) for key in keys)
        return next(filter(None, differences), None)
    return None if old == new else f"{name} = {old!r:.100}, now it is {new!r:.100}"


def run_missing(
    jobs: Sequence[RunJob],
    store: RunStore,
    processes: int,
    progress_stream: TextIO,
    work: Callable[[RunJob], StrategyRun] = do_run,
) -> list[StrategyRun]:
    """Run the jobs that a store does not have, store each run as it ends, and return the runs of all jobs.

    Args:
        jobs: The requested runs.
        store: Opened with a specification that covers the jobs.
        processes: Number of parallel processes.
        progress_stream: Shows the progress.
        work: Does one job; a function of a module, so that it can be pickled.

    Raises:
        JournalError: A finished run cannot be written.
        StrategyError: A run ended with an error of this package; the message names the run.
        RuntimeError: A run ended with another exception; the message names the run, and the cause is the exception.
    """
    missing = [job for job in jobs if job.key not in store.runs]
    if missing:
        done = len(jobs) - len(missing)
        display = Display(progress_stream, len(jobs), "run", done=done, interval=_LINE_INTERVAL)
        try:
            for run in run_parallel(partial(_run_named, work), missing, processes):
                store.add(run)
                done += 1
                display.show(done, f"{run.label} on {run.problem}")
        finally:
            display.close()
    return [store.runs[job.key] for job in jobs]


def _run_named(work: Callable[[RunJob], StrategyRun], job: RunJob) -> StrategyRun:
    """Do a job, in any process; an error names it, in a form that can be pickled."""
    try:
        return work(job)
    except Exception as error:
        problem, label, seed = job.key
        where = f"strategy {label!r} on problem {problem!r} with seed {seed}"
        if isinstance(error, BacoError):
            raise StrategyError(f"{where}: {error}") from error
        raise RuntimeError(f"{where}: {type(error).__name__}: {error}") from error
