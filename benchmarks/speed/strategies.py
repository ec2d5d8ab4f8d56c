"""CPU milliseconds per suggestion of every registered strategy, one thread.

    OMP_NUM_THREADS=1 python benchmarks/speed/strategies.py --data DIR [--strategies a,b] [--budgets 200,1600]

The spaces are the recorded 2-D convolution (4,362 configurations) and hotspot22 (349,853). Every run spends its
budget on a smooth function with ripples, one outcome at a time. The first figure is the strategy's own time (`ask`
and `tell`), averaged over the run. The second, in brackets, is the whole `suggest()` and `observe()`, with the
journal in memory. After the slash: the 95th percentile of the strategy's own time. A short run before each one does
the late imports. Strategies with models are left out unless they are named: suggest.py measures these.
"""

import os

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"

import argparse
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from suggest import SPACES, data_folder

from baco_like import Optimizer, Search, Space
from baco_like._typing import Array, Rng
from baco_like.records.history import History
from baco_like.records.trial import Observation, Proposal
from baco_like.strategies import STRATEGIES, Problem, Strategy, create_strategy

MODEL_BASED = ("auto", "bayesian", "baco", "kernel_tuner_bo", "random_forest", "smac")
NOISY = ("racing",)
"""Strategies that make sense only where configurations are measured again."""

WARM_UP = 20


class Timed:
    """A strategy that records the CPU seconds of another one, for every `tell` with the `ask` before it."""

    def __init__(self, inner: Strategy[Any]) -> None:
        self.inner = inner
        self.seconds: list[float] = []
        self._asking = 0.0

    def init(self, problem: Problem, rng: Rng) -> Any:
        return self.inner.init(problem, rng)

    def ask(
        self, problem: Problem, history: History, state: Any, n: int, rng: Rng
    ) -> Sequence[Proposal]:
        start = time.process_time()
        found = self.inner.ask(problem, history, state, n, rng)
        self._asking += time.process_time() - start
        return found

    def tell(self, problem: Problem, state: Any, observation: Observation, rng: Rng) -> Any:
        start = time.process_time()
        state = self.inner.tell(problem, state, observation, rng)
        self.seconds.append(self._asking + time.process_time() - start)
        self._asking = 0.0
        return state


class Objective:
    """A quadratic function of the features with ripples; positive."""

    def __init__(self, space: Space) -> None:
        rng = np.random.default_rng(0)
        width = space.features(space.feasible.sample(1, rng)).shape[1]
        self.space = space
        self.centre, self.weights = rng.random(width), rng.uniform(0.2, 2.0, width)
        self.waves = 30.0 * rng.standard_normal(width)

    def __call__(self, configs: list[Any]) -> list[float]:
        features = self.space.features(self.space.encode(configs))
        smooth = ((features - self.centre) ** 2 * self.weights).sum(axis=1)
        values = 2.0 + smooth + 0.3 * np.sin(features @ self.waves)
        return [float(value) for value in values]


def ours(name: str, space: Space, objective: Objective, budget: int) -> tuple[Array, float]:
    """Return milliseconds: the strategy's own of every suggestion, and altogether on average."""
    strategy = Timed(create_strategy(name, {}))
    noise = "repeat" if name in NOISY else "none"
    optimizer = Optimizer(space, strategy=Search(strategy, noise=noise), seed=1, budget=budget)
    seconds = 0.0
    for _ in range(budget):
        start = time.process_time()
        trial = optimizer.suggest()
        seconds += time.process_time() - start
        (value,) = objective([dict(trial)])
        start = time.process_time()
        optimizer.observe(trial, value)
        seconds += time.process_time() - start
    return 1e3 * np.array(strategy.seconds), 1e3 * seconds / budget


def measured(names: Sequence[str], space: Space, budget: int) -> dict[str, str]:
    """Return a cell of the table for every strategy."""
    objective, cells = Objective(space), {}
    budget = min(budget, int(space.feasible_size or budget))
    for name in names:
        ours(name, space, objective, WARM_UP)
        own, whole = ours(name, space, objective, budget)
        cells[name] = f"{own.mean():.2f} ms ({whole:.2f}) / {np.quantile(own, 0.95):.1f}"
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data")
    parser.add_argument("--strategies", help="comma-separated; default: all that fit no models")
    parser.add_argument("--budgets", default="200,1600")
    parser.add_argument("--spaces", default="hotspot22,convolution")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = data_folder(args.data)
    names = [name for name in STRATEGIES if name not in MODEL_BASED]
    names = args.strategies.split(",") if args.strategies else names
    cases = [
        (space, int(budget))
        for space in args.spaces.split(",")
        for budget in args.budgets.split(",")
    ]
    spaces = {name: SPACES[name](folder) for name in args.spaces.split(",")}
    columns = [measured(names, spaces[space], budget) for space, budget in cases]
    print("| strategy | " + " | ".join(f"{space}, {budget}" for space, budget in cases) + " |")
    print("|---|" + "---:|" * len(cases))
    for name in names:
        print(f"| `{name}` | " + " | ".join(column[name] for column in columns) + " |")


if __name__ == "__main__":
    main()
