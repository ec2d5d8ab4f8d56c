"""Measure CPU seconds and peak memory of building and using constrained spaces, beside other packages.

    python benchmarks/speed/spaces.py --data DIR [--spaces hotspot22,gemm] [--packages ours,pyatf]
    python benchmarks/speed/spaces.py rejection --data DIR

Each space and package has a new process. Only operations that the package offers are timed. Packages that are not
installed are left out. The columns are: the build until the exact number of feasible configurations is known (CPU
seconds, and the increase of peak memory); 10,000 uniform samples and 10,000 membership checks (as configurations, and
for ours also as codes); the Hamming and strictly adjacent neighbours of 1,000 samples.

`rejection` reruns the paper's claims for chains of trees against rejection: draws from all combinations until the
constraints are satisfied (see chain_of_trees.py). It also compares the biased walk with uniform draws.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from baco_like.spaces.neighbourhoods import hamming, strictly_adjacent
from baco_like.spaces.space import Space

Given = tuple[dict[str, list[Any]], list[str]]
"""Lists of values and constraints in Python syntax, as every package takes them."""

SAMPLES, NEIGHBOURS = 10_000, 1_000
SECONDS = 60.0
"""Wall time after which a package is stopped."""

MEMORY = 4 * 2**30
"""Bytes of address space that a process may take."""


# Spaces.


def data_folder(given: str | None) -> Path | None:
    folder = Path(given or os.environ.get("BACO_LIKE_DATA", "../shared/data"))
    return folder if (folder / "spaces").is_dir() else None


def plain(space: Space) -> Given:
    values = {name: list(getattr(p, "values", ())) for name, p in space.parameters.items()}
    return values, [constraint.text for constraint in space.constraints]


def hub(folder: Path, name: str) -> Given:
    return plain(Space.from_t1(folder / "spaces" / f"{name}.json"))


def hotspot22(folder: Path) -> Given:
    """Return hotspot with the parameter and the constraint that its file lacks, so that it is the papers' space."""
    values, constraints = hub(folder, "hotspot_milo")
    shared = max(constraints, key=len).split("<=")[0]
    values["blocks_per_sm"] = [0, 1, 2, 3, 4]
    return values, [*constraints, f"blocks_per_sm == 0 or ({shared}) * blocks_per_sm <= 102400"]


def scenario(folder: Path, name: str) -> Given:
    return plain(Space.from_baco(folder / "scenarios" / f"{name}.json"))


def sgemm(size: int) -> Given:
    """Return CLTune's tiled matrix multiplication for square matrices, on a device of 1024 work items a group."""
    tiles = ("MWG", "NWG", "KWG", "MDIMC", "NDIMC", "MDIMA", "NDIMB", "KWI")
    values: dict[str, list[Any]] = {name: list(range(1, size + 1)) for name in tiles}
    values |= {name: [1, 2, 4, 8] for name in ("VWM", "VWN")}
    values |= {name: [0, 1] for name in ("STRM", "STRN", "SA", "SB")}
    constraints = [f"{size} % {name} == 0" for name in ("MWG", "NWG", "KWG")]
    constraints += ["MDIMC * NDIMC <= 1024", "KWG % KWI == 0"]
    for tile, threads, loaders, vector in (
        ("MWG", "MDIMC", "MDIMA", "VWM"),
        ("NWG", "NDIMC", "NDIMB", "VWN"),
    ):
        constraints += [f"{tile} % {threads} == 0", f"{tile} % {loaders} == 0"]
        constraints += [f"(MDIMC * NDIMC) % {loaders} == 0"]
        constraints += [f"KWG % ((MDIMC * NDIMC) / {loaders}) == 0"]
        constraints += [f"({tile} / {each}) % {vector} == 0" for each in (threads, loaders)]
    constraints += ["((SA * KWG * MWG / VWM) + (SB * KWG * NWG / VWN)) * 8 <= 49152"]
    return values, constraints


def pairs(k: int) -> Given:
    """Return k independent groups of 10 configurations each."""
    values = {f"{x}{i}": [1, 2, 4, 8] for i in range(k) for x in "ab"}
    return values, [f"b{i} % a{i} == 0" for i in range(k)]


def chain(m: int) -> Given:
    """Return one deep group: m parameters of 10 values, each within 1 of the next."""
    near = [f"x{i + 1} - x{i} <= 1 and x{i} - x{i + 1} <= 1" for i in range(m - 1)]
    return {f"x{i}": list(range(10)) for i in range(m)}, near


