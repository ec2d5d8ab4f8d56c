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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from typing_extensions import override

from baco_like._forks import renew_lock_in_child
from baco_like._optional import needs_extra
from baco_like.exceptions import BacoWarning, ConfigError, SpaceError, SpaceExhausted
from baco_like.integrations._define_by_run import LearnedDomains, learn_conditions
from baco_like.integrations._optuna_conversion import (
    from_optuna,
    optuna_distributions,
    suggest_config,
    to_optuna,
)
from baco_like.optimizer import Optimizer
from baco_like.records import Direction, Noise, Trial
from baco_like.spaces import Space
from baco_like.strategies import Strategy

with needs_extra("optuna", "optuna"):
    from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.study import Study, StudyDirection
    from optuna.trial import FrozenTrial, TrialState

__all__ = ["BacoSampler", "from_optuna", "optuna_distributions", "suggest_config", "to_optuna"]

_COMPLETION_DRAWS = 1024
"""Random configurations from which a partly enqueued trial is completed."""

_CLAIM = "baco_like:params"
"""System attribute of a trial: the parameters that were suggested to it, before the objective asks for them."""

_CLAIMS = 16
"""Most configurations that are tried until no other process has claimed the same one."""

_FINISHED = (TrialState.COMPLETE, TrialState.FAIL, TrialState.PRUNED)


