"""Our own strategies, by the names of the registry."""

from baco_like import Optimizer
from baco_like.exceptions import SpaceExhausted

from .measure import Measure


def run(measure: Measure, seed: int, strategy: str) -> None:
    problem = measure.problem
    optimizer = Optimizer(problem.space, seed=seed, budget=measure.evaluations, strategy=strategy)
    while True:
        try:
            trial = optimizer.suggest()
        except SpaceExhausted:
            return
        cost = measure(problem.number[tuple(trial[name] for name in problem.names)])
        if cost is None:
            optimizer.observe(trial, failed="runtime")
        else:
            optimizer.observe(trial, cost)
