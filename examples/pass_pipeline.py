"""Tune a pass pipeline: which passes, in which order, how often, and a number that belongs to one of them.

The objective simulates a compiler: it counts the instructions that are left of a small program.
"""

import sys

from baco_like import MaxEvals, Sequence, Space, tune

PASSES = ["mem2reg", "instcombine", "gvn", "licm", "simplifycfg", "loop-unroll", "dce"]


def instructions(trial):
    """Return the number of instructions after the passes."""
    count, in_registers, dead = 200.0, False, 20.0
    for name in trial["passes"]:
        if name == "mem2reg" and not in_registers:
            in_registers, count, dead = True, count - 40, dead + 10
        elif name == "gvn" and in_registers:  # finds nothing in memory
            count, dead = count - 0.1 * (count - 80), dead + 3
        elif name == "loop-unroll":
            count += 4 * trial["unroll_count"]
        elif name == "dce":
            count, dead = count - dead, 0.0
        elif name in ("instcombine", "simplifycfg"):
            count -= 0.03 * (count - 80)
    return count


space = Space(
    {"passes": Sequence(PASSES, max_length=12), "unroll_count": [2, 4, 8]},
    constraints=["count(passes, 'gvn') <= 2", "not follows(passes, 'dce', 'dce')"],
    when={"unroll_count": "'loop-unroll' in passes"},
)

if __name__ == "__main__":
    print(f"{space.feasible_size:.2e} configurations")
    budget = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    result = tune(instructions, space, stop=MaxEvals(budget), seed=0, progress=False)
    print("best:", *result.best_config["passes"], f"-> {result.best_value:.0f} instructions")