@dataclass
class _StudyState:
    """The optimizer of one study and the trials that it shares with Optuna.

    Attributes:
        create: Returns an optimizer of a space for this study.
        given: The user's space, or None.
        domains: Without one, the parameters of the finished trials.
        optimizer: Has observed the trials in ``seen``; None before a trial has finished without a space.
        pending: Our trial for each running Optuna trial, by Optuna's number.
        seen: Numbers of finished trials that need no further processing.
        finished: These trials.
    """

    create: Callable[[Space], Optimizer]
    given: Space | None
    domains: LearnedDomains = field(default_factory=LearnedDomains)
    optimizer: Optimizer | None = None
    pending: dict[int, Trial] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    finished: list[FrozenTrial] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.given is not None:
            self.optimizer = self.create(self.given)

    @property
    def run(self) -> Optimizer:
        """The optimizer, once there is a space."""
        assert self.optimizer is not None
        return self.optimizer

    def read(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a trial as a configuration, or a part of it."""
        if self.given is None:
            return self.domains.read(params)
        return from_optuna(params, self.given)

    def write(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return a configuration as Optuna's parameters; the inverse of `read`."""
        return self.domains.write(config) if self.given is None else to_optuna(config, self.given)

    def read_whole(self, trial: FrozenTrial) -> dict[str, Any] | None:
        """Return the configuration of a running or enqueued trial, or None if a value is not known yet."""
        if self.optimizer is None:
            return None
        claimed = trial.system_attrs.get(_CLAIM, {})
        fixed = trial.system_attrs.get("fixed_params", {})
        config = self.read({**claimed, **fixed, **trial.params})
        try:
            return self.run.space.decode(self.run.space.encode([config]))[0]
        except ConfigError:
            return None

    def add(self, trials: Sequence[FrozenTrial]) -> None:
        """Observe finished trials; the space is learned again if they disagree with it."""
        new = [trial for trial in trials if trial.number not in self.seen]
        if not new:
            return
        self.seen.update(trial.number for trial in new)
        self.finished += new
        space = self._learn(new)
        if space is not None and (self.optimizer is None or space != self.run.space):
            self.optimizer = self.create(space)
            self.pending = {}
            new = self.finished
        for trial in new if self.optimizer is not None else ():
            self._observe(trial)

    def _learn(self, new: Sequence[FrozenTrial]) -> Space | None:
        """Return the space after new trials: with the conditions under which the objective asks for parameters."""
        base = self.given
        if base is None:
            for trial in new:
                self.domains.add(trial.distributions)
            base = self.domains.space()
        if base is None:
            return None
        done = [trial for trial in self.finished if trial.state is TrialState.COMPLETE]
        configs = [config for trial in done if (config := self.read(trial.params))]
        when = learn_conditions(base, configs)
        if when == base.conditions.texts:
            return base
        try:
            return base.with_conditions(when)
        except SpaceError:  # as learned, nothing would satisfy the constraints
            return base

    def suggest(self, number: int) -> dict[str, Any]:
        """Assign the next suggestion to an Optuna trial and return its configuration."""
        self.pending[number] = self.run.suggest()
        return dict(self.pending[number].config)

    def claim(self, number: int, config: Mapping[str, Any]) -> None:
        """Count a configuration that another process evaluates as pending, if it is still free."""
        try:
            trial = self.run.claim(config)
        except ConfigError:  # outside the space, or already observed
            return
        if all(trial.id != other.id for other in self.pending.values()):
            self.pending[number] = trial

    def give_up(self, number: int) -> None:
        """Free the suggestion of an Optuna trial: another process evaluates this configuration."""
        trial = self.pending.pop(number, None)
        if trial is not None and trial.id in self.run.history.pending:
            self.run.abandon(trial, "another process evaluates this configuration")

    def _observe(self, trial: FrozenTrial) -> None:
        """Observe a finished trial; one without parameters of the space is ignored."""
        config = self.read(trial.params)
        ours = self.pending.pop(trial.number, None)
        # Another process may have evaluated the same configuration: then this is a second measurement.
        if ours is not None and ours.id not in self.run.history.pending:
            ours = None
        if ours is not None and trial.state is not TrialState.COMPLETE:
            # It may have ended before it asked for all parameters.
            config = {**ours.config, **config}
        if not config:
            return
        if ours is not None and not self._is_same(config, ours.config):
            self.run.abandon(ours, "another configuration was evaluated")
            ours = None
        subject = config if ours is None else ours
        self.run.observe(subject, **_read_result(trial, self.run), imported=True)

    def _is_same(self, config: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        try:
            first, second = self.run.space.encode([config, other])
        except ConfigError:
            return False
        return bool((first == second).all())

    def complete(self, number: int, fixed: Mapping[str, Any]) -> dict[str, Any]:
        """Return the configuration of a partly enqueued trial, a new one if possible, and count it as pending.

        A warning says if no drawn configuration is feasible with the fixed values.
        """
        space, history = self.run.space, self.run.history
        draws = space.encode(space.sample(_COMPLETION_DRAWS, history.next_id))
        valid = all(space.parameters[name].contains(value) for name, value in fixed.items())
        if valid:
            for name, value in fixed.items():
                draws[:, space.columns[name]] = space.parameters[name].encode([value])
            draws = space.activity.at_rest(draws)
            draws = draws[space.feasible.contains(draws)]
            read = np.sum([space.activity.where(name, draws) for name in fixed], axis=0)
            draws = draws[read == read.max(initial=0)]  # as many of the values as can be active
            new = draws[~history.is_excluded(draws, self.run.options.noise)]
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
        """Return whether every feasible configuration of the user's space is observed or pending."""
        if self.given is None:
            return False
        history, size = self.run.history, self.run.space.feasible_size
        if size is None or self.run.options.noise == "repeat":
            return False
        if len(history) + len(history.pending) < size:
            return False
        rows = np.concatenate([history.codes, history.pending_codes])
        rows = rows[~np.isnan(rows).any(axis=1)]  # imported trials outside the space
        return len(np.unique(rows, axis=0)) >= size


def _objective_name(position: int) -> str:
    """Return our name of an objective of a study, in which the objectives have positions only."""
    return f"objective_{position}"


def _read_result(trial: FrozenTrial, optimizer: Optimizer) -> dict[str, Any]:
    """Return the arguments of `Optimizer.observe`; ``user_attrs`` may name the failure and its message."""
    values = trial.values if trial.state is TrialState.COMPLETE else None
    if values and all(map(math.isfinite, values)):
        if len(values) == 1:
            return {"value": values[0]}
        return {"value": {_objective_name(i): value for i, value in enumerate(values)}}
    step = trial.last_step
    reported = math.nan if step is None else trial.intermediate_values[step]
    if trial.state is TrialState.PRUNED and math.isfinite(reported):
        # Stopped early: the value so far, not a failure.
        if optimizer.options.direction == "maximize":
            return {"value": reported, "extra": {"pruned": True}}
        message = f"pruned after step {step}"
        return {"failed": "pruned", "bound": reported, "message": message}
    failure = "runtime" if trial.state is not TrialState.PRUNED else "pruned"
    shown = f"value {', '.join(map(str, values))}" if values else ""
    return {
        "failed": str(trial.user_attrs.get("failed", failure)),
        "message": str(trial.user_attrs.get("message", shown)),
    }


class BacoSampler(BaseSampler):
    """Suggests feasible, new configurations to an Optuna study with one or several directions.

    A failed trial counts as infeasible, and its configuration is never suggested again. The trial's user attributes
    ``failed`` (the failure word) and ``message`` may say why. The last report of a pruned trial is a lower bound of its
    value (when maximising, its value); without a report it counts as failed. Running trials, also those of other
    processes, count as pending. All trials that a study already has are observed, so a study can be continued.

    Parameters that the objective asks for in some trials only are inactive in the others; the sampler learns from which
    values that depends. Parameters outside the space are sampled independently. When the space is exhausted,
    ``study.optimize`` ends; trials that other threads have started by then evaluate the best configuration once more.

    Args:
        space: The space; None learns it from the parameters that the objective asks for, and their bounds.
        seed: Seed of the suggestions; None draws one. Processes that share a study need different seeds.
        strategy: A registered name, or a strategy object.
        settings: Settings of the named strategy.
        noise: ``none``: no configuration is suggested twice; ``repeat``: it may be.
        warm_start: Results of earlier runs, as for `Optimizer`, in the values of the space. It needs a space.

    Raises:
        SpaceError: As for `optuna_distributions`; or the space has tasks.
        ConfigError: No result of a warm start belongs to the space.
        ValueError: The strategy or a setting does not exist, or a warm start lacks the space.
    """

    def __init__(
        self,
        space: Space | None = None,
        *,
        seed: int | None = None,
        strategy: str | Strategy[Any] = "auto",
        settings: Mapping[str, Any] | None = None,
        noise: Noise = "none",
        warm_start: Any = None,
    ) -> None:
        if space is None and warm_start is not None:
            raise ValueError("warm_start needs a space: write BacoSampler(space, warm_start=...)")
        self._space = space
        self._distributions = {} if space is None else optuna_distributions(space)
        if space is not None and space.tasks is not None:
            raise SpaceError(
                "the space has tasks, which a study of Optuna takes for parameters; use Optimizer or tune, "
                "or one study for each task"
            )
        self._seed = secrets.randbits(32) if seed is None else seed
        self._options: dict[str, Any] = dict(strategy=strategy, settings=settings, noise=noise)
        self._reset()
        # Reports wrong arguments now, not at the first trial.
        self._create_optimizer(("minimize",), Space({"any": [0, 1]}) if space is None else space)
        self._options["warm_start"] = warm_start  # its direction must be that of the study

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

    def _create_optimizer(self, directions: Sequence[Direction], space: Space) -> Optimizer:
        if len(directions) == 1:
            return Optimizer(space, directions[0], self._seed, **self._options)
        objectives = {_objective_name(i): direction for i, direction in enumerate(directions)}
        return Optimizer(space, seed=self._seed, objectives=objectives, **self._options)

    def _update(self, study: Study, current: int) -> _StudyState:
        """Return the state of a study after observing every trial except the current one."""
        if study not in self._studies:
            directions: list[Direction] = [
                "maximize" if direction is StudyDirection.MAXIMIZE else "minimize"
                for direction in study.directions
            ]
            create = partial(self._create_optimizer, directions)
            self._studies[study] = _StudyState(create, self._space)
        state = self._studies[study]
        states = (*_FINISHED, TrialState.RUNNING)
        trials = [t for t in study.get_trials(deepcopy=False, states=states) if t.number != current]
        state.add([trial for trial in trials if trial.state in _FINISHED])
        for trial in trials:
            if trial.state is TrialState.RUNNING and trial.number not in state.pending:
                config = state.read_whole(trial)
                if config is not None:
                    state.claim(trial.number, config)
        return state

    @override
    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the distributions of the space, or of the parameters learned so far."""
        if self._space is None:
            with self._lock:
                return dict(self._update(study, trial.number).domains.distributions)
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
            if state.optimizer is None or state.read_whole(trial) is not None:
                return {}
            params = self._choose(study, trial, state)
        if self._space is None:
            # Parameters that another thread has just learned are sampled independently.
            params = {name: value for name, value in params.items() if name in search_space}
        return params

    def _choose(self, study: Study, trial: FrozenTrial, state: _StudyState) -> dict[str, Any]:
        """Return the parameters of a new trial, and write them where other processes see them."""
        fixed = state.read(trial.system_attrs.get("fixed_params", {}))
        params: dict[str, Any] = {}
        for _ in range(_CLAIMS):
            try:
                config = (
                    state.complete(trial.number, fixed) if fixed else state.suggest(trial.number)
                )
            except SpaceExhausted as exhausted:
                return state.write(self._repeat_best(study, state, exhausted))
            params = state.write(config)
            study._storage.set_trial_system_attr(trial._trial_id, _CLAIM, params)
            other = None if fixed else self._find_claim(study, trial.number, state, config)
            if other is None:
                break
            state.give_up(trial.number)
            state.claim(other.number, config)
            state.add([other] if other.state in _FINISHED else [])
        return params

    def _find_claim(
        self, study: Study, number: int, state: _StudyState, config: Mapping[str, Any]
    ) -> FrozenTrial | None:
        """Return a trial of another process that has chosen the same configuration at the same time, or None."""
        if state.run.options.noise == "repeat":
            return None
        states = (*_FINISHED, TrialState.RUNNING)
        for trial in study.get_trials(deepcopy=False, states=states):
            if trial.number != number and trial.number not in state.seen:
                chosen = state.read_whole(trial)
                if chosen is not None and chosen == dict(config):
                    return trial
        return None

    @staticmethod
    def _repeat_best(
        study: Study, state: _StudyState, exhausted: SpaceExhausted
    ) -> Mapping[str, Any]:
        """End the study and return its best configuration.

        Raises:
            SpaceExhausted: ``study.optimize`` is not running.
        """
        try:
            study.stop()  # after its running trials
        except RuntimeError:
            raise exhausted from None
        return state.run.best_config or state.run.space.sample(1)[0]

    def _check_bounds(self, name: str, asked: BaseDistribution) -> None:
        """Check that the objective asks for a parameter between the bounds of the user's space.

        Raises:
            SpaceError: The bounds differ.
        """
        own = self._distributions.get(name)
        if isinstance(own, FloatDistribution | IntDistribution) and type(own) is type(asked):
            bounds, wanted = (own.low, own.high), (asked.low, asked.high)
            if bounds != wanted and not asked.single():
                raise SpaceError(
                    f"parameter {name!r}: the objective asks for {wanted[0]!r} to {wanted[1]!r}, and the space of the "
                    f"sampler has {bounds[0]!r} to {bounds[1]!r}; make them equal, or leave the space out"
                )

    @override
    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Return a random value of a parameter that the space does not have, or of one that it has as inactive.

        Raises:
            SpaceError: The space has it with other bounds.
        """
        self._check_bounds(param_name, param_distribution)
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    @override
    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """End ``study.optimize`` when no configuration is left.

        Raises:
            SpaceError: The objective has asked for a parameter with other bounds than those of the space.
        """
        for name, distribution in trial.distributions.items():
            self._check_bounds(name, distribution)
        with self._lock:
            study_state = self._studies.get(study)
            if study_state is not None and study_state.is_exhausted():
                with suppress(RuntimeError):  # study.optimize is not running
                    study.stop()

    @override
    def reseed_rng(self) -> None:
        """Reseed the independent sampler; suggestions of workers differ because of their pending trials."""
        self._independent.reseed_rng()
