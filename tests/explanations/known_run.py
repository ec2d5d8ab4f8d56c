"""A small space with known effects, and a run over it."""

import math

from baco_like import Optimizer, Permutation, Space


def cost(config):
    """Return a cost in which ``a`` matters most, ``b`` less, and the order a little."""
    place = config["order"].index("k")
    return math.exp(0.8 * math.log2(config["a"]) + 0.5 * config["b"] + 0.4 * place)


def run(strategy="random_search", evaluations=60, seed=0, storage=None, failing=True):
    space = Space(
        {
            "a": [1, 2, 4, 8],
            "b": [0, 1, 2],
            "c": [False, True],
            "order": Permutation(["i", "j", "k"]),
        },
        constraints=["a * b <= 8"],
    )
    optimizer = Optimizer(space, seed=seed, strategy=strategy, storage=storage)
    for _ in range(evaluations):
        trial = optimizer.suggest()
        if failing and trial["c"] and trial["b"] == 2:
            optimizer.observe(trial, failed="compile")
        else:
            optimizer.observe(trial, cost(trial))
    return optimizer
