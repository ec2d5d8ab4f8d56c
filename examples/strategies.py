"""Choose a strategy: by name with settings, and as an object made of parts.

Run it with: python examples/strategies.py [EVALUATIONS]
"""

import math
import sys

from baco_like import MaxEvals, Ordinal, Permutation, Space, tune
from baco_like.acquisitions import LowerConfidenceBound
from baco_like.spaces.design import latin_hypercube
from baco_like.strategies import STRATEGIES
from baco_like.strategies.bayesian.bayesian import Bayesian
from baco_like.strategies.composite.phased import Phased
from baco_like.surrogates import MATERN32, GaussianProcess

powers = [2**i for i in range(9)]
space = Space(
    {
        "bx": Ordinal(
            powers, log=True, prior=[1, 1, 2, 4, 8, 4, 2, 1, 1]
        ),  # a prior: which values you expect to be good
        "by": Ordinal(powers, log=True),
        "loops": Permutation(["i", "j", "k"]),
    },
    constraints=["32 <= bx * by <= 1024"],
)


def milliseconds(trial):
    """Return a made-up time, best at 32 x 4 with k innermost."""
    shape = abs(math.log2(trial["bx"]) - 5) + 0.7 * abs(math.log2(trial["by"]) - 2)
    return 1 + shape + 2 * (trial["loops"][-1] != "k")


def main(evaluations):
    mine = Phased(
        Bayesian(surrogate=GaussianProcess(kernel=MATERN32), acquisition=LowerConfidenceBound(1.5)),
        initial=6,
        design=latin_hypercube,
    )
    stop = MaxEvals(evaluations)
    for strategy in [*STRATEGIES, mine]:
        result = tune(milliseconds, space, stop=stop, strategy=strategy, seed=1, progress=False)
        name = strategy if isinstance(strategy, str) else "parts of our own"
        print(f"{name:18} best {result.best_value:.2f} ms with {result.best_config}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
