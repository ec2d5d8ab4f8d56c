"""SMAC3's facade for hyperparameters (random forest), by ask and tell, over indices.

Its forbidden clauses cannot express the known constraints (products, remainders). An excluded configuration is
reported as a crash, replaced by a new suggestion, and not charged. A hidden failure is a crash too. A crash costs the
worst value so far.
"""

import tempfile
from pathlib import Path

from ConfigSpace import (
    CategoricalHyperparameter,
    Configuration,
    ConfigurationSpace,
    UniformIntegerHyperparameter,
)
from smac import HyperparameterOptimizationFacade, Scenario
from smac.runhistory import StatusType, TrialInfo, TrialValue

from .measure import Measure, Spent


def run(measure: Measure, seed: int) -> None:
    problem = measure.problem
    space = ConfigurationSpace(seed=seed)
    for name, own, unordered in zip(problem.names, problem.choices, problem.unordered, strict=True):
        if len(own) > 1 and unordered:
            space.add(CategoricalHyperparameter(name, list(range(len(own)))))
        elif len(own) > 1:
            space.add(UniformIntegerHyperparameter(name, 0, len(own) - 1))
    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(
            space,
            output_directory=Path(folder),
            deterministic=True,
            n_trials=measure.evaluations,  # a quarter of the budget is its first design
            seed=seed,
        )
        optimizer = HyperparameterOptimizationFacade(
            scenario, lambda config, seed: 0.0, overwrite=True, logging_level=50
        )
        first = problem.start
        while True:
            if first is None:
                info = optimizer.ask()
            else:
                values = {n: i for n, i in zip(problem.names, first, strict=True) if n in space}
                info, first = TrialInfo(Configuration(space, values=values), seed=0), None
            given = dict(info.config)
            try:
                cost = measure(problem.row_of([given.get(name, 0) for name in problem.names]))
            except Spent:
                return
            value = (
                TrialValue(measure.worst or 1.0, status=StatusType.CRASHED)
                if cost is None
                else TrialValue(cost)
            )
            optimizer.tell(info, value)
