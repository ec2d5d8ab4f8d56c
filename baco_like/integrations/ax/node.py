"""This package's optimizer as a node of Ax's generation strategies."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from typing_extensions import override

from baco_like.exceptions import ConfigError, MissingExtra, SpaceExhausted
from baco_like.integrations._shared.options import check_options
from baco_like.integrations._shared.permutation_text import read_permutations
from baco_like.integrations.ax.space import from_search_space, to_parameterization
from baco_like.optimizer import Optimizer
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

_FINISHED = ("COMPLETED", "FAILED", "ABANDONED", "EARLY_STOPPED", "STALE")
_RETRYABLE = ("FAILED", "STALE")
"""Names of statuses: not every version of Ax has all of them."""


class BacoNode(ExternalGenerationNode):  # type: ignore[misc]  # Ax's types need all of its packages
    """Suggests configurations to an Ax experiment: ``GenerationStrategy(nodes=[BacoNode(space)])``.

    Every suggestion satisfies the constraints and differs from all observed and running trials. Infeasible, and
    never suggested again, are: abandoned trials; failed trials whose reason begins with a failure word
    (``compile: ...``); values that are not finite; violated outcome constraints. Any other failed trial may be
    suggested again, as in Ax.

    Args:
        space: The experiment's parameters, with what Ax cannot express: permutations (choices of texts such as
            ``"i,j,k"``) and constraints that are not linear. None converts the experiment's search space.
        seed: Seed of the suggestions.
        strategy: A registered name, or a strategy object.
        settings: Settings of the named strategy.
        budget: Number of evaluations, if known; strategies adapt their settings to it.
        name: Name of the node.

    Raises:
        ValueError: The strategy or a setting does not exist.
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
        self._options: dict[str, Any] = dict(
            seed=seed, strategy=strategy, settings=settings, budget=budget
        )
        check_options(**self._options)
        self._seen: set[tuple[int, str]] = set()
        self._search_space: SearchSpace | None = None
        self._optimizer: Optimizer | None = None

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer of the experiment: its trials and its model (``predict``, ``recommend``).

        Raises:
            ValueError: Ax has not requested a trial yet.
        """
        if self._optimizer is None:
            raise ValueError("the optimizer exists only after Ax has requested the first trial")
        return self._optimizer

    @override
    def update_generator_state(self, experiment: Experiment, data: Data) -> None:
        """Observe the trials that have finished since the last call.

        Raises:
            ValueError: The experiment has several objectives.
            SpaceError: A parameter of the experiment cannot be converted.
        """
        self._search_space = experiment.search_space
        if self._optimizer is None:
            self._optimizer = self._create_optimizer(experiment)
        values = _values_by_arm(data)
        for index, trial in experiment.trials.items():
            for arm in trial.arms:
                key = (index, arm.name)
                if trial.status.name in _FINISHED and key not in self._seen:
                    self._observe(arm.parameters, values.get(key, {}), trial, experiment)
                    self._seen.add(key)

    @override
    def get_next_candidate(self, pending_parameters: list[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the next configuration, in Ax's types.

        Raises:
            SearchSpaceExhausted: Every feasible configuration is observed or running.
            SpaceError: The experiment lacks a parameter or value of the space.
        """
        for parameters in pending_parameters:
            with suppress(ConfigError):  # outside the space, or observed
                self.optimizer.claim(read_permutations(parameters, self.optimizer.space))
        try:
            trial = self.optimizer.suggest()
        except SpaceExhausted as error:
            raise SearchSpaceExhausted(str(error)) from error
        return to_parameterization(trial.config, self.optimizer.space, self._search_space)

    def _create_optimizer(self, experiment: Experiment) -> Optimizer:
        config = experiment.optimization_config
        if config is None or not config.objective.is_single_objective:
            raise ValueError(f"objective {config!r:.100}: BacoNode supports exactly one metric")
        (metric,) = config.objective.metric_names
        return Optimizer(
            from_search_space(experiment.search_space) if self._space is None else self._space,
            "minimize" if config.objective.minimize else "maximize",
            objective=metric,
            **self._options,
        )

    def _observe(
        self,
        parameters: Mapping[str, Any],
        values: Mapping[str, float],
        ax_trial: Any,
        experiment: Experiment,
    ) -> None:
        """Observe a finished arm; abandon it if it may be tried again."""
        config = read_permutations(parameters, self.optimizer.space)
        if len(config) < len(self.optimizer.space.names):
            return
        trial = self._find_pending(config)
        reason = ax_trial.status_reason or ""
        failure, message = _failure(values, ax_trial.status, reason, experiment)
        if failure is None and ax_trial.status.name in _RETRYABLE:
            if trial is not None:
                self.optimizer.abandon(trial, reason)
            return
        self.optimizer.observe(
            config if trial is None else trial,
            dict(values) if failure is None else None,
            failed=failure,
            message=message,
            imported=trial is None,
        )

    def _find_pending(self, config: Mapping[str, Any]) -> Trial | None:
        return next((t for t in self.optimizer.pending if dict(t.config) == config), None)


def _values_by_arm(data: Data) -> dict[tuple[int, str], dict[str, float]]:
    """Return the finite means by trial index and arm name, then by metric."""
    values: dict[tuple[int, str], dict[str, float]] = {}
    if data.df.empty:
        return values
    columns = ("trial_index", "arm_name", "metric_name", "mean")
    for index, arm, metric, mean in zip(*(data.df[name] for name in columns), strict=True):
        number = finite_number(mean)
        if number is not None:
            values.setdefault((int(index), arm), {})[metric] = number
    return values


def _failure(
    values: Mapping[str, float], status: TrialStatus, reason: str, experiment: Experiment
) -> tuple[str | None, str]:
    """Return the failure word, or None for a success or an unexplained failure, and the message."""
    failure = reason.partition(":")[0].strip()
    if failure in FAILURE_WORDS:
        return failure, reason
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
    (metric,) = config.objective.metric_names
    return (None, "") if metric in values else ("runtime", f"{metric} has no finite value")
