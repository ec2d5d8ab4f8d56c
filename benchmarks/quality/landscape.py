"""Measure how hard recorded spaces are, the time of this analysis, and the error of an estimate during tuning.

The spaces are our two recorded problems, and those in the folder ``recorded`` of --data or BACO_LIKE_DATA (from the
public repository AutoTuningAssociation/benchmark_hub), if it exists.

"Ties linked" is the rule of the program of the 2022 paper: neighbours of equal cost, such as failures, are linked both
ways. Compare these rows with the paper's figure 7; the text of the paper has the other rule.

Estimates are made after 50, 100, 200 and 400 evaluations of random search and of a genetic algorithm, whose
observations form clusters. The error is the mean over p = 0..15 % of |estimate - C_p|. The reference is the mean of the
other spaces, a prediction without any observation of the space.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path

import numpy as np
from runs import Row, arguments, completed, provenance, publish, select, table
from scipy.stats import spearmanr

from baco_like import MaxEvals, Optimizer, Space, run
from baco_like.benchmarking import landscape
from baco_like.evaluators import ReplayEvaluator
from baco_like.evaluators.replay import load
from baco_like.records.trial import Outcome
from baco_like.results.recording import Recording

OURS = Path(__file__).parents[1] / "recorded"
OBSERVED = (50, 100, 200, 400)
STRATEGIES = ("random_search", "genetic_algorithm")
SHOWN = (0, 1, 2, 5, 10, 15)
RANKED = (5, 10, 15)
REPEATS = 5
"""Of a timing, of which the least counts."""


def files(data: str | None) -> dict[str, Path]:
    """Return the tables by name."""
    paths = [OURS / f"{name}.json.gz" for name in ("loop_nest", "hidden")]
    if data is not None:
        paths += sorted(Path(data, "recorded").rglob("*.json*"))
    names = [p.name.split(".")[0].removesuffix("_T4") for p in paths]
    prefix = ["" if p.parent == OURS else p.parent.name + "/" for p in paths]
    return {a + b: p for a, b, p in zip(prefix, names, paths, strict=True)}


def space_of(recorded: Recording) -> Space:
    """Return the space of the table's configurations."""
    return Space.from_dataframe(dict(zip(recorded.names, k, strict=True)) for k in recorded.entries)


def estimates(path: str, strategy: str, seed: int) -> Row:
    """Return the estimates of one run after each number of evaluations, and the seconds of the last one."""
    recorded = load(path)
    optimizer = Optimizer(space_of(recorded), seed=seed, strategy=strategy)
    evaluator = ReplayEvaluator(recorded)
    curves = []
    for budget in OBSERVED:
        run(optimizer, evaluator, MaxEvals(budget))
        history = optimizer.history
        begin = time.perf_counter()
        curve = landscape.estimate_centrality_curve(history, np.random.default_rng(seed))
        took = time.perf_counter() - begin
        curves.append(curve.tolist())
    return {"path": path, "strategy": strategy, "seed": seed, "curves": curves, "seconds": took}


def least_seconds(work: object, *values: object) -> float:
    """Return the shortest time of several calls."""
    assert callable(work)
    took = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        work(*values)
        took.append(time.perf_counter() - begin)
    return min(took)


def full_figures(tables: dict[str, Recording]) -> str:
    """Return a table of C_p, minima and times of all spaces, both neighbourhoods and both rules of ties."""
    lines = []
    rules = (("adjacent", "unlinked"), ("adjacent", "linked"), ("hamming", "unlinked"))
    for (name, recorded), (near, ties) in product(tables.items(), rules):
        graph = landscape.flow_graph(recorded, near, ties=ties)
        curve = graph.centrality_curve()
        seconds = least_seconds(
            lambda r, n, t: landscape.flow_graph(r, n, ties=t).centrality_curve(),
            recorded,
            near,
            ties,
        )
        failed = f"{1 - graph.ran.mean():.0%}"
        line = [
            f"{name}, {near}{', ties linked' * (ties == 'linked')}",
            f"{len(graph.costs):,}",
            failed,
            f"{graph.flow.nnz:,}",
        ]
        line += [f"{len(graph.minima)}", f"{graph.naive_metric():.2f}"]
        lines.append([*line, *(f"{curve[p]:.3f}" for p in SHOWN), f"{1000 * seconds:.0f}"])
    head = ["space", "nodes", "fail", "edges", "minima", "naive metric"]
    return table([*head, *(f"C_p {p} %" for p in SHOWN), "ms"], lines)


def large_space(side: int, dimensions: int) -> Recording:
    """Return a made-up table with ``side ** dimensions`` configurations."""
    domain = tuple(range(side))
    costs = 1.0 + np.random.default_rng(0).random(side**dimensions)
    rows = product(domain, repeat=dimensions)
    outcomes = tuple(Outcome.success(i, (cost,)) for i, cost in enumerate(costs.tolist()))
    names = tuple("abcdefgh"[:dimensions])
    domains = dict.fromkeys(names, domain)
    return Recording(names, tuple(rows), outcomes, "time", "ms", domains=domains)


