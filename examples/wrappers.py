"""A function that may crash: isolated in a process, repeated while it is noisy, checked, and cached between runs.

Run it with: python examples/wrappers.py [EVALUATIONS]
"""

import ctypes
import random
import sys
import tempfile
from pathlib import Path

from baco_like import MaxEvals, Optimizer, Space, run
from baco_like.evaluators import (
    CachedEvaluator,
    CheckedEvaluator,
    RepeatedEvaluator,
    Repeats,
    ResultCache,
    isolated_function,
)
from baco_like.running import Confirm, confirm_winner

space = Space({"tile": [1, 2, 4, 8, 16, 32, 64, 128], "unroll": [1, 2, 4, 8]})


def kernel(trial):
    """Simulate a kernel with noisy times that crashes for some configurations and is wrong for others."""
    if trial["tile"] * trial["unroll"] > 512:
        ctypes.string_at(0)  # a segmentation fault: the outcome reports it, and the run continues
    time = 1 + abs(trial["tile"] - 16) / 8 + 1 / trial["unroll"]
    return {
        "value": time * random.lognormvariate(0, 0.1),
        "sum": 7.5 if trial["tile"] == 2 else 7.0,
    }


def check(trial, outcome):
    """Return what is wrong with a result, or None."""
    return None if outcome.metrics["sum"] == 7.0 else f"the sum is {outcome.metrics['sum']}"


def evaluator(cache):
    here = Path(__file__)
    apart = isolated_function(f"{here.stem}:kernel", timeout=10, workers=2, path=[str(here.parent)])
    noisy = RepeatedEvaluator(apart, Repeats(2, 30, relative_error=0.05, slow_ratio=4))
    return CachedEvaluator(CheckedEvaluator(noisy, check), ResultCache(cache, {"kernel": 1}))


def main(evaluations):
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "results.jsonl"
        optimizer = Optimizer(space, strategy="random_search", seed=1)
        run(optimizer, evaluator(cache), MaxEvals(evaluations))
        for trial in optimizer.trials:
            result = trial.failure or f"{trial.value:.2f} of {len(trial.repeats)} repeats"
            print(dict(trial), result, trial.message)
        winner = confirm_winner(optimizer, evaluator(cache), Confirm(top=2)).winner
    print(f"best {winner.value:.2f} with {dict(winner)}, measured again")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 24)
