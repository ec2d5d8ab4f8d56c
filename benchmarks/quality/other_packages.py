"""Run pyATF's techniques and two Bayesian packages on recorded spaces.

Each package is a generator: it yields a configuration and receives its cost, or None for a failure or a configuration
outside the space. A repeated configuration is answered from memory and is not counted, as in the papers. A run that
only repeats itself ends. The Bayesian packages are asked as often as their own loops would ask: 20 and 200 times,
repetitions included.
"""

import contextlib
import io
import random
import signal
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import cache
from inspect import Parameter, Signature
from typing import Any

import numpy as np

from baco_like.benchmarking.problems.problem import OUTSIDE
from baco_like.benchmarking.problems.recorded import RecordedProblem
from baco_like.benchmarking.studies.contenders import do_run
from baco_like.benchmarking.studies.runs import Evaluation, RunJob, StrategyRun

Config = dict[str, Any]
Walk = Generator[Config, float | None, None]

TECHNIQUES = {
    "simulated annealing": "SimulatedAnnealing",
    "differential evolution": "DifferentialEvolution",
    "pattern search": "PatternSearch",
    "Torczon": "Torczon",
    "AUC bandit": "AUCBandit",
    "round robin": "RoundRobin",
}
"""pyATF's six."""

FIRST = 20
"""Evaluations of the first sample (2021, section IV-A)."""


def do(job: RunJob) -> StrategyRun:
    """Do one run, ours or another package's."""
    if job.contender.strategy not in PACKAGES:
        return do_run(job)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        return run(job)


def run(job: RunJob) -> StrategyRun:
    evaluation = Evaluation(job)
    start, patience = PACKAGES[job.contender.strategy]
    walk = start(job.problem, job.seed, **job.contender.settings)
    known: dict[Any, float | None] = {}
    config = next(walk)
    for _ in range(patience * job.budget.evaluations):
        row = job.problem.row(config)
        key = tuple(config.values()) if row == OUTSIDE else row
        if key not in known:
            known[key] = evaluation(len(known), config).value
        if evaluation.is_spent:
            break
        config = walk.send(known[key])
    return evaluation.finish()


# pyATF.


def pyatf_technique(recorded: RecordedProblem, seed: int, technique: str) -> Walk:
    with keep_signal_handlers():
        from pyatf import search_techniques
    space = _pyatf_space(recorded)
    random.seed(seed)
    chosen = getattr(search_techniques, TECHNIQUES[technique])()
    chosen.initialize(space.num_tps)
    while True:
        costs = {}
        for coordinates in sorted(chosen.get_next_coordinates()):
            costs[coordinates] = yield space.get_configuration(coordinates)
        chosen.report_costs(costs)


@cache
def _pyatf_space(recorded: RecordedProblem) -> Any:
    """Return pyATF's tree of a recorded space: each parameter is constrained by those before it."""
    with keep_signal_handlers():
        from pyatf import TP, Set
        from pyatf.search_space import SearchSpace
    names = recorded.recorded.names
    rows = [v for v, e in recorded.recorded.entries.items() if e.failed != "constraints"]
    parameters = []
    for i, name in enumerate(names):
        prefixes = frozenset(row[: i + 1] for row in rows)
        rule = Prefix(names[: i + 1], prefixes) if i else None
        parameters.append(TP(name, Set(*recorded.recorded.domains[name]), rule))
    return SearchSpace(*parameters, verbosity=0)


class Prefix:
    """A constraint in pyATF's form; pyATF reads the names of its arguments."""

    def __init__(self, names: tuple[str, ...], allowed: frozenset[tuple[Any, ...]]) -> None:
        kind = Parameter.POSITIONAL_OR_KEYWORD
        self.__signature__ = Signature([Parameter(name, kind) for name in names])
        self._names, self._allowed = names, allowed
        self.__wrapped__ = Prefix.__call__  # pyATF reads the function's source

    def __call__(self, **values: Any) -> bool:
        return tuple(values[name] for name in self._names) in self._allowed


@contextlib.contextmanager
def keep_signal_handlers() -> Iterator[None]:
    """Restore the signal handlers that importing pyATF replaces."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# Bayesian packages: without constraints, values as numbers; a failure is reported as the worst cost so far.


def scikit_optimize(recorded: RecordedProblem, seed: int) -> Walk:
    from skopt import Optimizer
    from skopt.space import Integer

    domains = _varying(recorded)
    dimensions = [Integer(0, len(values) - 1, name=name) for name, values in domains.items()]
    optimizer = Optimizer(dimensions, "GP", n_initial_points=FIRST, random_state=seed)
    worst = 0.0
    while True:
        point = optimizer.ask()
        cost = yield _config(recorded, domains, dict(zip(domains, point, strict=True)))
        worst = max(worst, cost or worst)
        optimizer.tell(point, worst if cost is None else cost)


def bayesian_optimization(recorded: RecordedProblem, seed: int) -> Walk:
    from bayes_opt import BayesianOptimization
    from bayes_opt.acquisition import UpperConfidenceBound

    domains = _varying(recorded)
    optimizer = BayesianOptimization(
        f=None,
        pbounds={name: (0, len(values) - 1) for name, values in domains.items()},
        acquisition_function=UpperConfidenceBound(kappa=2.576),
        random_state=seed,
        verbose=0,
        allow_duplicate_points=True,
    )
    rng = np.random.default_rng(seed)
    worst, first = 0.0, FIRST
    while True:
        if first:
            point = {
                name: float(rng.uniform(0, len(values) - 1)) for name, values in domains.items()
            }
            first -= 1
        else:
            point = optimizer.suggest()
        cost = yield _config(recorded, domains, point)
        worst = max(worst, cost or worst)
        optimizer.register(point, -(worst if cost is None else cost))


def _varying(recorded: RecordedProblem) -> dict[str, tuple[Any, ...]]:
    domains = recorded.recorded.domains
    return {name: domains[name] for name in recorded.recorded.names if len(domains[name]) > 1}


def _config(
    recorded: RecordedProblem, domains: Mapping[str, tuple[Any, ...]], point: Mapping[str, Any]
) -> Config:
    return {
        name: domains[name][round(float(point[name]))] if name in domains else values[0]
        for name, values in recorded.recorded.domains.items()
    }


PACKAGES: Mapping[str, tuple[Callable[..., Walk], int]] = {
    "pyatf": (pyatf_technique, 50),
    "scikit-optimize": (scikit_optimize, 1),
    "bayesian-optimization": (bayesian_optimization, 1),
}
"""How each starts, and after how many times its budget in questions, repetitions included, a run ends at the latest."""
