"""Problems with conditional parameters, whose minimum is 0.

The spaces are those of other packages' documentation, with cheap synthetic costs: the support vector machine and the
neural network of SMAC3's examples, the choice of a classifier and the boosted trees of Optuna's, a pipeline of three
steps, a tree of three levels, and the schedules of a kernel. In most of them the best branch looks bad near the middle
of its parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from baco_like.benchmarking.problems.problem import FunctionProblem
from baco_like.parameters import Categorical, Integer, Ordinal, Permutation, Real
from baco_like.spaces.space import Space

Config = Mapping[str, Any]


def _log(value: float) -> float:
    return math.log10(value)


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


def svm(c: Config) -> Any:
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


def mlp(c: Config) -> Any:
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
        **dict.fromkeys(["rf_max_depth", "rf_features"], "classifier == 'RandomForest'"),
        **dict.fromkeys(["neighbours", "weights"], "classifier == 'Neighbours'"),
    },
)


def classifier(c: Config) -> Any:
    """The best support vector machine is best, but most of them are bad."""
    if c["classifier"] == "SVC":
        return 0.6 * (1.0 - math.exp(-((_log(c["svc_c"]) - 1.7) ** 2) / 6.0))
    if c["classifier"] == "RandomForest":
        depth = 0.5 * (math.log2(c["rf_max_depth"]) - 3.6) ** 2
        return 0.06 + 0.05 * depth + 0.2 * (c["rf_features"] - 0.35) ** 2
    worse = 0.05 * (c["weights"] == "uniform")
    return 0.15 + worse + 0.1 * (_log(c["neighbours"]) - 0.9) ** 2


def _step(
    name: str, choices: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, str]]:
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


def pipeline(c: Config) -> Any:
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


def kernel(c: Config) -> Any:
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


XGBOOST = Space(
    {
        "booster": Categorical(["gblinear", "gbtree", "dart"]),
        "lambda": Real(1e-8, 1.0, log=True),
        "alpha": Real(1e-8, 1.0, log=True),
        "max_depth": Integer(1, 9),
        "eta": Real(1e-8, 1.0, log=True),
        "grow_policy": Categorical(["depthwise", "lossguide"]),
        "sample_type": Categorical(["uniform", "weighted"]),
        "rate_drop": Real(1e-8, 1.0, log=True),
        "skip_drop": Real(1e-8, 1.0, log=True),
    },
    when={
        **dict.fromkeys(["max_depth", "eta", "grow_policy"], "booster in ['gbtree', 'dart']"),
        **dict.fromkeys(["sample_type", "rate_drop", "skip_drop"], "booster == 'dart'"),
    },
)


def xgboost(c: Config) -> Any:
    """Dropped trees are better than plain ones, but only at the right rate."""
    cost = 0.002 * (_log(c["lambda"]) + 3) ** 2 + 0.002 * (_log(c["alpha"]) + 5) ** 2
    if c["booster"] == "gblinear":
        return cost + 0.2
    cost += 0.02 * (_log(c["eta"]) + 1.0) ** 2 + 0.01 * (c["max_depth"] - 6) ** 2
    cost += 0.02 * (c["grow_policy"] == "depthwise")
    if c["booster"] == "gbtree":
        return cost + 0.06
    drop = 0.015 * (_log(c["rate_drop"]) + 1.0) ** 2 + 0.01 * (_log(c["skip_drop"]) + 0.5) ** 2
    return cost + drop + 0.02 * (c["sample_type"] == "uniform")


NESTED = Space(
    {
        "model": Categorical(["linear", "forest", "network"]),
        "penalty": Real(1e-6, 1e2, log=True),
        "depth": Integer(1, 20),
        "split": Categorical(["best", "random"]),
        "width": Integer(8, 512, log=True),
        "optimizer": Categorical(["adam", "sgd"]),
        "adam_rate": Real(1e-5, 1e-1, log=True),
        "sgd_rate": Real(1e-4, 1.0, log=True),
        "schedule": Categorical(["constant", "step", "cosine"]),
        "step_every": Integer(1, 50),
        "step_factor": Real(0.1, 1.0),
        "cosine_end": Real(1e-6, 1e-1, log=True),
    },
    when={
        "penalty": "model == 'linear'",
        **dict.fromkeys(["depth", "split"], "model == 'forest'"),
        **dict.fromkeys(["width", "optimizer"], "model == 'network'"),
        "adam_rate": "optimizer == 'adam'",
        **dict.fromkeys(["sgd_rate", "schedule"], "optimizer == 'sgd'"),
        **dict.fromkeys(["step_every", "step_factor"], "schedule == 'step'"),
        "cosine_end": "schedule == 'cosine'",
    },
)


def nested(c: Config) -> Any:
    """The best branch, a network by sgd with a cosine schedule, is three choices deep."""
    if c["model"] == "linear":
        return 0.3 + 0.01 * (_log(c["penalty"]) + 1) ** 2
    if c["model"] == "forest":
        return 0.12 + 0.002 * (c["depth"] - 12) ** 2 + 0.03 * (c["split"] == "random")
    cost = 0.1 * (_log(c["width"]) - 2.3) ** 2
    if c["optimizer"] == "adam":
        return cost + 0.08 + 0.1 * (_log(c["adam_rate"]) + 3.2) ** 2
    cost += 0.12 * (_log(c["sgd_rate"]) + 0.8) ** 2
    if c["schedule"] == "constant":
        return cost + 0.15
    if c["schedule"] == "step":
        return cost + 0.04 + 0.0002 * (c["step_every"] - 30) ** 2 + (c["step_factor"] - 0.3) ** 2
    return cost + 0.02 * (_log(c["cosine_end"]) + 4.5) ** 2


_ALL = {
    "svm": (SVM, svm),
    "mlp": (MLP, mlp),
    "classifier": (CLASSIFIER, classifier),
    "pipeline": (PIPELINE, pipeline),
    "kernel": (KERNEL, kernel),
    "xgboost": (XGBOOST, xgboost),
    "nested": (NESTED, nested),
}

NAMES = tuple(_ALL)
"""Names of the problems, without the prefix ``conditional_``."""


def conditional(name: str) -> FunctionProblem:
    """Return one of the problems `NAMES`; its minimum is 0."""
    space, cost = _ALL[name]
    full = f"conditional_{name}"
    return FunctionProblem(full, space, cost, optimum=0.0, origin=full)
