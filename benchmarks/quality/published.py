"""Repeat tables and figures of three papers from recorded public data, with the published values beside ours.

    OMP_NUM_THREADS=1 python benchmarks/quality/published.py --papers 2021 --survey CLONE --out rows.jsonl
    OMP_NUM_THREADS=1 python benchmarks/quality/published.py --papers 2022 --survey CLONE
    OMP_NUM_THREADS=1 python benchmarks/quality/published.py --papers 2025 --data DIR --out rows.jsonl

CLONE is a clone of github.com/schoonhovenrichard/GPU_benchmarking_paper: the 26 spaces of the survey of 2022, of which
nine are those of 2021. DIR is the folder of `papers.py`. ``--out`` keeps every finished run and continues an earlier
call; ``--seeds 0`` makes no runs, and repeats the tables of the spaces only. CPU time: 2021 two minutes a seed, 2022
one minute, 2025 half a minute a seed.
"""

import argparse
import csv
import hashlib
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import papers
import runs
from claims.bayesian import BAYESIAN, RIVALS, errors_of, improvement
from claims.constraints import AWARE, TABLE_IV, UNAWARE, gain
from claims.evidence import Entry, Evidence
from scipy.sparse import csr_array

from baco_like import Ordinal
from baco_like.benchmarking.landscape import DAMPING, SHARES, FlowGraph, flow_graph
from baco_like.benchmarking.problems.recorded import RecordedProblem, RecordedSource, find_recorded
from baco_like.benchmarking.studies.runs import RunJob
from baco_like.benchmarking.studies.statistics import FEWEST
from baco_like.benchmarking.studies.store import RunStore, run_missing
from baco_like.records import Outcome
from baco_like.results.recording import Recording
from baco_like.spaces import Space

KERNELS: Mapping[str, tuple[float, float, float]] = {
    "convolution": (18432, 89, 12656),
    "GEMM": (82944, 64, 64988),
    "pnpoly": (8184, 220, 335),
}
"""Points, local minima and failures of a space, means over the GPUs (2022, Table II)."""

GPUS = (
    *("A100", "GTX_1080Ti", "GTX_Titan_X", "K20", "P100", "RTX_2070_SUPER", "TITAN_RTX", "V100"),
    "MI50",
)

TABLES_2021: Mapping[tuple[str, str], tuple[int, int, float]] = {
    ("GTX_Titan_X", "GEMM"): (17956, 0, 28.307),
    ("GTX_Titan_X", "convolution"): (9400, 3624, 1.625),
    ("GTX_Titan_X", "pnpoly"): (8184, 323, 26.968),
    ("RTX_2070_SUPER", "GEMM"): (17956, 0, 17.112),
    ("RTX_2070_SUPER", "convolution"): (7520, 1744, 1.221),
    ("RTX_2070_SUPER", "pnpoly"): (8184, 288, 12.325),
    ("A100", "GEMM"): (17956, 0, 8.518),
    ("A100", "convolution"): (7520, 1744, 0.739),
    ("A100", "pnpoly"): (8184, 317, 13.091),
}
"""Configurations, invalid ones, and the minimum in milliseconds (2021, Table II on page 6 and Table III on page 7)."""

BETTER_2021 = {"GTX_Titan_X": 65.6, "RTX_2070_SUPER": 63.6, "A100": 19.8}
"""By how many per cent advanced multi is better than the genetic algorithm (2021, section IV-F on page 9).

The one of the A100 has two more kernels, which are not in the data.
"""

TABLE_III_2025: Mapping[str, tuple[int, int, int, float]] = {
    "dedispersion_milo": (22272, 11130, 8, 49.973),
    "convolution_milo": (10240, 4362, 10, 42.598),
    "hotspot_milo": (22200000, 349853, 11, 1.576),
    "gemm_milo": (663552, 116928, 17, 17.622),
}
"""Combinations, feasible configurations, parameters, and density in per cent (2025, Table III)."""


def beside(published: float, ours: float, form: str = "g") -> list[str]:
    """Return the cells of a published value, ours, and the difference."""
    return [f"{published:{form}}", f"{ours:{form}}", f"{ours - published:+{form}}"]


