"""Measure the CPU milliseconds of one suggest() + observe() with a full refit, beside other packages.

    OMP_NUM_THREADS=1 python benchmarks/speed/suggest.py --data DIR [--repeats 6]
    OMP_NUM_THREADS=1 python benchmarks/speed/suggest.py --data DIR --surrogates [--device cuda]

The space is the recorded 2-D convolution (4,362 configurations, 7 tuned parameters). For baco_like there are also
hotspot22, rs_cot_1024, and histories with failures. Each history is the same random sample of configurations with
smooth random values. Every number is the median over `--repeats` additional suggestions, and the number in brackets is
its share of the first row. Packages that are not installed are omitted.

`--surrogates` compares the closed form with GPyTorch for `bayesian` and `auto`: CPU time, and with `--device cuda`
wall time, because the CPU waits while the GPU works.

`--wide` measures the default strategy in a space of 150 flags and 37 integers, and needs no data: the medians, and the
means, because every fifth fit takes longer.

    OMP_NUM_THREADS=1 python benchmarks/speed/suggest.py --wide --repeats 20
"""

import os

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"

import argparse
import importlib
import itertools
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from baco_like import Categorical, Integer, Optimizer, Search, Space

Step = Callable[[], None]
SIZES = (50, 100, 200)
SURROGATE_SIZES = (50, 100, 200, 1000)
TURN = 3
"""Suggestions of one package before the next one's turn, so that all share the load of the machine alike."""


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


def observations(
    space: Space, n: int, failed: float = 0.0
) -> tuple[list[dict[str, Any]], list[float | None]]:
    """Return n distinct configurations and a smooth positive value of each, or None for a share that failed.

    Failures fill a half-space of the features, so that a model can learn them.
    """
    rng = np.random.default_rng(n)
    rows = np.unique(space.feasible.sample(3 * n, rng), axis=0)
    rows = rng.permutation(rows)[:n]
    features = space.features(rows)
    weights, centre = rng.uniform(0.2, 2.0, features.shape[1]), rng.random(features.shape[1])
    values = np.exp(
        ((features - centre) ** 2 * weights).sum(axis=1) + 0.05 * rng.standard_normal(n)
    )
    side = features @ rng.standard_normal(features.shape[1])
    bad = np.argsort(side)[: round(failed * n)]
    return space.decode(rows), [None if i in bad else float(v) for i, v in enumerate(values)]


def ours(
    space: Space,
    configs: list[dict[str, Any]],
    values: list[float | None],
    strategy: str = "bayesian",
    **settings: str,
) -> Step:
    optimizer = Optimizer(space, strategy=Search(strategy, {"initial": 1, **settings}))
    optimizer.observe(configs, values)
    usual = statistics.median(value for value in values if value is not None)
    fails = itertools.cycle([value is None for value in values])

    def step() -> None:
        optimizer.observe(optimizer.suggest(), None if next(fails) else usual)

    for _ in range(3):  # warm: imports, and a last optimum to start from
        step()
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


def milliseconds(
    steps: dict[Any, Step], repeats: int, clock: Callable[[], float] = time.process_time
) -> dict[Any, float]:
    """Return the median time of each step; the steps take turns, so that all share the load of the machine alike."""
    times: dict[Any, list[float]] = {name: [] for name in steps}
    for done in range(0, repeats, TURN):
        for name, step in steps.items():
            for _ in range(min(TURN, repeats - done)):
                start = clock()
                step()
                times[name].append(1e3 * (clock() - start))
    return {name: statistics.median(measured) for name, measured in times.items()}


def surrogate_steps(space: Space, n: int, device: str) -> dict[tuple[str, str], Step]:
    """Return the steps of the closed form and of GPyTorch with n observations."""
    settings = {
        "closed form": {},
        f"GPyTorch, {device}": {"surrogate": "gpytorch", "device": device},
    }
    return {
        (strategy, name): ours(space, *observations(space, n), strategy, **own)
        for strategy in ("bayesian", "auto")
        for name, own in settings.items()
    }


