"""CPU milliseconds of one whole suggest() + observe() with a full refit, beside other packages in the same run.

    OMP_NUM_THREADS=1 python benchmarks/speed/suggest.py --data DIR [--repeats 5] [--profile]

The space is the recorded 2-D convolution (4,362 configurations, 7 tuned parameters); for ours alone also hotspot22 and
rs_cot_1024. Each history is the same random sample of configurations with smooth random values; every figure is the
median over `--repeats` further suggestions with that many observations. Packages not installed are left out.
"""

import os

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"

import argparse
import cProfile
import importlib
import json
import pstats
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from baco_like import Optimizer, Space

Step = Callable[[], None]
SIZES = (50, 100, 200)


def data_folder(given: str | None) -> Path:
    folder = Path(given or os.environ.get("BACO_LIKE_DATA", "../shared/data"))
    if not (folder / "spaces").is_dir():
        raise SystemExit(
            f"{folder} has no folder 'spaces'; give --data DIR or set BACO_LIKE_DATA (the files are those of the "
            "public repositories AutoTuningAssociation/benchmark_hub and baco-authors/baco)"
        )
    return folder


def hotspot22(folder: Path) -> Space:
    """Return hotspot with the parameter and the constraint that its file lacks, so that it is the papers' space."""
    described = json.loads((folder / "spaces" / "hotspot_milo.json").read_text())
    part = described["ConfigurationSpace"]
    condition = next(c["Expression"] for c in part["Conditions"] if "sh_power" in c["Expression"])
    shared = condition.split("<=")[0]  # bytes of shared memory
    part["TuningParameters"].append(
        {"Name": "blocks_per_sm", "Type": "int", "Values": "[0, 1, 2, 3, 4]"}
    )
    expression = f"blocks_per_sm == 0 or ({shared}) * blocks_per_sm <= 102400"
    part["Conditions"].append({"Parameters": [], "Expression": expression})
    return Space.from_t1(described)


def observations(space: Space, n: int) -> tuple[list[dict[str, Any]], list[float]]:
    """Return n distinct configurations and a smooth positive value of each."""
    rng = np.random.default_rng(n)
    rows = np.unique(space.feasible.sample(3 * n, rng), axis=0)
    rows = rng.permutation(rows)[:n]
    features = space.features(rows)
    weights, centre = rng.uniform(0.2, 2.0, features.shape[1]), rng.random(features.shape[1])
    values = np.exp(
        ((features - centre) ** 2 * weights).sum(axis=1) + 0.05 * rng.standard_normal(n)
    )
    return space.decode(rows), values.tolist()


def ours(space: Space, configs: list[dict[str, Any]], values: list[float]) -> Step:
    optimizer = Optimizer(space, strategy="bayesian", settings={"initial": 1})
    optimizer.observe(configs, values)
    for _ in range(3):  # warm: imports, and a last optimum to start from
        optimizer.observe(optimizer.suggest(), statistics.median(values))

    def step() -> None:
        optimizer.observe(optimizer.suggest(), statistics.median(values))

    return step


def optuna(space: Space, configs: list[dict[str, Any]], values: list[float]) -> Step:
    package = importlib.import_module("optuna")
    package.logging.set_verbosity(package.logging.ERROR)
    distributions = {
        name: package.distributions.IntDistribution(0, int(p.cardinality) - 1)
        for name, p in space.parameters.items()
        if p.cardinality > 1
    }
    study = package.create_study(sampler=package.samplers.GPSampler(seed=0, n_startup_trials=1))
    for config, value in zip(configs, values, strict=True):
        code = dict(zip(space.names, space.encode([config])[0], strict=True))
        params = {name: int(code[name]) for name in distributions}
        study.add_trial(
            package.create_trial(params=params, distributions=distributions, value=value)
        )
    study.tell(study.ask(distributions), 1.0)
    return lambda: study.tell(study.ask(distributions), 1.0)


def skopt(space: Space, configs: list[dict[str, Any]], values: list[float]) -> Step:
    package = importlib.import_module("skopt")
    active = [p for p in space.parameters.values() if p.cardinality > 1]
    at = [i for i, p in enumerate(space.parameters.values()) if p.cardinality > 1]
    dimensions = [(0, int(p.cardinality) - 1) for p in active]
    optimizer = package.Optimizer(
        dimensions, "GP", n_initial_points=1, acq_optimizer="sampling", random_state=0
    )
    rows = space.encode(configs)[:, at].astype(int).tolist()
    optimizer.tell(rows, values)
    return lambda: optimizer.tell(optimizer.ask(), 1.0)


def botorch(space: Space, configs: list[dict[str, Any]], values: list[float]) -> Step:
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    models = importlib.import_module("botorch.models")
    fit = importlib.import_module("botorch.fit")
    acquisition = importlib.import_module("botorch.acquisition.analytic")
    likelihoods = importlib.import_module("gpytorch.mlls")
    x = torch.tensor(space.features(space.encode(configs)))
    y = -torch.log(torch.tensor(values, dtype=torch.float64))[:, None]
    every = torch.tensor(space.features(np.concatenate(list(space.feasible.iterate()))))

    def step() -> None:
        model = models.SingleTaskGP(x, y)
        fit.fit_gpytorch_mll(likelihoods.ExactMarginalLogLikelihood(model.likelihood, model))
        score = acquisition.LogExpectedImprovement(model, best_f=y.max())
        with torch.no_grad():
            score(every[:, None, :]).argmax()

    return step


def milliseconds(step: Step, repeats: int) -> float:
    found = []
    for _ in range(repeats):
        start = time.process_time()
        step()
        found.append(1e3 * (time.process_time() - start))
    return statistics.median(found)


def profile(space: Space) -> None:
    step = ours(space, *observations(space, 200))
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(5):
        step()
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(18)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = data_folder(args.data)
    convolution = Space.from_t1(folder / "spaces" / "convolution_milo.json")
    if args.profile:
        profile(convolution)
        return
    print("| space | package | " + " | ".join(f"{n} observations" for n in SIZES) + " |")
    print("|---|---|" + "---:|" * len(SIZES))
    reference: list[float] = []
    for name, make in (
        ("Optuna GPSampler", optuna),
        ("scikit-optimize", skopt),
        ("BoTorch", botorch),
        ("ours", ours),
    ):
        try:
            row = [
                milliseconds(make(convolution, *observations(convolution, n)), args.repeats)
                for n in SIZES
            ]
        except ModuleNotFoundError as error:
            print(f"| convolution | {name} | not installed: {error.name} |")
            continue
        reference = reference or row
        shown = [
            f"{ms:.0f} ms (1/{first / ms:.1f})" for ms, first in zip(row, reference, strict=True)
        ]
        print(f"| convolution | {name} | " + " | ".join(shown) + " |", flush=True)
    others = {
        "hotspot22": hotspot22(folder),
        "rs_cot_1024": Space.from_baco(folder / "scenarios" / "rs_cot_1024_scenario.json"),
    }
    for name, space in others.items():
        row = [milliseconds(ours(space, *observations(space, n)), args.repeats) for n in SIZES]
        print(f"| {name} | ours | " + " | ".join(f"{ms:.0f} ms" for ms in row) + " |", flush=True)


if __name__ == "__main__":
    main()
