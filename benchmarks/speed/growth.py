"""Measure how the cost of a suggestion grows with observations, parameters and pending trials.

    python benchmarks/speed/growth.py --data DIR --out cells.jsonl [--python PEERS/bin/python]
        [--limit 120] [--table FILE]

CPU milliseconds, one thread. Each package and size runs in a separate process that ends after `--limit` CPU seconds;
`>` marks a bound where it had not finished one suggestion. Ours is the mean over `--steps` suggestions with
observe(), refits included: the hyperparameters are fitted again after at most 100 observations. The other packages see
the same values and the parameters as indices; they run by the interpreter `--python` and are left out where they are
not installed. Their figure is the mean of three suggestions.

The spaces are the recorded 2-D convolution (4,362 configurations), 12 ordinals with 8 values, and 200 parameters (160
flags and 40 integers). Rows with `pending` ask for 64 trials one at a time (milliseconds of one); rows with `batch` ask
for 256 at once (milliseconds of all). The last column is the largest memory of ours.
"""

import os

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"

import argparse
import json
import math
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CASES = {
    "convolution": ("one", (200, 500, 1000, 2000)),
    "12 ordinals": ("one", (200, 500, 1000, 2000, 5000, 20_000)),
    "200 parameters": ("one", (200, 1000, 5000, 20_000)),
    "12 ordinals, pending": ("pending", (200, 1000)),
    "convolution, batch": ("batch", (200, 1000)),
    "12 ordinals, batch": ("batch", (200, 1000)),
    "200 parameters, batch": ("batch", (200,)),
}
OURS = "ours"
PEERS = ("Optuna GP", "Optuna TPE", "SMAC3", "Ax")
PENDING, BATCH = 64, 256
Step = Callable[[], None]


def space_of(name: str, data: str) -> Any:
    from suggest import SPACES

    from baco_like import Categorical, Integer, Ordinal, Space

    kind = name.partition(",")[0]
    if kind == "convolution":
        return SPACES["convolution"](Path(data))
    if kind == "12 ordinals":
        return Space({f"p{i}": Ordinal([2**k for k in range(8)]) for i in range(12)})
    flags = {f"flag_{i}": Categorical([False, True]) for i in range(160)}
    return Space(flags | {f"number_{i}": Integer(1, 64, log=True) for i in range(40)})


def ours(name: str, size: int, data: str) -> Iterator[float]:
    """Yield the milliseconds of each step, as the code on the path takes them."""
    from suggest import observations

    from baco_like import Optimizer

    space = space_of(name, data)
    configs, values = observations(space, size)
    optimizer = Optimizer(space, seed=0)
    optimizer.observe(configs, values)
    usual, kind = statistics.median(values), CASES[name][0]
    optimizer.observe(optimizer.suggest(), usual)  # imports
    counts = {"one": [None], "pending": [None] * PENDING, "batch": [BATCH]}[kind]
    while True:
        times = []
        for count in counts:
            began = time.process_time()
            trials = optimizer.suggest() if count is None else optimizer.suggest(count)
            if kind == "one":
                optimizer.observe(trials, usual)
            times.append(1e3 * (time.process_time() - began))
        yield statistics.mean(times)
        for trial in optimizer.pending:
            optimizer.observe(trial, usual)


def optuna(case: dict[str, Any], sampler: str) -> Step:
    import optuna as package

    package.logging.set_verbosity(package.logging.ERROR)
    study = package.create_study(sampler=getattr(package.samplers, sampler)(seed=0))
    distributions = {
        f"p{i}": package.distributions.IntDistribution(0, n - 1)
        for i, n in enumerate(case["levels"])
    }
    for row, value in zip(case["rows"], case["values"], strict=True):
        params = {f"p{i}": code for i, code in enumerate(row)}
        study.add_trial(
            package.create_trial(params=params, distributions=distributions, value=value)
        )
    return lambda: study.tell(study.ask(distributions), case["usual"])


