"""How right are importance and outlook? Compared with exact values on recorded spaces.

    OMP_NUM_THREADS=1 python benchmarks/quality/explanations.py --data DIR --out rows.jsonl --seeds 20 \
        --outlook-seeds 4 --optuna-seeds 5 --importance results/importance.md --outlook results/outlook.md

Every run has 100 evaluations of the default strategy. The exact importance is computed from the whole table: the same
shares of variance, with costs above the median counting as the median. The rank correlation is Spearman's, averaged
over the runs of a space; it is also given after rounding to whole percents, as the tables print them, because ranks of
parameters with a share near 0 are chance. Coverage is the share of exact values inside the 90 % intervals.

The outlook is computed after 20, 30, ... 90 evaluations, and compared with the improvement that the next 10 evaluations
found and with the one that was left to the optimum of the table. DIR as in `suite.py`.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import itertools
import time
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path

import numpy as np
import runs
from peers import problems
from peers.problem import Problem
from scipy.stats import spearmanr

from baco_like import Optimizer, TrialError
from baco_like.explanations import compute_importance, estimate_outlook
from baco_like.explanations.importance import QUANTILE
from baco_like.parameters.protocol import ParameterKind
from baco_like.records import History
from baco_like.running import LowOutlook

EVALUATIONS = 100
FIRST = 20
AHEAD = 10
LEAST_EXPECTED = (0.002, 0.005, 0.01, 0.02, 0.05)
GROUPS = (0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 1.0)
SPACES = (
    "convolution/RTX_3060_laptop",
    "convolution_milo/A4000",
    "convolution_milo/MI250X",
    "convolution_milo/W7800",
    "dedispersion_milo/A4000",
    "dedispersion_milo/MI250X",
    "LLVM",
    "7z",
    "loop_nest",
    "hidden",
    "halide",
    "blur",
)


@cache
def exact_shares(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return the total effect of every active parameter and its effect alone, over the rows that ran."""
    space, ran = problem.space, ~np.isnan(problem.costs)
    codes, y = space.feasible.listed[ran], np.log(problem.costs[ran])
    y = np.minimum(y, np.quantile(y, QUANTILE, method="inverted_cdf"))
    total, alone = [], []
    for name in space.active:
        own = np.zeros(space.width, dtype=bool)
        own[space.columns[name]] = True
        total.append(1.0 - explained(codes[:, ~own], y))
        alone.append(explained(codes[:, own], y))
    return np.array(total), np.array(alone)


def explained(columns: np.ndarray, y: np.ndarray) -> float:
    """Return Var(E[y | columns]) / Var(y)."""
    _, group = np.unique(columns, axis=0, return_inverse=True)
    group = group.reshape(-1)
    means = np.bincount(group, y) / np.bincount(group)
    return float(means[group].var() / y.var())


def one_job(
    name: str, seed: int, data: Path | None, budget: int, checked: Sequence[int], reference: bool
) -> runs.Row:
    """Return the estimates of one run of ``budget`` evaluations, and the improvements that it found.

    The outlook is computed after each of the numbers in ``checked``, Optuna's importance if ``reference``.
    """
    problem = problems.problem(name, data)
    reference = reference and is_listed(problem)
    optimizer = Optimizer(problem.space, seed=seed)
    for _ in range(budget):
        trial = optimizer.suggest()
        cost = problem.cost(problem.number[tuple(trial[n] for n in problem.names)])
        if np.isnan(cost):
            optimizer.observe(trial, failed="runtime")
        else:
            optimizer.observe(trial, cost)
    row = estimates(name, seed, problem, optimizer.history, checked)
    return {**row, "optuna": optuna_shares(problem, optimizer.history)} if reference else row


def estimates(
    name: str, seed: int, problem: Problem, history: History, checked: Sequence[int]
) -> runs.Row:
    """Return the row of a run."""
    start = time.process_time()
    table = compute_importance(history, seed)
    seconds = time.process_time() - start
    effects = [table[n] for n in problem.space.active]
    outlooks = []
    for count in checked:
        try:
            o = estimate_outlook(history, evaluations=AHEAD, count=count)
        except TrialError:
            continue
        outlooks.append([count, o.expected, o.remaining, o.low, o.high])
    costs = np.where(np.isnan(history.costs), np.inf, history.costs)
    return {
        "space": name,
        "seed": seed,
        "shares": [[e.share, e.low, e.high, e.alone] for e in effects],
        "seconds": seconds,
        "outlooks": outlooks,
        "best": np.minimum.accumulate(costs).tolist(),
    }


