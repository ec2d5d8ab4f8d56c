"""Compare tuners on real compilers with deterministic values, and print the table.

    OMP_NUM_THREADS=1 python benchmarks/compilers/run.py --methods auto,evolution --seeds 3 --evaluations 60

The command installs missing compilers and tools by apt, and the packages of the peers into separate environments in
--folder; a peer that cannot be installed is skipped. It estimates the CPU hours, refuses more than --most-hours, makes
the missing runs in --jobs processes, and prints the tables. All results are kept in --folder: a second call continues,
and a repeated one needs no compiler. Every method measures the level alone first; one evaluation is one build. The
judged half of the programs is for the final table only.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import contextlib
import gzip
import importlib.util
import io
import json
import math
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "quality"))

import compiler_suite as suite
import numpy as np
import table
from peers.measure import Measure, Spent
from peers.valued import ValuedProblem
from portfolio import write_portfolio

from baco_like.strategies.registry import STRATEGIES

APT = {"gcc": "gcc libc6-dev", "clang": "clang", "opt": "llvm clang", "valgrind": "valgrind"}
APT.update(dict.fromkeys(("llvm-objdump", "llvm-mca"), "llvm"))

PORTFOLIO = Path(__file__).parents[2] / "examples" / "passes_portfolio.csv"

NOT_OURS = ("ehvi", "parego", "nsga2", "exhaustive", "successive_halving")
"""Own strategies for several objectives, for fidelities, or for small spaces."""


@dataclass(frozen=True)
class Method:
    """A tuner.

    Attributes:
        module: Module with its function.
        function: Called with a `Measure`, a seed and the settings.
        settings: Keyword arguments.
        needs: What pip installs if the package is missing; its first word is also the name of the module.
        milliseconds: CPU of a suggestion, for the estimate.
        has_sequences: Whether it gets a sequence of passes as one parameter, else as one for each place.
    """

    module: str
    function: str = "run"
    settings: Mapping[str, Any] = field(default_factory=dict)
    needs: Sequence[str] = ()
    milliseconds: float = 5.0
    has_sequences: bool = False


METHODS: dict[str, Method] = {
    **{
        x: Method("peers.ours", "run", {"strategy": x}, (), 100, has_sequences=True)
        for x in STRATEGIES
        if x not in NOT_OURS
    },
    "auto with portfolio": Method(
        "peers.ours", "run", {"strategy": "auto", "ideas": str(PORTFOLIO)}, (), 100, True
    ),
    **{x: Method("searches", x) for x in ("random", "evolution", "genetic", "iterated")},
    "climber": Method("searches", "climber", has_sequences=True),
    "random sequences": Method("searches", "random_sequences", has_sequences=True),
    "forest as in BOCA": Method("searches", "forest", milliseconds=300),
    "Optuna TPE": Method("peers.optuna", "run", {"sampler": "TPESampler"}, ["optuna"], 150),
    "Optuna GP": Method("peers.optuna", "run", {"sampler": "GPSampler"}, ["optuna"], 3000),
    **{
        f"Nevergrad {x}": Method("packages", "nevergrad", {"optimizer": x}, ["nevergrad"], 50)
        for x in ("DiscreteOnePlusOne", "PortfolioDiscreteOnePlusOne", "NGOpt")
    },
    "OpenTuner": Method("packages", "opentuner", {}, ["opentuner", "sqlalchemy<2"], 50),
    "SMAC3": Method("peers.smac", "run", {}, ["smac"], 3000),
}

KEYS = ("space", "objective", "program", "method")
Unit = dict[str, Any]
"""Runs of one method on one problem: ``space``, ``objective``, ``program``, ``method``, ``seeds``, ``evaluations``."""


def run_one(own: suite.Suite, unit: Unit, seed: int) -> dict[str, Any]:
    """Do one run and return its row."""
    problem = own.problem(unit["space"], unit["objective"], unit["program"])
    measuring = 0.0
    first: dict[str, Any] = {}
    winner: dict[str, Any] = {}

    def clock() -> float:
        return time.process_time() - measuring

    def evaluate(config: Mapping[str, Any]) -> float:
        nonlocal measuring
        began = time.process_time()
        first.update(() if problem.results else config)
        value = problem.measure(config)
        if value is not None and not any((r.value or math.inf) < value for r in problem.results):
            winner.update(config)
        measuring += time.process_time() - began
        return math.nan if value is None else value

    method = METHODS[unit["method"]]
    space = problem.space if method.has_sequences else problem.places
    parts = ("", "compilers", space, range(10**9), np.empty(0))
    valued = ValuedProblem(*parts, evaluate=evaluate, optimum=math.nan)
    function: Callable[..., None] = getattr(import_module(method.module), method.function)
    measure = Measure(valued, unit["evaluations"], clock)
    measure.program = lambda number: problem.results[number].program
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.suppress(Spent),
    ):
        warnings.simplefilter("ignore")
        function(measure, seed, **method.settings)
    found = measure.row()
    results = problem.results
    if problem.words(first) != problem.words(problem.default) or results[0].value is None:
        raise RuntimeError(
            f"{unit['method']} did not measure the default first, or it fails: {results[:1]}"
        )
    level = problem.reference
    passes = {} if level is None else {"level": level, "winner": problem.words(winner)}
    numbers: dict[str | None, int] = {}
    programs = [numbers.setdefault(r.program, len(numbers)) for r in results]
    return {
        **{key: unit[key] for key in (*KEYS, "evaluations")},
        **passes,
        "seed": seed,
        "values": found["values"],
        "programs": programs,
        "cpu": found["cpu_total"],
        "asked": len(results) + measure.repeated + measure.excluded,
        "build_seconds": round(sum(r.seconds for r in results), 2),
        "has_ended": len(results) < unit["evaluations"],
    }


def work(folder: Path, unit: Unit) -> None:
    """Do the runs of a unit and append their rows; each row is one write, which no other process divides."""
    own = suite.Suite(suite.Store(folder / "store.sqlite"))
    for seed in unit["seeds"]:
        line = json.dumps(run_one(own, unit, seed)) + "\n"
        with (folder / "rows.jsonl").open("a") as file:
            file.write(line)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file, also a compressed one; of several of one problem, method and seed the longest."""
    longest: dict[Any, dict[str, Any]] = {}
    content = path.read_bytes() if path.exists() else b""
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    for line in text.decode().splitlines():
        with contextlib.suppress(json.JSONDecodeError):  # the end of a run that was stopped
            row = json.loads(line)
            key = (*(row[k] for k in KEYS), row["seed"])
            if key not in longest or row["evaluations"] > longest[key]["evaluations"]:
                longest[key] = row
    return list(longest.values())