def smac(case: dict[str, Any]) -> Step:
    from ConfigSpace import Configuration, ConfigurationSpace, UniformIntegerHyperparameter
    from smac import HyperparameterOptimizationFacade, Scenario
    from smac.runhistory import TrialInfo, TrialValue

    space = ConfigurationSpace(seed=0)
    for i, n in enumerate(case["levels"]):
        space.add(UniformIntegerHyperparameter(f"p{i}", 0, n - 1))
    scenario = Scenario(
        space,
        output_directory=Path(tempfile.mkdtemp()),
        deterministic=True,
        n_trials=10**6,
        seed=0,
    )
    design = HyperparameterOptimizationFacade.get_initial_design(scenario, n_configs=1)
    optimizer = HyperparameterOptimizationFacade(
        scenario,
        lambda config, seed: 0.0,
        initial_design=design,
        overwrite=True,
        logging_level=50,
    )
    for row, value in zip(case["rows"], case["values"], strict=True):
        config = Configuration(space, {f"p{i}": code for i, code in enumerate(row)})
        optimizer.tell(TrialInfo(config, seed=0), TrialValue(value))
    return lambda: optimizer.tell(optimizer.ask(), TrialValue(case["usual"]))


def ax(case: dict[str, Any]) -> Step:
    import logging

    from ax.api.client import Client
    from ax.api.configs import RangeParameterConfig

    logging.disable(logging.CRITICAL)
    client = Client(random_seed=0)
    bounds = [(f"p{i}", (0, n - 1)) for i, n in enumerate(case["levels"])]
    client.configure_experiment(
        [RangeParameterConfig(name=name, bounds=own, parameter_type="int") for name, own in bounds]
    )
    client.configure_optimization(objective="-y")
    client.configure_generation_strategy(initialization_budget=1, torch_device="cpu")
    for row, value in zip(case["rows"], case["values"], strict=True):
        index = client.attach_trial({f"p{i}": code for i, code in enumerate(row)})
        client.complete_trial(index, raw_data={"y": value})

    def step() -> None:
        ((index, _),) = client.get_next_trials(1).items()
        client.complete_trial(index, raw_data={"y": case["usual"]})

    return step


def times_of(case: dict[str, Any]) -> Iterator[float]:
    package = case["package"]
    if package == OURS:
        yield from ours(case["name"], case["size"], case["data"])
    makers: dict[str, Callable[[], Step]] = {
        "Optuna GP": lambda: optuna(case, "GPSampler"),
        "Optuna TPE": lambda: optuna(case, "TPESampler"),
        "SMAC3": lambda: smac(case),
        "Ax": lambda: ax(case),
    }
    step = makers[package]()
    step()  # imports
    while True:
        began = time.process_time()
        step()
        yield 1e3 * (time.process_time() - began)


def peak_memory() -> float:
    """Return the largest memory of this process in MB; `getrusage` would count the parent's memory before the start."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def child(file: str) -> None:
    """Write a line for each step of a case: its milliseconds, and the largest memory in MB."""
    case = json.loads(Path(file).read_text())
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CPU, (case["limit"], case["limit"] + 1))
    with Path(case["out"]).open("w") as out:
        for _, milliseconds in zip(range(case["steps"]), times_of(case), strict=False):
            memory = peak_memory()
            print(json.dumps([milliseconds, memory]), file=out, flush=True)


def measure(case: dict[str, Any], python: str) -> tuple[float, float, str] | None:
    """Return the mean milliseconds, the memory in MB and a mark; None where the package is not installed."""
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder) / "case.json", Path(folder) / "out.jsonl"
        file.write_text(json.dumps({**case, "out": str(out)}))
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [python, __file__, "--child", str(file)]
        done = subprocess.run(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    if not rows and done.returncode > 0:
        print(f"{case['package']}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    if not rows:
        return 1e3 * case["limit"], 0.0, ">"
    return statistics.mean(row[0] for row in rows), rows[-1][1], ""


def indices(name: str, size: int, data: str) -> dict[str, Any]:
    """Return the observations as indices of the values, for the other packages."""
    from suggest import observations

    space = space_of(name, data)
    configs, values = observations(space, size)
    used = [i for i, p in enumerate(space.parameters.values()) if p.cardinality > 1]
    levels = [int(p.cardinality) for p in space.parameters.values()]
    rows = space.encode(configs)[:, used].astype(int)
    return {
        "levels": [levels[i] for i in used],
        "rows": rows.tolist(),
        "values": values,
        "usual": statistics.median(values),
    }


def measured(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the cells of the table; those in the file are kept, and new ones are appended to it."""
    cells = (
        [json.loads(line) for line in args.out.read_text().splitlines()]
        if args.out.exists()
        else []
    )
    for name, size, package in wanted(args):
        found = [c for c in cells if (c["case"], c["package"]) == (name, package)]
        if any(c["size"] == size or c["mark"] for c in found):
            continue  # measured, or a smaller history took too long
        own, kind = package == OURS, CASES[name][0]
        steps = (args.steps if kind == "one" else 1) if own else 3
        case = {"package": package, "name": name, "size": size, "data": args.data}
        case |= {"limit": args.limit, "steps": steps}
        case |= {} if own else indices(name, size, args.data)
        result = measure(case, sys.executable if own else args.python)
        if result is None:
            continue
        cell = {"case": name, "size": size, "package": package}
        cell |= dict(zip(("ms", "memory", "mark"), result, strict=True))
        cells.append(cell)
        print(json.dumps(cell), file=sys.stderr, flush=True)
        with args.out.open("a") as file:
            print(json.dumps(cell), file=file)
    return cells


