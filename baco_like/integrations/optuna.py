"""Optuna: this package's optimizer as a sampler, and the conversion of spaces and configurations.

Constraints span parameters, so the space must be known before the first trial. `optuna_distributions` declares it to
Optuna, and `suggest_config` asks a trial for a whole configuration in the space's values. Optuna has no ordinals and no
permutations: both become categorical, a permutation as texts such as ``"i,j,k"``.
"""

from __future__ import annotations

import math
import secrets
import threading
import warnings
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from typing_extensions import override

from baco_like._forks import renew_lock_in_child
from baco_like._optional import needs_extra
from baco_like.exceptions import BacoWarning, ConfigError, SpaceError, SpaceExhausted
from baco_like.integrations._shared import order_texts, read_permutations, write_permutations
from baco_like.optimizer import Optimizer
from baco_like.parameters import Categorical, Integer, Ordinal, Parameter, Permutation, Real
from baco_like.records import Direction, Noise, Trial
from baco_like.spaces import Space
from baco_like.strategies import Strategy

with needs_extra("optuna", "optuna"):
    import optuna
    from optuna.distributions import (
        BaseDistribution,
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.study import Study, StudyDirection
    from optuna.trial import FrozenTrial, TrialState

__all__ = ["BacoSampler", "from_optuna", "optuna_distributions", "suggest_config", "to_optuna"]

_COMPLETION_DRAWS = 1024
"""Random configurations from which a partly enqueued trial is completed."""

_FINISHED = (TrialState.COMPLETE, TrialState.FAIL, TrialState.PRUNED)


@dataclass
class _StudyState:
    """The optimizer of one study and the trials that it shares with Optuna.

    Attributes:
        optimizer: Has observed the trials in ``seen``.
        pending: Our trial for each running Optuna trial, by Optuna's number.
        seen: Numbers of finished trials that need no further processing.
    """

    optimizer: Optimizer
    pending: dict[int, Trial] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)

    def suggest(self, number: int) -> dict[str, Any]:
        """Assign the next suggestion to an Optuna trial and return its configuration."""
        self.pending[number] = self.optimizer.suggest()
        return dict(self.pending[number].config)

    def claim(self, number: int, config: Mapping[str, Any]) -> None:
        """Count a configuration that another process evaluates as pending, if it is still free."""
        try:
            trial = self.optimizer.claim(config)
        except ConfigError:  # outside the space, or already observed
            return
        if all(trial.id != other.id for other in self.pending.values()):
            self.pending[number] = trial

    def observe(self, trial: FrozenTrial, config: dict[str, Any]) -> None:
        """Observe a finished trial; a trial that lacks parameters of the space is ignored."""
        self.seen.add(trial.number)
        ours = self.pending.pop(trial.number, None)
        # Another process may have evaluated the same configuration: then this is a second measurement.
        if ours is not None and ours.id not in self.optimizer.history.pending:
            ours = None
        config = {**({} if ours is None else ours.config), **config}
        if len(config) < len(self.optimizer.space.names):
            return
        if ours is not None and config != dict(ours.config):
            self.optimizer.abandon(ours, "another configuration was evaluated")
            ours = None
        subject = config if ours is None else ours
        self.optimizer.observe(subject, **_read_result(trial), imported=True)

    def complete(self, number: int, fixed: Mapping[str, Any]) -> dict[str, Any]:
        """Return the configuration of a partly enqueued trial, a new one if possible, and count it as pending.

        A warning says if no drawn configuration is feasible with the fixed values.
        """
        space, history = self.optimizer.space, self.optimizer.history
        draws = space.encode(space.sample(_COMPLETION_DRAWS, history.next_id))
        valid = all(space.parameters[name].contains(value) for name, value in fixed.items())
        if valid:
            for name, value in fixed.items():
                draws[:, space.columns[name]] = space.parameters[name].encode([value])
            draws = draws[space.feasible.contains(draws)]
            new = draws[~history.is_excluded(draws, self.optimizer.options.noise)]
            draws = new if len(new) else draws
        if valid and len(draws):
            (config,) = space.decode(draws[:1])
            self.claim(number, config)
            return config
        warnings.warn(
            f"trial {number} was enqueued with {dict(fixed)!r:.200}, but no feasible configuration has these "
            "values; the trial may violate the constraints",
            BacoWarning,
            stacklevel=2,
        )
        return {**self.suggest(number), **fixed}

    def is_exhausted(self) -> bool:
        """Return whether every feasible configuration is observed or pending."""
        history, size = self.optimizer.history, self.optimizer.space.feasible_size
        if size is None or self.optimizer.options.noise == "repeat":
            return False
        if len(history) + len(history.pending) < size:
            return False
        rows = np.concatenate([history.codes, history.pending_codes])
        rows = rows[~np.isnan(rows).any(axis=1)]  # imported trials outside the space
        return len(np.unique(rows, axis=0)) >= size


