"""Optuna's samplers as a reference in studies, by ask and tell.

Optuna has no permutations and no known constraints. A permutation is asked for as one number in [0, 1] for each of its
elements, which are sorted by these numbers (random keys, Bean 1994); an ordered list as an index. A configuration that
violates a known constraint, or that the sampler has asked for before, is answered but takes no evaluation, in the
sampler's favour: up to `PATIENCE` questions for each evaluation.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from baco_like._optional import require
from baco_like.exceptions import StrategyError
from baco_like.parameters import Integer, Parameter, Permutation, SteppedReal

if TYPE_CHECKING:
    from baco_like.benchmarking.studies.runs import Evaluation, Problem, RunJob

PREFIX = "optuna:"
"""Begins the name of a sampler where a strategy is expected: ``optuna:TPESampler``."""

PATIENCE = 50
"""Most questions for each evaluation of the budget: some samplers repeat a question without end."""


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


def run_sampler(job: RunJob, evaluation: Evaluation) -> None:
    """Run a sampler of Optuna on a problem.

    TPE receives failures as failed trials, which it ignores; the other samplers receive the worst value so far.
    """
    optuna = require("optuna", "optuna")
    sampler = create_sampler(job.contender.strategy, job.contender.settings, job.seed)
    previous = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        study = optuna.create_study(sampler=sampler, direction=job.problem.direction)
        ignores_failures = isinstance(sampler, optuna.samplers.TPESampler)
        questions = _Questions(job.problem, study, ignores_failures)
        questions.ask(PATIENCE * job.budget.evaluations, evaluation)
    finally:
        optuna.logging.set_verbosity(previous)


class _Questions:
    """Asks an Optuna study for configurations and reports their results."""

    def __init__(self, problem: Problem, study: Any, ignores_failures: bool) -> None:
        self._problem, self._study, self._ignores_failures = problem, study, ignores_failures
        self._distributions = {
            key: made
            for name, parameter in problem.space.parameters.items()
            for key, made in _distributions(name, parameter).items()
        }
        self._known: dict[tuple[Any, ...], float | None] = {}

    def ask(self, questions: int, evaluation: Evaluation) -> None:
        """Ask until the evaluations, or the questions, are spent."""
        for _ in range(questions):
            if evaluation.is_spent:
                return
            trial, config = self._ask_once()
            if not self._problem.space.contains(config):
                self._tell(trial, None)
                continue
            key = tuple(config.items())
            if key not in self._known:
                self._known[key] = evaluation(len(self._known), config).value
            self._tell(trial, self._known[key])

    def _ask_once(self) -> tuple[Any, dict[str, Any]]:
        """Return a trial and its configuration; the sampler is asked for active parameters only."""
        from baco_like.integrations._optuna_spaces import ask_parameter

        space = self._problem.space
        if not space.conditions:
            trial = self._study.ask(self._distributions)
            parameters = space.parameters.items()
            return trial, {name: _value(name, p, trial.params) for name, p in parameters}
        trial = self._study.ask()
        config: dict[str, Any] = {}
        conditional = space.conditions.expressions  # those that a condition reads come first
        for name in [*(n for n in space.names if n not in conditional), *conditional]:
            if space.activity.is_active(name, config):
                parameter = space.parameters[name]
                for key, distribution in _distributions(name, parameter).items():
                    ask_parameter(trial, key, distribution)
                config[name] = _value(name, parameter, trial.params)
        return trial, config

    def _tell(self, trial: Any, value: float | None) -> None:
        values = [known for known in self._known.values() if known is not None]
        if value is not None:
            self._study.tell(trial, value)
        elif self._ignores_failures or not values:
            import optuna

            self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            self._study.tell(
                trial, max(values) if self._problem.direction == "minimize" else min(values)
            )


def _distributions(name: str, parameter: Parameter) -> dict[str, Any]:
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


def _value(name: str, parameter: Parameter, params: Mapping[str, Any]) -> Any:
    if isinstance(parameter, Permutation):
        keys = [params[f"{name}[{i}]"] for i in range(parameter.width)]
        return tuple(parameter.elements[i] for i in np.argsort(keys, kind="stable"))
    if parameter.cardinality == 1:
        (constant,) = parameter.decode(np.full((1, parameter.width), parameter.code_range[0]))
        return constant
    values = _listed_values(parameter)
    return params[name] if values is None else values[params[name]]
