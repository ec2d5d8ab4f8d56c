"""Kernel Tuner's strategies in its simulation mode, with a new Searchspace for every run, because it keeps state.

Orders and names are given as numbers. Kernel Tuner checks constraints and repairs a configuration before it runs, so
infeasible ones are not charged. A failure is its `RuntimeFailedConfig`.
"""

import random
from functools import cache
from typing import Any

import numpy as np
from kernel_tuner import util
from kernel_tuner.interface import Options, strategy_map
from kernel_tuner.runners.simulation import SimulationRunner
from kernel_tuner.searchspace import Searchspace

from .measure import Measure, Spent
from .problem import Problem


def run(measure: Measure, seed: int, strategy: str) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - its strategies draw from the global generator
    parameters, table = _table(measure.problem)
    space = Searchspace(None, None, None, from_cache={"tune_params": parameters, "cache": table})
    evaluations = min(measure.evaluations, space.size)
    options = Options(
        objective=["time"],
        objective_higher_is_better=[False],
        strategy_options=Options(max_fevals=evaluations),
        budget=util.TuningBudget(None, evaluations),
        cache=table,
        tune_params=parameters,
        metrics=None,
        restrictions=[],
        verbose=False,
        max_fevals=evaluations,
    )
    strategy_map[strategy].tune(space, _Runner(measure, parameters), options)


class _Runner(SimulationRunner):
    """Kernel Tuner's simulation runner, which also records the configurations that it ran."""

    def __init__(self, measure: Measure, parameters: dict[str, Any]) -> None:
        quiet = Options(quiet=True, kernel_name="kernel")
        super().__init__(None, quiet, quiet, 1, None)
        self._measure, self._number = measure, _numbers(measure.problem)

    def run(self, parameter_space: Any, tuning_options: Any) -> Any:
        configs = [tuple(config) for config in parameter_space]
        results = super().run(configs, tuning_options)
        for config, result in zip(configs, results, strict=True):
            if result is not None:
                try:
                    self._measure(self._number[config])
                except Spent:
                    if len(self._measure.seen) < self._measure.evaluations:
                        raise util.StopCriterionReached("nothing new comes") from None
        return results


@cache
def _table(problem: Problem) -> tuple[dict[str, list[Any]], dict[str, dict[str, Any]]]:
    """Return ``tune_params`` and a cache of the results, as in a cache file."""
    parameters = {}
    for name, own, unordered in zip(problem.names, problem.choices, problem.unordered, strict=True):
        parameters[name] = list(range(len(own))) if unordered else list(own)
    table = {}
    for config, number in _numbers(problem).items():
        cost = float(problem.costs[number])
        result = {"__error__": util.RuntimeFailedConfig()} if cost != cost else {"time": cost}
        times = {"compile_time": 0.0, "verification_time": 0.0, "benchmark_time": 0.0}
        key = ",".join(map(str, config))
        table[key] = {**dict(zip(problem.names, config, strict=True)), **result, **times}
    return parameters, table


@cache
def _numbers(problem: Problem) -> dict[tuple[Any, ...], int]:
    """Return the number of each row, by its values in Kernel Tuner's form."""
    coded = [
        {value: i for i, value in enumerate(own)} if unordered else None
        for own, unordered in zip(problem.choices, problem.unordered, strict=True)
    ]
    return {
        tuple(v if code is None else code[v] for v, code in zip(row, coded, strict=True)): i
        for i, row in enumerate(problem.rows)
    }