def missing_units(args: argparse.Namespace, rows: Sequence[Mapping[str, Any]]) -> list[Unit]:
    """Return the runs that are still to do."""
    have = {(*(row[k] for k in KEYS), row["seed"]): row["evaluations"] for row in rows}
    found = []
    for own in product(args.spaces, args.objectives, args.programs, args.methods):
        seeds = range(args.first_seed, args.first_seed + args.seeds)
        left = [seed for seed in seeds if have.get((*own, seed), 0) < args.evaluations]
        if left:
            found.append(make_unit(own, left, args.evaluations))
    return found


def make_unit(own: Sequence[str], seeds: Sequence[int], evaluations: int) -> Unit:
    """Return a unit from the values of `KEYS`, the seeds and the number of evaluations."""
    return {**dict(zip(KEYS, own, strict=True)), "seeds": seeds, "evaluations": evaluations}


def estimate_hours(own: suite.Suite, units: Sequence[Unit]) -> float:
    """Return the CPU hours of some units if every build is new, from one build of each problem's level."""

    @cache
    def seconds(*own_problem: str) -> float:
        problem = own.problem(*own_problem)
        if problem.measure(problem.default) is None:
            raise SystemExit(f"{own_problem}: the level alone fails: {problem.results[0].failed}")
        return problem.results[0].seconds

    total = 0.0
    for unit in units:
        build = seconds(*(unit[key] for key in KEYS[:3]))
        each = build + METHODS[unit["method"]].milliseconds / 1e3
        total += each * unit["evaluations"] * len(unit["seeds"])
    return total / 3600


