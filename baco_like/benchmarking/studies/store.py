"""Keep the evaluations of a study in a file, so that an interrupted study can continue, and a finished one grow.

The file is a journal like the journal of a run (`journal.json_lines`): one record per evaluation and per finished run,
with a checksum; a torn last record is dropped. Evaluations of a recorded table are not kept one by one: it has them. A
``specified`` record contains everything that decides the runs after it. A later call with more evaluations, repeats,
strategies or problems adds such a record; a call that contradicts the file raises an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any, TextIO, final

import numpy as np
from typing_extensions import override

from baco_like.benchmarking.problems.recorded import RecordedProblem
from baco_like.benchmarking.studies.contenders import do_run
from baco_like.benchmarking.studies.parallel import run_parallel
from baco_like.benchmarking.studies.runs import RunBudget, RunJob, RunKey, StrategyRun, is_measured
from baco_like.exceptions import BacoError, JournalConflict, JournalError, StrategyError
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
@dataclass(eq=False)
class RunStore:
    """The runs of one study. Create it by `RunStore.open`. A copy in another process only adds events to the file.

    Attributes:
        path: The file.
        runs: The finished runs in the file, by problem, label and seed.
        logs: The evaluations of these and of unfinished runs, as in `StrategyRun.log`.
    """

    path: Path
    runs: dict[RunKey, StrategyRun] = field(default_factory=dict)
    logs: dict[RunKey, list[Mapping[str, Any]]] = field(default_factory=dict)
    _specified: dict[str, dict[str, Any]] = field(default_factory=dict)
    _mark: Mark = START
    _is_copy: bool = False

    @classmethod
    def open(cls, path: Path, specification: Specification) -> RunStore:
        """Read the file, or create it.

        Raises:
            JournalError: The file is damaged, or its runs have another specification; the file is unchanged.
        """
        store = cls(path)
        store._refresh()
        event = normalise({"event": "specified", "schema": SCHEMA, **specification})
        store._check(event)
        known = ({**store._specified.get(part, {}), **event[part]} for part in _PARTS)
        if list(known) != [store._specified.get(part) for part in _PARTS]:
            store.append(event)
        return store

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return _copy_once, (self.path,)

    def append(self, event: Event) -> None:
        """Add an event; an evaluation survives the end of the process, other events also a power cut.

        Raises:
            JournalError: It cannot be written.
        """
        is_durable = event["event"] != "evaluated"
        while True:
            try:
                mark = JsonlJournal(self.path).append(event, self._mark, is_durable=is_durable)
            except JournalConflict:  # another process has added evaluations
                self._refresh()
                continue
            self._apply(event, mark)
            return

    def add(self, run: StrategyRun) -> None:
        """Write a finished run to the disk.

        Raises:
            JournalError: It cannot be written.
        """
        self._refresh()
        names = dict(zip(("problem", "label", "seed"), run.key, strict=True))
        event: dict[str, Any] = {"event": "finished", **names, "cpu": run.cpu}
        event["costs"] = [None if np.isnan(cost) else cost for cost in run.costs.tolist()]
        event |= {} if run.budget is None else {"budget": run.budget}
        event |= {} if run.rows is None else {"rows": run.rows.tolist()}
        event |= {} if len(self.logs.get(run.key, ())) == len(run.log) else {"log": list(run.log)}
        self.append(event)

    def _refresh(self) -> None:
        for event, mark in JsonlJournal(self.path).read(self._mark):
            self._apply(event, mark)

    def _apply(self, event: Event, mark: Mark) -> None:
        self._mark = mark
        if self._is_copy:
            return
        if event["event"] == "specified":
            for part in _PARTS:
                self._specified.setdefault(part, {}).update(event[part])
            return
        if event["event"] not in ("evaluated", "finished"):
            raise JournalError(
                f"{self.path} holds no runs of a study (record {mark.number - 1}: {event['event']!r}); "
                "it is another kind of journal, choose another folder by --out"
            )
        key = event["problem"], event["label"], event["seed"]
        log = self.logs.setdefault(key, [])
        if event["event"] == "evaluated":
            log[event["number"] :] = [event["entry"]]
            return
        log[:] = event.get("log", log)
        self.runs[key] = StrategyRun(
            *key,
            costs=np.array(event["costs"], np.float64),
            cpu=event["cpu"],
            rows=np.array(event["rows"], np.int64) if "rows" in event else None,
            log=tuple(log),
            budget=event.get("budget"),
        )

    def _check(self, event: Event) -> None:
        for part, entries in self._specified.items():
            for name, old in entries.items():
                new = event[part].get(name, old)
                if part == "problems" and isinstance(new, dict):  # a budget may grow
                    is_larger = new["evaluations"] > old["evaluations"]
                    old = {**old, **{k: new[k] for k in asdict(RunBudget(0)) if is_larger}}
                difference = _difference(f"{_PARTS[part]}{name}", old, new)
                if difference is not None:
                    raise JournalError(
                        f"{self.path} has runs with {difference}; keep the old value, give the changed one another "
                        "name, or choose another folder by --out"
                    )


@cache
def _copy_once(path: Path) -> RunStore:
    return RunStore(path, _is_copy=True)


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

    Runs that this machine measures come last, one at a time: others would disturb them.

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
    missing = [
        job
        if isinstance(job.problem, RecordedProblem)
        else replace(job, known=tuple(store.logs.get(job.key, ())), keep=store.append)
        for job in jobs
        if job.key not in store.runs or (store.runs[job.key].budget or inf) < job.budget.evaluations
    ]
    if missing:
        done = len(jobs) - len(missing)
        display = Display(progress_stream, len(jobs), "run", done=done, interval=_LINE_INTERVAL)
        alone = [job for job in missing if is_measured(job.problem)]
        others = [job for job in missing if not is_measured(job.problem)]
        named = partial(_run_named, work)
        try:
            for run in chain(run_parallel(named, others, processes), map(named, alone)):
                store.add(run)
                done += 1
                display.show(done, f"{run.label} on {run.problem}")
        finally:
            display.close()
        anew = Counter(
            job.contender.label
            for job in missing
            if list(store.runs[job.key].log[: len(job.known)]) != list(job.known)
        )
        for label, count in anew.items():
            print(
                f"{label}: {count} runs measured anew: its suggestions depend on the number of evaluations, or on "
                "chance",
                file=progress_stream,
            )
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
