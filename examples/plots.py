"""Draw the plots of a run: its course, its parameters and its failures.

Run it with: python examples/plots.py [EVALUATIONS]; it writes five files in PNG.
"""

import math
import sys

from baco_like import Categorical, Infeasible, Integer, MaxEvals, Ordinal, Space, plot, tune

space = Space(
    {
        "tile": Ordinal([8, 16, 32, 64, 128], log=True),
        "unroll": Integer(1, 8, log=True),
        "layout": Categorical(["row", "column"]),
    }
)


def milliseconds(trial):
    """Return a simple model of the time of a kernel; large tiles that are unrolled do not compile."""
    if trial["tile"] * trial["unroll"] > 256:
        raise Infeasible("too many registers", "compile")
    cost = 1 + abs(math.log2(trial["tile"] / 32)) + 2 / trial["unroll"]
    return cost + (trial["layout"] == "column")


def main(evaluations):
    result = tune(
        milliseconds, space, aim={"time": "minimize"}, stop=MaxEvals(evaluations), progress=False
    )
    plots = {
        "history": plot.history(result),
        "parallel_coordinates": plot.parallel_coordinates(result),
        "slice": plot.slice(result, "tile"),
        "contour": plot.contour(result, ("tile", "unroll")),
        "failures": plot.failures(result, "tile"),
    }
    for name, axes in plots.items():
        axes.set_title(name.replace("_", " "))
        axes.figure.savefig(f"{name}.png")
    print("wrote", ", ".join(f"{name}.png" for name in plots))
    print("best:", result.best_value, result.best_config)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
