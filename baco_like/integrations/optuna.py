"""Optuna: this package's optimizer as a sampler.

Constraints span parameters, so the space must be known before the first trial. `optuna_distributions` declares it to
Optuna, and `suggest_config` asks a trial for a whole configuration in the space's values.
"""

from __future__ import annotations

import secrets
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from typing_extensions import override

from baco_like._forks import renew_lock_in_child
from baco_like._optional import needs_extra
from baco_like.exceptions import SpaceError, SpaceExhausted
from baco_like.integrations._optuna_spaces import (
    describe_numbers,
    from_optuna,
    optuna_distributions,
    suggest_config,
    to_optuna,
)
from baco_like.integrations._optuna_study import CLAIM, FINISHED, StudyState, objective_name
from baco_like.optimizer import Optimizer, Search
from baco_like.records.aim import GivenObjectives
from baco_like.records.objective import Direction
from baco_like.spaces import Space
from baco_like.strategies import Strategy

with needs_extra("optuna", "optuna"):
    from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.study import Study, StudyDirection
    from optuna.trial import FrozenTrial, TrialState

__all__ = ["BacoSampler", "from_optuna", "optuna_distributions", "suggest_config", "to_optuna"]

_CLAIMS = 16
"""Most configurations that are tried until no other process has claimed the same one."""

_DRAWS = 32
"""Most random values of a parameter that are drawn until the configuration is new."""


class BacoSampler(BaseSampler):
    """Suggests feasible, new configurations to an Optuna study with one or several directions.

    A failed trial counts as infeasible, and its configuration is never suggested again. The trial's user attributes
    ``failed`` (the failure word) and ``message`` may say why. The last report of a pruned trial is a lower bound of its
    value (when maximising, its value); without a report it counts as failed. Running trials, also those of other
    processes, count as pending. All trials that a study already has are observed, so a study can be continued.

    Parameters that the objective asks for in some trials only are inactive in the others; the sampler learns from which
    values that depends. Without a space it also learns bounds that depend on other parameters. Parameters outside the
    space are sampled independently. When the space is exhausted, ``study.optimize`` ends; trials that other threads
    have started by then evaluate the best configuration once more, and so does ``study.ask`` while trials are running.

    Args:
        space: The space; None learns it from the parameters that the objective asks for, and their bounds.
        seed: Seed of the suggestions; None draws one. Processes that share a study need different seeds.
        strategy: A registered name, a strategy object, or a `Search` with settings.
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
        strategy: str | Strategy[Any] | Search = "auto",
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
        self._options: dict[str, Any] = {"strategy": strategy}
        self._reset()
        # Reports wrong arguments now, not at the first trial.
        self._create_optimizer(("minimize",), Space({"any": [0, 1]}) if space is None else space)
        self._options["warm_start"] = warm_start  # its direction must be that of the study

    def _reset(self) -> None:
        self._independent = RandomSampler(self._seed)
        self._studies: weakref.WeakKeyDictionary[Study, StudyState] = weakref.WeakKeyDictionary()
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
        aim: GivenObjectives = directions[0]
        if len(directions) > 1:
            aim = {objective_name(i): direction for i, direction in enumerate(directions)}
        return Optimizer(space, aim, self._seed, **self._options)

    def _update(self, study: Study, current: int) -> StudyState:
        """Return the state of a study after observing every trial except the current one."""
        if study not in self._studies:
            directions: list[Direction] = [
                "maximize" if direction is StudyDirection.MAXIMIZE else "minimize"
                for direction in study.directions
            ]
            create = partial(self._create_optimizer, directions)
            self._studies[study] = StudyState(create, self._space)
        state = self._studies[study]
        states = (*FINISHED, TrialState.RUNNING)
        trials = [t for t in study.get_trials(deepcopy=False, states=states) if t.number != current]
        state.add([trial for trial in trials if trial.state in FINISHED])
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
            SpaceExhausted: Every feasible configuration is observed, outside ``study.optimize``.
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

    def _choose(self, study: Study, trial: FrozenTrial, state: StudyState) -> dict[str, Any]:
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
            study._storage.set_trial_system_attr(trial._trial_id, CLAIM, params)
            other = None if fixed else self._find_claim(study, trial.number, state, config)
            if other is None:
                break
            state.give_up(trial.number)
            state.claim(other.number, config)
            state.add([other] if other.state in FINISHED else [])
        return params

    def _find_claim(
        self, study: Study, number: int, state: StudyState, config: Mapping[str, Any]
    ) -> FrozenTrial | None:
        """Return a trial of another process that has chosen the same configuration at the same time, or None."""
        if state.run.options.noise == "repeat":
            return None
        states = (*FINISHED, TrialState.RUNNING)
        for trial in study.get_trials(deepcopy=False, states=states):
            if trial.number != number and trial.number not in state.seen:
                chosen = state.read_whole(trial)
                if chosen is not None and chosen == dict(config):
                    return trial
        return None

    @staticmethod
    def _repeat_best(
        study: Study, state: StudyState, exhausted: SpaceExhausted
    ) -> Mapping[str, Any]:
        """End the study and return its best configuration; in ``study.ask``, as long as trials are running, repeat it.

        Raises:
            SpaceExhausted: ``study.optimize`` is not running, and every configuration is observed.
        """
        try:
            study.stop()  # after its running trials
        except RuntimeError:
            if not state.run.pending:
                raise exhausted from None
        return state.run.best_config or state.run.space.sample(1)[0]

    def _check_bounds(self, name: str, asked: BaseDistribution) -> None:
        """Check that the objective asks for a parameter between the bounds of the user's space.

        Raises:
            SpaceError: The bounds differ.
        """
        own = self._distributions.get(name)
        if isinstance(own, FloatDistribution | IntDistribution) and type(own) is type(asked):
            wanted, known = (describe_numbers(each) for each in (asked, own))
            if known != wanted and not asked.single():
                raise SpaceError(
                    f"parameter {name!r}: the objective asks for {wanted}, and the space of the sampler has {known}; "
                    "make them equal, or leave the space out"
                )

    @override
    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Return a random value of a parameter that has no value in the suggestion, or one outside the asked bounds.

        The value makes the configuration a new one, if one of some random values does.

        Raises:
            SpaceError: The user's space has the parameter with other bounds.
        """
        self._check_bounds(param_name, param_distribution)
        draw = partial(
            self._independent.sample_independent, study, trial, param_name, param_distribution
        )
        value = draw()
        with self._lock:
            state = self._studies.get(study)
            if state is None or state.optimizer is None:
                return value
            asked = {**trial.system_attrs.get(CLAIM, {}), **trial.params}
            for _ in range(_DRAWS):
                if state.is_new({**asked, param_name: value}):
                    break
                value = draw()
        return value

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
