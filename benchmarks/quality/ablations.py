"""Measure the worth of BaCO's parts: the ablations of its Figures 8 to 10, on two recorded problems.

    OMP_NUM_THREADS=1 python benchmarks/quality/ablations.py --out rows.jsonl --table results/ablations.md

The problems are in benchmarks/recorded: `loop_nest` (loop orders matter most, nothing fails) and `hidden` (a third
fails, by hidden constraints). Every variant has the same first 10 points for the same seed, so the variants are
compared seed by seed. `--problems` and `--variants` choose some; `--out` keeps every run and continues an earlier one.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import runs

from baco_like import Space
from baco_like._typing import Codes, Mask
from baco_like.acquisitions.optimizers.searches import LocalSearch, SampledSearch
from baco_like.evaluators.replay import ReplayEvaluator, load
from baco_like.results.recording import Recording
from baco_like.strategies import Bayesian, Phased, RandomSearch
from baco_like.surrogates.forest import ConstantFeasibility, RandomForest
from baco_like.surrogates.gp.fit import Effort
from baco_like.surrogates.gp.gaussian_process import GaussianProcess
from baco_like.surrogates.gp.prior import FLAT_PRIORS
from baco_like.surrogates.protocol import Featured
from baco_like.surrogates.transform import standardise

PROBLEMS = ("loop_nest", "hidden")
FOLDER = Path(__file__).parents[1] / "recorded"
Described = dict[str, Any]


@dataclass(frozen=True)
class EverywhereFeasible:
    """Replaces the feasibility model and expects every configuration to succeed."""

    def fit(self, space: Featured, codes: Codes, feasible: Mask, seed: int) -> ConstantFeasibility:
        return ConstantFeasibility(1.0)


@dataclass(frozen=True)
class Variant:
    """A change of the space's description, and a strategy."""

    strategy: Any
    change: Callable[[Described], Described] = lambda parameter: parameter
    only: tuple[str, ...] = PROBLEMS


def with_metric(metric: str) -> Callable[[Described], Described]:
    def change(parameter: Described) -> Described:
        return {**parameter, "metric": metric} if "metric" in parameter else parameter

    return change


def without_log(parameter: Described) -> Described:
    return {**parameter, "log": False} if "log" in parameter else parameter


def naive_without_log(parameter: Described) -> Described:
    return with_metric("naive")(without_log(parameter))


def _phased(**parts: Any) -> Phased:
    return Phased(Bayesian(**parts))


ONE_START = Effort(draws=1, starts=1, fresh_starts=0)
FEW = SampledSearch(candidates=200)
"""On a few thousand configurations a larger sample would be an exhaustive search."""

VARIANTS: Mapping[str, Variant] = {
    "default (Spearman)": Variant(_phased()),
    "Kendall": Variant(_phased(), with_metric("kendall")),
    "Hamming": Variant(_phased(), with_metric("hamming")),
    "naive permutation": Variant(_phased(), with_metric("naive")),
    "no logarithms": Variant(_phased(scale=standardise), without_log),
    "no logarithm of variables": Variant(_phased(), without_log),
    "no logarithm of values": Variant(_phased(scale=standardise)),
    "no priors": Variant(_phased(surrogate=GaussianProcess(priors=FLAT_PRIORS))),
    "no multistart": Variant(_phased(surrogate=GaussianProcess(effort=ONE_START))),
    "random forest": Variant(_phased(surrogate=RandomForest())),
    "local search, no scan": Variant(_phased(scan_limit=0, search=LocalSearch(candidates=200))),
    "best of 200 random": Variant(_phased(scan_limit=0, search=FEW)),
    "no feasibility model": Variant(_phased(feasibility=EverywhereFeasible()), only=("hidden",)),
    "no minimum feasibility": Variant(_phased(largest_minimum=0.0), only=("hidden",)),
    "minimum up to 0.1": Variant(_phased(largest_minimum=0.1), only=("hidden",)),
    "all off (BaCO--)": Variant(
        _phased(
            surrogate=GaussianProcess(priors=FLAT_PRIORS, effort=ONE_START),
            scale=standardise,
            scan_limit=0,
            search=FEW,
        ),
        naive_without_log,
    ),
    "uniform sampling": Variant(RandomSearch()),
}
DEFAULT = next(iter(VARIANTS))


