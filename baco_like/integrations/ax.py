"""Ax: this package's optimizer as a node of a generation strategy, and the conversion of search spaces."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from typing_extensions import override

from baco_like._optional import needs_extra
from baco_like.constraints.language.writer import write_name
from baco_like.exceptions import ConfigError, SpaceError, SpaceExhausted
from baco_like.integrations._shared import (
    check_options,
    order_texts,
    read_permutations,
    write_permutations,
)
from baco_like.optimizer import Optimizer, Search
from baco_like.parameters import Categorical, Integer, Ordinal, Parameter, Permutation, Real
from baco_like.parameters.values import is_number
from baco_like.records import FAILURE_WORDS, Aim, Measurement
from baco_like.records.objective import Direction
from baco_like.records.objective_values import finite_number
from baco_like.spaces import Space
from baco_like.strategies import Strategy

with needs_extra("ax", "ax"):
    from ax.core.data import Data
    from ax.core.experiment import Experiment
    from ax.core.parameter import ChoiceParameter, FixedParameter, ParameterType, RangeParameter
    from ax.core.search_space import SearchSpace
    from ax.core.trial_status import TrialStatus
    from ax.exceptions.core import SearchSpaceExhausted
    from ax.generation_strategy.external_generation_node import ExternalGenerationNode
    from ax.storage.json_store.registry import CORE_DECODER_REGISTRY, CORE_ENCODER_REGISTRY

__all__ = ["BacoNode"]

_FINISHED = ("COMPLETED", "FAILED", "ABANDONED", "EARLY_STOPPED", "STALE")
_RETRYABLE = ("FAILED", "STALE")
"""Names of statuses: not every version of Ax has all of them."""


class BacoNode(ExternalGenerationNode):  # type: ignore[misc]  # Ax's types need all of its packages
    """Suggests configurations to an Ax experiment: ``GenerationStrategy(nodes=[BacoNode(space)])``.

    The experiment may have several objectives, as in ``"-time, -power"``; thresholds of objectives are not used.

    Every suggestion satisfies the constraints and differs from all observed and running trials. Infeasible, and
    never suggested again, are: abandoned trials; failed trials whose reason begins with a failure word
    (``compile: ...``); values that are not finite; violated outcome constraints. Any other failed trial may be
    suggested again, as in Ax.

    Args:
        space: The experiment's parameters, with what Ax cannot express: permutations (choices of texts such as
            ``"i,j,k"``), constraints that are not linear, and conditions besides dependents. None converts the
            experiment's search space.
        seed: Seed of the suggestions.
        strategy: A registered name, a strategy object, or a `Search` with settings.
        budget: Number of evaluations, if known; strategies adapt their settings to it.
        name: Name of the node.
        warm_start: Results of earlier runs, as for `Optimizer`. They are read when Ax requests the first trial.

    Raises:
        ValueError: The strategy or a setting does not exist.
    """

    def __init__(
        self,
        space: Space | None = None,
        *,
        seed: int = 0,
        strategy: str | Strategy[Any] | Search = "auto",
        budget: int | None = None,
        name: str = "baco_like",
        warm_start: Any = None,
    ) -> None:
        super().__init__(name=name)
        self._space = space
        self._options = check_options(strategy, warm_start, seed=seed, budget=budget)
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
            ConfigError: No result of a warm start belongs to the space.
            ValueError: An objective of the experiment is a sum of metrics.
            SpaceError: A parameter of the experiment cannot be converted, or has other values than the given space.
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
            SpaceError: The experiment has another condition than the space.
        """
        for parameters in pending_parameters:
            config = from_parameterization(parameters, self.optimizer.space)
            if config is not None:
                with suppress(ConfigError):  # outside the space, or observed
                    self.optimizer.claim(config)
        try:
            trial = self.optimizer.suggest()
        except SpaceExhausted as error:
            raise SearchSpaceExhausted(str(error)) from error
        return to_parameterization(trial.config, self.optimizer.space, self._search_space)

    def _create_optimizer(self, experiment: Experiment) -> Optimizer:
        search_space, space = experiment.search_space, self._space
        config = experiment.optimization_config
        if space is None:
            space = from_search_space(search_space)
        else:
            check_parameters(space, search_space)
        aim = Aim(_directions(config), _limits(config))
        return Optimizer(space, aim, **self._options)

    def _observe(
        self,
        parameters: Mapping[str, Any],
        values: Mapping[str, float | Measurement],
        ax_trial: Any,
        experiment: Experiment,
    ) -> None:
        """Observe a finished arm; abandon it if it may be tried again."""
        config = from_parameterization(parameters, self.optimizer.space)
        if config is None:
            return
        reason = ax_trial.status_reason or ""
        failure, message = _failure(values, ax_trial.status, reason, experiment)
        if failure is None and ax_trial.status.name in _RETRYABLE:
            for trial in self.optimizer.pending:
                if dict(trial.config) == config:
                    self.optimizer.abandon(trial, reason)
            return
        value = dict(values) if failure is None else None
        self.optimizer.observe(config, value, failed=failure, message=message, imported=True)