def optuna_shares(problem: Problem, history: History) -> dict[str, list[float]]:
    """Return what Optuna's evaluators make of the same trials, those that ran; only for spaces of listed values."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    parameters = {name: problem.space.parameters[name] for name in problem.space.active}
    study = optuna.create_study()
    for trial in history.trials:
        if trial.value is None:
            continue
        codes = {n: int(p.encode([trial[n]])[0, 0]) for n, p in parameters.items()}
        ranges = {
            n: optuna.distributions.IntDistribution(0, int(p.cardinality) - 1)
            for n, p in parameters.items()
        }
        study.add_trial(
            optuna.trial.create_trial(
                params=codes, distributions=ranges, value=float(np.log(trial.value))
            )
        )
    evaluators = {
        "fANOVA": optuna.importance.FanovaImportanceEvaluator(seed=0),
        "PED-ANOVA": optuna.importance.PedAnovaImportanceEvaluator(),
    }
    shares = {
        label: optuna.importance.get_param_importances(study, evaluator=evaluator)
        for label, evaluator in evaluators.items()
    }
    return {
        label: [own.get(name, 0.0) for name in problem.space.active]
        for label, own in shares.items()
    }


def is_listed(problem: Problem) -> bool:
    """Return whether no parameter is a permutation or unordered, which Optuna's evaluators do not take as such."""
    parameters = (problem.space.parameters[name] for name in problem.space.active)
    return all(p.kind is ParameterKind.ORDERED for p in parameters)


def optuna_table(rows: Sequence[runs.Row], data: Path | None) -> str:
    """Return the rank correlations with the exact values of Optuna's evaluators, on the same trials as ours."""
    lines = []
    for name in SPACES:
        own = [row for row in rows if row["space"] == name and "optuna" in row]
        if not own:
            continue
        total, alone = exact_shares(problems.problem(name, data))
        line = [name, str(len(own))]
        ours = [[share for share, *_ in row["shares"]] for row in own]
        line.append(f"{np.mean([correlation(x, total) for x in ours]):.2f}")
        for label in ("fANOVA", "PED-ANOVA"):
            theirs = [row["optuna"][label] for row in own]
            for exact in (total, alone):
                line.append(f"{np.mean([correlation(x, exact) for x in theirs]):.2f}")
        lines.append(line)
    if not lines:
        return ""
    means = [f"{np.mean([float(line[i]) for line in lines]):.2f}" for i in range(2, len(lines[0]))]
    lines.append(["mean", "", *means])
    head = ["space", "runs", "ours", "fANOVA", "fANOVA, alone", "PED-ANOVA", "PED-ANOVA, alone"]
    return f"Optuna's evaluators on the same trials:\n\n{runs.table(head, lines)}"


def correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Return Spearman's rank correlation; 0 if one side is constant."""
    value = spearmanr(a, b)[0]
    return 0.0 if np.isnan(value) else float(value)


def importance_table(rows: Sequence[runs.Row], data: Path | None) -> str:
    """Return one line per space, and the mean over spaces."""
    lines, every = [], []
    for name in SPACES:
        own = [row for row in rows if row["space"] == name]
        if not own:
            continue
        total, alone = exact_shares(problems.problem(name, data))
        numbers = []
        for row in own:
            share, low, high, own_alone = np.array(row["shares"]).T
            covered = (low <= total) & (total <= high)
            numbers.append(
                [
                    correlation(share, total),
                    correlation(share.round(2), total.round(2)),
                    correlation(own_alone, alone),
                    covered.mean(),
                    (high - low).mean(),
                    np.abs(share - total).mean(),
                    row["seconds"],
                ]
            )
        every.append(np.mean(numbers, axis=0))
        rank = runs.interval([n[0] for n in numbers])
        lines.append([name, str(len(own)), *_cells(every[-1], rank)])
    mean = np.mean(every, axis=0)
    rank = runs.interval([one[0] for one in every])
    lines.append(["mean", "", *_cells(mean, rank)])
    head = ["space", "runs", "rank correlation", "95 %", "in whole percents", "alone"]
    return runs.table([*head, "coverage", "width", "mean error", "CPU s"], lines)


def _cells(numbers: np.ndarray, rank: tuple[float, float, float]) -> list[str]:
    correlation_, rounded, alone, coverage, width, error, seconds = numbers
    ends = f"{rank[1]:.2f} to {rank[2]:.2f}"
    rest = [f"{n:.2f}" for n in (rounded, alone, coverage, width, error, seconds)]
    return [f"{correlation_:.2f}", ends, *rest]


def outlooks_of(rows: Sequence[runs.Row], best: Mapping[str, float]) -> np.ndarray:
    """Return by outlook: count, expected, remaining, low, high, found in the next evaluations, left in truth."""
    numbers = []
    for row in rows:
        for count, *estimates in row["outlooks"]:
            now, later = row["best"][count - 1], row["best"][count + AHEAD - 1]
            left = (now - best[row["space"]]) / now
            numbers.append([count, *estimates, (now - later) / now, left])
    return np.array(numbers)


