"""What a comparison consists of, and doing it: whatever is not in the store yet, in parallel."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TextIO

import numpy as np

from baco_like.benchmarking.comparison.pool import done
from baco_like.benchmarking.comparison.progress import counter_on
from baco_like.benchmarking.comparison.runs import Budget, Contender, Job, Run, work
from baco_like.benchmarking.comparison.spaces import RecordedSpace
from baco_like.benchmarking.comparison.store import Specification, Store


@dataclass(frozen=True, eq=False)
class Plan:
    """Every contender on every space with every seed.

    Attributes:
        recorded: The spaces.
        contenders: Who takes part; their labels differ.
        seeds: One run each. Runs of the same seed are not paired: strategies draw as they like.
        evaluations: Of every run; None for the methodology's budget of each space, over evaluations and over time.
        draw: Whether each value is one of the recorded repeats (see `Job`).
    """

    recorded: Sequence[RecordedSpace]
    contenders: Sequence[Contender]
    seeds: Sequence[int]
    evaluations: int | None = None
    draw: bool = False

    @property
    def budgets(self) -> Mapping[str, Budget]:
        """The budget on each space, by its name."""
        return {one.place.name: budget_on(one, self.evaluations) for one in self.recorded}

    @property
    def jobs(self) -> list[Job]:
        """All runs, one seed after the other, so that an interrupted comparison has something of everything."""
        budgets = self.budgets
        return [
            Job(one.place, contender, seed, budgets[one.place.name], self.draw)
            for seed in self.seeds
            for one in self.recorded
            for contender in self.contenders
        ]

    @property
    def specification(self) -> Specification:
        """What the runs depend on."""
        budgets = self.budgets
        return Specification(
            {"draw": self.draw, "version": importlib.metadata.version("baco-like")},
            {
                one.place.name: {"digest": one.place.digest, **asdict(budgets[one.place.name])}
                for one in self.recorded
            },
            {
                c.label: {"strategy": c.strategy, "settings": dict(c.settings)}
                for c in self.contenders
            },
        )


def budget_on(recorded: RecordedSpace, evaluations: int | None) -> Budget:
    """Return the budget of a run: the methodology's where ``evaluations`` is None."""
    if evaluations is not None:
        return Budget(evaluations)
    baseline = recorded.baseline
    _, last = baseline.evaluations()
    known = not np.isnan(baseline.median_seconds)
    return Budget(last, baseline.time_range()[1] if known else 0.0)


def complete(
    jobs: Sequence[Job],
    store: Store,
    processes: int,
    shown_on: TextIO,
    do: Callable[[Job], Run] = work,
) -> list[Run]:
    """Do the jobs whose runs a store does not have, keep each run as it ends, and return the runs of all jobs.

    Args:
        jobs: What is wanted.
        store: Opened with a specification that covers the jobs.
        processes: How many runs at once.
        shown_on: Where the progress is shown.
        do: Does one job; a function of a module, because it travels to other processes.

    Raises:
        JournalError: A finished run cannot be kept.
    """
    missing = [job for job in jobs if job.key not in store.runs]
    if missing:
        counter = counter_on(shown_on, len(jobs), len(jobs) - len(missing))
        try:
            for run in done(do, missing, processes):
                store.add(run)
                counter.advance(f"{run.label} on {run.space}")
        finally:
            counter.close()
    return [store.runs[job.key] for job in jobs]
