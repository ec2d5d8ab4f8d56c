"""Measure what proposals of a source beside the strategy save and cost, on recorded tables.

    OMP_NUM_THREADS=1 python benchmarks/quality/proposals.py --data DIR --out rows.jsonl --table results/proposals.md

A run has one source, which keeps eight proposals open. One of four proposals of a *good* source lies in the
neighbourhood of the optimum (one or two steps of one parameter to its next value; the optimum itself is left out), the
others are uniform draws. Those of a *useless* source are all uniform draws. Those of a *hostile* source all fail; a
table without failures has none. The figure is the number of evaluations to 95 % of the optimum; a run that does not get
there counts as the budget. Runs of the same seed are compared. DIR as in `suite.py`.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import statistics
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import runs
from peers import problems
from peers.problem import Problem

from baco_like import Optimizer
from baco_like.spaces import neighbourhoods

CHOSEN_ON = ("convolution_milo/A4000", "dedispersion_milo/MI250X", "hidden")
"""The tables on which the settings were chosen; the others judge."""

JUDGED_ON = (
    "convolution_milo/MI250X",
    "convolution_milo/W7800",
    "convolution/RTX_3060_laptop",
    "loop_nest",
    "halide",
    "blur",
)
ARMS = ("none", "good", "useless", "hostile")
SHARE = 0.95
OPEN = 8
"""Number of open proposals that a source keeps."""

GOOD = 0.25
"""Share of the proposals of a good source that lie in the neighbourhood of the optimum."""


class Source:
    """Draws the proposals of one arm."""

    def __init__(self, problem: Problem, arm: str, seed: int) -> None:
        self.problem, self.arm = problem, arm
        self.is_stopped = False
        self.rng = np.random.default_rng([seed, 48])
        self.optimum = problem.space.encode([self._config(int(np.nanargmin(problem.costs)))])

    def refill(self, optimizer: Optimizer) -> None:
        """Propose until enough proposals are open; a refused one is drawn again, unless the source is stopped."""
        for _ in range(10 * OPEN):
            if len(optimizer.history.open_proposals) >= OPEN or self.is_stopped:
                return
            answer = optimizer.propose(self.draw(), source=self.arm)
            self.is_stopped = answer.reason.startswith("stopped")

    def draw(self) -> dict[str, object]:
        if self.arm == "good" and self.rng.random() < GOOD:
            row, space = self.optimum, self.problem.space
            for _ in range(self.rng.integers(1, 3)):
                near = neighbourhoods.adjacent(space, row, self.rng)[0]
                row = near[[self.rng.integers(len(near))]]
            if not (row == self.optimum).all():
                return space.decode(row)[0]
        failing = np.isnan(self.problem.costs)
        among = np.flatnonzero(failing) if self.arm == "hostile" else range(len(failing))
        return self._config(int(self.rng.choice(among)))

    def _config(self, number: int) -> dict[str, object]:
        return dict(zip(self.problem.names, self.problem.rows[number], strict=True))


def work(data: str, space: str, arm: str, seed: int, budget: int) -> runs.Row:
    problem = problems.problem(space, Path(data))
    optimizer = Optimizer(problem.space, seed=seed, budget=budget)
    source = None if arm == "none" else Source(problem, arm, seed)
    while len(optimizer.trials) < budget:
        if source is not None:
            source.refill(optimizer)
        trial = optimizer.suggest()
        cost = problem.cost(problem.number[tuple(trial[name] for name in problem.names)])
        if np.isnan(cost):
            optimizer.observe(trial, failed="runtime")
            continue
        optimizer.observe(trial, cost)
        if cost <= problem.best / SHARE:
            break
    best = optimizer.best_value
    return {
        "space": space,
        "arm": arm,
        "seed": seed,
        "budget": budget,
        "evaluations": len(optimizer.trials),
        "reached": best is not None and best <= problem.best / SHARE,
        "proposed": sum(trial.origin == "proposed" for trial in optimizer.trials),
    }


def report(rows: list[runs.Row], spaces: list[str]) -> str:
    head = ["source", "space", "median", "mean", "never", "of sources", "ratio of means", "more"]
    lines = []
    for arm, space in product(ARMS, [*spaces, "all"]):
        own = [r for r in rows if r["arm"] == arm and space in (r["space"], "all")]
        if own:
            lines.append([arm, space, *_figures(own, rows)])
    return runs.table(head, lines)


def _figures(own: list[runs.Row], rows: list[runs.Row]) -> list[str]:
    without = {(r["space"], r["seed"]): r["evaluations"] for r in rows if r["arm"] == "none"}
    pairs = [(r["evaluations"], without[r["space"], r["seed"]]) for r in own]
    counts = [count for count, _ in pairs]
    cells = [
        f"{statistics.median(counts):.0f}",
        f"{statistics.fmean(counts):.1f}",
        f"{sum(not r['reached'] for r in own)}",
        f"{statistics.fmean(r['proposed'] for r in own):.1f}",
    ]
    if own[0]["arm"] == "none":
        return [*cells, "", ""]
    more = runs.interval([a - b for a, b in pairs])
    return [*cells, _ratio(own, without), "{:+.1f} ({:+.1f} to {:+.1f})".format(*more)]


def _ratio(own: list[runs.Row], without: dict[tuple[str, int], int]) -> str:
    """Return the geometric mean over spaces of the ratio of mean evaluations, with its interval over seeds."""
    spaces = sorted({r["space"] for r in own})
    logs = []
    rng = np.random.default_rng(0)
    for space in spaces:
        mine = [r for r in own if r["space"] == space]
        pairs = np.array([(r["evaluations"], without[space, r["seed"]]) for r in mine], float)
        means = np.concatenate([pairs.mean(0)[None], runs.resampled(pairs, rng, 10_000)])
        logs.append(np.log(means[:, 0] / means[:, 1]))
    ratios = np.exp(np.mean(logs, axis=0))
    return "{:.2f} ({:.2f} to {:.2f})".format(ratios[0], *runs.ends(ratios[1:]))


def main() -> None:
    parser = runs.arguments(
        __doc__, budget=200, processes=1, spaces=[*CHOSEN_ON, *JUDGED_ON], arms=ARMS
    )
    parser.set_defaults(spaces=list(JUDGED_ON))
    args = parser.parse_args()
    if args.data is None or not (args.data / "recorded").is_dir():
        raise SystemExit("no recorded spaces there: give --data DIR, or set BACO_LIKE_DATA")
    jobs = [
        (space, arm, seed, args.budget)
        for seed, space, arm in product(range(args.seeds), args.spaces, args.arms)
        if arm != "hostile" or np.isnan(problems.problem(space, args.data).costs).any()
    ]
    names = ("space", "arm", "seed", "budget")
    rows = runs.finished(partial(work, str(args.data)), jobs, names, args)
    title = (
        f"# Proposals of a source beside the strategy, {args.seeds} seeds\n\n{runs.provenance()}"
    )
    runs.publish(f"{title}\n\n{report(rows, args.spaces)}", args.table)


if __name__ == "__main__":
    main()