def _objective_name(position: int) -> str:
    """Return our name of an objective of a study, in which the objectives have positions only."""
    return f"objective_{position}"


def _read_result(trial: FrozenTrial) -> dict[str, Any]:
    """Return the arguments of `Optimizer.observe`; ``user_attrs`` may name the failure and its message."""
    values = trial.values if trial.state is TrialState.COMPLETE else None
    if values and all(map(math.isfinite, values)):
        if len(values) == 1:
            return {"value": values[0]}
        return {"value": {_objective_name(i): value for i, value in enumerate(values)}}
    failure = "runtime" if trial.state is not TrialState.PRUNED else "pruned"
    shown = f"value {', '.join(map(str, values))}" if values else ""
    return {
        "failed": str(trial.user_attrs.get("failed", failure)),
        "message": str(trial.user_attrs.get("message", shown)),
    }


class BacoSampler(BaseSampler):
    """Suggests feasible, new configurations of a space to an Optuna study with one or several directions.

    A failed or pruned trial counts as infeasible, and its configuration is never suggested again. The trial's user
    attributes ``failed`` (the failure word) and ``message`` may say why. Running trials, also those of other
    processes, count as pending. All trials that a study already has are observed, so a study can be continued.
    Parameters outside the space are sampled independently. When the space is exhausted, ``study.optimize`` ends;
    trials that other threads have started by then evaluate the best configuration once more.

    Args:
        space: The space, known up front.
        seed: Seed of the suggestions; None draws one. Processes that share a study need different seeds.
        strategy: A registered name, or a strategy object.
        settings: Settings of the named strategy.
        noise: ``none``: no configuration is suggested twice; ``repeat``: it may be.

    Raises:
        SpaceError: As for `optuna_distributions`.
        ValueError: The strategy or a setting does not exist.
    """

    def __init__(
        self,
        space: Space,
        *,
        seed: int | None = None,
        strategy: str | Strategy[Any] = "auto",
        settings: Mapping[str, Any] | None = None,
        noise: Noise = "none",
    ) -> None:
        self._space, self._distributions = space, optuna_distributions(space)
        self._seed = secrets.randbits(32) if seed is None else seed
        self._options: dict[str, Any] = dict(strategy=strategy, settings=settings, noise=noise)
        self._reset()
        self._create_optimizer("minimize")  # reports wrong arguments now, not at the first trial

    def _reset(self) -> None:
        self._independent = RandomSampler(self._seed)
        self._studies: weakref.WeakKeyDictionary[Study, _StudyState] = weakref.WeakKeyDictionary()
        self._lock = threading.RLock()
        renew_lock_in_child(self, "_lock")

    @override
    def __getstate__(self) -> dict[str, Any]:
        """Return the arguments only; the observations are in the study."""
        runtime = ("_independent", "_studies", "_lock")
        return {name: value for name, value in self.__dict__.items() if name not in runtime}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    def _create_optimizer(self, *directions: Direction) -> Optimizer:
        if len(directions) == 1:
            return Optimizer(self._space, directions[0], self._seed, **self._options)
        objectives = {_objective_name(i): direction for i, direction in enumerate(directions)}
        return Optimizer(self._space, seed=self._seed, objectives=objectives, **self._options)

    def _update(self, study: Study, current: int) -> _StudyState:
        """Return the state of a study after observing every trial except the current one."""
        if study not in self._studies:
            directions: list[Direction] = [
                "maximize" if direction is StudyDirection.MAXIMIZE else "minimize"
                for direction in study.directions
            ]
            self._studies[study] = _StudyState(self._create_optimizer(*directions))
        state = self._studies[study]
        for trial in study.get_trials(deepcopy=False, states=(*_FINISHED, TrialState.RUNNING)):
            if trial.number == current or trial.number in state.seen:
                continue
            if trial.state in _FINISHED:
                state.observe(trial, from_optuna(trial.params, self._space))
            elif trial.number not in state.pending and (config := self._whole_config(trial)):
                state.claim(trial.number, config)
        return state

    def _whole_config(self, trial: FrozenTrial) -> dict[str, Any] | None:
        """Return the configuration of a running or enqueued trial, or None if a value is not known yet."""
        params = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
        config = from_optuna(params, self._space)
        return config if len(config) == len(self._space.names) else None

    @override
    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the space's distributions."""
        return dict(self._distributions)  # a copy: samplers that wrap this one remove entries

    @override
    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return a whole configuration; an enqueued trial keeps the values that were enqueued.

        Raises:
            SpaceExhausted: Every feasible configuration is observed or pending, outside ``study.optimize``.
            ValueError: A sampler that wraps this one fixes a parameter.
            StrategyError: The study has several directions, and the strategy optimises one objective.
        """
        fixed_outside = [name for name in self._distributions if name not in search_space]
        if fixed_outside:  # constraints cannot be satisfied for a part of a configuration
            raise ValueError(
                f"the sampler around BacoSampler fixes {', '.join(fixed_outside)}; give these one value in the "
                "space instead, such as Ordinal([3])"
            )
        with self._lock:
            state = self._update(study, trial.number)
            if self._whole_config(trial) is not None:
                return {}
            fixed = from_optuna(trial.system_attrs.get("fixed_params", {}), self._space)
            if fixed:
                return to_optuna(state.complete(trial.number, fixed), self._space)
            try:
                config = state.suggest(trial.number)
            except SpaceExhausted as exhausted:
                try:
                    study.stop()  # after its running trials
                except RuntimeError:  # study.optimize is not running
                    raise exhausted from None
                config = state.optimizer.best_config or self._space.sample(1)[0]
            return to_optuna(config, self._space)

    @override
    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Return a random value of a parameter that the space does not have."""
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    @override
    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """End ``study.optimize`` when no configuration is left."""
        with self._lock:
            study_state = self._studies.get(study)
            if study_state is not None and study_state.is_exhausted():
                with suppress(RuntimeError):  # study.optimize is not running
                    study.stop()

    @override
    def reseed_rng(self) -> None:
        """Reseed the independent sampler; suggestions of workers differ because of their pending trials."""
        self._independent.reseed_rng()