@cache
def table_of(problem: str) -> Recording:
    return load(FOLDER / f"{problem}.json.gz")


@cache
def optimum(problem: str) -> float:
    return min(e.value for e in table_of(problem).entries.values() if e.value is not None)


@cache
def space_of(problem: str, change: Callable[[Described], Described]) -> Space:
    described = json.loads((FOLDER / f"{problem}.space.json").read_text())
    parameters = {name: change(one) for name, one in described["parameters"].items()}
    return Space.from_dict({**described, "parameters": parameters})


def work(problem: str, variant: str, seed: int, budget: int) -> runs.Row:
    chosen = VARIANTS[variant]
    space = space_of(problem, chosen.change)
    evaluator = ReplayEvaluator(table_of(problem))
    found = runs.one_run(space, chosen.strategy, evaluator, seed, budget)
    return {"problem": problem, "variant": variant, "seed": seed, "budget": budget, **found}


def key(row: runs.Row) -> runs.Job:
    return row["problem"], row["variant"], row["seed"], row["budget"]


def report(problem: str, rows: list[runs.Row], budgets: tuple[int, ...]) -> str:
    """Return the table of one problem: geometric means of optimum / best, and the ratios to the default's."""
    logs = {
        name: _logs([row for row in rows if row["variant"] == name], optimum(problem), budgets)
        for name in VARIANTS
    }
    base = logs[DEFAULT]
    lines = []
    for name, mine in logs.items():
        if len(mine):
            against = mine - base if mine.shape == base.shape else np.full(mine.shape, np.nan)
            failures = [row["values"].count(None) for row in rows if row["variant"] == name]
            lines.append([name, *_shown(mine, against), f"{np.mean(failures):.1f}"])
    head = ["", *(f"after {n}" for n in budgets), *(f"{n}: to default" for n in budgets), "failed"]
    return runs.table(head, lines)


def _logs(rows: list[runs.Row], best: float, budgets: tuple[int, ...]) -> Any:
    """Return log(optimum / best) by seed and budget; a run without a success counts as 1/1000."""
    ordered = sorted(rows, key=lambda row: row["seed"])
    ratios = [[best / runs.best_after(row["values"], n) for n in budgets] for row in ordered]
    return np.log(np.maximum(np.array(ratios).reshape(len(ordered), len(budgets)), 1e-3))


def _shown(mine: Any, against: Any) -> list[str]:
    cells = []
    for column in mine.T:
        mean, low, high = map(math.exp, runs.interval(column))
        cells.append(f"{mean:.3f} ({low:.3f}-{high:.3f})")
    for column in against.T:
        mean, low, high = (100 * math.expm1(x) for x in runs.interval(column))
        cells.append("" if not np.any(column) else f"{mean:+.0f} % ({low:+.0f} to {high:+.0f})")
    return cells


def main() -> None:
    parser = runs.arguments(__doc__)
    parser.add_argument("--problems", help="separated by commas")
    parser.add_argument("--variants", help="separated by commas; the default is always among them")
    args = parser.parse_args()
    problems = runs.select(args.problems, PROBLEMS)
    variants = runs.select(args.variants, VARIANTS)
    jobs = [
        (problem, name, seed, args.budget)
        for problem in problems
        for seed in range(args.seeds)
        for name in VARIANTS
        if (name in variants or name == DEFAULT) and problem in VARIANTS[name].only
    ]
    requested = set(jobs)
    rows = [
        r for r in runs.completed(work, jobs, key, args.out, args.processes) if key(r) in requested
    ]
    parts = [f"# Ablations, {args.seeds} seeds\n\n{runs.provenance()}\n\n{EXPLAINED}"]
    for problem in problems:
        mine = [row for row in rows if row["problem"] == problem]
        parts += [f"## {problem}", report(problem, mine, runs.shown_budgets(args.budget))]
    runs.publish("\n\n".join(parts), args.table)


EXPLAINED = """\
Geometric mean over seeds of optimum / best value, after so many evaluations (1 is the optimum), and how much that is
above or below the default's, seed by seed; in brackets 95 % bootstrap intervals. Failed: mean number of failed
evaluations."""


if __name__ == "__main__":
    main()
