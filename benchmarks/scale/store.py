"""What do draws without a model, and older proposals, cost? Runs with the store of `ahead`.

    OMP_NUM_THREADS=1 python benchmarks/scale/store.py --data DIR [--seeds 10] [--evaluations 220] [--out rows.jsonl]
        [--table store.md]

Recorded spaces, 32 workers that end in random order, the default strategy. Each free worker gets a draw without a model
with the given probability, otherwise a proposal of the model that knows all results so far and all pending trials. The
score is 1 for the optimum and 0 for the expected best of random search after as many evaluations, on average over the
run without its first 32 evaluations. The interval is a bootstrap over seeds of the mean over spaces. A share of 1 uses
no model at all. With 16 proposals in store, each knows 16 results less.
"""

import os

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"

import argparse
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from baco_like import Optimizer
from baco_like.benchmarking.score.baseline import random_curve
from baco_like.evaluators.replay import load
from baco_like.optimizer.ahead import ProposalStore
from baco_like.results.recording import Recording

SPACES = ("convolution_milo/A4000", "convolution_milo/MI250X", "dedispersion_milo/A4000")
VARIANTS = ((0.0, 0), (0.0, 16), (0.1, 0), (0.25, 0), (0.5, 0), (1.0, 0))
"""Shares of draws without a model, each with the number of proposals in store."""

WORKERS = 32
RESAMPLES = 2000


@cache
def recording_of(name: str, data: Path) -> Recording:
    folder, device = name.split("/")
    return load(data / "recorded" / folder / f"{device}_T4.json.gz")


class DirectedStore(ProposalStore):
    """A store without a thread; a call takes the fallback if `is_late` says so."""

    is_late = False

    def refill(self) -> None:
        """Do nothing."""

    def _prepare(self, n: int) -> bool:
        if not self.is_late:
            self.fill(n)
        return not self.is_late


@cache
def baseline_of(name: str, data: Path, evaluations: int) -> tuple[np.ndarray, float]:
    """Return the expected best cost of random search after each evaluation, and the optimum."""
    costs = np.array(
        [np.nan if t.value is None else t.value for t in recording_of(name, data).trials]
    )
    worst = np.nanmax(costs)
    return random_curve(np.where(np.isnan(costs), worst, costs), evaluations), np.nanmin(costs)


def run(name: str, data: Path, share: float, ahead: int, seed: int, evaluations: int) -> float:
    """Return the score of a run."""
    recording = recording_of(name, data)
    known = {tuple(sorted(t.config.items())): t.value for t in recording.trials}
    optimizer = Optimizer(recording.space(), seed=seed, budget=evaluations)
    store = DirectedStore(optimizer._run, 1, None, optimizer._terms, optimizer._threads)
    optimizer._store = store
    rng = np.random.default_rng(seed)
    running = []
    while len(optimizer.trials) < evaluations:
        while len(running) < WORKERS and len(optimizer.trials) + len(running) < evaluations:
            store.is_late = bool(rng.random() < share)
            running.append(optimizer.suggest())
            store.fill(ahead)
        trial = running.pop(int(rng.integers(len(running))))
        value = known.get(tuple(sorted(trial.config.items())))
        if value is None:
            optimizer.observe(trial, failed="runtime")
        else:
            optimizer.observe(trial, value)
    expected, optimum = baseline_of(name, data, evaluations)
    worst = max(value for value in known.values() if value is not None)
    values = [worst if trial.value is None else trial.value for trial in optimizer.trials]
    curve = np.minimum.accumulate(values)
    return float(np.mean((expected - curve)[WORKERS:] / (expected - optimum)[WORKERS:]))


def write_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the mean score of each variant, its interval, and its difference from the model alone."""
    scores: dict[Any, dict[Any, float]] = {}
    for row in rows:
        variant = scores.setdefault((row["share"], row["ahead"]), {})
        variant[row["space"], row["seed"]] = row["score"]
    seeds = sorted({row["seed"] for row in rows})
    names = sorted({row["space"] for row in rows})
    picks = np.random.default_rng(0).integers(len(seeds), size=(RESAMPLES, len(seeds)))
    lines = [
        "| draws without a model | proposals in store | score (95 % interval) | difference from the first row |",
        "|---:|---:|---:|---:|",
    ]
    means = {}
    for (share, ahead), found in sorted(scores.items()):
        table = np.array([[found[name, seed] for name in names] for seed in seeds])
        means[share, ahead] = mean = table.mean(axis=1)
        low, high = np.quantile(mean[picks].mean(axis=1), [0.025, 0.975])
        difference = mean - means[0.0, 0]
        worse, better = np.quantile(difference[picks].mean(axis=1), [0.025, 0.975])
        is_first = (share, ahead) == (0.0, 0)
        text = "" if is_first else f"{difference.mean():+.3f} ({worse:+.3f} to {better:+.3f})"
        lines.append(
            f"| {100 * share:.0f} % | {ahead} | {mean.mean():.3f} ({low:.3f} to {high:.3f}) | {text} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default=os.environ.get("BACO_LIKE_DATA", "../shared/data"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--evaluations", type=int, default=220)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if args.out is not None and args.out.exists():
        rows = [json.loads(line) for line in args.out.read_text().splitlines()]
    done = {(row["space"], row["seed"], row["share"], row["ahead"]) for row in rows}
    for seed in range(args.seeds):
        for name in SPACES:
            for share, ahead in VARIANTS:
                if (name, seed, share, ahead) in done:
                    continue
                score = run(name, Path(args.data), share, ahead, seed, args.evaluations)
                row = {"space": name, "seed": seed, "share": share, "ahead": ahead}
                rows.append({**row, "score": score})
                print(json.dumps(rows[-1]), flush=True)
                if args.out is not None:
                    with args.out.open("a") as file:
                        file.write(json.dumps(rows[-1]) + "\n")
    text = write_table(rows)
    print(text)
    if args.table is not None:
        args.table.write_text(text)


if __name__ == "__main__":
    main()