# Conversion -----------------------------------------------------------------------------------------------------------


def optuna_distributions(space: Space) -> dict[str, BaseDistribution]:
    """Return the space's parameters as Optuna distributions, as ``study.ask`` accepts them.

    Raises:
        SpaceError: A permutation has more than seven elements, two orders of it have the same text, or ``space`` is
            not a `Space`.
    """
    if not isinstance(space, Space):
        raise SpaceError(f"space = {space!r:.60}: expected a Space; create it with Space(...)")
    return {name: _distribution(name, p) for name, p in space.parameters.items()}


def suggest_config(trial: optuna.Trial, space: Space) -> dict[str, Any]:
    """Return the configuration that an objective evaluates, in the space's own values.

    Raises:
        SpaceError: As for `optuna_distributions`.
    """
    params: dict[str, Any] = {}
    for name, choice in optuna_distributions(space).items():
        if isinstance(choice, FloatDistribution):
            params[name] = trial.suggest_float(name, choice.low, choice.high, log=choice.log)
        elif isinstance(choice, IntDistribution):
            params[name] = trial.suggest_int(name, choice.low, choice.high, log=choice.log)
        elif isinstance(choice, CategoricalDistribution):
            params[name] = trial.suggest_categorical(name, choice.choices)
    return from_optuna(params, space)


def from_optuna(params: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return a trial's parameters as a configuration; parameters outside the space are left out."""
    return read_permutations(params, space)


def to_optuna(config: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return a configuration as Optuna's parameters, as ``study.enqueue_trial`` accepts them."""
    return write_permutations(config, space)


def _distribution(name: str, parameter: Parameter) -> BaseDistribution:
    if isinstance(parameter, Real):
        return FloatDistribution(parameter.low, parameter.high, log=parameter.log)
    if isinstance(parameter, Integer):
        return IntDistribution(parameter.low, parameter.high, log=parameter.log)
    if isinstance(parameter, (Ordinal, Categorical)):
        return CategoricalDistribution(parameter.values)
    if isinstance(parameter, Permutation):
        return CategoricalDistribution(order_texts(name, parameter, "Optuna"))
    raise SpaceError(
        f"parameter {name!r}: Optuna has no distribution for {type(parameter).__name__}"
    )
