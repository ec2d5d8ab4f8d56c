"""CPU milliseconds per suggestion of every registered strategy, one thread.

    OMP_NUM_THREADS=1 python benchmarks/speed/strategies.py --data DIR [--strategies a,b] [--budgets 200,1600]

The spaces are the recorded 2-D convolution (4,362 configurations) and hotspot22 (349,853). Every run spends its
budget on a smooth function with ripples, one outcome at a time. The first figure is the strategy's own time (`ask`
and `tell`), averaged over the run. The second, in brackets, is the whole `suggest()` and `observe()`, with the
journal in memory. After the slash: the 95th percentile of the strategy's own time. A short run before each one does
the late imports. Strategies with models are left out unless they are named: suggest.py measures these.

Kernel Tuner's genetic algorithm also runs on convolution in its simulation mode. Its figure is the CPU time in excess
of a run of 20 evaluations, divided by the number of additional distinct configurations (in brackets; it stops when it
finds no new ones), median of five runs.
"""

import os

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"

import argparse
import contextlib
import importlib
import io
import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
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

WARM_UP, RUNS = 20, 5


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


def kernel_tuner(space: Space, objective: Objective, budget: int) -> tuple[float, int]:
    """Return Kernel Tuner's milliseconds per configuration evaluated, and how many it evaluated."""
    package = importlib.import_module("kernel_tuner")
    values = {name: list(getattr(p, "values", ())) for name, p in space.parameters.items()}
    configs = list(space)
    cache = {
        "device_name": "none",
        "kernel_name": "kernel",
        "problem_size": [1],
        "tune_params_keys": list(values),
        "tune_params": values,
        "objective": "time",
        "cache": {
            ",".join(map(str, config.values())): _entry(config, value)
            for config, value in zip(configs, objective(configs), strict=True)
        },
    }
    arguments = ("kernel", "void kernel() {}", (1,), [], values)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cache.json"
        path.write_text(json.dumps(cache))
        settings: dict[str, Any] = {
            "restrictions": [constraint.text for constraint in space.constraints],
            "strategy": "genetic_algorithm",
            "simulation_mode": True,
            "lang": "C",
        }

        def run(evaluations: int) -> tuple[float, int]:
            options = {"max_fevals": evaluations, "maxiter": 10 * evaluations}
            start = time.process_time()
            with contextlib.redirect_stdout(io.StringIO()):
                found, _ = package.tune_kernel(
                    *arguments, **settings, cache=str(path), strategy_options=options
                )
            rows = {tuple(one[name] for name in values) for one in found}
            return time.process_time() - start, len(rows)

        run(WARM_UP)  # imports
        least, few = min(run(WARM_UP) for _ in range(RUNS))
        long = [run(budget) for _ in range(RUNS)]
    each = statistics.median(1e3 * (seconds - least) / (many - few) for seconds, many in long)
    return each, round(statistics.median(many for _, many in long))


def _entry(config: dict[str, Any], value: float) -> dict[str, Any]:
    zero = dict.fromkeys(("verification_time", "strategy_time", "framework_time"), 0)
    times = {"compile_time": 1.0, "benchmark_time": 1.0, "timestamp": "2026-01-01 00:00:00+00:00"}
    return {**config, "time": value, "times": [value], **zero, **times}


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
    rival = [_rival(spaces, case) for case in cases]
    print("| Kernel Tuner, genetic algorithm | " + " | ".join(rival) + " |")


def _rival(spaces: dict[str, Space], case: tuple[str, int]) -> str:
    name, budget = case
    if name != "convolution":
        return ""  # its cache would need every configuration
    try:
        each, evaluated = kernel_tuner(spaces[name], Objective(spaces[name]), budget)
    except ModuleNotFoundError:
        return "not installed"
    return f"{each:.2f} ms ({evaluated} evaluated)"


if __name__ == "__main__":
    main()
