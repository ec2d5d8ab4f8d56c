"""Use our search technique in pyATF, with unchanged parameters, constraints and cost function.

Run it with: python examples/pyatf_tuner.py [EVALUATIONS]
"""

import sys

from pyatf import TP, Interval, Set, Tuner
from pyatf.abort_conditions import Evaluations
from pyatf.search_space import SearchSpace
from pyatf.tuning_data import CostFunctionError

from baco_like.integrations import BacoTechnique

N = 1024

space = SearchSpace(
    TP("work_per_thread", Interval(1, N), lambda work_per_thread: N % work_per_thread == 0),
    TP(
        "local_size",
        Interval(1, N),
        lambda local_size, work_per_thread: (N // work_per_thread) % local_size == 0,
    ),
    TP("vector", Set(1, 2, 4, 8)),
    enable_1d_access=True,
    verbosity=0,
)


def cost(config):
    """Return made-up milliseconds; compile and run here."""
    if config["vector"] > config["work_per_thread"]:
        raise CostFunctionError("nothing to vectorise")
    balance = abs(config["local_size"] - 64) / 64 + abs(config["work_per_thread"] - 8) / 8
    return 1 + balance + 1 / config["vector"]


def main(evaluations):
    technique = BacoTechnique(space, seed=1, budget=evaluations)
    tuner = Tuner().verbosity(0).search_space(space).search_technique(technique)
    config, least, data = tuner.tune(cost, Evaluations(evaluations))
    failed = data.number_of_evaluated_invalid_configurations
    print(f"best {least:.2f} ms with {config}; {failed} of {len(data.history)} failed")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
