"""The default on problems with conditional parameters, beside random search, Optuna's TPE and SMAC3 where installed.

    python benchmarks/quality/conditional.py --seeds 20 --table benchmarks/quality/results/conditional.md

The problems are those of `baco_like.benchmarking.problems.conditional`. The table has the mean regret after 20, 40 and
60 evaluations, with the 95 % interval of the mean by bootstrap, and the share of seeds in which the default is better
than each other package. With ``--rows`` an interrupted measurement continues.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from baco_like import Optimizer, Space
from baco_like.benchmarking.problems import load_problem
from baco_like.benchmarking.problems.conditional import NAMES

AT = (20, 40, 60)
Config = Mapping[str, Any]


# Packages -------------------------------------------------------------------------------------------------------------


def ours(strategy: str, space: Space, cost: Callable[[Config], float], n: int, seed: int) -> list:
    """Return the costs of a run of one of our strategies."""
    optimizer = Optimizer(space, seed=seed, strategy=strategy, budget=n)
    for _ in range(n):
        trial = optimizer.suggest()
        optimizer.observe(trial, cost(trial.config))
    return [trial.value for trial in optimizer.trials]


def through_optuna(
    sampler: str, space: Space, cost: Callable[[Config], float], n: int, seed: int
) -> list:
    """Return the costs of a run of a sampler; the objective asks for active parameters, in the space's own values."""
    import optuna

    from baco_like.integrations import BacoSampler, suggest_config

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    made = {
        "tpe": lambda: optuna.samplers.TPESampler(seed=seed),
        "tpe grouped": lambda: optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True),
        "learned": lambda: BacoSampler(seed=seed),
    }
    constrained = [] if sampler == "learned" else list(space.constraints)

    def objective(trial: Any) -> float:
        config = suggest_config(trial, space)
        if constrained and not space.contains(config):
            raise optuna.TrialPruned
        return cost(config)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = optuna.create_study(sampler=made[sampler]())
        study.optimize(objective, n_trials=n, catch=(Exception,))
    return [math.nan if trial.value is None else trial.value for trial in study.trials]


def smac(space: Space, cost: Callable[[Config], float], n: int, seed: int) -> list:
    """Return the costs of a run of SMAC3's facade for hyperparameters."""
    import tempfile

    from smac import HyperparameterOptimizationFacade, Scenario

    from baco_like.integrations import from_configuration, to_configspace

    found: list[float] = []

    def target(config: Any, seed: int = 0) -> float:
        del seed
        found.append(cost(from_configuration(dict(config), space)))
        return found[-1]

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scenario = Scenario(
            to_configspace(space, seed),
            n_trials=n,
            seed=seed,
            deterministic=True,
            output_directory=Path(folder),
        )
        HyperparameterOptimizationFacade(
            scenario, target, overwrite=True, logging_level=40
        ).optimize()
    return found


CONTENDERS: Mapping[str, Callable[..., list]] = {
    "auto": partial(ours, "auto"),
    "auto, space learned through Optuna": partial(through_optuna, "learned"),
    "random_search": partial(ours, "random_search"),
    "Optuna TPE": partial(through_optuna, "tpe"),
    "Optuna TPE, multivariate and grouped": partial(through_optuna, "tpe grouped"),
    "SMAC3": smac,
}


def regrets(costs: list, n: int) -> np.ndarray:
    """Return the best cost after each evaluation, ``(n,)``."""
    known = np.array([*costs, *[math.nan] * n][:n], dtype=float)
    return np.minimum.accumulate(np.where(np.isnan(known), np.inf, known))


def interval(values: np.ndarray) -> str:
    """Return a mean with its 95 % interval, by 10,000 bootstrap samples."""
    rng = np.random.default_rng(0)
    means = values[rng.integers(0, len(values), (10_000, len(values)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{values.mean():.4f} ({low:.4f} to {high:.4f})"


def table(runs: Mapping[tuple[str, str, int], tuple[list, float]], evaluations: int) -> str:
    """Return the results in Markdown; another package is compared with the default on the seeds of both."""
    at = [n for n in AT if n <= evaluations]
    lines = []
    for problem in dict.fromkeys(problem for problem, _, _ in runs):
        lines += [
            f"### {problem}",
            "",
            f"| | seeds | {' | '.join(f'after {n}' for n in at)} | `auto` is better | CPU s |",
            "|---" * (4 + len(at)) + "|",
        ]
        for name in dict.fromkeys(name for where, name, _ in runs if where == problem):
            own = {s: r for (where, who, s), r in runs.items() if (where, who) == (problem, name)}
            best = {seed: regrets(costs, evaluations) for seed, (costs, _) in own.items()}
            rows = np.array(list(best.values()))
            seconds = float(np.mean([cpu for _, cpu in own.values()]))
            auto = [s for s in best if (problem, "auto", s) in runs]
            ours = [regrets(runs[problem, "auto", s][0], evaluations)[-1] for s in auto]
            theirs = np.array([best[s][-1] for s in auto])
            better = "" if name == "auto" or not auto else _share(np.array(ours), theirs)
            cells = " | ".join(interval(rows[:, n - 1]) for n in at)
            lines.append(f"| {name} | {len(rows)} | {cells} | {better} | {seconds:.1f} |")
        lines.append("")
    return "\n".join(lines)


def _share(own: np.ndarray, other: np.ndarray) -> str:
    wins, ties = (own < other).mean(), (own == other).mean()
    return f"{100 * (wins + ties / 2):.0f} % of seeds"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--evaluations", type=int, default=AT[-1])
    parser.add_argument("--problems", default=",".join(NAMES))
    parser.add_argument("--contenders", default=";".join(CONTENDERS), help="names, joined by ;")
    parser.add_argument("--rows", type=Path, help="JSON lines with the runs so far")
    parser.add_argument("--table", type=Path, help="Markdown file to write")
    given = parser.parse_args()
    known = {} if given.rows is None else read_rows(given.rows)
    for seed in range(
        given.seeds
    ):  # by seed, so that all rows of an interrupted table have equally many
        for problem in given.problems.split(","):
            for name in given.contenders.split(";"):
                if (problem, name, seed) not in known:
                    row = measure(problem, name, given.evaluations, seed)
                    known[problem, name, seed] = row
                    if given.rows is not None:
                        with given.rows.open("a") as file:
                            file.write(json.dumps([problem, name, seed, *row]) + "\n")
    text = table(known, given.evaluations)
    print(text)
    if given.table is not None:
        given.table.write_text(f"# Conditional parameters\n\n{text}")


def measure(problem: str, name: str, evaluations: int, seed: int) -> tuple[list, float]:
    """Return the costs of a run, and its CPU seconds."""
    made = load_problem(f"conditional_{problem}")
    begun = time.process_time()
    costs = CONTENDERS[name](made.space, made.function, evaluations, seed)
    return costs, time.process_time() - begun


def read_rows(path: Path) -> dict[tuple[str, str, int], tuple[list, float]]:
    """Return the runs that a file has."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {(r[0], r[1], r[2]): (r[3], r[4]) for r in map(json.loads, lines)}


if __name__ == "__main__":
    main()
