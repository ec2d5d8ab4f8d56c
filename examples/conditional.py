"""Tune a kernel whose schedules have different parameters.

Run it with: python examples/conditional.py [EVALUATIONS]
"""

import sys

from baco_like import MaxEvals, Ordinal, Permutation, Space, tune

space = Space(
    {
        "schedule": ["plain", "tiled", "fused"],
        "tile": Ordinal([8, 16, 32, 64], log=True, default=16),
        "unroll": Ordinal([1, 2, 4, 8], log=True, default=1),
        "order": Permutation(["i", "j", "k"]),
    },
    constraints=["tile * unroll <= 128"],
    when={
        "tile": "schedule != 'plain'",
        "unroll": "tile >= 16",  # of an inactive tile, this is false
        "order": "schedule == 'tiled'",
    },
)


def milliseconds(trial):
    """Return made-up milliseconds; a trial has its active parameters only."""
    if trial["schedule"] == "plain":
        return 90.0
    time = 40.0 + abs(trial["tile"] - 32)
    if "unroll" in trial:
        time += 3 * abs(trial["unroll"] - 4)
    if trial["schedule"] == "tiled":
        time += 10 * trial["order"].index("k") - 15
    return time


def main(evaluations):
    result = tune(milliseconds, space, stop=MaxEvals(evaluations), progress=False)
    print(f"{space.feasible_size} configurations; best {result.best_value:.1f} ms:")
    print(result.best_config)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
