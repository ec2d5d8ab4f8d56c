"""Everything that can be read from a run: trials, the best of them, predictions, explanations, tables and files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from baco_like._optional import data_frame
from baco_like._output import html_table
from baco_like._threads import thread_limit
from baco_like._typing import Array
from baco_like.exceptions import BacoWarning, RunFileError, TrialError
from baco_like.journal import Event, Journal
from baco_like.journal.events import START
from baco_like.journal.header import Options
from baco_like.journal.lock import files_of_run
from baco_like.optimizer.arguments import Config, resolve_task
from baco_like.optimizer.predictions import (
    history_of,
    hypervolume_of,
    predict,
    why,
)
from baco_like.optimizer.recommending import recommend, recommend_for_tasks
from baco_like.optimizer.state import JournaledState, OptimizerState
from baco_like.records import History, Objective, Observation, Trial
from baco_like.records.covering import Goal, read_goal
from baco_like.records.objective import sign_of
from baco_like.records.table import table_rows
from baco_like.records.trial import read_values
from baco_like.results.formats import write
from baco_like.results.recording import run_recording
from baco_like.spaces.space import Space
from baco_like.spaces.tasks import GivenTask

if TYPE_CHECKING:
    import pandas as pd

    from baco_like.explanations.ablation import Ablation
    from baco_like.explanations.dependence import Dependence
    from baco_like.explanations.importance import Importance
    from baco_like.explanations.models import HistoryModels
    from baco_like.explanations.outlook import Outlook
    from baco_like.shipping import ShippedRun


_SHOWN = 10
"""Number of trials that notebooks show."""


@dataclass
class ReadRun:
    """The state of a run and its journal, for a process that only reads it."""

    journal: Journal
    state: OptimizerState


class RunView:
    """Everything that can be read from a run; nothing here changes it.

    The same history and seed give the same predictions and explanations.
    """

    _threads: int
    _run: ReadRun | JournaledState

    @property
    def state(self) -> OptimizerState:
        """Options, history and strategy state, as one frozen value."""
        return self._run.state

    @property
    def journal(self) -> Journal:
        """The journal that keeps the events of the run."""
        return self._run.journal

    @property
    def opened(self) -> Event:
        """The first event of the journal, with ``host`` and ``versions``."""
        return next(iter(self.journal.read(START)))[0]

    @property
    def modelled(self) -> OptimizerState:
        """The state with the strategy of the run, which predicts."""
        return self.state

    @override
    def __repr__(self) -> str:
        if self.best is None:
            best = "no success"
        elif self.options.aim.several:
            best = f"front of {len(self.front)}"
        else:
            best = f"best {self.objective.name} {self.best.value:.6g}"
        counts = f"{len(self.trials)} observed, {len(self.pending)} pending"
        return f"{type(self).__name__}({self.space!r}, {counts}, {best})"

    def _repr_html_(self) -> str:
        """Return the best trials as a table, for notebooks."""
        aim = self.options.aim
        best = self.front if aim.several else self.history.ranked()
        objectives = aim.objectives
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
    def _files(self) -> Sequence[Path]:
        path = getattr(self.journal, "path", None)
        return () if path is None else files_of_run(Path(path))

    @property
    def objective(self) -> Objective:
        """The first objective, with its unit if that is known."""
        return self.options.aim.first

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """All objectives with their units if there are several, else empty."""
        return self.options.aim.several

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
    def trials(self) -> list[Trial]:
        """Observed trials, in order of arrival, failures included."""
        return self.history.trials

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
        return hypervolume_of(self.history, self.objective.name, reference)

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per observed trial: id, parameters, value, status, failure word and message, repeats, metrics.

        The columns ``worker``, ``started`` and ``ended`` (Unix seconds) describe the evaluation, and
        ``seconds_compile``, for example, has the seconds of a stage, and ``build_size.text`` a metric of the build.

        The additional columns get the prefix ``trial_`` where a parameter has the same name, and so does a metric with
        the name of any other column. The cell of an inactive parameter is empty.

        Raises:
            MissingExtra: pandas is not installed.
        """
        conditional = self.space.conditions.expressions
        names = self.space.names if conditional else ()
        rows = table_rows(self.trials, self.objective.name, names)
        if not rows:  # the columns do not depend on a first trial
            nothing = Trial(0, dict.fromkeys(self.space.names))
            return data_frame(rows, list(*table_rows([nothing], self.objective.name)))
        return data_frame(rows, conditional=conditional)

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
        journals. `baco_like.shipping.ship` writes the formats.

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
        from baco_like.shipping import make_table, ship

        run = self.shipped_run(task)
        table = make_table([run], self.space, unit=unit, device=device, constraints=constraints)
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
        from baco_like.shipping.sources import run_of

        recommendation = None if self.space.tasks is None else self.recommend(goal=goal)
        if self.space.tasks is not None and recommendation is None:
            raise RunFileError("the run has no successful trial; there is nothing to ship")
        path = getattr(self.journal, "path", "the run")
        return run_of(self.history, self.opened, task, recommendation, str(path))

    def recommend(
        self,
        *,
        weights: Mapping[str, float] | None = None,
        limits: Sequence[str] = (),
        goal: Goal | None = None,
    ) -> Any:
        """Return the observed trial with the lowest predicted median cost: the better choice under noise.

        A trial whose value is above the best by more than two standard errors of their difference is left out. Of an
        exact objective it is `best`. Without a model, or with too few observations for one, repeated
        measurements decide (see `baco_like.optimizer.recommending.best_by_repeats`); without repeats, it is `best`.

        With several objectives it is the knee of the front, among the trials within the limits: the trial with the
        smallest weighted distance to the best value of each objective.

        With tasks it is a `baco_like.records.TaskRecommendation`: a configuration for each task, and the rule that
        picks one for a task that was not tuned; None before the first success.

        Args:
            weights: For several objectives: weights by name, 1 for those left out. ``{"time": 1, "size": 0}`` returns
                the fastest trial within the limits.
            limits: For several objectives: conditions that the trial must satisfy, such as ``["energy <= 3"]``.
            goal: With tasks: a goal that replaces the run's.

        Raises:
            ValueError: A weight or a limit is wrong, or there is one objective; or there is a goal without tasks.
            TrialError: No successful trial satisfies the limits, or a limit names a value that was not measured.
        """
        tasks = self.space.tasks
        if goal is not None and tasks is None:
            raise ValueError(f"goal = {goal!r:.60}: this run has no tasks")
        with thread_limit(self._threads):
            if tasks is not None:
                own = None if goal is None else read_goal(goal)
                return recommend_for_tasks(self.modelled, own)
            return recommend(self.modelled, weights, limits)

    def predict(self, configs: Sequence[Config]) -> tuple[Array, Array, Array]:
        """Return mean and standard deviation (user's unit) and the probability that a configuration runs, each (n,).

        With m objectives, mean and standard deviation have the shape (n, m). The probability is 0 if a known
        constraint excludes the configuration.

        Raises:
            TrialError: The strategy has no model, or too few trials are observed.
            ConfigError: A value is not in its parameter's domain, or ``configs`` is a single configuration.
        """
        with thread_limit(self._threads):
            prediction = predict(self.modelled, configs)
        options = self.options
        signs = [sign_of(o.direction) for o in options.aim.several]
        mean = prediction.mean * (signs or sign_of(options.aim.first.direction))
        return mean, prediction.std, prediction.feasible

    def why(self, trial: Trial) -> dict[str, Any]:
        """Return the origin of a trial and the predictions of the model when it was suggested.

        For a proposal they are its source and note, and the trials, the gains and the present share of the source.

        Raises:
            TrialError: The argument is not a trial.
        """
        if not isinstance(trial, Trial):
            raise TrialError(f"why takes a trial, not {trial!r:.80}; trials are in `trials`")
        return why(trial, self.history)

    def importance(self, *, quantile: float = 0.5, objective: str | None = None) -> Importance:
        """Return which parameters matter, with 90 % intervals, for the value and for failures.

        The shares of variance are estimated by models of the history, over all feasible configurations. They respect
        known constraints. Permutations are also explained by the position of each element and the order of each pair.

        Args:
            quantile: Differences among configurations worse than this quantile do not count; 1: all count.
            objective: Name of one of several objectives; by default the first.

        Raises:
            TrialError: Fewer than five trials have succeeded.
            ValueError: ``quantile`` is not above 0 and at most 1, or the run has no such objective.
        """
        from baco_like.explanations.importance import compute_importance

        with thread_limit(self._threads):
            history = history_of(self.history, objective)
            return compute_importance(history, self.options.seed, quantile=quantile)

    def ablation(
        self, start: Mapping[str, Any] | None = None, end: Mapping[str, Any] | None = None
    ) -> Ablation:
        """Return the path from one configuration to another by single changes, and what each change brings.

        Args:
            start: First configuration; by default the default configuration of the space, or the first successful trial
                if a parameter has no default.
            end: Last configuration; by default the winner of the confirmation, else the best observed one.

        Raises:
            ConfigError: A configuration does not belong to the space.
            TrialError: Fewer than five trials have succeeded.
        """
        from baco_like.explanations.ablation import find_ablation

        with thread_limit(self._threads):
            return find_ablation(self.history, self.options.seed, start=start, end=end)

    def partial_dependence(
        self, *, pairs: int = 2, objective: str | None = None
    ) -> tuple[Dependence, ...]:
        """Return how the value depends on every parameter, the most important first, and on the strongest pairs.

        Args:
            pairs: Number of pairs of parameters, those with the strongest interaction.
            objective: Name of one of several objectives; by default the first.

        Raises:
            TrialError: Fewer than five trials have succeeded.
            ValueError: The run has no such objective.
        """
        from baco_like.explanations.dependence import compute_dependence

        with thread_limit(self._threads):
            history = history_of(self.history, objective)
            return compute_dependence(history, self.options.seed, pairs=pairs)

    def outlook(self, evaluations: int = 20, models: HistoryModels | None = None) -> Outlook:
        """Return the improvement that is left, and the part of it that the next evaluations are expected to find.

        Args:
            evaluations: Number of the next evaluations.
            models: Models of the history, if they are fitted already.

        Raises:
            TrialError: Fewer than five trials have succeeded, the best value is 0, or the run has several objectives or
                tasks.
            ValueError: ``evaluations`` is not positive.
        """
        from baco_like.explanations.outlook import estimate_outlook

        with thread_limit(self._threads):
            return estimate_outlook(
                self.history, self.options.seed, evaluations=evaluations, models=models
            )