def _write_node(node: BacoNode) -> dict[str, Any]:
    """Return the JSON by which Ax stores a node: its arguments, from which the observations follow.

    Raises:
        ValueError: An argument cannot be stored.
    """
    space = None if node._space is None else node._space.to_dict()
    try:
        search = vars(node._options["strategy"])
        own = {"space": space, "name": node.name, **node._options, "strategy": search}
        options = json.dumps(own)
        if space is not None:
            Space.from_dict(space)
    except (TypeError, SpaceError) as error:
        raise ValueError(
            f"BacoNode(...) cannot be stored with the experiment: {error}; use the names of strategies, the paths of "
            "warm starts and constraints that are texts, or store the experiment alone by ax.storage"
        ) from None
    return {"__type": BacoNode.__name__, "options": options}


def _read_node(options: str) -> BacoNode:
    """Return the node of the JSON that `_write_node` has written."""
    given = json.loads(options)
    space, search = given.pop("space"), Search(**given.pop("strategy"))
    return BacoNode(None if space is None else Space.from_dict(space), strategy=search, **given)


CORE_ENCODER_REGISTRY[BacoNode] = _write_node
CORE_DECODER_REGISTRY[BacoNode.__name__] = _read_node


def _directions(config: Any) -> dict[str, Direction]:
    """Return the metrics that an experiment optimises, with their directions.

    Raises:
        ValueError: The experiment has no objective, or one that is a sum of metrics.
    """
    objective = None if config is None else config.objective
    if objective is None or len(objective.expression.split(",")) != len(objective.metric_names):
        raise ValueError(
            f"objective {config!r:.100}: BacoNode supports one or several metrics, as in '-time, -power', and no sums"
        )
    weights = [weight for _, weight in objective.metric_weights]
    return {
        name: "minimize" if weight < 0 else "maximize"
        for name, weight in zip(objective.metric_names, weights, strict=True)
    }


def _absolute_constraints(config: Any) -> list[Any]:
    """Return the outcome constraints that are not relative to a baseline."""
    return [constraint for constraint in config.outcome_constraints if not constraint.relative]


def _limits(config: Any) -> list[str]:
    """Return the outcome constraints of an experiment as limits."""
    limits = []
    for constraint in _absolute_constraints(config):
        weights = constraint.metric_weights
        total = " + ".join(f"{float(weight)!r} * {write_name(name)}" for name, weight in weights)
        relation = "<=" if constraint.op.name == "LEQ" else ">="
        limits.append(f"{total} {relation} {float(constraint.bound)!r}")
    return limits


def _values_by_arm(data: Data) -> dict[tuple[int, str], dict[str, float | Measurement]]:
    """Return the finite means by trial index and arm name, then by metric, with their standard errors if known."""
    values: dict[tuple[int, str], dict[str, float | Measurement]] = {}
    for row in data.df.to_dict("records"):
        mean = finite_number(row["mean"])
        if mean is not None:
            arm = int(row["trial_index"]), row["arm_name"]
            error = finite_number(row.get("sem"))  # NaN: unknown
            value = mean if error is None else Measurement(mean, error)
            values.setdefault(arm, {})[row["metric_name"]] = value
    return values


