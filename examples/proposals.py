"""Let an expert, a heuristic and a command propose configurations that compete with those of the strategy.

Run it with: python examples/proposals.py [EVALUATIONS]
"""

import json
import shlex
import sys

from baco_like import MaxEvals, Optimizer, Ordinal, Space, tune
from baco_like.records import read_sources
from baco_like.running import Proposer

space = Space(
    {name: Ordinal([1, 2, 4, 8, 16, 32, 64], log=True) for name in ("block", "tile", "unroll")},
    constraints=["block * tile <= 1024", "tile % unroll == 0"],
)


def milliseconds(trial):
    """Stands for a measurement."""
    return abs(trial["block"] - 32) / 8 + abs(trial["tile"] - 32) / 16 + 4 / trial["unroll"]


def propose_doubled():
    """The command: reads a run, and proposes the best configurations with one value doubled."""
    run = json.load(sys.stdin)
    for trial in run["best"][:2]:
        for name, value in trial["config"].items():
            config = {**trial["config"], name: 2 * value}
            print(json.dumps({"config": config, "note": f"{name} doubled"}))


def main(evaluations):
    optimizer = Optimizer(space, seed=1)
    wide, wrong = optimizer.propose(
        [{"block": 32, "tile": 16, "unroll": 8}, {"block": 64, "tile": 64, "unroll": 8}],
        source="expert",
        note="fills the cache",
    )
    print(f"accepted: {wide.accepted}, {wrong.accepted}; {wrong.reason}; nearest: {wrong.nearest}")
    for _ in range(evaluations):
        trial = optimizer.suggest()
        optimizer.observe(trial, milliseconds(trial))
    for name, record in read_sources(optimizer.history).items():
        print(f"{name}: {record.trials} trials, {record.gains} new bests")

    command = Proposer(shlex.join([sys.executable, __file__, "propose"]))
    stop = MaxEvals(evaluations)
    result = tune(milliseconds, space, stop, seed=1, callbacks=[command], progress=False)
    command.close()
    print(f"best of {len(result.trials)}: {result.best_value:.2f} ms with {result.best_config}")


if __name__ == "__main__":
    if sys.argv[1:] == ["propose"]:
        propose_doubled()
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