def with_interval(published: float, ours: Sequence[float], form: str, seeds: int) -> list[str]:
    """Return the cells of a published value, ours, and the difference; ours has an interval from ten seeds on."""
    value, low, high = ours
    own = f"{value:{form}}" + (f" ({low:{form}} to {high:{form}})" if seeds >= FEWEST else "")
    return [f"{published:{form}}", own, f"{value - published:+{form}}"]


HEAD = ["published", "ours", "difference"]


# The spaces of the survey ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Surveyed:
    """A space of the survey: all combinations of the values; the recorded ones have a mean time.

    Attributes:
        name: Name of the authors' files.
        domains: Values by parameter.
        times: Mean milliseconds by combination; all others fail.
    """

    name: str
    domains: Mapping[str, tuple[Any, ...]]
    times: Mapping[tuple[Any, ...], float]

    def recording(
        self, is_feasible: Callable[[Mapping[str, Any]], bool] | None = None
    ) -> Recording:
        """Return the results of all combinations, or of the feasible ones."""
        names = tuple(self.domains)
        rows = tuple(
            row
            for row in product(*self.domains.values())
            if is_feasible is None or is_feasible(dict(zip(names, row, strict=True)))
        )
        found = [self.times.get(row) for row in rows]
        outcomes = tuple(
            Outcome.failure(i, "runtime") if each is None else Outcome.success(i, (each,))
            for i, each in enumerate(found)
        )
        return Recording(names, rows, outcomes, unit="ms", domains=self.domains)


def read_surveyed(clone: Path, kernel: str, gpu: str) -> Surveyed:
    """Return a space: the mean of the 32 measurements, which the authors keep in a file each."""
    own = f"{kernel}_{gpu}"
    if gpu == "MI50":  # its convolution has no file for each measurement
        own = "MI50_GEMM" if kernel == "GEMM" else "MI50_convolution_15x15"
    single = clone / "processed_cache_files" / f"{own}_processed.json"
    folder = clone / "irace_tune" / "stochastic_cache_files"
    is_single = own == "MI50_convolution_15x15"
    paths = [single] if is_single else sorted(folder.glob(f"{own}_processed_run*.json"))
    if not paths:
        raise SystemExit(f"{folder} has no {own}: give --survey CLONE, see --help")
    tables = [json.loads(path.read_text()) for path in paths]
    times = {
        tuple(map(int, key.split(","))): float(np.mean([t["cache"][key]["time"] for t in tables]))
        for key in tables[0]["cache"]
    }
    domains = {
        name: tuple(tables[0]["tune_params"][name]) for name in tables[0]["tune_params_keys"]
    }
    return Surveyed(own, domains, {row: ms for row, ms in times.items() if ms < 1e10})


# 2022: Table II and Figure 7 ------------------------------------------------------------------------------------------


def repeat_2022(args: argparse.Namespace) -> str:
    """Repeat the statistics of the spaces, and the proportion of centrality."""
    counts: dict[str, list[tuple[float, ...]]] = {kernel: [] for kernel in KERNELS}
    lines = []
    for kernel, gpu in product(KERNELS, GPUS):
        if (kernel, gpu) == ("pnpoly", "MI50"):
            continue
        space = read_surveyed(args.survey, kernel, gpu)
        graph = flow_graph(space.recording(), ties="linked")
        if gpu != "MI50" or kernel == "GEMM":  # as in the table
            counts[kernel].append((len(graph.costs), len(graph.minima), int((~graph.ran).sum())))
        published, own = _read_curve(args.survey, space.name), graph.centrality_curve()
        as_theirs = replace(graph)
        as_theirs.__dict__["centrality"] = early_pagerank(graph)
        early = as_theirs.centrality_curve()
        at = SHARES.index(0.10)
        cells = [f"{abs(early - published).max():.1e}", f"{own[at]:.3f}"]
        cells.append(f"{abs(own - published).max():.3f}")
        lines.append([kernel, gpu, *beside(published[at], early[at], ".3f"), *cells])
    rows = [
        [kernel, name, *beside(published, float(np.mean(values)), ".0f")]
        for kernel, table in counts.items()
        for name, published, values in zip(
            ("points", "local minima", "failures"),
            KERNELS[kernel],
            zip(*table, strict=True),
            strict=True,
        )
    ]
    head = ["kernel", "GPU", *(f"{each}, p = 10 %" for each in HEAD), "largest difference, all p"]
    head += ["converged, p = 10 %", "largest difference of converged"]
    return "\n\n".join(
        [
            "## 2022, Figure 7: the proportion of centrality",
            FIGURE_7,
            runs.table(head, lines),
            "## 2022, Table II: the spaces, means over the GPUs",
            runs.table(["kernel", "", *HEAD], rows),
        ]
    )


