"""The default on problems with conditional parameters, beside random search, Optuna's TPE and SMAC3 where installed.

    python benchmarks/quality/conditional.py --seeds 20 --table benchmarks/quality/results/conditional.md

The spaces are those of other packages' documentation, with cheap synthetic costs: the support vector machine and the
neural network of SMAC3's examples, the choice of a classifier of Optuna's, a pipeline whose steps are chosen one by
one, and the schedules of a kernel. The table has the mean regret after 20, 40 and 60 evaluations, with the 95 %
interval of the mean by bootstrap, and the share of seeds in which the default is better than each other package.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from baco_like import Categorical, Integer, Optimizer, Ordinal, Permutation, Real, Space

AT = (20, 40, 60)
Config = Mapping[str, Any]


def _log(value: float) -> float:
    return math.log10(value)


# Problems: a space and a cost whose minimum is 0 ----------------------------------------------------------------------

SVM = Space(
    {
        "kernel": Categorical(["linear", "rbf", "poly", "sigmoid"]),
        "C": Real(1e-3, 1e3, log=True),
        "shrinking": Categorical([True, False]),
        "degree": Integer(1, 5),
        "coef0": Real(0.0, 10.0),
        "gamma": Categorical(["auto", "value"]),
        "gamma_value": Real(1e-4, 8.0, log=True),
    },
    when={
        "degree": "kernel == 'poly'",
        "coef0": "kernel in ['poly', 'sigmoid']",
        "gamma": "kernel in ['rbf', 'poly', 'sigmoid']",
        "gamma_value": "gamma == 'value'",
    },
)


def svm(c: Config) -> float:
    """Narrow valley of C and gamma for rbf; the other kernels end above it."""
    gamma = _log(c["gamma_value"]) if "gamma_value" in c else -1.0
    if c["kernel"] == "linear":
        return 0.3 + 0.02 * (_log(c["C"]) - 0.5) ** 2
    if c["kernel"] == "rbf":
        valley = 0.08 * (_log(c["C"]) + gamma - 0.3) ** 2 + 0.03 * (gamma + 2.0) ** 2
        return valley + 0.01 * c["shrinking"] + 0.02 * ("gamma_value" not in c)
    level = 0.12 if c["kernel"] == "poly" else 0.4
    size = abs(c["degree"] - 3) * 0.05 if c["kernel"] == "poly" else 0.0
    return level + size + 0.004 * (c["coef0"] - 2.0) ** 2 + 0.03 * (gamma + _log(c["C"])) ** 2


MLP = Space(
    {
        "layers": Integer(1, 5),
        "neurons": Integer(8, 1024, log=True),
        "activation": Categorical(["logistic", "tanh", "relu"]),
        "solver": Categorical(["lbfgs", "sgd", "adam"]),
        "batch_size": Integer(30, 300, log=True),
        "learning_rate": Categorical(["constant", "invscaling", "adaptive"]),
        "learning_rate_init": Real(1e-4, 1.0, log=True),
        **{f"dropout{i}": Real(0.0, 0.8) for i in (2, 3, 4)},
    },
    when={
        "batch_size": "solver in ['sgd', 'adam']",
        "learning_rate": "solver == 'sgd'",
        "learning_rate_init": "solver in ['sgd', 'adam']",
        "dropout2": "layers >= 2",
        "dropout3": "layers >= 3",
        "dropout4": "layers >= 4",
    },
)


def mlp(c: Config) -> float:
    """Three layers by adam are best; the rate must fit the batch."""
    size = 0.1 * (_log(c["neurons"]) - 2.2) ** 2 + 0.05 * abs(c["layers"] - 3)
    size += {"logistic": 0.12, "tanh": 0.03, "relu": 0.0}[c["activation"]]
    size += 0.3 * sum((c[f"dropout{i}"] - 0.2) ** 2 for i in (2, 3, 4) if f"dropout{i}" in c)
    if c["solver"] == "lbfgs":
        return size + 0.25
    rate, batch = _log(c["learning_rate_init"]), _log(c["batch_size"])
    fit = 0.08 * (rate - (batch - 4.9)) ** 2 + 0.04 * (batch - 1.9) ** 2
    if c["solver"] == "adam":
        return size + fit
    return (
        size + 2 * fit + {"constant": 0.2, "invscaling": 0.3, "adaptive": 0.05}[c["learning_rate"]]
    )


CLASSIFIER = Space(
    {
        "classifier": Categorical(["SVC", "RandomForest", "Neighbours"]),
        "svc_c": Real(1e-10, 1e10, log=True),
        "rf_max_depth": Integer(2, 32, log=True),
        "rf_features": Real(0.05, 1.0),
        "neighbours": Integer(1, 100, log=True),
        "weights": Categorical(["uniform", "distance"]),
    },
    when={
        "svc_c": "classifier == 'SVC'",
        "rf_max_depth": "classifier == 'RandomForest'",
        "rf_features": "classifier == 'RandomForest'",
        "neighbours": "classifier == 'Neighbours'",
        "weights": "classifier == 'Neighbours'",
    },
)


def classifier(c: Config) -> float:
    """The best support vector machine is best, but most of them are bad."""
    if c["classifier"] == "SVC":
        return 0.6 * (1.0 - math.exp(-((_log(c["svc_c"]) - 1.7) ** 2) / 6.0))
    if c["classifier"] == "RandomForest":
        depth = 0.5 * (math.log2(c["rf_max_depth"]) - 3.6) ** 2
        return 0.06 + 0.05 * depth + 0.2 * (c["rf_features"] - 0.35) ** 2
    worse = 0.05 * (c["weights"] == "uniform")
    return 0.15 + worse + 0.1 * (_log(c["neighbours"]) - 0.9) ** 2


def _step(name: str, choices: Mapping[str, Mapping[str, Any]]) -> tuple[dict, dict[str, str]]:
    """Return a choice with the parameters of each branch, and their conditions."""
    parameters: dict[str, Any] = {name: Categorical(list(choices))}
    when = {}
    for choice, own in choices.items():
        for each, parameter in own.items():
            parameters[f"{choice}_{each}"] = parameter
            when[f"{choice}_{each}"] = f"{name} == {choice!r}"
    return parameters, when


def _pipeline() -> Space:
    steps = [
        _step(
            "scaler", {"none": {}, "standard": {}, "quantile": {"n": Integer(10, 1000, log=True)}}
        ),
        _step(
            "reducer",
            {
                "keep": {},
                "pca": {"share": Real(0.5, 0.999), "whiten": Categorical([True, False])},
                "select": {"k": Integer(2, 60, log=True)},
            },
        ),
        _step(
            "model",
            {
                "boosting": {
                    "rate": Real(1e-3, 1.0, log=True),
                    "trees": Integer(10, 1000, log=True),
                    "depth": Integer(1, 12),
                },
                "linear": {"alpha": Real(1e-6, 1e2, log=True), "ratio": Real(0.0, 1.0)},
                "kernel": {"c": Real(1e-3, 1e3, log=True), "gamma": Real(1e-4, 1e1, log=True)},
            },
        ),
    ]
    parameters = {name: p for step, _ in steps for name, p in step.items()}
    return Space(parameters, when={name: text for _, when in steps for name, text in when.items()})


PIPELINE = _pipeline()


def pipeline(c: Config) -> float:
    """A sum of the steps, and interactions of the reducer with the model."""
    cost = {"none": 0.08, "standard": 0.02, "quantile": 0.0}[c["scaler"]]
    if c["scaler"] == "quantile":
        cost += 0.05 * (_log(c["quantile_n"]) - 2.0) ** 2
    if c["reducer"] == "pca":
        cost += 0.5 * (c["pca_share"] - 0.93) ** 2 + 0.02 * (not c["pca_whiten"])
        cost += 0.1 * (c["model"] == "boosting")
    elif c["reducer"] == "select":
        cost += 0.06 * (_log(c["select_k"]) - 1.3) ** 2
    else:
        cost += 0.04
    if c["model"] == "boosting":
        rate, trees = _log(c["boosting_rate"]), _log(c["boosting_trees"])
        return cost + 0.1 * (rate + trees - 1.0) ** 2 + 0.03 * (c["boosting_depth"] - 5) ** 2 / 4
    if c["model"] == "linear":
        return cost + 0.25 + 0.02 * (_log(c["linear_alpha"]) + 2) ** 2 + 0.1 * c["linear_ratio"]
    fit = 0.05 * (_log(c["kernel_c"]) - 1.0) ** 2 + 0.08 * (_log(c["kernel_gamma"]) + 1.5) ** 2
    return cost + 0.05 + fit


_POWERS = [1, 2, 4, 8, 16, 32, 64]
KERNEL = Space(
    {
        "schedule": Categorical(["naive", "tiled", "tensor"]),
        "threads": Ordinal([32, 64, 128, 256, 512], log=True),
        "tile_x": Ordinal(_POWERS, log=True),
        "tile_y": Ordinal(_POWERS, log=True),
        "order": Permutation(["i", "j", "k"]),
        "stages": Integer(1, 5),
        "fragment": Categorical(["m16n8", "m16n16", "m32n8"]),
        "swizzle": Categorical([False, True]),
        "vector": Ordinal([1, 2, 4, 8], log=True),
    },
    constraints=["tile_x * tile_y <= 1024", "vector <= tile_x"],
    when={
        "tile_x": "schedule != 'naive'",
        "tile_y": "schedule != 'naive'",
        "order": "schedule == 'tiled'",
        "stages": "schedule == 'tensor'",
        "fragment": "schedule == 'tensor'",
        "swizzle": "stages > 1",
        "vector": "schedule != 'tensor'",
    },
)


def kernel(c: Config) -> float:
    """Log milliseconds above the best kernel."""
    cost = 0.1 * (math.log2(c["threads"]) - 7) ** 2
    if c["schedule"] == "naive":
        return cost + 2.0 - 0.2 * math.log2(c["vector"])
    x, y = math.log2(c["tile_x"]), math.log2(c["tile_y"])
    if c["schedule"] == "tiled":
        order = 0.25 * c["order"].index("k") + 0.1 * (c["order"][0] == "j")
        bank = 0.1 * (math.log2(c["vector"]) - 2) ** 2
        return cost + 0.6 + order + bank + 0.08 * (x - 4) ** 2 + 0.08 * (y - 3) ** 2
    cost += 0.1 * (x - 5) ** 2 + 0.1 * (y - 4) ** 2 + 0.15 * abs(c["stages"] - 3)
    cost += {"m16n8": 0.2, "m16n16": 0.0, "m32n8": 0.3}[c["fragment"]]
    return cost + (0.0 if c.get("swizzle", False) else 0.3)


PROBLEMS: Mapping[str, tuple[Space, Callable[[Config], float]]] = {
    "svm": (SVM, svm),
    "mlp": (MLP, mlp),
    "classifier": (CLASSIFIER, classifier),
    "pipeline": (PIPELINE, pipeline),
    "kernel": (KERNEL, kernel),
}

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


def table(results: Mapping[tuple[str, str], np.ndarray], seconds: Mapping[tuple, float]) -> str:
    """Return the results in Markdown."""
    lines = []
    for problem in dict.fromkeys(problem for problem, _ in results):
        lines += [
            f"### {problem}",
            "",
            "| | " + " | ".join(f"after {n}" for n in AT),
            "|---" * 5 + "|",
        ]
        lines[-2] += " | `auto` is better | CPU s |"
        lines[-1] += "---|"
        own = results.get((problem, "auto"))
        for (where, name), rows in results.items():
            if where != problem:
                continue
            cells = [interval(rows[:, n - 1]) for n in AT if n <= rows.shape[1]]
            cells += ["-"] * (len(AT) - len(cells))
            better = "" if own is None or name == "auto" else _share(own[:, -1], rows[:, -1])
            lines.append(
                f"| {name} | {' | '.join(cells)} | {better} | {seconds[where, name]:.1f} |"
            )
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
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--contenders", default=";".join(CONTENDERS), help="names, joined by ;")
    parser.add_argument("--table", type=Path, help="Markdown file to write")
    given = parser.parse_args()
    results: dict[tuple[str, str], np.ndarray] = {}
    seconds: dict[tuple[str, str], float] = {}
    for problem in given.problems.split(","):
        space, cost = PROBLEMS[problem]
        for name in given.contenders.split(";"):
            begun = time.process_time()
            try:
                rows = [
                    regrets(
                        CONTENDERS[name](space, cost, given.evaluations, seed), given.evaluations
                    )
                    for seed in range(given.seeds)
                ]
            except ImportError as error:
                print(f"{name} is left out: {error}", flush=True)
                continue
            seconds[problem, name] = (time.process_time() - begun) / given.seeds
            results[problem, name] = np.array(rows)
            print(f"{problem}, {name}: {interval(results[problem, name][:, -1])}", flush=True)
            if given.table is not None:
                head = f"{given.seeds} seeds; mean regret with the 95 % interval of the mean.\n\n"
                given.table.write_text(
                    f"# Conditional parameters\n\n{head}{table(results, seconds)}"
                )
    print(table(results, seconds))


if __name__ == "__main__":
    main()