FROM_FILES: dict[str, Callable[[Path], Given]] = {
    "hotspot22": hotspot22,
    "gemm": lambda folder: hub(folder, "gemm_milo"),
    "convolution": lambda folder: hub(folder, "convolution_milo"),
    "dedispersion": lambda folder: hub(folder, "dedispersion_milo"),
    "rs_cot_1024": lambda folder: scenario(folder, "rs_cot_1024_scenario"),
    "harris": lambda folder: scenario(folder, "harris"),
}
MADE: dict[str, Callable[[], Given]] = {
    "sgemm16": lambda: sgemm(16),
    "sgemm32": lambda: sgemm(32),
    "sgemm64": lambda: sgemm(64),
    "groups_1e9": lambda: pairs(9),
    "groups_1e15": lambda: pairs(15),
    "chain11": lambda: chain(11),
    "chain13": lambda: chain(13),
}


def given(name: str, folder: Path | None) -> Given:
    if name in MADE:
        return MADE[name]()
    if folder is None:
        raise SystemExit(f"{name} is read from a file; give --data DIR or set BACO_LIKE_DATA")
    return FROM_FILES[name](folder)


# Packages. Each builds and then yields its own operations, by column.

Operations = dict[str, Callable[[], Any]]


def ours(values: dict[str, list[Any]], constraints: list[str]) -> tuple[int, Operations]:
    space = Space(values, constraints)
    count = space.feasible_size
    assert isinstance(count, int)
    rng = np.random.default_rng(1)
    codes = space.feasible.sample(SAMPLES, rng)
    configs = space.decode(codes)
    some = codes[:NEIGHBOURS]
    return count, {
        "sample": lambda: space.sample(SAMPLES),
        "contains": lambda: space.feasible.contains(space.encode(configs)),
        "sample codes": lambda: space.feasible.sample(SAMPLES, rng),
        "contains codes": lambda: space.feasible.contains(codes),
        "hamming": lambda: hamming(space, some, rng),
        "strictly adjacent": lambda: strictly_adjacent(space, some, rng),
    }


def constraint2(values: dict[str, list[Any]], constraints: list[str]) -> tuple[int, Operations]:
    from constraint import OptimizedBacktrackingSolver, Problem

    problem = Problem(OptimizedBacktrackingSolver(forwardcheck=False))
    for name, some in values.items():
        problem.addVariable(name, some)
    for text in constraints:
        problem.addConstraint(text)
    rows, known, count = problem.getSolutionsAsListDict(order=list(values))
    return count, {
        "sample": lambda: random.choices(rows, k=SAMPLES),
        "contains": lambda: [row in known for row in rows[:SAMPLES]],
    }


def kernel_tuner(values: dict[str, list[Any]], constraints: list[str]) -> tuple[int, Operations]:
    from kernel_tuner.searchspace import Searchspace

    space = Searchspace(dict(values), list(constraints), 1 << 62, block_size_names=[])
    rows = space.get_random_sample(min(SAMPLES, space.size))
    some = rows[:20]  # compares all configurations for every query; scaled below
    return space.size, {
        "sample": lambda: space.get_random_sample(min(SAMPLES, space.size)),
        "contains": lambda: [space.is_param_config_valid(row) for row in rows],
        "hamming/50": lambda: [space.get_neighbors_no_cache(row, "Hamming") for row in some],
        "strictly adjacent/50": lambda: [
            space.get_neighbors_no_cache(row, "strictly-adjacent") for row in some
        ],
    }


def pyatf(values: dict[str, list[Any]], constraints: list[str]) -> tuple[int, Operations]:
    from pyatf import TP, Set
    from pyatf.search_space import SearchSpace

    sys.setrecursionlimit(10_000)
    space = SearchSpace(*_tuning_parameters(values, constraints, TP, Set), verbosity=0)
    d = len(values)
    return space.constrained_size, {
        "sample": lambda: [
            space.get_configuration(tuple(1.0 - random.random() for _ in range(d)))
            for _ in range(SAMPLES)
        ]
    }


def _tuning_parameters(
    values: dict[str, list[Any]], constraints: list[str], parameter: Any, domain: Any
) -> list[Any]:
    """Return pyATF's parameters: each constraint goes to the last parameter that it reads, as a compiled function.

    pyATF takes functions and no texts, so the texts (of this file and of the data folder) are evaluated here.
    """
    names = list(values)
    codes = [compile(text, "constraint", "eval") for text in constraints]
    reads = [[name for name in names if name in code.co_names] for code in codes]
    found = []
    for name, some in values.items():
        mine = [(code, read) for code, read in zip(codes, reads, strict=True) if read[-1] == name]
        used = sorted({one for _, read in mine for one in read} - {name})
        if not mine:
            found.append(parameter(name, domain(*some)))
            continue
        source = f"lambda {', '.join([name, *used])}: " + " and ".join(
            f"({text})" for text, read in zip(constraints, reads, strict=True) if read[-1] == name
        )
        found.append(parameter(name, domain(*some), eval(source)))
    return found


