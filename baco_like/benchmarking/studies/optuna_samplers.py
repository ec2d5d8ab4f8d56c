"""Optuna's samplers as a reference in studies, by ask and tell.

Optuna has no permutations and no known constraints. A permutation is asked for as one number in [0, 1] for each of its
elements, which are sorted by these numbers (random keys, Bean 1994); an ordered list as an index.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from baco_like._optional import require
from baco_like.exceptions import StrategyError
from baco_like.optimizer.arguments import default_points
from baco_like.parameters import Integer, Parameter, Permutation, SteppedReal

if TYPE_CHECKING:
    from baco_like.benchmarking.studies.runs import Problem

PREFIX = "optuna:"
"""Begins the name of a sampler where a strategy is expected: ``optuna:TPESampler``."""


def create_sampler(name: str, settings: Mapping[str, Any], seed: int) -> Any:
    """Return a sampler of Optuna by ``optuna:CLASS``.

    Raises:
        MissingExtra: Optuna is not installed.
        StrategyError: It has no such sampler, or the sampler does not accept the settings.
    """
    samplers = require("optuna", "optuna").samplers
    own = name.removeprefix(PREFIX)
    known = [each for each in samplers.__all__ if each.endswith("Sampler")]
    if own not in known:
        near = difflib.get_close_matches(own, known, 1)
        hint = f"did you mean {PREFIX}{near[0]}?" if near else f"one of {', '.join(known)}"
        raise StrategyError(f"Optuna has no sampler {own!r}; {hint}")
    try:
        return getattr(samplers, own)(seed=seed, **settings)
    except TypeError as error:
        raise StrategyError(f"{name}: {error}") from None


class OptunaSampler:
    """A sampler of Optuna on a problem.

    TPE receives failures as failed trials, which it ignores; the other samplers receive the worst value so far.

    Args:
        name: ``optuna:CLASS``.
        settings: Arguments of the class.
        problem: The problem.
        seed: The sampler's seed.
    """

    def __init__(
        self, name: str, settings: Mapping[str, Any], problem: Problem, seed: int, _: int
    ) -> None:
        optuna = require("optuna", "optuna")
        sampler = create_sampler(name, settings, seed)
        self._ignores_failures = isinstance(sampler, optuna.samplers.TPESampler)
        self._logging, self._problem = optuna.logging, problem
        with self._quiet():
            self._study = optuna.create_study(sampler=sampler, direction=problem.direction)
        self._distributions = {
            key: made
            for name, parameter in problem.space.parameters.items()
            for key, made in distributions_of(name, parameter).items()
        }
        self._values: list[float] = []
        for default in default_points(problem.space):  # a study evaluates it first
            parameters = problem.space.parameters
            known = [_params(name, parameters[name], value) for name, value in default.items()]
            self._study.enqueue_trial({k: v for each in known for k, v in each.items()})

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        previous = self._logging.get_verbosity()
        self._logging.set_verbosity(self._logging.ERROR)
        try:
            yield
        finally:
            self._logging.set_verbosity(previous)

    def ask(self) -> dict[str, Any]:
        """Return the next configuration; the sampler is asked for active parameters only."""
        with self._quiet():
            self._trial, config = self._ask_once()
        return config

    def tell(self, config: Mapping[str, Any], value: float | None) -> None:
        """Report the value of the configuration that was asked for last, or None."""
        worst = max if self._problem.direction == "minimize" else min
        with self._quiet():
            if value is not None:
                self._values.append(value)
                self._study.tell(self._trial, value)
            elif self._ignores_failures or not self._values:
                state = require("optuna", "optuna").trial.TrialState.FAIL
                self._study.tell(self._trial, state=state)
            else:
                self._study.tell(self._trial, worst(self._values))

    def _ask_once(self) -> tuple[Any, dict[str, Any]]:
        from baco_like.integrations._optuna_spaces import ask_parameter

        space = self._problem.space
        if not space.conditions:
            trial = self._study.ask(self._distributions)
            parameters = space.parameters.items()
            return trial, {name: value_of(name, p, trial.params) for name, p in parameters}
        trial = self._study.ask()
        config: dict[str, Any] = {}
        conditional = space.conditions.expressions  # those that a condition reads come first
        for name in [*(n for n in space.names if n not in conditional), *conditional]:
            if space.activity.is_active(name, config):
                parameter = space.parameters[name]
                for key, distribution in distributions_of(name, parameter).items():
                    ask_parameter(trial, key, distribution)
                config[name] = value_of(name, parameter, trial.params)
        return trial, config


def distributions_of(name: str, parameter: Parameter) -> dict[str, Any]:
    """Return the distributions of a parameter by their names in Optuna; none for a constant."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    from baco_like.integrations._optuna_spaces import distribution_of

    if isinstance(parameter, Permutation):
        return {f"{name}[{i}]": FloatDistribution(0.0, 1.0) for i in range(parameter.width)}
    if parameter.cardinality == 1:
        return {}
    values = _listed_values(parameter)
    if values is None:
        return {name: distribution_of(name, parameter)}
    if parameter.kind is parameter.kind.ORDERED:
        return {name: IntDistribution(0, len(values) - 1)}
    return {name: CategoricalDistribution(range(len(values)))}


def _listed_values(parameter: Parameter) -> Sequence[Any] | None:
    """Return the values whose indices Optuna chooses from, or None for numbers that it has itself."""
    if isinstance(parameter, Integer | SteppedReal) or math.isinf(parameter.cardinality):
        return None
    return parameter.values


def value_of(name: str, parameter: Parameter, params: Mapping[str, Any]) -> Any:
    """Return the value of a parameter from the values of its distributions."""
    if isinstance(parameter, Permutation):
        keys = [params[f"{name}[{i}]"] for i in range(parameter.width)]
        return tuple(parameter.elements[i] for i in np.argsort(keys, kind="stable"))
    if parameter.cardinality == 1:
        (constant,) = parameter.decode(np.full((1, parameter.width), parameter.code_range[0]))
        return constant
    values = _listed_values(parameter)
    return params[name] if values is None else values[params[name]]


def _params(name: str, parameter: Parameter, value: Any) -> dict[str, Any]:
    """Return a value in the terms of Optuna; the inverse of `_value`."""
    if isinstance(parameter, Permutation):
        places = map(value.index, parameter.elements)
        return {f"{name}[{i}]": place / parameter.width for i, place in enumerate(places)}
    values = _listed_values(parameter)
    number = value if values is None else values.index(value)
    return {} if parameter.cardinality == 1 else {name: number}
