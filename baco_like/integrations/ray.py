"""This package's optimizer as a searcher of Ray Tune, which runs the trials on any number of machines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from baco_like._optional import needs_extra
from baco_like._output import replace_file
from baco_like.exceptions import SpaceExhausted, TrialError
from baco_like.integrations._shared import check_options, observe_answer
from baco_like.journal import MemoryJournal
from baco_like.optimizer import Optimizer, Search
from baco_like.records.objective import Direction
from baco_like.records.objective_values import finite_number
from baco_like.spaces import Space
from baco_like.strategies import Strategy

with needs_extra("ray", "ray"):
    from ray.tune.search import Searcher

__all__ = ["BacoSearch"]

_Texts = str | list[str]
"""One text, or a list with one for each objective."""


class BacoSearch(Searcher):  # type: ignore[misc]  # Ray has no types
    """Suggests configurations of a space to Ray Tune: ``TuneConfig(search_alg=BacoSearch(space), ...)``.

    Every suggestion satisfies the constraints and differs from all observed and running trials. A trial counts as
    infeasible if it ends with an error or its metric is not a finite number; its result may give the reason by
    ``failed`` (the failure word) and ``message``. When the space is exhausted, Ray ends the run.

    Args:
        space: The space, known up front; leave ``param_space`` empty, or give it constants with other names.
        metric: Name of the reported value, or a list of the names of several objectives. None takes it from
            ``TuneConfig``; Ray passes it on only if there is a ``param_space``. Leave it out of ``TuneConfig`` if there
            are several.
        mode: ``min`` or ``max``, or a list with one for each metric; None as for the metric.
        seed: Seed of the suggestions.
        strategy: A registered name, a strategy object, or a `Search` with settings.
        budget: Number of evaluations (``num_samples``), if known; strategies adapt their settings to it.
        warm_start: Results of earlier runs, as for `Optimizer`.

    Raises:
        ValueError: The metric or the mode is wrong, or the strategy or a setting does not exist.
    """

    def __init__(
        self,
        space: Space,
        metric: _Texts | None = None,
        mode: _Texts | None = None,
        *,
        seed: int = 0,
        strategy: str | Strategy[Any] | Search = "auto",
        budget: int | None = None,
        warm_start: Any = None,
    ) -> None:
        _directions("any" if metric is None else metric, "min" if mode is None else mode)
        super().__init__(metric, mode)
        self._metric: _Texts | None = metric
        self._mode: _Texts | None = mode
        self._space = space
        self._options = check_options(strategy, warm_start, seed=seed, budget=budget)
        self._pending_ids: dict[str, int] = {}
        self._journal = MemoryJournal()
        self._optimizer: Optimizer | None = None

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer of the run: its trials and its model (``predict``, ``recommend``).

        Raises:
            ConfigError: No result of a warm start belongs to the space.
            ValueError: The metric or the mode is not known.
        """
        if self._optimizer is None:
            if not self._metric or not self._mode:
                raise ValueError(
                    "metric and mode are missing: write BacoSearch(space, metric, mode); "
                    "Ray passes on those of TuneConfig only if there is a param_space"
                )
            self._optimizer = Optimizer(
                self._space,
                _directions(self._metric, self._mode),
                storage=self._journal,
                **self._options,
            )
        return self._optimizer

    @override
    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Mapping[str, Any], **spec: Any
    ) -> bool:
        """Take metric and mode where they are missing; reject a search space of Ray's by returning False."""
        self._metric, self._mode = self._metric or metric, self._mode or mode
        return not config

    @override
    def suggest(self, trial_id: str) -> dict[str, Any] | str:
        """Return the next configuration, or `Searcher.FINISHED` if the space is exhausted."""
        try:
            trial = self.optimizer.suggest()
        except SpaceExhausted:
            return str(Searcher.FINISHED)
        self._pending_ids[trial_id] = trial.id
        return dict(trial.config)

    @override
    def on_trial_complete(
        self, trial_id: str, result: Mapping[str, Any] | None = None, error: bool = False
    ) -> None:
        """Observe the last result of a trial; a trial that was not suggested here is ignored."""
        if trial_id not in self._pending_ids:
            return
        trial = self.optimizer.history.find(self._pending_ids[trial_id])
        assert trial is not None
        metrics = dict(result or {})
        names = self.optimizer.options.aim.names
        values = {name: finite_number(metrics.get(name)) for name in names}
        failure, message = None, ""
        if error or None in values.values() or metrics.get("failed"):
            invalid = [name for name, value in values.items() if value is None]
            reason = "the trial ended with an error"
            if invalid and not error:
                reason = f"the metric {invalid[0]!r} is not a finite number"
            failure = str(metrics.get("failed") or "runtime")
            message = str(metrics.get("message") or reason)
        seconds = finite_number(metrics.get("time_total_s"))
        observe_answer(
            self.optimizer,
            trial,
            None if failure else values,
            failed=failure,
            message=message,
            extra={} if seconds is None else {"seconds": {"run": seconds}},
        )
        del self._pending_ids[trial_id]

    @override
    def add_evaluated_point(
        self,
        parameters: Mapping[str, Any],
        value: float | list[float],
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Observe a configuration that was evaluated elsewhere; outside the space it is kept but not modelled.

        With several metrics, ``value`` is a list with one number for each.

        Raises:
            TrialError: The length of the list differs from the number of metrics.
        """
        names = self.optimizer.options.aim.names
        given = value if isinstance(value, (list, tuple)) else [value]
        numbers = [finite_number(number) for number in given]
        failure = "pruned" if pruned else "runtime" if error or None in numbers else None
        if failure is None and len(numbers) != len(names):
            raise TrialError(f"value = {value!r:.80}: expected one number for each of {names}")
        values = None if failure else dict(zip(names, numbers, strict=True))
        self.optimizer.observe(dict(parameters), values, failed=failure, imported=True)

    @override
    def save(self, checkpoint_path: str) -> None:
        """Write all suggestions and observations as JSON; Ray calls this when it writes its own checkpoints."""
        state = {
            "metric": self._metric,
            "mode": self._mode,
            "flying": self._pending_ids,
            "events": list(self._journal.events),
        }
        replace_file(Path(checkpoint_path), json.dumps(state).encode())

    @override
    def restore(self, checkpoint_path: str) -> None:
        """Continue from a file of `save`.

        Raises:
            JournalError: The file was written with another space or other arguments.
        """
        state = json.loads(Path(checkpoint_path).read_text(encoding="utf-8"))
        self._metric, self._mode = state["metric"], state["mode"]
        self._pending_ids = dict(state["flying"])
        self._journal = MemoryJournal(list(state["events"]))
        self._optimizer = None
        if self._journal.events:
            _ = self.optimizer  # checks the space now, not at the first trial

    @override
    def __getstate__(self) -> dict[str, Any]:
        """Return the state for Ray's other processes; the optimizer is rebuilt there from the journal's events."""
        runtime = ("_optimizer", "_journal")  # the journal has a lock, which cannot be pickled
        state = {name: value for name, value in self.__dict__.items() if name not in runtime}
        return {**state, "events": list(self._journal.events)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        attributes = {name: value for name, value in state.items() if name != "events"}
        journal = MemoryJournal(list(state["events"]))
        self.__dict__.update(attributes, _journal=journal, _optimizer=None)


def _directions(metric: _Texts, mode: _Texts) -> dict[str, Direction]:
    """Return the directions of the metrics by name.

    Raises:
        ValueError: A mode is neither ``min`` nor ``max``, a name is missing, or the lists differ in length.
    """
    names = [metric] if isinstance(metric, str) else metric
    modes = [mode] if isinstance(mode, str) else mode
    are_lists = all(isinstance(each, list) and each for each in (names, modes))
    if (
        isinstance(metric, str) != isinstance(mode, str)
        or not (are_lists and len(names) == len(modes) and set(modes) <= {"min", "max"})
        or not all(isinstance(name, str) and name for name in names)
    ):
        raise ValueError(
            f"metric = {metric!r:.80}, mode = {mode!r:.80}: expected a name with 'min' or 'max', or two lists of "
            "the same length"
        )
    return {
        name: "minimize" if each == "min" else "maximize"
        for name, each in zip(names, modes, strict=True)
    }
