"""Run every strategy by its name, then one that is built from parts.

Run it with: python examples/strategies.py [EVALUATIONS]
"""

import math
import sys

from baco_like import MaxEvals, Ordinal, Permutation, Space, tune
from baco_like.acquisitions import LowerConfidenceBound
from baco_like.strategies import DESIGNS, STRATEGIES, Bayesian, Phased
from baco_like.surrogates import MATERN32, GaussianProcess

powers = [2**i for i in range(9)]
space = Space(
    {
        # The prior says which values are probably good: those near 16.
        "bx": Ordinal(powers, log=True, prior=[1, 1, 2, 4, 8, 4, 2, 1, 1]),
        "by": Ordinal(powers, log=True),
        "loops": Permutation(["i", "j", "k"]),
    },
    constraints=["32 <= bx * by <= 1024"],
)


def milliseconds(trial):
    """Return the run time of a simulated kernel: best at 32 x 4 with k innermost."""
    shape = abs(math.log2(trial["bx"]) - 5) + 0.7 * abs(math.log2(trial["by"]) - 2)
    return 1 + shape + 2 * (trial["loops"][-1] != "k")


def main(evaluations):
    custom = Phased(
        Bayesian(surrogate=GaussianProcess(kernel=MATERN32), acquisition=LowerConfidenceBound(1.5)),
        initial=6,
        design=DESIGNS["latin_hypercube"],
    )
    stop = MaxEvals(evaluations)
    for strategy in [*STRATEGIES, custom]:
        result = tune(milliseconds, space, stop=stop, strategy=strategy, seed=1, progress=False)
        name = strategy if isinstance(strategy, str) else "custom parts"
        print(f"{name:18} best {result.best_value:.2f} ms with {result.best_config}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
