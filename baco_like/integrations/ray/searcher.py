"""Our optimizer as a searcher of Ray Tune, which runs the trials on any number of machines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from baco_like.exceptions import MissingExtra, SpaceExhausted
from baco_like.journal.memory import MemoryJournal
from baco_like.optimizer import Optimizer
from baco_like.records.direction import Direction
from baco_like.records.history import Noise
from baco_like.records.reading import finite_number
from baco_like.records.trial import Trial
from baco_like.spaces.space import Space
from baco_like.strategies.protocol import Strategy

try:
    from ray.tune.search import Searcher
except ImportError:
    raise MissingExtra("ray", "ray") from None

__all__ = ["BacoSearch"]

_SPACE = Space({"any": [0, 1]})


class BacoSearch(Searcher):  # type: ignore[misc]  # Ray has no types
    """Suggests configurations of a space to Ray Tune: ``TuneConfig(search_alg=BacoSearch(space), ...)``.

    Every suggestion satisfies the constraints and is new, also to the trials that are running. A trial that ends with
    an error, or whose metric is no finite number, is learnt as infeasible; a result may say why by ``failed`` (the
    failure word) and ``message``. When the space is exhausted Ray ends the run.

    Args:
        space: Known up front; leave ``param_space`` empty, or give it constants of other names.
        metric: Name of the reported value. None is that of ``TuneConfig``, which Ray tells only where there is a
            ``param_space``.
        mode: ``min`` or ``max``; None as for the metric.
        seed: Of the suggestions.
        strategy: A registered name, or a strategy object.
        settings: The named strategy's own settings.
        budget: Evaluations in all (``num_samples``), if known: strategies choose their settings by it.
        noise: ``none``: nothing is suggested twice; ``repeat``: it may be.

    Raises:
        ValueError: There is no such mode, strategy or setting.
    """

    def __init__(
        self,
        space: Space,
        metric: str | None = None,
        mode: str | None = None,
        *,
        seed: int = 0,
        strategy: str | Strategy[Any] = "auto",
        settings: Mapping[str, Any] | None = None,
        budget: int | None = None,
        noise: Noise = "none",
    ) -> None:
        super().__init__(metric, mode)
        self._metric: str | None = metric
        self._mode: str | None = mode
        self._space = space
        self._arguments: dict[str, Any] = {
            "seed": seed,
            "strategy": strategy,
            "settings": settings,
            "budget": budget,
            "noise": noise,
        }
        self._flying: dict[str, int] = {}
        self._journal = MemoryJournal()
        self._run: Optimizer | None = None
        if mode not in (None, "min", "max"):
            raise ValueError(f"mode = {mode!r}: it is 'min' or 'max'")
        Optimizer(_SPACE, **self._arguments)  # its checks come now, not at the first trial

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer of the run: its trials, and the model (``predict``, ``recommend``).

        Raises:
            ValueError: Nobody has said what is minimised or maximised.
        """
        if self._run is None:
            if not self._metric or not self._mode:
                raise ValueError(
                    "metric and mode are missing: BacoSearch(space, metric, mode); "
                    "Ray tells those of TuneConfig only where there is a param_space"
                )
            direction: Direction = "minimize" if self._mode == "min" else "maximize"
            self._run = Optimizer(
                self._space,
                direction,
                objective=self._metric,
                storage=self._journal,
                **self._arguments,
            )
        return self._run

    # What Ray Tune calls ----------------------------------------------------------------------------------------

    @override
    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Mapping[str, Any], **spec: Any
    ) -> bool:
        """Take metric and mode where the searcher has none, and refuse a space of Ray's by returning False."""
        self._metric, self._mode = self._metric or metric, self._mode or mode
        return not config

    @override
    def suggest(self, trial_id: str) -> dict[str, Any] | str:
        """Return the next configuration; `Searcher.FINISHED` when none is left."""
        try:
            trial = self.optimizer.suggest()
        except SpaceExhausted:
            return str(Searcher.FINISHED)
        self._flying[trial_id] = trial.id
        return dict(trial.config)

    @override
    def on_trial_complete(
        self, trial_id: str, result: Mapping[str, Any] | None = None, error: bool = False
    ) -> None:
        """Observe the last result of a trial; one that we did not suggest is passed over."""
        if trial_id not in self._flying:
            return
        trial, again = self._asked(trial_id)
        told = dict(result or {})
        value = None if error else finite_number(told.get(self.optimizer.options.objective))
        took = finite_number(told.get("time_total_s"))
        extra = {} if took is None else {"seconds": {"run": took}}
        if value is not None and not told.get("failed"):
            self.optimizer.observe(trial, value, extra=extra, imported=again)
        else:
            word, message = _failure(told, error)
            self.optimizer.observe(trial, failed=word, message=message, extra=extra, imported=again)
        del self._flying[trial_id]

    def _asked(self, trial_id: str) -> tuple[Trial | dict[str, Any], bool]:
        """Return what was suggested; its configuration and True where an evaluated point has answered it meanwhile."""
        trial = self.optimizer.history.find(self._flying[trial_id])
        assert trial is not None
        pending = trial.id in self.optimizer.history.pending
        return (trial, False) if pending else (dict(trial.config), True)

    @override
    def add_evaluated_point(
        self,
        parameters: Mapping[str, Any],
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Take in a configuration that was evaluated elsewhere; what lies outside the space is kept, not modelled."""
        number = None if error or pruned else finite_number(value)
        failed = None if number is not None else "pruned" if pruned else "runtime"
        self.optimizer.observe(dict(parameters), number, failed=failed, imported=True)

    # Keeping ----------------------------------------------------------------------------------------------------

    @override
    def save(self, checkpoint_path: str) -> None:
        """Write what was suggested and observed as JSON; Ray calls this beside its own checkpoints."""
        Path(checkpoint_path).write_text(json.dumps(self._state()), encoding="utf-8")

    @override
    def restore(self, checkpoint_path: str) -> None:
        """Go on from what `save` has written.

        Raises:
            JournalError: It was written with another space or other arguments.
        """
        self._go_on(json.loads(Path(checkpoint_path).read_text(encoding="utf-8")))

    def _state(self) -> dict[str, Any]:
        return {
            "metric": self._metric,
            "mode": self._mode,
            "flying": self._flying,
            "events": list(self._journal.events),
        }

    def _go_on(self, state: Mapping[str, Any]) -> None:
        self._metric, self._mode = state["metric"], state["mode"]
        self._flying = dict(state["flying"])
        self._journal = MemoryJournal(list(state["events"]))
        self._run = None
        if self._journal.events:
            _ = self.optimizer  # refuses another space now

    @override
    def __getstate__(self) -> dict[str, Any]:
        """Return what travels to Ray's other processes: everything but the optimizer, which the journal tells."""
        return {name: value for name, value in self.__dict__.items() if name != "_run"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state, _run=None)


def _failure(told: Mapping[str, Any], error: bool) -> tuple[str, str]:
    """Return failure word and message of a trial without a value."""
    reason = "the trial ended with an error" if error else "the metric is no finite number"
    return str(told.get("failed") or "runtime"), str(told.get("message") or reason)