def outlook_table(rows: Sequence[runs.Row], best: Mapping[str, float]) -> str:
    """Return calibration by the expected improvement and by the number of evaluations."""
    every = outlooks_of(rows, best)
    lines = []
    for low, high in itertools.pairwise(GROUPS):
        own = every[(every[:, 1] >= low) & (every[:, 1] < high)]
        if len(own):
            lines.append([f"{100 * low:g} to {100 * high:g} %", *_outlook_cells(own)])
    by_expected = runs.table(["expected", *_OUTLOOK_HEAD], lines)
    lines = [
        [str(count), *_outlook_cells(every[every[:, 0] == count])]
        for count in sorted({int(n) for n in every[:, 0]})
    ]
    return f"{by_expected}\n\n{runs.table(['evaluations', *_OUTLOOK_HEAD], lines)}"


_OUTLOOK_HEAD = [
    "outlooks",
    "mean expected",
    f"found in the next {AHEAD}",
    "more than 1 % found",
    "mean left, estimated",
    "left in truth",
    "coverage",
]


def _outlook_cells(own: np.ndarray) -> list[str]:
    _, expected, remaining, low, high, found, left = own.T
    covered = (low - 1e-9 <= left) & (left <= high + 1e-9)
    shares = (expected.mean(), found.mean(), (found > 0.01).mean(), remaining.mean(), left.mean())
    return [str(len(own)), *(f"{100 * share:.1f} %" for share in shares), f"{covered.mean():.2f}"]


def stopping_table(rows: Sequence[runs.Row], best: Mapping[str, float]) -> str:
    """Return what a run saves and loses that ends when too little is expected."""
    lines = []
    for least in LEAST_EXPECTED:
        saved_shares, lost, stopped = [], [], 0
        for row in rows:
            quiet = [
                count
                for count, expected, *_ in row["outlooks"]
                if count >= LowOutlook.least and expected < least
            ]
            end = int(quiet[0]) if quiet else len(row["best"])
            stopped += bool(quiet)
            saved_shares.append(1.0 - end / len(row["best"]))
            lost.append(row["best"][end - 1] / row["best"][-1] - 1.0)
        saved = runs.interval(saved_shares)
        loss = runs.interval(lost)
        lines.append(
            [
                f"{100 * least:g} %",
                f"{100 * stopped / len(rows):.0f} %",
                f"{100 * saved[0]:.0f} % ({100 * saved[1]:.0f} to {100 * saved[2]:.0f})",
                f"{100 * loss[0]:.2f} % ({100 * loss[1]:.2f} to {100 * loss[2]:.2f})",
                f"{100 * float(np.median(lost)):.2f} %",
                f"{100 * float(np.mean(np.array(lost) > 0.01)):.0f} %",
            ]
        )
    head = ["stop below", "runs that stop", "evaluations saved (95 %)", "mean loss (95 %)"]
    return runs.table([*head, "median loss", "runs that lose over 1 %"], lines)


def main() -> None:
    parser = runs.arguments(__doc__, budget=EVALUATIONS, spaces=SPACES)
    parser.add_argument(
        "--outlook-seeds", type=int, help="seeds whose outlook is computed; the default is all"
    )
    parser.add_argument(
        "--optuna-seeds", type=int, default=0, help="seeds that Optuna's evaluators rate too"
    )
    parser.add_argument("--importance", type=Path, help="Markdown file of the importance")
    parser.add_argument("--outlook", type=Path, help="Markdown file of the outlook")
    args = parser.parse_args()
    jobs = [(name, seed) for seed in range(args.seeds) for name in args.spaces]
    rows = runs.finished(partial(run_job, args), jobs, ("space", "seed"), args)
    head = f"{runs.provenance()}\n\n{args.budget} evaluations of the default strategy on {len(args.spaces)} spaces."
    tables = [importance_table(rows, args.data), optuna_table(rows, args.data)]
    runs.publish("\n\n".join(["# Importance", head, *filter(None, tables)]), args.importance)
    rows = [row for row in rows if row["outlooks"]]
    best = {name: problems.problem(name, args.data).best for name in args.spaces}
    parts = [outlook_table(rows, best), "## Stopping rule", stopping_table(rows, best)]
    runs.publish("\n\n".join(["# Outlook", head, *parts]), args.outlook)


def run_job(args: argparse.Namespace, name: str, seed: int) -> runs.Row:
    wanted = args.outlook_seeds is None or seed < args.outlook_seeds
    checked = range(FIRST, args.budget - AHEAD + 1, AHEAD) if wanted else ()
    return one_job(name, seed, args.data, args.budget, checked, seed < args.optuna_seeds)


if __name__ == "__main__":
    main()
