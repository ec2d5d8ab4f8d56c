"""Compare strategies on your own function and on standard problems, with tables and plots.

Run it with: python examples/study.py [EVALUATIONS]
"""

import sys
from pathlib import Path

from baco_like import Ordinal
from baco_like.benchmarking import problems, studies, study


@problems.problem(
    {
        "schedule": ["plain", "tiled"],
        "tile": Ordinal([8, 16, 32, 64], log=True),
        "unroll": Ordinal([1, 2, 4, 8], log=True),
    },
    optimum=1.0,
)
def kernel(config):
    """Return made-up milliseconds; None is a failure."""
    if config["tile"] * config["unroll"] > 256:
        return None
    slow = 3.0 if config["schedule"] == "plain" else abs(config["tile"] - 32) / 16
    return 1.0 + slow + abs(config["unroll"] - 4) / 4


def main(evaluations):
    strategies = ["auto", "simulated_annealing", "random_search"]
    runs = Path("study.jsonl")  # keeps each run; a second call continues
    result = study(strategies, [kernel, "conditional_kernel", "tour_8"], 2, evaluations, path=runs)
    studies.save_figure(studies.plot_panels(result), "curves.png")
    studies.save_figure(studies.plot_critical_difference(result), "ranks.png")
    print(studies.to_markdown(result.figures))
    frame = result.to_dataframe()
    ranks = frame.groupby(["problem", "strategy"]).best.last().groupby("problem").idxmin()
    print("best:", {problem: strategy for problem, (_, strategy) in ranks.items()})


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
