"""Our own strategies, by the names of the registry."""

from baco_like import Optimizer
from baco_like.exceptions import SpaceExhausted

from .measure import Measure


def run(measure: Measure, seed: int, strategy: str, batch: int = 1) -> None:
    """Measure what the strategy suggests; with a batch, so many trials at a time."""
    problem = measure.problem
    optimizer = Optimizer(problem.space, seed=seed, budget=measure.evaluations, strategy=strategy)
    while True:
        try:
            trials = optimizer.suggest(batch)
        except SpaceExhausted:
            return
        for trial in trials:
            cost = measure(problem.number[tuple(trial[name] for name in problem.names)])
            if cost is None:
                optimizer.observe(trial, failed="runtime")
            else:
                optimizer.observe(trial, cost)