def install_tools(spaces: Sequence[str], objectives: Sequence[str]) -> None:
    """Install missing compilers and tools by apt; without success the store must have all results."""
    used = {space.split("-")[0].replace("passes", "opt") for space in spaces}
    tools = {"gcc"} | used - {"nest"}
    tools |= {tool for objective in objectives for tool in suite.OBJECTIVES[objective]}
    missing = sorted(
        {p for t in tools if not shutil.which(suite.find_tool(t)) for p in APT[t].split()}
    )
    if missing:
        command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing]
        print(f"installing {' '.join(missing)}", file=sys.stderr)
        with contextlib.suppress(OSError):
            subprocess.run(["apt-get", "update", "-qq"], check=False, stdout=sys.stderr)
            subprocess.run(command, check=False, stdout=sys.stderr)


def find_python(method: Method, folder: Path) -> str | None:
    """Return the interpreter for a method; a missing package is installed into a separate environment, once."""
    if not method.needs or importlib.util.find_spec(method.needs[0]):
        return sys.executable
    place = folder / "peers" / method.needs[0]
    python, note = place / "bin" / "python", place / "failed"
    if note.exists():
        return None
    if not (place / "ready").exists():
        print(f"installing {method.needs[0]} into {place}", file=sys.stderr)
        venv.create(place, with_pip=True, clear=True)
        here = Path(sysconfig.get_path("purelib"))  # its packages are used too
        inner = place / "lib" / here.parent.name / "site-packages"
        (inner / "parent.pth").write_text(f"{here}\n")
        options = ("--disable-pip-version-check", "install", "-q")
        command = [python, "-m", "pip", *options, *method.needs]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        (place / "ready" if done.returncode == 0 else note).write_text(done.stderr)
    return str(python) if (place / "ready").exists() else None


def run_units(units: Sequence[Unit], args: argparse.Namespace) -> None:
    """Do units in parallel processes, each with the interpreter of its method."""
    pythons = {method: find_python(METHODS[method], args.folder) for method in args.methods}
    for method in [m for m, python in pythons.items() if python is None]:
        reason = args.folder / "peers" / METHODS[method].needs[0] / "failed"
        print(f"{method} is skipped: {reason} says why", file=sys.stderr)
    chosen = [unit for unit in units if pythons[unit["method"]]]
    environment = {**os.environ, "PYTHONPATH": str(suite.HERE.parents[1])}

    def do(unit: Unit) -> str:
        options = ["--folder", args.folder, "--unit", json.dumps(unit)]
        command = [pythons[unit["method"]], __file__, *options]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        said = done.stderr.strip().splitlines()
        return "" if done.returncode == 0 else f": failed: {said[-1] if said else done.returncode}"

    with ThreadPoolExecutor(args.jobs) as pool:
        for i, (unit, end) in enumerate(zip(chosen, pool.map(do, chosen), strict=True), 1):
            where = f"{i}/{len(chosen)} {unit['method']} on {unit['program']}"
            print(f"{where}{end}", file=sys.stderr, flush=True)


RECORDED_UNITS: Sequence[Unit] = [
    make_unit((*problem, method), [0, 1], n)
    for *problem, n in (
        ("gcc-Os", "size", "sorts", 40),
        ("gcc-Os", "size", "lz", 40),
        ("gcc-Os", "size", "hashes", 40),
        ("gcc-O2-30", "instructions", "ray", 10),
        ("nest-O3", "instructions", "gemm", 10),
        ("nest-O3", "cycles", "gemm", 10),
    )
    for method in ("random", "evolution", "genetic", "iterated")
]
"""The runs of the recorded part, by methods that change with no package."""


def record(folder: Path) -> None:
    """Do the runs of the recorded part, and write it with the results that they needed."""
    own = suite.Suite(suite.Store(folder / "store.sqlite", recorded=None))
    rows = [run_one(own, unit, seed) for unit in RECORDED_UNITS for seed in unit["seeds"]]
    exec(compile(read_example(), "README.md", "exec"), {"own": own})
    kept = {**own.store.used, "rows": [{**row, "cpu": 0.0} for row in rows]}
    suite.RECORDED.write_bytes(gzip.compress(json.dumps(kept, sort_keys=True).encode(), mtime=0))


