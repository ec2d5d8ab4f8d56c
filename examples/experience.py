"""Start from runs of other programs: parameters are matched by name, and what was best for most is tried early.

Run it with: python examples/experience.py [EVALUATIONS]
"""

import math
import sys
import tempfile
from pathlib import Path

from baco_like import Integer, MaxEvals, Ordinal, Search, Space, tune

SIZES = [16, 32, 64, 128, 256]

matmul = Space({"block_size_x": Ordinal(SIZES, log=True), "unroll_factor": Integer(1, 8)})
stencil = Space(
    {
        "block_size_x": Ordinal(SIZES, log=True),
        "unroll": Integer(1, 8),
        "use_padding": Ordinal([0, 1], default=0),
    }
)


def kernel(size, unroll):
    """Return a made-up kernel: a function from configurations to milliseconds."""

    def measure(trial):
        own = trial.get("unroll", trial.get("unroll_factor"))
        return 1 + (math.log2(trial["block_size_x"]) - size) ** 2 + 0.2 * abs(own - unroll)

    return measure


def main(evaluations):
    with tempfile.TemporaryDirectory() as folder:
        for name, measure in (("matmul", kernel(8, 2)), ("small_matmul", kernel(7, 1))):
            journal = Path(folder) / f"{name}.jsonl"
            tune(measure, matmul, stop=MaxEvals(30), storage=journal, progress=False)
        for search in (Search(), Search(experience=folder)):
            result = tune(
                kernel(8, 1), stencil, stop=MaxEvals(evaluations), strategy=search, progress=False
            )
            found = [trial.value for trial in result.trials].index(result.best_value) + 1
            known = "with" if search.experience else "without"
            print(f"{known} experience: best {result.best_value:.3f} ms after {found}")
        for trial in result.trials:
            if trial.origin == "proposed":
                print(
                    f"trial {trial.id}: {trial.value:.3f} ms, {result.optimizer.why(trial)['note']}"
                )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
