"""Write and read results in the formats of other tools, replay them as simulated devices, and write a T1 file.

Run it with: python examples/formats.py [EVALUATIONS]
"""

import json
import sys
import tempfile
from pathlib import Path

from baco_like import Infeasible, MaxEvals, Optimizer, Ordinal, Space, run, tune
from baco_like.evaluators import ReplayEvaluator
from baco_like.results import read
from baco_like.spaces import to_t1

SPACE = Space(
    {
        "block": Ordinal([32, 64, 128, 256, 512], log=True),
        "tile": Ordinal([1, 2, 4, 8], log=True),
        "layout": ["row", "column"],
    },
    constraints=["block * tile <= 1024"],
)


def kernel(trial):
    """Return three made-up repeats in milliseconds; compile and time your kernel here."""
    block, tile = trial["block"], trial["tile"]
    if block * tile == 1024:
        raise Infeasible("too many registers", failed="compile")
    time = abs(block - 128) / 64 + abs(tile - 4) + (trial["layout"] == "row")
    return [time + 1.0, time + 1.1, time + 1.3]


def main(evaluations, folder):
    result = tune(
        kernel, SPACE, stop=MaxEvals(evaluations), aim={"time": "minimize"}, progress=False
    )
    for kind in ("t4", "kernel_tuner", "ktt", "baco", "csv"):
        path = folder / f"{kind}.gz"
        result.optimizer.export(kind, path)
        found = read(path)  # the format is recognised by the content
        failed = sum(outcome.failed is not None for outcome in found.outcomes)
        print(f"{kind}: {len(found)} results of {', '.join(found.names)}; {failed} failed")

    # Each of them can be replayed as a simulated device. The space has the recorded configurations only, because a
    # replay of any other configuration is a failure.
    recording = read(folder / "t4.gz")
    again = Optimizer(Space.from_dataframe(recording.configs), seed=1, strategy="random_search")
    run(again, ReplayEvaluator(recording), MaxEvals(evaluations))
    print(f"replayed: best {again.best_config} with {again.best_value}")

    # Other tuners read a space from a T1 file.
    path = folder / "space.json"
    path.write_text(json.dumps(to_t1(SPACE, {"Language": "CUDA", "KernelName": "kernel"})))
    assert Space.from_t1(path).to_dict() == SPACE.to_dict()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 25, Path(made))
