"""Hypervolume of strategies for several objectives, beside Optuna's samplers where Optuna is installed.

    python benchmarks/quality/several_objectives.py --seeds 5

The problems are DTLZ2 (Deb et al. 2002), ZDT1 with a categorical switch and ZDT2 with a permutation (Zitzler, Deb and
Thiele 2000), on grids of 21 values. The table has the share of the volume of the true front that is dominated, the mean
over seeds with its standard error, and the mean CPU seconds of a run.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np

from baco_like import Categorical, Integer, Optimizer, Permutation, Space
from baco_like.records.front import hypervolume

GRID = 20
OURS = ("random_search", "nsga2", "parego", "ehvi")
REFERENCE = np.array([2.5, 2.5])


def dtlz2(config):
    x = [config[f"x{i}"] / GRID for i in range(5)]
    g = sum((value - 0.5) ** 2 for value in x[1:])
    angle = x[0] * np.pi / 2
    return (1 + g) * np.cos(angle), (1 + g) * np.sin(angle)


def zdt1_categorical(config):
    x = [config[f"x{i}"] / GRID for i in range(4)]
    g = 1 + 2 * sum(x[1:]) / 3 + {"a": 0.6, "b": 0.0, "c": 0.3}[config["kind"]]
    return x[0], g * (1 - np.sqrt(x[0] / g))


def zdt2_permutation(config):
    order = [int(name) for name in config["order"]]
    inversions = sum(a > b for i, a in enumerate(order) for b in order[i + 1 :]) / 10
    x = [config[f"x{i}"] / GRID for i in range(3)]
    g = 1 + inversions + sum(x[1:]) / 2
    return x[0], g * (1 - (x[0] / g) ** 2)


def _integers(count):
    return {f"x{i}": Integer(0, GRID) for i in range(count)}


_ENDS = np.linspace(0, 1, GRID + 1)
PROBLEMS = {
    "dtlz2": (
        Space(_integers(5)),
        dtlz2,
        np.column_stack([np.cos(_ENDS * np.pi / 2), np.sin(_ENDS * np.pi / 2)]),
    ),
    "zdt1_categorical": (
        Space({**_integers(4), "kind": Categorical(["a", "b", "c"])}),
        zdt1_categorical,
        np.column_stack([_ENDS, 1 - np.sqrt(_ENDS)]),
    ),
    "zdt2_permutation": (
        Space({**_integers(3), "order": Permutation(list("01234"))}),
        zdt2_permutation,
        np.column_stack([_ENDS, 1 - _ENDS**2]),
    ),
}
"""Space, objectives and true front of each problem."""


def run_ours(name, space, function, seed, budget):
    objectives = {"first": "minimize", "second": "minimize"}
    optimizer = Optimizer(space, objectives=objectives, strategy=name, seed=seed, budget=budget)
    costs = []
    for _ in range(budget):
        trial = optimizer.suggest()
        costs.append(function(trial))
        optimizer.observe(trial, dict(zip(objectives, costs[-1], strict=True)))
    return np.array(costs)


def run_optuna(name, space, function, seed, budget):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    samplers = {
        "optuna_gp": optuna.samplers.GPSampler,
        "optuna_nsga2": optuna.samplers.NSGAIISampler,
    }
    extra = {"population_size": 20} if name == "optuna_nsga2" else {}
    study = optuna.create_study(
        directions=["minimize", "minimize"], sampler=samplers[name](seed=seed, **extra)
    )
    costs = []

    def objective(trial):
        config = {}
        for key, parameter in space.parameters.items():
            if isinstance(parameter, Integer):
                config[key] = trial.suggest_int(key, 0, GRID)
            elif isinstance(parameter, Categorical):
                config[key] = trial.suggest_categorical(key, list(parameter.values))
            else:  # a permutation, as the order of random keys
                keys = [trial.suggest_float(f"{key}{e}", 0, 1) for e in parameter.elements]
                config[key] = [parameter.elements[i] for i in np.argsort(keys)]
        costs.append(function(config))
        return costs[-1]

    study.optimize(objective, n_trials=budget)
    return np.array(costs)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", type=int, default=60)
    parser.add_argument("--methods", default=",".join(OURS), help="also optuna_gp, optuna_nsga2")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = ["| problem | method | volume | CPU seconds |", "|---|---|---|---|"]
    for problem, (space, function, front) in PROBLEMS.items():
        whole = hypervolume(front, REFERENCE)
        for name in args.methods.split(","):
            run = run_optuna if name.startswith("optuna") else run_ours
            began, shares = time.process_time(), []
            for seed in range(args.seeds):
                costs = run(name, space, function, seed, args.budget)
                shares.append(hypervolume(costs, REFERENCE) / whole)
            seconds = (time.process_time() - began) / args.seeds
            error = np.std(shares, ddof=1) / np.sqrt(len(shares)) if len(shares) > 1 else np.nan
            lines.append(
                f"| {problem} | {name} | {np.mean(shares):.4f} ± {error:.4f} | {seconds:.1f} |"
            )
            print(lines[-1], flush=True)
    if args.out:
        args.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
