"""Does a long run end worse because its model is not fitted to all observations for every suggestion?

    OMP_NUM_THREADS=1 python benchmarks/quality/large_histories.py --data DIR --out rows.jsonl --seeds 5 [--table FILE]

Both runs of a pair use the code of this commit and the same seed. One fits its models to all observations for every
suggestion (`full_model` in peers/ours.py). The other is the default: beyond 220 observations it holds the
hyperparameters, and it uses a part of the observations. Up to 220, their suggestions are the same.

The log regret is log(best cost so far / least cost); a run ends when it is 0. Differences are those of pairs, with 95 %
intervals by resampling of seeds; below 0, the default is better. `--out` (JSONL) keeps every run, and a later call
continues it.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import compare
import numpy as np
import peers
import runs
import suite
from peers.measure import Measure, Spent

DEFAULT, FULL = "auto", "auto with the full model"
SPACES = ("convolution_milo/A4000", "mm_titanv", "synthetic_flags")
SAME = 220
"""Number of evaluations up to which both runs of a pair make the same suggestions."""


class UntilOptimum(Measure):
    """Ends a run at the optimum: its regret is 0 from there on."""

    def __call__(self, number: int) -> float | None:
        cost = super().__call__(number)
        if cost is not None and cost <= self.problem.best:
            raise Spent
        return cost


def work(*job: object) -> runs.Row:
    with mock.patch.object(peers, "Measure", UntilOptimum):
        return compare.work(*job)


def report(rows: Sequence[runs.Row], data: Path | None, budget: int) -> str:
    """Return the table of the log regrets and their differences."""
    table = suite.table_of(rows, data, budget)
    seeds = {
        key: {row["seed"]: row for row in rows if (row["peer"], row["space"]) == key}
        for key in table
    }
    shown = [n for n in (SAME, 500, budget) if n <= budget]
    head = ["space", "pairs", *(f"log regret @{n}, default / full" for n in shown)]
    head += [
        f"difference @{budget}",
        f"difference, mean of {SAME + 1} to {budget}",
        "runs at the optimum, default / full",
    ]
    lines, ends, means = [], [], []
    for space in dict.fromkeys(row["space"] for row in rows):
        if (DEFAULT, space) not in table or (FULL, space) not in table:
            continue
        both = sorted(seeds[DEFAULT, space].keys() & seeds[FULL, space].keys())
        curves = {}
        for peer in (DEFAULT, FULL):
            order = list(seeds[peer, space])
            curves[peer] = table[peer, space].regrets[[order.index(seed) for seed in both]]
        difference = curves[DEFAULT] - curves[FULL]
        ends.append(difference[:, -1])
        means.append(difference[:, SAME:].mean(axis=1))
        regrets = [
            " / ".join(f"{curves[p][:, n - 1].mean():.3f}" for p in (DEFAULT, FULL)) for n in shown
        ]
        reached = [int((curves[p][:, -1] < 1e-6).sum()) for p in (DEFAULT, FULL)]
        lines.append(
            [
                space,
                f"{len(both)}",
                *regrets,
                _shown([ends[-1]]),
                _shown([means[-1]]),
                f"{reached[0]} / {reached[1]}",
            ]
        )
    if lines:
        lines.append(["mean", "", *([""] * len(shown)), _shown(ends), _shown(means), ""])
    return runs.table(head, lines)


def _shown(differences: Sequence[np.ndarray]) -> str:
    """Return the mean over the spaces, with its interval by resampling the seeds of each space."""
    rng = np.random.default_rng(0)
    drawn = [
        one[rng.integers(len(one), size=(10_000, len(one)))].mean(axis=1) for one in differences
    ]
    low, high = np.quantile(np.mean(drawn, axis=0), [0.025, 0.975])
    return f"{np.mean([one.mean() for one in differences]):+.3f} ({low:+.3f} to {high:+.3f})"


def main() -> None:
    parser = runs.arguments(__doc__)
    parser.set_defaults(budget=1000, seeds=5, processes=1)
    parser.add_argument("--data", type=Path, default=os.environ.get("BACO_LIKE_DATA"))
    parser.add_argument("--spaces", default=",".join(SPACES), help="as in suite.py")
    parser.add_argument("--first-seed", type=int, default=0)
    args: argparse.Namespace = parser.parse_args()
    data = None if args.data is None else Path(args.data)
    have = {(r["space"], r["peer"], r["seed"]) for r in runs.rows_of(args.out)}
    jobs = [
        (space, peer, seed, args.budget, 3600.0, data)
        for seed in range(args.first_seed, args.first_seed + args.seeds)
        for space in args.spaces.split(",")
        for peer in (DEFAULT, FULL)
        if (space, peer, seed) not in have
    ]
    for i, row in enumerate(runs.worked(work, jobs, args.processes), 1):
        with args.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{i}/{len(jobs)} {row['peer']} on {row['space']}", file=sys.stderr, flush=True)
    text = report(runs.rows_of(args.out), data, args.budget)
    runs.publish(f"# Long runs beside the full model\n\n{runs.provenance()}\n\n{text}", args.table)


if __name__ == "__main__":
    main()