def read_example() -> str:
    """Return the example of ask and tell in ``README.md``, with the suite ``own``."""
    text = (suite.HERE / "README.md").read_text().split("```python\n")[1].split("```")[0]
    return text.replace("Suite()", "own")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--spaces", default="gcc-Os", help="such as gcc-Os,gcc-O3-30,clang-O2,opt-Os,nest-O3"
    )
    parser.add_argument("--objectives", default="size", help=f"of {', '.join(suite.OBJECTIVES)}")
    parser.add_argument(
        "--methods", default="auto,random,evolution", help=f"of {', '.join(METHODS)}"
    )
    parser.add_argument("--half", choices=("development", "judged"), default="development")
    parser.add_argument("--programs", help="names; all of the half where they are not given")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--evaluations", type=int, default=200, help="builds of one run")
    parser.add_argument(
        "--budgets", help="evaluations that the table shows; 60 and 200 where they are not given"
    )
    parser.add_argument(
        "--reference", default="auto", help="the method that the others are compared with"
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=suite.FOLDER)
    parser.add_argument("--estimate", action="store_true", help="print the CPU hours and stop")
    parser.add_argument("--most-hours", type=float, default=40.0)
    parser.add_argument(
        "--rows",
        type=Path,
        help="print the tables of a file of rows, such as results/passes.jsonl.gz, and measure nothing",
    )
    parser.add_argument("--table", type=Path, help="Markdown file to write as well")
    parser.add_argument(
        "--portfolio", type=Path, help="file for the winners of runs on passes, as ideas for others"
    )
    parser.add_argument(
        "--record", action="store_true", help="write the recorded part, for the tests"
    )
    parser.add_argument("--unit", type=json.loads, help=argparse.SUPPRESS)
    args = parser.parse_args()
    for name in ("spaces", "objectives", "methods"):
        setattr(args, name, getattr(args, name).split(","))
    half = [p.name for p in suite.read_programs().values() if p.half == args.half]
    args.programs = args.programs.split(",") if args.programs else half
    if all(space.startswith("nest") for space in args.spaces):
        args.programs = [name for name in args.programs if suite.read_programs()[name].macros]
    for kind, names, known in (("method", args.methods, METHODS), ("program", args.programs, half)):
        for name in names:
            if name not in known:
                parser.error(f"{kind} {name!r} is unknown; there are {', '.join(known)}")
    return args


def main() -> None:
    args = arguments()
    if args.unit:
        work(args.folder, args.unit)
        return
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.record:
        record(args.folder)
        return
    file = args.rows or args.folder / "rows.jsonl"
    if units := [] if args.rows else missing_units(args, read_rows(file)):
        install_tools(args.spaces, args.objectives)
        hours = estimate_hours(suite.Suite(suite.Store(args.folder / "store.sqlite")), units)
        print(
            f"{sum(len(u['seeds']) for u in units)} runs are missing: at most {hours:.2f} CPU hours",
            file=sys.stderr,
        )
        if args.estimate:
            return
        if hours > args.most_hours:
            raise SystemExit(f"that is more than --most-hours {args.most_hours:g}")
        run_units(units, args)
    keys = ("spaces", "objectives", "programs", "methods")
    rows = [
        row
        for row in read_rows(file)
        if args.rows or all(row[key[:-1]] in getattr(args, key) for key in keys)
    ]
    budgets = [int(n) for n in args.budgets.split(",")] if args.budgets else [60, 200]
    text = table.report(
        rows, [n for n in budgets if n <= args.evaluations] or [args.evaluations], args.reference
    )
    print(text)
    if args.portfolio:
        own = suite.Suite(suite.Store(args.folder / "store.sqlite"))
        write_portfolio(
            own, [row for row in rows if row["space"].startswith("passes")], args.portfolio
        )
    if args.table:
        args.table.write_text(text + "\n")


if __name__ == "__main__":
    main()