def wanted(args: argparse.Namespace) -> Iterator[tuple[str, int, str]]:
    """Yield the cells to measure: case, observations, package."""
    for name, (kind, sizes) in CASES.items():
        if args.cases and name not in args.cases.split(";"):
            continue
        for size in (n for n in sizes if n <= args.most):
            for package in (OURS, *PEERS):
                if package == OURS or kind == "one":
                    yield name, size, package


def table(cells: Sequence[dict[str, Any]]) -> Iterator[str]:
    packages = [p for p in (OURS, *PEERS) if any(c["package"] == p for c in cells)]
    known = {(c["case"], c["size"], c["package"]): c for c in cells}
    yield "| case | observations | " + " | ".join(packages) + " | ours, MB |"
    yield "|---|---:|" + "---:|" * (len(packages) + 1)
    for name, (_, sizes) in CASES.items():
        for size in (n for n in sizes if any(key[:2] == (name, n) for key in known)):
            line = []
            for package in packages:
                late = [c for c in cells if (c["case"], c["package"]) == (name, package)]
                late = [c for c in late if c["mark"] and c["size"] <= size]
                cell = late[0] if late else known.get((name, size, package))
                line.append("" if cell is None else f"{cell['mark']}{cell['ms']:,.0f}")
            memory = known[name, size, "ours"]["memory"]
            yield f"| {name} | {size:,} | " + " | ".join(line) + f" | {memory:.0f} |"
    yield ""
    yield "| growth: exponent of the cost in the observations | " + " | ".join(packages) + " |"
    yield "|---|" + "---:|" * len(packages)
    for name, (kind, _) in CASES.items():
        if kind == "one":
            slopes = [growth(cells, name, package) for package in packages]
            yield f"| {name} | " + " | ".join(slopes) + " |"


def growth(cells: Sequence[dict[str, Any]], name: str, package: str) -> str:
    """Return the slope of log cost over log observations, by least squares, with its range of observations."""
    found = [c for c in cells if (c["case"], c["package"], c["mark"]) == (name, package, "")]
    if len(found) < 2:
        return ""
    x, y = ([math.log(c[key]) for c in found] for key in ("size", "ms"))
    slope = statistics.linear_regression(x, y).slope
    sizes = [c["size"] for c in found]
    return f"{slope:.2f} ({min(sizes):,} to {max(sizes):,})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help="see suggest.py")
    parser.add_argument("--python", default=sys.executable, help="interpreter of other packages")
    parser.add_argument("--limit", type=int, default=120, help="CPU seconds of one process")
    parser.add_argument("--steps", type=int, default=100, help="suggestions of ours")
    parser.add_argument("--most", type=int, default=20_000, help="largest history")
    parser.add_argument("--cases", help=f"of {'; '.join(CASES)}; separated by semicolons")
    parser.add_argument("--out", type=Path, help="JSONL file of the cells; it is continued")
    parser.add_argument("--table", type=Path, help="write the tables to this file")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child)
        return
    from suggest import data_folder

    if args.out is None:
        parser.error("--out is needed: the cells are kept there")
    args.data = str(data_folder(args.data))
    cells = measured(args)
    text = "\n".join(table(cells)) + "\n"
    print(text)
    if args.table is not None:
        args.table.write_text(text)


if __name__ == "__main__":
    main()