def _failure(
    values: Mapping[str, float | Measurement],
    status: TrialStatus,
    reason: str,
    experiment: Experiment,
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
    limited = [name for c in _absolute_constraints(config) for name, _ in c.metric_weights]
    needed = [*config.objective.metric_names, *limited]
    missing = [name for name in needed if name not in values]
    return ("runtime", f"{missing[0]} has no finite value") if missing else (None, "")


# Conversion of search spaces ------------------------------------------------------------------------------------------


def from_search_space(search_space: SearchSpace) -> Space:
    """Return the space of Ax's parameters and linear constraints.

    An ordered choice of numbers becomes an ordinal, any other choice a categorical parameter. A parameter that depends
    on a value of another one becomes a conditional parameter.

    Raises:
        SpaceError: A parameter is not a range, choice or fixed parameter.
    """
    parameters = {name: _parameter(name, p) for name, p in search_space.parameters.items()}
    constraints = []
    for linear in search_space.parameter_constraints:
        weights = linear.constraint_dict.items()
        total = " + ".join(f"{float(weight)!r} * {write_name(name)}" for name, weight in weights)
        relation = "==" if linear.is_equality else "<="
        constraints.append(f"{total} {relation} {float(linear.bound)!r}")
    values: dict[str, tuple[str, list[Any]]] = {}  # of the parent, for each dependent parameter
    for name, parameter in search_space.parameters.items():
        for value, children in parameter.dependents.items() if parameter.is_hierarchical else ():
            for child in children:
                values.setdefault(child, (name, []))[1].append(value)
    when = {child: f"{write_name(name)} in {own!r}" for child, (name, own) in values.items()}
    return Space(parameters, constraints, when=when)


def _parameter(name: str, parameter: Any) -> Parameter:
    if isinstance(parameter, RangeParameter):
        make = Integer if parameter.parameter_type is ParameterType.INT else Real
        return make(parameter.lower, parameter.upper, log=parameter.log_scale)
    if isinstance(parameter, FixedParameter):
        value = parameter.value
        return Ordinal([value]) if is_number(value) else Categorical([value])
    if isinstance(parameter, ChoiceParameter):
        if not (parameter.is_ordered and all(map(is_number, parameter.values))):
            return Categorical(parameter.values)
        return Ordinal(parameter.values, log=bool(parameter.log_scale))
    raise SpaceError(
        f"parameter {name!r}: this {type(parameter).__name__} cannot be converted; pass a Space to BacoNode"
    )


def from_parameterization(parameters: Mapping[str, Any], space: Space) -> dict[str, Any] | None:
    """Return a parameterization of Ax as a configuration without inactive parameters.

    It is None if an active parameter is missing.
    """
    config = read_permutations(parameters, space)
    try:
        return space.decode(space.encode([config]))[0]
    except ConfigError:  # it is outside the space, or incomplete
        return config if len(config) == len(space.names) else None


def to_parameterization(
    config: Mapping[str, Any], space: Space, search_space: SearchSpace
) -> dict[str, Any]:
    """Return a configuration in Ax's types; fixed parameters that only Ax has are added.

    An inactive parameter that Ax has in every trial gets any value; `from_parameterization` drops it.

    Raises:
        SpaceError: Ax has another value, or leaves out a parameter that is active in the space.
    """
    values = write_permutations(space.activity.complete(config), space)
    for name, parameter in search_space.parameters.items():
        if isinstance(parameter, FixedParameter):
            values.setdefault(name, parameter.value)
        values[name] = _cast(name, values[name], parameter)
    kept = _applicable(search_space, values)
    for name in config.keys() - kept:
        raise SpaceError(
            f"the experiment leaves {name!r} out of {dict(config)!r:.200}, because it depends on another value there; "
            "give the space this condition by when=, or make it of the experiment: BacoNode()"
        )
    return {name: value for name, value in values.items() if name in kept}


def _cast(name: str, value: Any, parameter: Any) -> Any:
    """Return a value in Ax's type.

    Raises:
        SpaceError: The parameter of the experiment does not have it.
    """
    try:
        cast = parameter.cast(value)
        is_valid = parameter.validate(cast)
    except (TypeError, ValueError):
        is_valid = False
    if not is_valid or (parameter.parameter_type is ParameterType.INT and cast != value):
        raise SpaceError(
            f"parameter {name!r} of the experiment does not have the value {value!r}; "
            "give the space and the experiment the same values"
        )
    return cast


def _applicable(search_space: SearchSpace, values: Mapping[str, Any]) -> set[str]:
    """Return the parameters of Ax that are not left out: Ax omits those that depend on other values."""
    found: set[str] = set()
    names = list(search_space.top_level_parameters)
    while names:
        parameter = search_space.parameters[names.pop()]
        found.add(parameter.name)
        if parameter.is_hierarchical:
            names += parameter.dependents.get(values[parameter.name], ())
    return found


_DRAWN = 32
"""Number of configurations that are drawn to compare the conditions of a space with Ax's dependents."""


def check_parameters(space: Space, search_space: SearchSpace) -> None:
    """Check before the first trial that an experiment has the parameters and values of a space.

    Raises:
        SpaceError: Ax lacks a parameter or a value of the space, has another parameter that is not fixed, or leaves out
            one that is active in the space.
    """
    unknown = [name for name in space.names if name not in search_space.parameters]
    if unknown:
        raise SpaceError(f"the experiment lacks the space's parameters {', '.join(unknown)}")
    for name, parameter in search_space.parameters.items():
        if name in space.parameters:
            for value in _values_of(name, space.parameters[name]):
                _cast(name, value, parameter)
        elif not isinstance(parameter, FixedParameter):
            raise SpaceError(f"the space lacks the experiment's parameter {name!r}; add it")
    for config in space.sample(_DRAWN) if search_space.is_hierarchical else ():
        to_parameterization(config, space, search_space)


def _values_of(name: str, parameter: Parameter) -> list[Any]:
    """Return all values of a parameter as Ax has them, or the least and the greatest of many numbers."""
    if isinstance(parameter, Permutation):
        return order_texts(name, parameter, "Ax")
    if parameter.values is not None:
        return list(parameter.values)
    if parameter.width > 1:
        raise SpaceError(
            f"parameter {name!r}: Ax has no {type(parameter).__name__}; use Optimizer directly"
        )
    return parameter.decode(np.array(parameter.code_range)[:, None])