FIGURE_7 = """\
The published values are those of the authors' files. "Ours" ends PageRank's iteration as the authors' program does, by
networkx's default: when the ranks of all n nodes change by less than n / 1,000,000 in sum. "Converged" has a change of
1e-14. For GEMM the default ends after one or two steps, and the published curves are far from the converged ones."""


def _read_curve(clone: Path, name: str) -> np.ndarray:
    folder = clone / "FFG_data" / "bounded_pagerank_centrality"
    with (folder / f"propFFG_centrality_pagerank_bounded_{name}_processed.csv").open() as file:
        return np.array([float(row["proportion_centr"]) for row in csv.DictReader(file)])


def early_pagerank(graph: FlowGraph) -> np.ndarray:
    """Return the PageRank of every node by networkx's rule of termination."""
    n, out = len(graph.costs), np.diff(graph.flow.indptr)
    share = np.divide(1.0, out, out=np.zeros(n), where=out > 0)
    into, ranks, change = csr_array(graph.flow.T), np.full(n, 1 / n), math.inf
    while change >= n * 1e-6:
        dangling = ranks[out == 0].sum() / n
        following = DAMPING * (into @ (share * ranks) + dangling) + (1 - DAMPING) / n
        ranks, change = following, np.abs(following - ranks).sum()
    return ranks


# 2021: Tables II and III, and the improvement by advanced multi -------------------------------------------------------


def is_allowed_2021(kernel: str, gpu: str, config: Mapping[str, Any]) -> bool:
    """Return whether the restrictions of a kernel allow a configuration; the Titan X had no limit of threads."""
    if kernel == "convolution":
        threads = config["block_size_x"] * config["block_size_y"]
        most = math.inf if gpu == "GTX_Titan_X" else 1024
        return 64 <= threads <= most and config["tile_size_x"] * config["tile_size_y"] < 30
    return True


def read_2021(clone: Path, gpu: str, kernel: str) -> RecordedProblem:
    space = read_surveyed(clone, kernel, gpu)
    if kernel == "GEMM":  # its restrictions leave the recorded configurations
        names = tuple(space.domains)
        recorded = space.recording(lambda c: tuple(c[name] for name in names) in space.times)
    else:
        recorded = space.recording(lambda c: is_allowed_2021(kernel, gpu, c))
    digest = hashlib.sha256(repr(recorded.entries).encode()).hexdigest()
    source = RecordedSource(f"{gpu}/{kernel}", clone, "minimize", digest)
    return RecordedProblem(source, Space.from_dataframe(recorded.configs), recorded)


def repeat_2021(args: argparse.Namespace) -> str:
    """Repeat the tables of the spaces, and the comparison with the genetic algorithm."""
    problems = {key: read_2021(args.survey, *key) for key in TABLES_2021}
    lines = []
    for key, published in TABLES_2021.items():
        costs = problems[key].costs[:-1]
        own = len(costs), int(np.isnan(costs).sum()), float(np.nanmin(costs))
        names = ("configurations", "invalid", "minimum, ms")
        for name, theirs, each in zip(names, published, own, strict=True):
            lines.append([*key, name, *beside(theirs, each, ".3f" if "ms" in name else ".0f")])
    spaces = [
        "## 2021, Tables II and III: the spaces",
        runs.table(["GPU", "kernel", "", *HEAD], lines),
    ]
    if not args.seeds:
        return "\n\n".join(spaces)
    entries = [BAYESIAN["advanced multi"], *RIVALS]
    found = run_entries(entries, list(problems.values()), args)
    rows = []
    for gpu, published in BETTER_2021.items():
        own = {p.name: p for (where, _), p in problems.items() if where == gpu}
        evidence = Evidence(own, found, {})
        errors = [[errors_of(evidence, one, name) for name in own] for one in entries]
        value = improvement(entries, errors, "advanced multi", "GA", 1000)
        rows.append([gpu, *with_interval(published, value, ".1f", args.seeds)])
    evidence = Evidence({p.name: p for p in problems.values()}, found, {})
    errors = [[errors_of(evidence, one, name) for name in evidence.spaces] for one in entries]
    for other, published in (("GA", 49.7), ("simulated annealing", 75.0)):
        value = improvement(entries, errors, "advanced multi", other, 1000)
        rows.append([f"all, against {other}", *with_interval(published, value, ".1f", args.seeds)])
    return "\n\n".join(
        [
            *spaces,
            "## 2021, section IV-F: improvement of the mean deviation factor by advanced multi over GA, %",
            f"{args.seeds} seeds; 95 % bootstrap intervals over the runs. {DEVIATIONS}",
            runs.table(["", *HEAD], rows),
        ]
    )


