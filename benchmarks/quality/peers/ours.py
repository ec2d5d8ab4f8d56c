"""Our own strategies, by the names of the registry."""

import contextlib
import sys
from collections.abc import Iterator
from unittest import mock

from baco_like import Optimizer, WarmStart
from baco_like.exceptions import SpaceExhausted
from baco_like.strategies.bayesian import bayesian

from .measure import Measure


@contextlib.contextmanager
def full_model() -> Iterator[None]:
    """Fit all models to all observations for every suggestion, as up to 220 observations."""
    every = {"is_incremental": lambda *_: False, "EVERY_COUNT": sys.maxsize}
    with mock.patch.multiple(bayesian, **every):
        yield


def run(
    measure: Measure,
    seed: int,
    strategy: str,
    batch: int = 1,
    is_full: bool = False,
    ideas: str | None = None,
) -> None:
    """Measure what the strategy suggests; with a batch, so many trials at a time.

    The configurations of a file of ideas are measured first.
    """
    warm = None if ideas is None else WarmStart(ideas, mode="configs", best=100)
    with full_model() if is_full else contextlib.nullcontext():
        _run(measure, seed, strategy, batch, warm)


def _run(
    measure: Measure, seed: int, strategy: str, batch: int, warm: WarmStart | None = None
) -> None:
    problem, budget = measure.problem, measure.evaluations
    optimizer = Optimizer(
        problem.space, seed=seed, budget=budget, strategy=strategy, warm_start=warm
    )
    while True:
        try:
            trials = optimizer.suggest(batch)
        except SpaceExhausted:
            return
        for trial in trials:
            number = problem.number[tuple(trial[name] for name in problem.names)]
            cost = measure(number)
            if cost is None:
                optimizer.observe(trial, failed="runtime")
            else:
                optimizer.observe(trial, cost, program=measure.program(number))
