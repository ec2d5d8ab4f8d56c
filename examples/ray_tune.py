"""Use our searcher in Ray Tune: constraints between parameters, permutations, learned failures.

Run it with: python examples/ray_tune.py [EVALUATIONS]
"""

import sys
import tempfile

from ray import init, tune

from baco_like import Integer, Ordinal, Permutation, Space
from baco_like.integrations import BacoSearch

space = Space(
    {
        "tile": Ordinal([8, 16, 32, 64, 128], log=True),
        "unroll": Integer(1, 8, log=True),
        "loops": Permutation(["i", "j", "k"]),
    },
    constraints=["tile % unroll == 0"],
)


def kernel(config):
    """Return a made-up time; compile and time your kernel here."""
    if config["tile"] * config["unroll"] > 512:
        raise RuntimeError("out of registers")
    time = abs(config["tile"] - 64) / 8 + abs(config["unroll"] - 4) + config["loops"].index("i")
    tune.report({"time": time + 1})


def main(evaluations):
    init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    search = BacoSearch(space, "time", "min", seed=1, budget=evaluations)
    with tempfile.TemporaryDirectory() as folder:
        tuner = tune.Tuner(
            kernel,
            tune_config=tune.TuneConfig(
                metric="time",
                mode="min",
                search_alg=search,
                num_samples=evaluations,
                max_concurrent_trials=2,
                reuse_actors=True,  # the start of an actor takes seconds
            ),
            run_config=tune.RunConfig(storage_path=folder, verbose=0),
        )
        tuner.fit()
    best = search.optimizer.best
    failed = sum(trial.failure is not None for trial in search.optimizer.trials)
    print(f"best {dict(best.config)}: {best.value} ms; {failed} failed")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
