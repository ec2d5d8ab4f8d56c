"""Tune one kernel for four sizes: two configurations that cover all, and the rule that picks one for another size.

    python examples/tasks.py

The "kernel" is a formula, so that the example runs anywhere. Its best tile grows with the size.
"""

import math

from baco_like import Aim, Cover, MaxEvals, Space, Tasks, tune

SPACE = Space(
    {"tile": [8, 16, 32, 64, 128], "unroll": [1, 2, 4, 8]},
    constraints=["tile <= n"],
    tasks=Tasks(
        [{"n": 64}, {"n": 256}, {"n": 1024}, {"n": 4096}],
        constraints={"n=64": ["unroll <= 4"]},  # of one task only
    ),
)


def milliseconds(trial):
    n = trial.task["n"]
    tile_off = abs(math.log2(trial["tile"]) - 0.5 * math.log2(n))
    unroll_off = abs(math.log2(trial["unroll"]) - 1)
    return 1e-6 * n**2 * (1 + tile_off + 0.3 * unroll_off)


def main():
    result = tune(milliseconds, SPACE, aim=Aim(goal=Cover(2)), stop=MaxEvals(48), progress=False)
    found = result.optimizer.recommend()
    for choice in found.choices:
        print(f"{choice.name}: {choice.config}, {choice.slowdown:.2f} times the best known")
    print("selector:", found.selector.rule)
    print("n=2000:", found.selector.select({"n": 2000}))
    single = result.optimizer.recommend(goal="single")
    print(f"one for all: {single.configs[0]}, slowdown {single.slowdown:.2f}")


if __name__ == "__main__":
    main()