def scaling() -> str:
    """Return a table of times of made-up spaces."""
    lines = []
    for side, dimensions in ((10, 5), (10, 6), (8, 7)):
        recorded = large_space(side, dimensions)
        begin = time.perf_counter()
        graph = landscape.flow_graph(recorded)
        built = time.perf_counter()
        graph.centrality_curve()
        ended = time.perf_counter()
        nodes, edges = f"{len(graph.costs):,}", f"{graph.flow.nnz:,}"
        lines.append([nodes, edges, f"{built - begin:.1f}", f"{ended - built:.1f}"])
    return table(["nodes", "edges", "graph, s", "PageRank and C_p, s"], lines)


def correlation(curves: Sequence[np.ndarray], full: Sequence[np.ndarray], p: int) -> float:
    """Return Spearman's rank correlation over the spaces."""
    return float(spearmanr([c[p] for c in curves], [f[p] for f in full])[0])


def accuracy(rows: Sequence[Row], full: dict[str, np.ndarray], seeds: Iterable[int]) -> str:
    """Return a table of errors and rank correlations by strategy and number of observations."""
    others = [np.mean([full[o] for o in full if o != name], axis=0) for name in full]
    blind = np.mean([np.abs(a - b).mean() for a, b in zip(others, full.values(), strict=True)])
    lines = [["nothing: mean of the other spaces", f"{blind:.3f}", "", *([""] * len(RANKED))]]
    for strategy, (i, count) in product(STRATEGIES, enumerate(OBSERVED)):
        mine = [r for r in rows if r["strategy"] == strategy]
        errors = [np.subtract(r["curves"][i], full[r["path"]]) for r in mine]
        ranks = []
        for seed in seeds:
            run_ = {r["path"]: np.array(r["curves"][i]) for r in mine if r["seed"] == seed}
            each = [run_[path] for path in full]
            ranks.append([correlation(each, list(full.values()), p) for p in RANKED])
        line = [f"{count} by {strategy}", f"{np.abs(errors).mean():.3f}", f"{np.mean(errors):+.3f}"]
        lines.append([*line, *(f"{r:.2f}" for r in np.mean(ranks, axis=0))])
    head = ["observations", "mean error", "bias", *(f"rank correlation, {p} %" for p in RANKED)]
    return table(head, lines)


def by_space(rows: Sequence[Row], full: dict[str, np.ndarray], names: Sequence[str]) -> str:
    """Return a table of full figures and estimates at 10 %."""
    lines = []
    for name, (path, curve) in zip(names, full.items(), strict=True):
        line = [name, f"{curve[10]:.2f}"]
        for strategy, i in product(STRATEGIES, range(len(OBSERVED))):
            got = [
                r["curves"][i][10] for r in rows if (r["path"], r["strategy"]) == (path, strategy)
            ]
            line.append(f"{np.mean(got):.2f} ({min(got):.2f} to {max(got):.2f})")
        seconds = [r["seconds"] for r in rows if r["path"] == path]
        lines.append([*line, f"{np.median(seconds):.1f}"])
    head = ["space", "C_p 10 %"]
    head += [f"{n} by {s}" for s, n in product(STRATEGIES, OBSERVED)]
    return table([*head, f"seconds, {OBSERVED[-1]}"], lines)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--data", default=os.environ.get("BACO_LIKE_DATA"))
    parser.add_argument("--spaces", help="names, separated by commas")
    parser.add_argument("--full-only", action="store_true", help="no estimates while tuning")
    args = parser.parse_args()
    places = files(args.data)
    names = select(args.spaces, places)
    tables = {name: load(places[name]) for name in names}
    figures = f"{full_figures(tables)}\n\n{scaling() if args.spaces is None else ''}"
    if args.full_only:
        publish("\n\n".join(["## Full figures", figures]), args.table)
        return
    seeds = range(args.seeds)
    jobs = [(str(places[n]), s, seed) for n, s, seed in product(names, STRATEGIES, seeds)]
    rows = completed(
        estimates, jobs, lambda r: (r["path"], r["strategy"], r["seed"]), args.out, args.processes
    )
    rows = [r for r in rows if (r["path"], r["strategy"], r["seed"]) in set(jobs)]
    full = {str(places[n]): landscape.flow_graph(tables[n]).centrality_curve() for n in names}
    parts = ["# Landscapes of recorded spaces", provenance(), "## Full figures", figures]
    parts += [f"## Estimates while tuning, {args.seeds} runs", by_space(rows, full, names)]
    if len(names) > 3:
        easiest = max(full, key=lambda path: full[path].mean())
        rest = {path: curve for path, curve in full.items() if path != easiest}
        parts += ["All spaces:", accuracy(rows, full, seeds), "Without the easiest:"]
        parts.append(accuracy([r for r in rows if r["path"] != easiest], rest, seeds))
    publish("\n\n".join(parts), args.table)


if __name__ == "__main__":
    main()