def wide() -> Space:
    """Return the flags and numbers of a compiler."""
    flags = {f"flag_{i}": Categorical([False, True], default=False) for i in range(150)}
    return Space(flags | {f"number_{i}": Integer(1, 1000, log=True, default=30) for i in range(37)})


def print_wide(repeats: int) -> None:
    space = wide()
    print("| failures | " + " | ".join(f"{n} observations" for n in SIZES) + " |")
    print("|---|" + "---:|" * len(SIZES))
    for failed in (0.0, 0.3):
        cells = []
        for n in SIZES:
            times = []
            step = ours(space, *observations(space, n, failed), "auto")
            for _ in range(repeats):
                start = time.process_time()
                step()
                times.append(1e3 * (time.process_time() - start))
            cells.append(f"{statistics.median(times):.0f} ms ({statistics.mean(times):.0f} ms)")
        print(f"| {100 * failed:.0f} % | " + " | ".join(cells) + " |", flush=True)


def installed(makers: dict[str, Callable[..., Step]], *arguments: Any) -> dict[str, Step]:
    steps = {}
    for name, make in makers.items():
        try:
            steps[name] = make(*arguments)
        except ModuleNotFoundError as error:
            print(f"{name} is left out: {error.name} is not installed", file=sys.stderr)
    return steps


def measured(spaces: dict[str, Space], n: int, repeats: int) -> dict[tuple[str, str], float]:
    """Return milliseconds of every row of the table with n observations."""
    convolution = spaces["convolution"]
    rivals = {"Optuna GPSampler": optuna, "scikit-optimize": skopt, "BoTorch": botorch}
    steps = {
        ("convolution", name): step
        for name, step in installed(rivals, convolution, *observations(convolution, n)).items()
    }
    for name, space in spaces.items():
        for strategy in ("bayesian", "auto"):
            steps[name, f"ours, {strategy}"] = ours(space, *observations(space, n), strategy)
            failed = observations(space, n, failed=0.3)
            steps[name, f"ours, {strategy}, 30 % failed"] = ours(space, *failed, strategy)
    return milliseconds(steps, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data")
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument(
        "--surrogates", action="store_true", help="compare the closed form with GPyTorch"
    )
    parser.add_argument("--device", default="cpu", help="torch device for --surrogates")
    parser.add_argument("--wide", action="store_true", help="150 flags and 37 integers")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.wide:
        print_wide(args.repeats)
        return
    folder = data_folder(args.data)
    if args.surrogates:
        space = SPACES["convolution"](folder)
        clock = time.process_time if args.device == "cpu" else time.perf_counter
        columns = [
            milliseconds(surrogate_steps(space, n, args.device), args.repeats, clock)
            for n in SURROGATE_SIZES
        ]
        print_table("strategy | surrogate", SURROGATE_SIZES, columns)
        return
    spaces = {name: read(folder) for name, read in SPACES.items()}
    columns = [measured(spaces, n, args.repeats) for n in SIZES]
    print_table("space | package", SIZES, columns)


def print_table(
    names: str, sizes: tuple[int, ...], columns: list[dict[tuple[str, str], float]]
) -> None:
    first = next(iter(columns[0]))
    print(f"| {names} | " + " | ".join(f"{n} observations" for n in sizes) + " |")
    print("|---|---|" + "---:|" * len(sizes))
    for row in columns[0]:
        shown = [f"{ms[row]:.1f} ms (1/{ms[first] / ms[row]:.1f})" for ms in columns]
        print(f"| {row[0]} | {row[1]} | " + " | ".join(shown) + " |", flush=True)


SPACES: dict[str, Callable[[Path], Space]] = {
    "convolution": lambda folder: Space.from_t1(folder / "spaces" / "convolution_milo.json"),
    "hotspot22": hotspot22,
    "rs_cot_1024": lambda folder: Space.from_baco(
        folder / "scenarios" / "rs_cot_1024_scenario.json"
    ),
}


if __name__ == "__main__":
    main()
