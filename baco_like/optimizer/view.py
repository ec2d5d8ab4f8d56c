"""The views of a run that an optimizer gives: trials, the best of them, tables and files."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from baco_like._optional import data_frame
from baco_like._output import html_table
from baco_like.exceptions import BacoWarning, RunFileError
from baco_like.journal import START, Journal, Options, WarmStartResults
from baco_like.journal.lock import files_of_run
from baco_like.optimizer.ahead import ProposalStore
from baco_like.optimizer.explaining import Explanations
from baco_like.optimizer.objectives import hypervolume_of
from baco_like.optimizer.setup import resolve_task
from baco_like.optimizer.state import JournaledState, OptimizerState
from baco_like.optimizer.suggesting import Terms, is_of_task
from baco_like.records import Goal, History, Objective, Observation, StopRule, Trial
from baco_like.records.table import table_rows
from baco_like.records.trial import rank, read_values
from baco_like.results.formats import write
from baco_like.results.journal_file import run_recording
from baco_like.shipping import ShippedRun, make_table, run_of, ship
from baco_like.spaces.space import Space
from baco_like.spaces.tasks import GivenTask

if TYPE_CHECKING:
    import pandas as pd


_SHOWN = 10
"""Number of trials that notebooks show."""


class RunView(Explanations):
    """Shows a run; nothing here changes it."""

    _run: JournaledState
    _terms: Terms
    _store: ProposalStore | None

    @override
    def __repr__(self) -> str:
        if self.best is None:
            best = "no success"
        elif self.options.objectives:
            best = f"front of {len(self.front)}"
        else:
            best = f"best {self.options.objective} {self.best.value:.6g}"
        counts = f"{len(self.trials)} observed, {len(self.pending)} pending"
        return f"Optimizer({self.space!r}, {counts}, {best})"

    def _repr_html_(self) -> str:
        """Return the best trials as a table, for notebooks."""
        options = self.options
        best = self.front if options.objectives else rank(self.trials, options.direction)
        objectives = options.several_objectives or (Objective(options.objective),)
        head = ["trial", *self.space.names, *(objective.name for objective in objectives)]
        rows = []
        for trial in best[:_SHOWN]:
            config = [trial.config.get(name, "") for name in self.space.names]
            values = [f"{value:.6g}" for value in read_values(trial, objectives)]
            rows.append([trial.id, *config, *values])
        return html_table(repr(self), head, rows)

    @property
    def space(self) -> Space:
        """The space of the run."""
        return self.state.problem.space

    @property
    def journal(self) -> Journal:
        """The journal that keeps the events of the run."""
        return self._run.journal

    @property
    @override
    def state(self) -> OptimizerState:
        """Options, history and strategy state, as one frozen value."""
        return self._run.state

    @property
    def _files(self) -> Sequence[Path]:
        path = getattr(self.journal, "path", None)
        return () if path is None else files_of_run(Path(path))

    @property
    def options(self) -> Options:
        """Direction, seed, objective, budget, noise and strategy, as in the journal."""
        return self.state.options

    @property
    def history(self) -> History:
        """All observed and pending trials, as a frozen value."""
        return self.state.history

    @property
    def pending(self) -> list[Trial]:
        """Suggested trials that are neither observed nor abandoned."""
        return list(self.history.pending.values())

    @property
    def worker(self) -> str | None:
        """Name of this optimizer among several that share a run, or None."""
        return self._terms.worker

    @property
    def in_store(self) -> int | None:
        """Number of proposals in store, or None without ``ahead``."""
        return len(self._store) if self._store is not None and self._store.size else None

    def size_of_next(self, n: int) -> int:
        """Return the number of trials to suggest now for n free workers, so that none waits for proposals of others.

        Proposals in store come first. If the store is empty: n if ``patience`` limits the wait of `suggest`, else 1.
        """
        if self._store is None or not self._store.size:
            return n
        return min(n, len(self._store)) or (1 if self._store.patience is None else n)

    @property
    def own_pending(self) -> list[Trial]:
        """Pending trials of its task that a run evaluates first: those with its `worker` name, all if it has none.

        Those that no process evaluates are among them, if this process is alone.
        """
        worker, lost = self.worker, self._run.lost
        own = [t for t in self.pending if worker in (None, t.worker) or t.id in lost]
        return [trial for trial in own if self._is_of_task(trial, self._terms.task)]

    def _is_of_task(self, trial: Trial | None, task: int | None) -> bool:
        return trial is not None and (task is None or is_of_task(self.history, trial.config, task))

    @property
    def trials(self) -> list[Trial]:
        """Observed trials, in order of arrival, failures included."""
        return self.history.trials

    @property
    def warm_start(self) -> tuple[WarmStartResults, ...]:
        """The results that the run took from each warm start, and the number of those it left out."""
        return self._run.warm_start

    @property
    def best(self) -> Observation | None:
        """The successful trial with the best value, or None before the first success.

        With several objectives it is the knee of `front`: the trial nearest to the best value of each.
        """
        return self.history.best()

    @property
    def best_config(self) -> dict[str, Any] | None:
        """The configuration of `best`."""
        return None if self.best is None else dict(self.best.config)

    @property
    def best_value(self) -> float | None:
        """The value of `best`."""
        return None if self.best is None else self.best.value

    @property
    def front(self) -> list[Observation]:
        """The successful trials that no other one dominates, sorted by the value of the first objective."""
        return self.history.front()

    def hypervolume(self, reference: Mapping[str, float]) -> float:
        """Return the volume that the front dominates, bounded by a reference point; larger is better.

        Args:
            reference: For each objective the worst value that counts; results beyond it add nothing.

        Raises:
            ValueError: The names are not those of the objectives, or a value is not a finite number.
        """
        return hypervolume_of(self.history, self.options.objective, reference)

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per observed trial: id, parameters, value, status, failure word and message, repeats, metrics.

        The columns ``worker``, ``started`` and ``ended`` (Unix seconds) describe the evaluation, and
        ``seconds_compile``, for example, has the seconds of a stage.

        The additional columns get the prefix ``trial_`` where a parameter has the same name, and so does a metric with
        the name of any other column. The cell of an inactive parameter is empty.

        Raises:
            MissingExtra: pandas is not installed.
        """
        conditional = self.space.conditions.expressions
        rows = table_rows(
            self.trials, self.options.objective, self.space.names if conditional else ()
        )
        return data_frame(rows, conditional=conditional if rows else ())

    def export(self, kind: str, path: str | os.PathLike[str], task: GivenTask | None = None) -> int:
        """Write the observed trials in the format of another tool, all or nothing, and return their number.

        Trials that the format cannot hold, such as imported ones with other parameters, are left out with a warning.

        Args:
            kind: ``t4``, ``kernel_tuner`` (a cache file), ``ktt``, ``baco`` (its CSV of samples) or ``csv`` (a table).
            path: A file name; one that ends in ``.gz`` is compressed.
            task: Name or descriptor of the only task to write, without its descriptor; None: all tasks.

        Raises:
            ValueError: The format is unknown or cannot hold these trials, or no trial is observed.
            SpaceError: The task does not exist.
            OSError: The file cannot be written, or is a journal or a file of the run.
        """
        recording = run_recording(self.trials, self.space.to_dict(), self.options)
        index = resolve_task(task, self.space)
        if index is not None:
            recording = recording.of_task(self.space.task_columns.tasks.descriptors[index])
        written = write(recording, path, kind, inputs=self._files)
        for note in recording.notes:
            warnings.warn(f"{Path(path).name}: {note}", BacoWarning, stacklevel=2)
        return written

    def ship(
        self,
        kind: str,
        path: str | os.PathLike[str],
        *,
        task: Mapping[str, Any] | None = None,
        name: str | None = None,
        unit: str | None = None,
        device: str | None = None,
        constraints: Iterable[str] = (),
    ) -> Path:
        """Write the winner as a file that another program loads, and return its path.

        The winner is the recommended configuration of the confirmation, else the best observed one. With tasks, the
        file has the configurations that `recommend` returns. ``baco-like ship`` does the same for one or several
        journals. `baco_like.shipping.FORMATS` describes the formats.

        Args:
            kind: ``c``, ``json``, ``python``, ``triton``, ``vllm``, ``inductor`` or ``wisdom``.
            path: The file; with ``vllm`` and ``wisdom`` also the folder for it.
            task: Descriptor of the task of a run without tasks, such as ``{"n": 512}``.
            name: Beginning of the names in a C header, or the tuning key of a wisdom file.
            unit: Unit of the value.
            device: Name of the device. None: the model of the CPU.
            constraints: Known constraints that read the descriptor, such as ``["tile <= n"]``.

        Raises:
            RunFileError: No trial has succeeded, the run has several objectives, or the format is unknown or cannot
                hold the configuration.
            ExpressionError: A constraint cannot be read.
            OSError: The file cannot be written, or is a journal or a file of the run.
        """
        table = make_table(
            [self.shipped_run(task)],
            self.space,
            unit=unit,
            device=device,
            constraints=constraints,
        )
        return ship(table, kind, path, name, self._files)

    def shipped_run(
        self, task: Mapping[str, Any] | None = None, goal: Goal | None = None
    ) -> ShippedRun:
        """Return the winner as an entry of a table; `baco_like.shipping.make_table` joins those of several runs.

        With tasks, there is an entry for each of them.

        Args:
            task: Descriptor of the task of a run without tasks, such as ``{"n": 512}``.
            goal: With tasks: a goal that replaces the run's, as for `recommend`.

        Raises:
            RunFileError: No trial has succeeded, the run has several objectives, or a run with tasks gets a ``task``.
            ValueError: There is a goal without tasks.
        """
        recommendation = None if self.space.tasks is None else self.recommend(goal=goal)
        if self.space.tasks is not None and recommendation is None:
            raise RunFileError("the run has no successful trial; there is nothing to ship")
        opened = next(iter(self.journal.read(START)))[0]
        return run_of(self.history, opened, task, recommendation)

    def should_stop(self, rule: StopRule) -> str | None:
        """Return why the run should end, or None."""
        return rule.reason(self.history, time.monotonic() - self._run.opened)
