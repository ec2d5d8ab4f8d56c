import numpy as np
import pytest

from baco_like import Optimizer, Space
from baco_like.exceptions import TrialError

KERNEL = Space(
    {"bx": [8, 16, 32, 48, 64, 128], "by": [1, 2, 4, 8], "tile": [1, 2, 3, 4, 6, 8]},
    constraints=["bx * by <= 256"],
)


def milliseconds(config):
    threads = config["bx"] * config["by"]
    return (
        1 + abs(np.log2(threads) - 7) + abs(np.log2(config["tile"]) - 1) + (config["bx"] % 32 > 0)
    )


def test_it_says_what_it_has_chosen_and_why():
    opt = Optimizer(KERNEL, seed=1)
    trial = opt.suggest()
    assert trial.tag["auto"].startswith(f"bayesian: {KERNEL.feasible_size} configurations")
    opt.observe(trial, 1.0)
    assert "auto" not in opt.suggest().tag


def test_hardly_any_configurations_are_run_through():
    opt = Optimizer(Space({"a": [1, 2, 3]}), seed=1)
    trials = opt.suggest(3)
    assert [t["a"] for t in trials] == [1, 2, 3]
    assert trials[0].tag["auto"] == "exhaustive: there are 3 configurations"
    opt.observe(trials, [1.0, 2.0, 3.0])
    with pytest.raises(TrialError, match="no model"):
        opt.predict([{"a": 1}])


def test_quantities_of_the_constraints_help():
    """The cost is a matter of threads and warps; a model that sees them needs fewer evaluations than one that does not."""

    def evaluations(strategy, settings, seed):
        opt = Optimizer(KERNEL, seed=seed, strategy=strategy, settings=settings)
        for n in range(1, 101):
            trial = opt.suggest()
            if milliseconds(trial) == 1:
                return n
            opt.observe(trial, milliseconds(trial))
        return 101

    # Both begin at the same place, so only what the models see differs.
    same = {"initial": 3, "design": "uniform"}
    seeing = [evaluations("auto", same, seed) for seed in range(12)]
    blind = [evaluations("bayesian", same, seed) for seed in range(12)]
    assert np.mean(seeing) < np.mean(blind)
