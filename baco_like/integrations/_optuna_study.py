"""The optimizer of one study of Optuna, and the space that it learns from the trials of the study."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from baco_like._optional import needs_extra
from baco_like.exceptions import BacoWarning, ConfigError, SpaceError
from baco_like.integrations._define_by_run import end_with_trials, learn_bounds
from baco_like.integrations._optuna_spaces import LearnedDomains, read_bounds
from baco_like.integrations._shared import read_permutations, write_permutations
from baco_like.optimizer import Optimizer
from baco_like.records import Trial
from baco_like.spaces import Space
from baco_like.spaces.learned_conditions import learn_conditions

with needs_extra("optuna", "optuna"):
    from optuna.trial import FrozenTrial, TrialState

_COMPLETION_DRAWS = 1024
"""Random configurations from which a partly enqueued trial is completed."""

CLAIM = "baco_like:params"
"""System attribute of a trial: the parameters that were suggested to it, before the objective asks for them."""

_REPLACED = "the objective asked for other bounds, so Optuna replaced a value of this suggestion"

FINISHED = (TrialState.COMPLETE, TrialState.FAIL, TrialState.PRUNED)


@dataclass
class StudyState:
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
        return read_permutations(params, self.given)

    def write(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return a configuration as Optuna's parameters; the inverse of `read`."""
        if self.given is None:
            return self.domains.write(config)
        return write_permutations(config, self.given)

    def read_whole(self, trial: FrozenTrial) -> dict[str, Any] | None:
        """Return the configuration of a running or enqueued trial, or None if a value is not known yet."""
        if self.optimizer is None:
            return None
        claimed = trial.system_attrs.get(CLAIM, {})
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
        """Return the space after new trials: with the conditions, bounds and failing branches that they show."""
        base = self.given
        if base is None:
            for trial in new:
                self.domains.add(trial.distributions)
            base = self.domains.space()
        if base is None:
            return None
        configs = [self.read(trial.params) for trial in self.finished]
        both = list(zip(configs, self.finished, strict=True))
        done = [config for config, trial in both if trial.state is TrialState.COMPLETE and config]
        space = _extend(base, learn_conditions(base.activity, done), [])
        ended = [config for config, trial in both if trial.state is not TrialState.COMPLETE]
        when = end_with_trials(space, ended, configs)
        constraints = []
        if self.given is None:
            bounds = [read_bounds(trial.distributions) for trial in self.finished]
            constraints = learn_bounds(base, list(zip(configs, bounds, strict=True)))
        space = _extend(space, when, [])
        return _extend(space, space.conditions.texts, constraints)

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
        claimed = self.read(trial.system_attrs.get(CLAIM, {}))
        ours = self.pending.pop(trial.number, None)
        # Another process may have evaluated the same configuration: then this is a second measurement.
        if ours is not None and ours.id not in self.run.history.pending:
            ours = None
        changed = any(name in config and config[name] != claimed[name] for name in claimed)
        if changed and self.given is None:  # other bounds: what was suggested cannot be evaluated
            self.run.observe(
                ours or claimed, failed="constraints", message=_REPLACED, imported=True
            )
            ours = None
        elif trial.state is not TrialState.COMPLETE:
            # It may have ended before it asked for all parameters.
            config = {**claimed, **config}
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

    def is_new(self, params: Mapping[str, Any]) -> bool:
        """Return whether a configuration is neither observed nor pending."""
        try:
            codes = self.run.space.encode([self.read(params)])
        except ConfigError:  # outside what is known of the space
            return True
        return not self.run.history.is_excluded(codes, self.run.options.noise)[0]

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


def _extend(space: Space, when: Mapping[str, str], constraints: Sequence[str]) -> Space:
    """Return the space with learned conditions and constraints, or the space itself if they exclude all."""
    if not constraints and when == space.conditions.texts:
        return space
    try:
        return space.with_conditions(when, constraints)
    except SpaceError:
        return space


def objective_name(position: int) -> str:
    """Return our name of an objective of a study, in which the objectives have positions only."""
    return f"objective_{position}"


def _read_result(trial: FrozenTrial, optimizer: Optimizer) -> dict[str, Any]:
    """Return the arguments of `Optimizer.observe`; ``user_attrs`` may name the failure and its message."""
    values = trial.values if trial.state is TrialState.COMPLETE else None
    if values and all(map(math.isfinite, values)):
        if len(values) == 1:
            return {"value": values[0]}
        return {"value": {objective_name(i): value for i, value in enumerate(values)}}
    step = trial.last_step
    reported = math.nan if step is None else trial.intermediate_values[step]
    if trial.state is TrialState.PRUNED and math.isfinite(reported):
        # Stopped early: the value so far, not a failure.
        if optimizer.options.aim.first.direction == "maximize":
            return {"value": reported, "extra": {"pruned": True}}
        message = f"pruned after step {step}"
        return {"failed": "pruned", "bound": reported, "message": message}
    failure = "runtime" if trial.state is not TrialState.PRUNED else "pruned"
    shown = f"value {', '.join(map(str, values))}" if values else ""
    return {
        "failed": str(trial.user_attrs.get("failed", failure)),
        "message": str(trial.user_attrs.get("message", shown)),
    }
