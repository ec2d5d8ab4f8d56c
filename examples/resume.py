"""Stop and resume a run: journal, results that were not suggested, enqueued configurations, batches, another space.

Run it with: python examples/resume.py [EVALUATIONS]
"""

import sys
import tempfile
from pathlib import Path

from baco_like import Integer, Optimizer, Sharing, Space, SpaceExhausted, Status, Trial

space = Space(
    {"tile": [8, 16, 32, 64, 128], "unroll": Integer(1, 8, default=1), "vector": [1, 2, 4, 8]},
    constraints=["tile % unroll == 0", "unroll * vector <= tile"],
)


def measure(trial: Trial) -> list[float]:
    """Return three made-up run times in milliseconds."""
    time = 1 + abs(trial["tile"] - 32) / 16 + abs(trial["unroll"] - 4) / 4 + 4 / trial["vector"]
    return [time, 1.01 * time, 0.99 * time]


def main(evaluations):
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "run.jsonl"
        optimizer = Optimizer(space, seed=1, storage=journal, context={"gpu": "A100", "unit": "ms"})
        optimizer.observe(
            {"tile": 64, "unroll": 4, "vector": 4}, 3.2
        )  # known from an earlier project
        optimizer.enqueue({"tile": 16, "unroll": 2, "vector": 8})  # a colleague's guess comes next
        for _ in range(evaluations // 2):
            trial = optimizer.suggest()
            optimizer.observe(trial, measure(trial))

        # As after a crash: nothing observed is lost. With a lease, trials of dead workers come again.
        optimizer = Optimizer.load(journal, sharing=Sharing(lease=600.0))
        print(f"resumed with {len(optimizer.trials)} results")
        while len(optimizer.trials) < evaluations:
            try:
                batch = optimizer.suggest(4)  # chosen jointly, to be run side by side
            except SpaceExhausted:
                break
            optimizer.observe(batch, [measure(trial) for trial in batch])

        assert all(trial.status is Status.OK for trial in optimizer.trials)
        print(f"best {optimizer.best_value:.2f} ms with {optimizer.best_config}")
        print("why the last one:", optimizer.why(optimizer.trials[-1]))
        mean, std, feasible = optimizer.predict([{"tile": 32, "unroll": 8, "vector": 2}])
        print(
            f"expected elsewhere: {mean[0]:.2f} +- {std[0]:.2f} ms, runs with p = {feasible[0]:.2f}"
        )
        larger = Space({**space.parameters, "tile": [8, 16, 32, 64, 128, 256]}, space.constraints)
        continued = Optimizer(larger, storage=Path(folder) / "larger.jsonl", warm_start=journal)
        print(len(continued.trials), "results count in a larger space")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 24)
