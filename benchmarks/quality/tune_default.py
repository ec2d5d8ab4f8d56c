"""Tune the settings of the default strategy with the default strategy, cross-validated by kernel.

    OMP_NUM_THREADS=1 python benchmarks/quality/tune_default.py --data DIR --journal run.jsonl --out rows.jsonl

One evaluation runs a setting on every space of the suite (`suite.py`) with the same seeds; its value is the mean
relative log regret. The settings in use are the first evaluation. `--out` keeps the areas by space; a later call
continues the journal.

The best of many settings looks better than it is. So each kernel is scored by the setting that is best on the spaces
of all other kernels: spaces of one kernel (two matrices, three GPUs) share their name up to the first "_" or "/". Only
a gain that survives this may change the default.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import peers
import runs
from peers import problems
from suite import Scored

from baco_like import Categorical, Integer, Optimizer, Ordinal, Space
from baco_like.strategies import Bayesian, RandomAfterStall
from baco_like.strategies.auto import FAILED_AS, PRIORS
from baco_like.strategies.bayesian.bayesian import plain, with_quantities
from baco_like.strategies.composite.adaptive_design import AdaptiveDesign
from baco_like.surrogates.gp.gaussian_process import GaussianProcess
from baco_like.surrogates.gp.kernel import MATERN32, MATERN52
from baco_like.surrogates.gp.prior import LogNormal, Priors

BUDGET = 60

IN_USE = {
    "middles": AdaptiveDesign.middles,
    "most": AdaptiveDesign.most,
    "lengthscale": PRIORS.lengthscale.median,
    "spread": PRIORS.lengthscale.spread,
    "kernel": "5/2",
    "mean": "constant",
    "view": "quantities",
    "failed_as": FAILED_AS,
    "largest_minimum": Bayesian.largest_minimum,
}

SETTINGS = Space(
    {
        "middles": Integer(1, 4),
        "most": Integer(4, 16, log=True),
        "lengthscale": Ordinal([0.5, 1.0, 2.0, 4.0, 8.0], log=True),
        "spread": Ordinal([0.5, 1.0, 1.5]),
        "kernel": Categorical(["3/2", "5/2"]),
        "mean": Categorical(["zero", "constant"]),
        "view": Categorical(["plain", "quantities"]),
        "failed_as": Ordinal([0.5, 0.75, 0.9, 1.0]),
        "largest_minimum": Ordinal([0.1, 0.25, 0.5, 0.75]),
    },
    constraints=["middles < most"],
)


def strategy(setting: Mapping[str, Any]) -> AdaptiveDesign:
    """Return the default strategy with other settings."""
    surrogate = GaussianProcess(
        kernel=MATERN32 if setting["kernel"] == "3/2" else MATERN52,
        priors=Priors(lengthscale=LogNormal(setting["lengthscale"], setting["spread"])),
        mean=setting["mean"],
    )
    bayesian = Bayesian(
        surrogate,
        view=plain if setting["view"] == "plain" else with_quantities,
        failed_as=setting["failed_as"],
        largest_minimum=setting["largest_minimum"],
    )
    return AdaptiveDesign(RandomAfterStall(bayesian), setting["middles"], setting["most"])


def areas(
    setting: Mapping[str, Any], spaces: Sequence[str], seeds: Sequence[int], data: Path | None
) -> dict[str, float]:
    """Return the mean area of a setting on each space."""
    peer = peers.Peer("setting", "ours", "baco-like", {"strategy": strategy(setting)})
    found = {}
    for space in spaces:
        one = problems.problem(space, data)
        values = [peers.run(peer, one, seed, BUDGET, 600.0)["values"] for seed in seeds]
        found[space] = Scored(one, values, BUDGET).mean
    return found


def kernel_of(space: str) -> str:
    return re.split(r"[_/]", space)[0]


def report(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the best settings, and the result of the cross-validation."""
    spaces = list(rows[0]["areas"])
    table = np.array([[row["areas"][space] for space in spaces] for row in rows])
    used = next(i for i, row in enumerate(rows) if row["setting"] == IN_USE)
    means = table.mean(axis=1)
    lines = []
    for i in np.argsort(means, kind="stable")[:8]:
        change = table[i] - table[used]
        half = 1.96 * change.std(ddof=1) / np.sqrt(len(spaces))
        lines.append(
            [_changes(rows[i]["setting"]), f"{means[i]:.3f}", f"{change.mean():+.3f} ({half:.3f})"]
        )
    best = runs.table(["changed", "mean area", "difference (95 %, over spaces)"], lines)
    kernels = list(dict.fromkeys(map(kernel_of, spaces)))
    lines, changes = [], []
    for kernel in kernels:
        own = np.array([kernel_of(space) == kernel for space in spaces])
        chosen = int(np.argmin(table[:, ~own].mean(axis=1)))
        change = table[chosen, own] - table[used, own]
        changes.extend(change)
        lines.append(
            [kernel, str(own.sum()), _changes(rows[chosen]["setting"]), f"{change.mean():+.3f}"]
        )
    left_out = runs.table(
        ["kernel left out", "spaces", "best setting of the others", "difference"], lines
    )
    half = 1.96 * np.std(changes, ddof=1) / np.sqrt(len(changes))
    return "\n\n".join(
        [
            f"{len(rows)} settings on {len(spaces)} spaces. The settings in use: {means[used]:.3f}. The best ones:",
            best,
            "Cross-validated by kernel:",
            left_out,
            f"Mean difference on the spaces that were left out: {np.mean(changes):+.3f} ({half:.3f}).",
        ]
    )


def _changes(setting: Mapping[str, Any]) -> str:
    changed = [f"{name} {value}" for name, value in setting.items() if value != IN_USE[name]]
    return ", ".join(changed) or "nothing"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("BACO_LIKE_DATA"))
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--evaluations", type=int, default=40)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=1, help="runs on each space")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    data = None if args.data is None else Path(args.data)
    spaces = list(problems.suite_names(data))
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    if args.journal.exists():
        optimizer = Optimizer.load(args.journal)
    else:
        optimizer = Optimizer(SETTINGS, seed=0, storage=args.journal)
        optimizer.enqueue(IN_USE)
    while len(optimizer.trials) < args.evaluations:
        trial = optimizer.suggest()
        found = areas(trial.config, spaces, seeds, data)
        with args.out.open("a") as file:
            file.write(json.dumps({"setting": dict(trial.config), "areas": found}) + "\n")
        optimizer.observe(trial, float(np.mean(list(found.values()))))
        print(
            len(optimizer.trials),
            round(optimizer.trials[-1].value, 4),
            _changes(trial.config),
            flush=True,
        )
    text = report(runs.rows_of(args.out))
    runs.publish(f"# The settings of the default\n\n{runs.provenance()}\n\n{text}", args.table)


if __name__ == "__main__":
    main()
