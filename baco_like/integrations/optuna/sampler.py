"""Our optimizer as a sampler of Optuna.

Constraints span parameters, so the space must be known before the first trial. `distributions` declares it to Optuna,
and `suggest` asks a trial for a whole configuration in our values.
"""

from __future__ import annotations

import math
import secrets
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState
from typing_extensions import override

from baco_like.exceptions import BacoWarning, ConfigError, SpaceExhausted
from baco_like.integrations.optuna.space import distributions, suggest, to_config, to_params
from baco_like.optimizer import Optimizer
from baco_like.records.direction import Direction
from baco_like.records.history import Noise
from baco_like.records.trial import Trial
from baco_like.spaces.space import Space
from baco_like.strategies.protocol import Strategy

__all__ = ["BacoSampler", "distributions", "suggest", "to_config", "to_params"]

_DRAWS = 1024
"""Configurations among which one is sought that has some values given."""

_DONE = (TrialState.COMPLETE, TrialState.FAIL, TrialState.PRUNED)


@dataclass
class _Run:
    """What this sampler knows of one study.

    Attributes:
        optimizer: Has taken in the trials in ``seen``.
        flying: Our trial of each running one, by Optuna's number.
        seen: Numbers of finished trials that need not be looked at again.
        spare: Suggestions that nobody has got yet.
    """

    optimizer: Optimizer
    flying: dict[int, Trial] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    spare: deque[Trial] = field(default_factory=deque)

    def next(self) -> Trial:
        return self.spare.popleft() if self.spare else self.optimizer.suggest()

    def hold(self, number: int, config: Mapping[str, Any]) -> None:
        """Count a configuration that somebody else evaluates as in flight, if it is free."""
        try:
            self.optimizer.enqueue(config)
        except ConfigError:  # not of the space, or observed or in flight already
            return
        wanted = self.optimizer.history.queue[-1]
        while dict((trial := self.optimizer.suggest()).config) != dict(wanted):
            self.spare.append(trial)
        self.flying[number] = trial

    def finish(self, trial: FrozenTrial, config: dict[str, Any]) -> None:
        """Take in a finished trial; one that lacks parameters of the space says nothing about it."""
        self.seen.add(trial.number)
        ours = self.flying.pop(trial.number, None)
        if ours is not None and ours.id not in self.optimizer.history.pending:
            ours = None  # somebody else has run the same meanwhile; this is a second measurement
        whole = {**({} if ours is None else ours.config), **config}
        if len(whole) < len(self.optimizer.space.names):
            return
        if ours is not None and whole == dict(ours.config):
            self.optimizer.observe(ours, **_outcome(trial))
            return
        if ours is not None:
            self.optimizer.abandon(ours, "another configuration was evaluated")
        self.optimizer.observe(whole, **_outcome(trial), imported=True)

    def completion(self, fixed: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return a feasible configuration with some values given, a new one where there is; None if none is found."""
        space, history = self.optimizer.space, self.optimizer.history
        draws = space.encode(space.sample(_DRAWS, history.next_id))
        for name, value in fixed.items():
            if not space.parameters[name].contains(value):
                return None
            draws[:, space.columns[name]] = space.parameters[name].encode([value])
        draws = draws[space.feasible.contains(draws)]
        new = draws[~history.taken(draws, self.optimizer.options.noise)]
        chosen = new if len(new) else draws
        return space.decode(chosen[:1])[0] if len(chosen) else None

    def known(self) -> dict[str, Any]:
        """Return a configuration that was suggested before: the best one where there is one."""
        return self.optimizer.best_config or self.optimizer.space.sample(1)[0]

    def exhausted(self) -> bool:
        """Whether every feasible configuration is observed or in flight."""
        history, size = self.optimizer.history, self.optimizer.space.feasible_size
        if size is None or self.spare or self.optimizer.options.noise == "repeat":
            return False
        if len(history) + len(history.pending) < size:
            return False
        rows = np.concatenate([history.codes, history.pending_codes])
        rows = rows[~np.isnan(rows).any(axis=1)]
        return len(np.unique(rows, axis=0)) >= size


def _outcome(trial: FrozenTrial) -> dict[str, Any]:
    """Return what `Optimizer.observe` is told: a failure's word and message are in ``user_attrs``."""
    value = trial.value if trial.state is TrialState.COMPLETE else None
    if value is not None and math.isfinite(value):
        return {"value": value}
    word = "runtime" if trial.state is not TrialState.PRUNED else "pruned"
    return {
        "failed": str(trial.user_attrs.get("failed", word)),
        "message": str(trial.user_attrs.get("message", "" if value is None else f"value {value}")),
    }


class BacoSampler(BaseSampler):
    """Suggests feasible, new configurations of a space to a study of one objective.

    A failed or pruned trial is learnt as infeasible and its configuration never suggested again; set the trial's user
    attributes ``failed`` (the failure word) and ``message`` to say why. A running trial, also one of another process,
    counts as in flight. Whatever a study already has is data, so a study that is loaded again goes on. Parameters
    outside the space are sampled independently. When the space is exhausted, ``study.optimize`` ends; trials that have
    begun by then (of other threads, of a study that was exhausted before) measure the best configuration once more.

    Args:
        space: Known up front.
        seed: Of the suggestions; None draws one. Processes that share a study need different seeds.
        strategy: A registered name, or a strategy object.
        settings: The named strategy's own settings.
        noise: ``none``: nothing is suggested twice; ``repeat``: it may be.

    Raises:
        SpaceError: As `distributions`.
        ValueError: There is no such strategy or setting.
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
        self._space, self._distributions = space, distributions(space)
        self._seed = secrets.randbits(32) if seed is None else seed
        self._strategy, self._settings, self._noise = strategy, settings, noise
        self._start()
        self._optimizer("minimize")  # its checks come now, not at the first trial

    def _start(self) -> None:
        self._independent = RandomSampler(self._seed)
        self._runs: weakref.WeakKeyDictionary[Study, _Run] = weakref.WeakKeyDictionary()
        self._lock = threading.RLock()

    @override
    def __getstate__(self) -> dict[str, Any]:
        """Return the arguments only: what was learnt is in the study."""
        runtime = ("_independent", "_runs", "_lock")
        return {name: value for name, value in self.__dict__.items() if name not in runtime}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    def _optimizer(self, direction: Direction) -> Optimizer:
        return Optimizer(
            self._space,
            direction,
            self._seed,
            strategy=self._strategy,
            settings=self._settings,
            noise=self._noise,
        )

    def _run(self, study: Study, without: int) -> _Run:
        """Return what is known of a study, all its trials but one taken in."""
        if len(study.directions) > 1:
            raise ValueError(
                f"study {study.study_name!r} has {len(study.directions)} objectives; BacoSampler needs one"
            )
        if study not in self._runs:
            maximise = study.direction is StudyDirection.MAXIMIZE
            self._runs[study] = _Run(self._optimizer("maximize" if maximise else "minimize"))
        run = self._runs[study]
        for trial in study.get_trials(deepcopy=False, states=(*_DONE, TrialState.RUNNING)):
            if trial.number == without or trial.number in run.seen:
                continue
            if trial.state in _DONE:
                run.finish(trial, to_config(trial.params, self._space))
            elif trial.number not in run.flying and (config := self._whole(trial)):
                run.hold(trial.number, config)
        return run

    def _whole(self, trial: FrozenTrial) -> dict[str, Any] | None:
        """Return the configuration that a running trial has, or was enqueued with; None unless all of it is known."""
        params = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
        config = to_config(params, self._space)
        return config if len(config) == len(self._space.names) else None

    @override
    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the space's distributions."""
        return dict(self._distributions)  # samplers around this one take from it

    @override
    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return a whole configuration; of an enqueued trial with some parameters, one that they belong to.

        Raises:
            SpaceExhausted: Every feasible configuration is observed or in flight, and this is no ``study.optimize``.
            ValueError: The study has several objectives; another sampler around this one fixes a parameter.
        """
        _check_whole(self._distributions, search_space)
        with self._lock:
            run = self._run(study, trial.number)
            if self._whole(trial) is not None:
                return {}
            fixed = to_config(trial.system_attrs.get("fixed_params", {}), self._space)
            if fixed:
                return to_params(self._completed(run, trial.number, fixed), self._space)
            try:
                run.flying[trial.number] = run.next()
            except SpaceExhausted:
                if not _stopped(study):
                    raise
                return to_params(run.known(), self._space)
            return to_params(run.flying[trial.number].config, self._space)

    def _completed(self, run: _Run, number: int, fixed: Mapping[str, Any]) -> dict[str, Any]:
        """Return an enqueued trial's configuration, counted as in flight."""
        found = run.completion(fixed)
        if found is None:
            warnings.warn(
                f"trial {number} was enqueued with {dict(fixed)!r:.200}, and no feasible configuration with that was "
                "found; the constraints may be violated",
                BacoWarning,
                stacklevel=2,
            )
            run.flying[number] = run.next()
            return {**run.flying[number].config, **fixed}
        run.hold(number, found)
        return found

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
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """End ``study.optimize`` when no configuration is left."""
        with self._lock:
            run = self._runs.get(study)
            if run is not None and run.exhausted():
                _stopped(study)

    @override
    def reseed_rng(self) -> None:
        """Reseed what is sampled independently; our suggestions differ by what is in flight."""
        self._independent.reseed_rng()


def _stopped(study: Study) -> bool:
    """Let ``study.optimize`` end after its running trials; return whether somebody is in it."""
    try:
        study.stop()
    except RuntimeError:
        return False
    return True


def _check_whole(ours: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse to suggest a part of a configuration, which constraints could not be kept for."""
    fixed = [name for name in ours if name not in wanted]
    if fixed:
        raise ValueError(
            f"the sampler around BacoSampler fixes {', '.join(fixed)}; give these one value in the space instead, "
            "such as Ordinal([3])"
        )
