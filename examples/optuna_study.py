"""Use our sampler in Optuna: constraints between parameters, permutations, learned failures.

Run it with: python examples/optuna_study.py [TRIALS]
"""

import sys

import optuna

from baco_like import Categorical, Ordinal, Permutation, Space
from baco_like.integrations import BacoSampler, suggest_config

space = Space(
    {
        "tile": Ordinal([1, 2, 4, 8, 16, 32, 64], log=True, default=8),
        "threads": Ordinal([1, 2, 4, 8], log=True, default=1),
        "level": Categorical(["-O1", "-O2", "-O3"], default="-O2"),
        "loops": Permutation(["i", "j", "k"], default=["i", "j", "k"]),
    },
    constraints=["tile * threads <= 128", "pos(loops, 'i') < pos(loops, 'k')"],
)


def objective(trial):
    """Return made-up milliseconds; compile and run here."""
    config = suggest_config(trial, space)  # feasible and new
    if config["level"] == "-O3" and config["tile"] > 16:
        trial.set_user_attr("failed", "compile")
        raise RuntimeError("out of registers")
    first = config["loops"][0]
    return abs(config["tile"] - 16) / 4 + 8 / config["threads"] + (first != "i")


def main(trials):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=BacoSampler(space, seed=1))
    study.optimize(objective, n_trials=trials, catch=RuntimeError)
    failed = sum(trial.state is optuna.trial.TrialState.FAIL for trial in study.trials)
    print(f"best {study.best_value:.2f} ms with {study.best_params}; {failed} failed")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
