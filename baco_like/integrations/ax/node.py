"""Our optimizer as a node of Ax's generation strategies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from typing_extensions import override

from baco_like.exceptions import ConfigError, MissingExtra, SpaceExhausted
from baco_like.integrations.ax.space import from_ax, space_of, to_ax
from baco_like.optimizer import Optimizer
from baco_like.records.direction import Direction
from baco_like.records.reading import finite_number
from baco_like.records.trial import FAILURE_WORDS, Trial
from baco_like.spaces.space import Space
from baco_like.strategies.protocol import Strategy

try:
    from ax.core.data import Data
    from ax.core.experiment import Experiment
    from ax.core.search_space import SearchSpace
    from ax.core.trial_status import TrialStatus
    from ax.exceptions.core import SearchSpaceExhausted
    from ax.generation_strategy.external_generation_node import ExternalGenerationNode
except ImportError:
    raise MissingExtra("ax", "ax") from None

__all__ = ["BacoNode"]

_SPACE = Space({"any": [0, 1]})
_DONE = ("COMPLETED", "FAILED", "ABANDONED", "EARLY_STOPPED", "STALE")
_RETRYABLE = ("FAILED", "STALE")
"""By name, because not every version of Ax has all of them."""


class BacoNode(ExternalGenerationNode):  # type: ignore[misc]  # Ax's types need all of its packages
    """Suggests configurations to an Ax experiment: ``GenerationStrategy(nodes=[BacoNode(space)])``.

    Every suggestion satisfies the constraints and is new, also to the trials that are running. An abandoned trial
    cannot run: it is learnt and never suggested again. A failed one may come back, as Ax has it, unless its reason
    begins with a failure word (``compile: ...``): then it is learnt too. So is a value that is not finite, and one
    whose outcome constraints are violated.

    Args:
        space: The same parameters with what Ax cannot say: permutations (choices of texts such as ``"i,j,k"``) and
            constraints that are not linear. None: it is made of the experiment's.
        seed: Of the suggestions.
        strategy: A registered name, or a strategy object.
        settings: The named strategy's own settings.
        budget: Evaluations in all, if known: strategies choose their settings by it.
        name: Of the node.

    Raises:
        ValueError: There is no such strategy or setting.
    """

    def __init__(
        self,
        space: Space | None = None,
        *,
        seed: int = 0,
        strategy: str | Strategy[Any] = "auto",
        settings: Mapping[str, Any] | None = None,
        budget: int | None = None,
        name: str = "baco_like",
    ) -> None:
        super().__init__(name=name)
        self._space = space
        self._arguments: dict[str, Any] = {
            "seed": seed,
            "strategy": strategy,
            "settings": settings,
            "budget": budget,
        }
        Optimizer(_SPACE, **self._arguments)  # its checks come now, not at the first trial
        self._seen: set[tuple[int, str]] = set()
        self._search_space: SearchSpace | None = None
        self._run: Optimizer | None = None

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer of the experiment: its trials, and the model (``predict``, ``recommend``).

        Raises:
            ValueError: Ax has not asked yet.
        """
        if self._run is None:
            raise ValueError("there is no optimizer before Ax has asked for the first trial")
        return self._run

    # What Ax calls ----------------------------------------------------------------------------------------------

    @override
    def update_generator_state(self, experiment: Experiment, data: Data) -> None:
        """Take in the trials that have ended since the last call.

        Raises:
            ValueError: The experiment has several objectives.
            SpaceError: Its parameters cannot be those of a space.
        """
        self._search_space = experiment.search_space
        if self._run is None:
            self._run = self._begun(experiment)
        values = _values(data)
        for key, parameters, status, reason in _arms(experiment):
            if status.name in _DONE and key not in self._seen:
                self._take(parameters, values.get(key, {}), status, reason, experiment)
                self._seen.add(key)

    @override
    def get_next_candidate(self, pending_parameters: list[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the next configuration, in Ax's types.

        Raises:
            SearchSpaceExhausted: Every feasible configuration is observed or running.
            SpaceError: The space suggests what the experiment does not have.
        """
        spare = [spare for one in pending_parameters for spare in self._hold(one)]
        try:
            trial = spare[0] if spare else self.optimizer.suggest()
        except SpaceExhausted as error:
            raise SearchSpaceExhausted(str(error)) from error
        for other in spare[1:]:
            self.optimizer.abandon(other, "it was suggested on the way to a running one")
        return to_ax(trial.config, self.optimizer.space, self._search_space)

    # ------------------------------------------------------------------------------------------------------------

    def _begun(self, experiment: Experiment) -> Optimizer:
        config = experiment.optimization_config
        if config is None or not config.objective.is_single_objective:
            raise ValueError(f"objective {config!r:.100}: BacoNode needs one metric to optimize")
        space = space_of(experiment.search_space) if self._space is None else self._space
        (name,) = config.objective.metric_names
        direction: Direction = "minimize" if config.objective.minimize else "maximize"
        return Optimizer(space, direction, objective=name, **self._arguments)

    def _take(
        self,
        parameters: Mapping[str, Any],
        values: Mapping[str, float],
        status: TrialStatus,
        reason: str,
        experiment: Experiment,
    ) -> None:
        """Observe a trial that has ended; one that failed for no known reason is given up."""
        config = from_ax(parameters, self.optimizer.space)
        if len(config) < len(self.optimizer.space.names):
            return
        trial = self._pending(config)
        word, message = _failure(values, status, reason, experiment)
        if status.name in _RETRYABLE and word is None:
            if trial is not None:
                self.optimizer.abandon(trial, reason)
            return
        told = trial if trial is not None else config
        if word is None:
            self.optimizer.observe(told, dict(values), imported=trial is None)
        else:
            self.optimizer.observe(told, failed=word, message=message, imported=trial is None)

    def _pending(self, config: Mapping[str, Any]) -> Trial | None:
        return next((one for one in self.optimizer.pending if dict(one.config) == config), None)

    def _hold(self, parameters: Mapping[str, Any]) -> Iterator[Trial]:
        """Count a configuration that somebody else has proposed as in flight; yield what was suggested on the way."""
        config = from_ax(parameters, self.optimizer.space)
        if self._pending(config) is not None:
            return
        try:
            self.optimizer.enqueue(config)
        except ConfigError:  # not of the space, or observed
            return
        wanted = dict(self.optimizer.history.queue[-1])
        while dict((trial := self.optimizer.suggest()).config) != wanted:
            yield trial


def _arms(
    experiment: Experiment,
) -> Iterator[tuple[tuple[int, str], Mapping[str, Any], TrialStatus, str]]:
    """Yield index of the trial and name of the arm, its parameters, the status and its reason."""
    for index, trial in experiment.trials.items():
        for arm in trial.arms:
            yield (index, arm.name), arm.parameters, trial.status, trial.status_reason or ""


def _values(data: Data) -> dict[tuple[int, str], dict[str, float]]:
    """Return the finite means by trial and arm, then by metric."""
    found: dict[tuple[int, str], dict[str, float]] = {}
    if data.df.empty:
        return found
    columns = ("trial_index", "arm_name", "metric_name", "mean")
    for index, arm, metric, mean in zip(*(data.df[name] for name in columns), strict=True):
        number = finite_number(mean)
        if number is not None:
            found.setdefault((int(index), arm), {})[metric] = number
    return found


def _failure(
    values: Mapping[str, float], status: TrialStatus, reason: str, experiment: Experiment
) -> tuple[str | None, str]:
    """Return the failure word, None where there is none, and what happened."""
    word = reason.partition(":")[0].strip()
    if word in FAILURE_WORDS:
        return word, reason
    if status is TrialStatus.ABANDONED:
        return "runtime", reason
    if status.name in _RETRYABLE:
        return None, reason
    config = experiment.optimization_config
    for constraint in config.outcome_constraints:
        total = sum(weight * values.get(name, 0.0) for name, weight in constraint.metric_weights)
        violated = (
            total > constraint.bound if constraint.op.name == "LEQ" else total < constraint.bound
        )
        if violated and not constraint.relative:
            return "constraints", f"{constraint} violated"
    (name,) = config.objective.metric_names
    return (None, "") if name in values else ("runtime", f"there is no finite value of {name}")
