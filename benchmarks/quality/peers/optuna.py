"""Optuna's samplers, by ask and tell.

Numbers are suggested by their index, other values as categoricals. An excluded configuration is replaced by a new
suggestion. TPE receives excluded configurations and hidden failures as failed trials, which it ignores (as violated
constraints it is much worse). The Gaussian process would suggest a failed trial again, so it receives violated
constraints with the worst value so far.
"""

from typing import Any

import optuna as package
from optuna.distributions import CategoricalDistribution, IntDistribution

from .measure import Measure

package.logging.set_verbosity(package.logging.ERROR)


def run(measure: Measure, seed: int, sampler: str) -> None:
    problem = measure.problem
    exact = {"deterministic_objective": True} if sampler == "GPSampler" else {}
    study = package.create_study(sampler=getattr(package.samplers, sampler)(seed=seed, **exact))
    distributions: dict[str, Any] = {
        name: CategoricalDistribution(range(len(own)))
        if unordered
        else IntDistribution(0, len(own) - 1)
        for name, own, unordered in zip(
            problem.names, problem.choices, problem.unordered, strict=True
        )
        if len(own) > 1
    }
    if problem.start is not None:
        start = dict(zip(problem.names, problem.start, strict=True))
        study.enqueue_trial({name: start[name] for name in distributions})
    while True:
        trial = study.ask(distributions)
        cost = measure(problem.row_of([trial.params.get(name, 0) for name in problem.names]))
        if cost is None and sampler == "TPESampler":
            study.tell(trial, state=package.trial.TrialState.FAIL)
        else:
            trial.set_constraint("runs", 0.0 if cost is not None else 1.0)
            study.tell(trial, measure.worst if cost is None else cost)
