"""Nevergrad, SMAC3 and scikit-optimize as contenders of a study, on spaces of all kinds.

    cd benchmarks/quality
    baco-like compare --problems tour_8,flags_24 --out runs/peers \\
        --strategies "auto,NGOpt=peers.ask_tell:Nevergrad,SMAC3=peers.ask_tell:Smac,GP=peers.ask_tell:ScikitOptimize"

Parameters are translated as for Optuna's samplers: an ordered list by its indices, a permutation by a number for each
of its elements. Known constraints are given to Nevergrad as a cheap constraint and to scikit-optimize as its space
constraint; SMAC3 cannot express them, and is told that an excluded configuration crashed. A failure costs the worst
value so far.
"""

import math
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from baco_like.benchmarking.studies.optuna_samplers import distributions_of, value_of
from baco_like.benchmarking.studies.runs import Problem
from baco_like.records.objective import sign_of


class AskTell:
    """What the tools share: the translation of the space, and the cost of a failure.

    Args:
        problem: The problem.
        seed: The tool's seed.
        evaluations: Number of evaluations.
    """

    def __init__(self, problem: Problem, seed: int, evaluations: int) -> None:
        self.problem, self.seed, self.evaluations = problem, seed, evaluations
        self._worst = -math.inf

    @cached_property
    def distributions(self) -> dict[str, BaseDistribution]:
        """The distributions of the tool's parameters; a permutation has several, a constant none."""
        parameters = self.problem.space.parameters.items()
        return {key: d for name, p in parameters for key, d in distributions_of(name, p).items()}

    def config(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return a configuration of the problem; values of inactive parameters are dropped."""
        space, config = self.problem.space, {}
        conditional = space.conditions.expressions
        for name in [*(n for n in space.names if n not in conditional), *conditional]:
            if space.activity.is_active(name, config):
                config[name] = value_of(name, space.parameters[name], params)
        return config

    def is_feasible(self, params: Mapping[str, Any]) -> bool:
        return self.problem.space.contains(self.config(params))

    def cost(self, value: float | None) -> float:
        """Return a value that is minimised; a failure has the worst one so far, or 1."""
        if value is None:
            return self._worst if math.isfinite(self._worst) else 1.0
        cost = sign_of(self.problem.direction) * value
        self._worst = max(self._worst, cost)
        return cost


class Nevergrad(AskTell):
    """An optimizer of Nevergrad's registry."""

    def __init__(
        self, problem: Problem, seed: int, evaluations: int, optimizer: str = "NGOpt"
    ) -> None:
        import nevergrad as ng

        super().__init__(problem, seed, evaluations)
        given = ng.p.Dict(**{key: self._parameter(d) for key, d in self.distributions.items()})
        given.random_state = np.random.RandomState(seed)
        given.register_cheap_constraint(lambda params: self.is_feasible(params))
        self._optimizer = ng.optimizers.registry[optimizer](given, budget=evaluations)

    @staticmethod
    def _parameter(distribution: Any) -> Any:
        import nevergrad as ng

        if isinstance(distribution, CategoricalDistribution):
            return ng.p.Choice(list(distribution.choices))
        if isinstance(distribution, IntDistribution) and not distribution.log:
            return ng.p.TransitionChoice(
                range(distribution.low, distribution.high + 1, distribution.step)
            )
        make = ng.p.Log if distribution.log else ng.p.Scalar
        scalar = make(lower=distribution.low, upper=distribution.high)
        return scalar.set_integer_casting() if isinstance(distribution, IntDistribution) else scalar

    def ask(self) -> dict[str, Any]:
        self._asked = self._optimizer.ask()
        return self.config(self._asked.value)

    def tell(self, config: Mapping[str, Any], value: float | None) -> None:
        self._optimizer.tell(self._asked, self.cost(value))


class ScikitOptimize(AskTell):
    """scikit-optimize's Gaussian process with its defaults."""

    def __init__(self, problem: Problem, seed: int, evaluations: int) -> None:
        from skopt import Optimizer

        super().__init__(problem, seed, evaluations)
        dimensions = [self._dimension(d) for d in self.distributions.values()]
        self._optimizer = Optimizer(
            dimensions,
            "GP",
            random_state=seed,
            n_initial_points=min(10, evaluations),
            space_constraint=lambda point: self.is_feasible(self._params(point)),
        )

    @staticmethod
    def _dimension(distribution: Any) -> Any:
        from skopt.space import Categorical, Integer, Real

        if isinstance(distribution, CategoricalDistribution):
            return Categorical(list(distribution.choices))
        make = Integer if isinstance(distribution, IntDistribution) else Real
        prior = "log-uniform" if distribution.log else "uniform"
        return make(distribution.low, distribution.high, prior=prior)

    def _params(self, point: list[Any]) -> dict[str, Any]:
        return dict(zip(self.distributions, point, strict=True))

    def ask(self) -> dict[str, Any]:
        self._asked = self._optimizer.ask()
        return self.config(self._params(self._asked))

    def tell(self, config: Mapping[str, Any], value: float | None) -> None:
        self._optimizer.tell(self._asked, self.cost(value))


class Smac(AskTell):
    """SMAC3's facade for hyperparameters, with a random forest."""

    def __init__(self, problem: Problem, seed: int, evaluations: int) -> None:
        from ConfigSpace import ConfigurationSpace
        from smac import HyperparameterOptimizationFacade, Scenario

        super().__init__(problem, seed, evaluations)
        space = ConfigurationSpace(seed=seed)
        for key, distribution in self.distributions.items():
            space.add(self._hyperparameter(key, distribution))
        self._folder = tempfile.TemporaryDirectory()
        scenario = Scenario(
            space,
            output_directory=Path(self._folder.name),
            deterministic=True,
            n_trials=evaluations,
            seed=seed,
        )
        self._optimizer = HyperparameterOptimizationFacade(
            scenario, lambda config, seed: 0.0, overwrite=True, logging_level=50
        )

    @staticmethod
    def _hyperparameter(key: str, distribution: Any) -> Any:
        import ConfigSpace as cs

        key = key.replace("[", "_").replace("]", "")  # ConfigSpace keeps brackets for itself
        if isinstance(distribution, CategoricalDistribution):
            return cs.CategoricalHyperparameter(key, list(distribution.choices))
        is_int = isinstance(distribution, IntDistribution)
        make = cs.UniformIntegerHyperparameter if is_int else cs.UniformFloatHyperparameter
        return make(key, distribution.low, distribution.high, log=distribution.log)

    def ask(self) -> dict[str, Any]:
        self._asked = self._optimizer.ask()
        given = dict(self._asked.config)
        names = {self._hyperparameter(k, d).name: k for k, d in self.distributions.items()}
        return self.config({names[name]: value for name, value in given.items()})

    def tell(self, config: Mapping[str, Any], value: float | None) -> None:
        from smac.runhistory import StatusType, TrialValue

        status = StatusType.CRASHED if value is None else StatusType.SUCCESS
        self._optimizer.tell(self._asked, TrialValue(self.cost(value), status=status))
