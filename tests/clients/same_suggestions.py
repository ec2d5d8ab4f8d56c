"""The run of the examples in `clients`, in Python: the same operations give the same values and suggestions."""

import functools
import json
from pathlib import Path

from baco_like import Optimizer, Ordinal, Permutation, Real, Space

CLIENTS = Path(__file__).parents[2] / "clients"
DESCRIPTION = CLIENTS / "space.json"
SPACE = Space(
    {
        "tile": Ordinal([1, 2, 4, 8, 16, 32, 64], log=True),
        "share": Real(0.0, 1.0),
        "mode": ["fast", "small"],
        "loops": Permutation([0, 1, 2]),
    },
    constraints=["tile * share <= 40"],
)


def cost(trial):
    difference, rest = (trial["tile"] - 16.0) / 16.0, trial["share"] - 0.3
    mode = 0.0 if trial["mode"] == "fast" else 0.5
    return 1.0 + difference * difference + rest * rest + 0.1 * trial["loops"][0] + mode


@functools.cache
def suggestions():
    """Return the configurations of the run in Python, as JSON has them."""
    optimizer = Optimizer(SPACE, seed=7, budget=12)
    for _ in range(12):
        trial = optimizer.suggest()
        optimizer.observe(trial, [cost(trial), cost(trial) + 0.25])
    return [json.loads(json.dumps(dict(trial.config), default=list)) for trial in optimizer.trials]
