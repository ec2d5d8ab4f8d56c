"""Tune a small space with an installation that has no extras.

python .ci/minimal_install.py                  every kind of strategy
python .ci/minimal_install.py --without-torch  only strategies without a model; PyTorch must not be installed
"""

import importlib.util
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from baco_like import Categorical, MaxEvals, Optimizer, Permutation, Real, Space, tune

WITHOUT_MODEL = ["random_search", "genetic_algorithm", "iterated_local_search", "dual_annealing"]
WITH_MODEL = ["auto", "bayesian", "baco", "kernel_tuner_bo", "random_forest"]
EXTRAS = ["matplotlib", "pandas", "tqdm", "optuna", "ax", "ray", "ConfigSpace", "kernel_tuner"]

space = Space(
    {
        "tile": [8, 16, 32, 64],
        "threads": [1, 2, 4],
        "flags": Categorical(["-O2", "-O3"]),
        "order": Permutation(["i", "j", "k"]),
        "rate": Real(1e-3, 1.0, log=True),
    },
    constraints=["tile * threads <= 128"],
)


def cost(trial):
    """Return a cost whose optimum is at tile 32 and four threads."""
    return abs(trial["tile"] - 32) + 4 / trial["threads"] + (trial["order"][0] != "k")


def main():
    """Tune with every strategy, and resume each run from its journal."""
    without_torch = "--without-torch" in sys.argv
    unexpected = [name for name in EXTRAS if importlib.util.find_spec(name)]
    assert not unexpected, f"this is not an installation without extras: {unexpected}"
    assert (importlib.util.find_spec("torch") is None) == without_torch
    for strategy in WITHOUT_MODEL if without_torch else WITHOUT_MODEL + WITH_MODEL:
        with tempfile.TemporaryDirectory() as folder:
            journal = Path(folder, "run.jsonl")
            result = tune(
                cost,
                space,
                strategy=strategy,
                stop=MaxEvals(15),
                storage=journal,
                seed=1,
                progress=False,
            )
            resumed = Optimizer.load(journal)
            assert resumed.best_value == result.best.value
            print(f"{strategy}: {result.best.value:.2f} after {len(resumed.trials)} evaluations")
    python = sys.version.split()[0]
    print(f"Python {python}, baco_like {version('baco-like')}: no extras needed")


if __name__ == "__main__":
    main()