PACKAGES: dict[str, tuple[str, Callable[..., tuple[int, Operations]]]] = {
    "ours": ("baco_like", ours),
    "constraint2": ("constraint", constraint2),
    "kernel_tuner": ("kernel_tuner", kernel_tuner),
    "pyatf": ("pyatf", pyatf),
}


# One process.


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def one(name: str, package: str, folder: Path | None) -> None:
    """Print a JSON line after every operation, so that finished operations survive a stop."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    values, constraints = given(name, folder)
    module, build = PACKAGES[package]
    importlib.import_module(module)
    if package == "ours":
        Space({"x": [1, 2]}, ["x > 1"])  # imports
    gc.collect()
    before, started = peak_mb(), time.process_time()
    if package == "ours":
        size = Space(values, constraints).feasible_size
        elapsed, memory = time.process_time() - started, peak_mb() - before
        _, operations = build(values, constraints)
    else:
        size, operations = build(values, constraints)
        elapsed, memory = time.process_time() - started, peak_mb() - before
    found: dict[str, Any] = {"feasible": size, "build": elapsed, "MB": memory}
    print(json.dumps(found), flush=True)
    for column, run in operations.items():
        label, _, factor = column.partition("/")
        started = time.process_time()
        run()
        found[label] = (time.process_time() - started) * int(factor or 1)
        print(json.dumps(found), flush=True)


def in_a_process(name: str, package: str, arguments: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, __file__, "one", name, package]
    command += ["--data", arguments.data] if arguments.data else []
    single = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
    environment = {**os.environ, **single}
    limit = arguments.seconds
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, env=environment
        )
        short = (
            f"more than {MEMORY >> 30} GB" if "MemoryError" in done.stderr else done.stderr[-120:]
        )
        lines, note = done.stdout, "" if done.returncode == 0 else short.strip()
    except subprocess.TimeoutExpired as error:
        lines = (error.stdout or b"").decode() if isinstance(error.stdout, bytes) else ""
        note = f"stopped after {arguments.seconds:g} s"
    complete = [line for line in lines.splitlines() if line.endswith("}")]
    return (json.loads(complete[-1]) if complete else {}) | ({"note": note} if note else {})


COLUMNS = ("build", "MB", "sample", "contains", "hamming", "strictly adjacent")


def row(results: list[dict[str, Any]]) -> str:
    cells = [f"{results[0].get('feasible', '-'):>14}"]
    for column in COLUMNS:
        known = [result[column] for result in results if column in result]
        cells.append(f"{statistics.median(known):>10.4g}" if known else " " * 9 + "-")
    return " ".join(cells) + "  " + results[0].get("note", "").replace("\n", " ")


def compare(arguments: argparse.Namespace) -> None:
    folder = data_folder(arguments.data)
    names = arguments.spaces.split(",") if arguments.spaces else [*FROM_FILES, *MADE]
    installed = [p for p, (module, _) in PACKAGES.items() if importlib.util.find_spec(module)]
    packages = arguments.packages.split(",") if arguments.packages else installed
    print(
        f"{'space':13}{'package':13}{'feasible':>14} " + " ".join(f"{c[:10]:>10}" for c in COLUMNS)
    )
    for name in names:
        if name in FROM_FILES and folder is None:
            print(f"{name:13}left out: no --data")
            continue
        for package in packages:
            repeats = arguments.repeats if package == "ours" else 1
            results = [in_a_process(name, package, arguments) for _ in range(repeats)]
            print(f"{name:13}{package:13}{row(results)}", flush=True)


def conditions() -> str:
    """Return the date and the versions."""
    names = ("numpy", "python-constraint2", "kernel_tuner", "pyatf")
    versions = []
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions.append(f"{name} {importlib.metadata.version(name)}")
    load = os.getloadavg()[0]
    return (
        f"{time.strftime('%Y-%m-%d %H:%M')}, Python {platform.python_version()}, {', '.join(versions)}; "
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, load {load:.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("command", nargs="?", default="compare", choices=["compare", "one"])
    parser.add_argument("which", nargs="*", help="for `one`: the space and the package")
    parser.add_argument("--data", help="folder with the public spaces and scenarios")
    parser.add_argument("--spaces", help="comma-separated; default: all")
    parser.add_argument("--packages", help="comma-separated; default: all that are installed")
    parser.add_argument(
        "--repeats", type=int, default=3, help="processes of ours; the median is shown"
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="limit of wall time for a process"
    )
    arguments = parser.parse_args()
    if arguments.command != "one":
        print(conditions(), flush=True)
    if arguments.command == "one":
        one(*arguments.which, data_folder(arguments.data))
    else:
        compare(arguments)


if __name__ == "__main__":
    main()