DEVIATIONS = """\
A factor is the mean absolute error at 40, 60, ..., 220 evaluations, divided by the mean of all methods here: the paper
has EI and multi among them, too, and two more kernels on the A100."""


def run_entries(entries: Sequence[Entry], problems: Sequence[RecordedProblem], args: Any) -> Any:
    """Return the runs of all entries on all problems; those of an earlier call are read."""
    jobs = [
        RunJob(problem, entry.contender, seed, entry.budget(problem))
        for seed in range(args.seeds)
        for problem in problems
        for entry in entries
    ]
    store = RunStore.open(args.out, papers.specification(jobs))
    return run_missing(jobs, store, 1, sys.stderr)


# 2025: Table III, and the gain by constraint-awareness ----------------------------------------------------------------


def read_space_2025(data: Path, name: str) -> Space:
    """Return a space of a T1 file. The one of hotspot lacks a parameter and its constraint."""
    space = Space.from_t1(data / "spaces" / f"{name}.json")
    if name != "hotspot_milo":
        return space
    constraints = [constraint.text for constraint in space.constraints]
    (shared,) = (text.partition("<=")[0] for text in constraints if "sh_power" in text)
    constraints.append(f"blocks_per_sm == 0 or ({shared}) * blocks_per_sm <= 102400")
    return Space({**space.parameters, "blocks_per_sm": Ordinal([0, 1, 2, 3, 4])}, constraints)


def repeat_2025(args: argparse.Namespace) -> str:
    """Repeat the table of the spaces, and the gains in score on the recorded ones."""
    lines = []
    for name, published in TABLE_III_2025.items():
        space = read_space_2025(args.data, name)
        own = space.size, space.feasible_size, len(space.parameters)
        own = *own, 100 * space.feasible_size / space.size
        names = ("combinations", "feasible", "parameters", "density, %")
        for what, theirs, each in zip(names, published, own, strict=True):
            lines.append([name, what, *beside(theirs, each, ".3f" if "%" in what else ".0f")])
    spaces = ["## 2025, Table III: the spaces", runs.table(["kernel", "", *HEAD], lines)]
    if not args.seeds:
        return "\n\n".join(spaces)
    problems, _ = find_recorded(args.data / "recorded", "minimize")
    problems = [p for p in problems if "_milo/" in p.name]
    found = run_entries([*AWARE.values(), *UNAWARE.values()], problems, args)
    evidence = Evidence({p.name: p for p in problems}, found, {})
    rows = []
    for name, (_, _, published) in TABLE_IV.items():
        sides = [list(evidence.curves(each[name]).values()) for each in (AWARE, UNAWARE)]
        found_gain = gain(evidence, *sides)
        rows.append([name, *with_interval(published, found_gain, ".3f", args.seeds)])
    return "\n\n".join(
        [
            *spaces,
            "## 2025, section V-B: gain in score by constraint-awareness",
            f"{args.seeds} seeds; 95 % bootstrap intervals over the runs. DIR has 5 of the paper's 24 spaces.",
            runs.table(["", *HEAD], rows),
        ]
    )


PAPERS = {"2021": repeat_2021, "2022": repeat_2022, "2025": repeat_2025}


def main() -> None:
    parser = runs.arguments(__doc__, processes=1, papers=PAPERS)
    parser.add_argument("--survey", type=Path, help="a clone of the survey's repository")
    args = parser.parse_args()
    started = time.process_time()
    parts = [PAPERS[name](args) for name in args.papers]
    seconds = f"CPU time: {time.process_time() - started:.0f} s, without the runs of earlier calls."
    runs.publish(
        "\n\n".join(["# Published values repeated", runs.provenance(), seconds, *parts]), args.table
    )


if __name__ == "__main__":
    main()
