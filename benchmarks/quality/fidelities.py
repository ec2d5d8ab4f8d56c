"""How much time do cheap proxies save, and what does a misleading proxy cost?

    OMP_NUM_THREADS=1 python benchmarks/quality/fidelities.py --data DIR --out rows.jsonl --table fidelities.md

The target of each space is its recorded table with the recorded seconds of build, check and runs. A proxy takes a tenth
of the time of the same configuration. Three proxies are made from the table:

* `good`: the value of the target times a factor and log-normal noise, fixed for each configuration (its rank
  correlation with the target is in the table);
* `device`: the values of the same kernel on another device, a real proxy;
* `misleading`: the values of the target in a random order.

A run ends as in `seconds.py`: the best configuration at the target is within 5 % of the optimum. `none` is the default
strategy without a fidelity, `halving` successive halving (BOHB) with the same proxy.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from functools import cache, partial
from itertools import product
from pathlib import Path

import numpy as np
import runs
from peers import problems
from scipy.stats import spearmanr
from seconds import SHARE, recording_of, report_of

from baco_like import Optimizer

SPACES = (
    "convolution_milo/A4000",
    "convolution_milo/MI250X",
    "convolution_milo/W7800",
    "dedispersion_milo/MI250X",
)
OTHER = {
    "convolution_milo/A4000": "convolution_milo/W7800",
    "convolution_milo/MI250X": "convolution_milo/W7800",
    "convolution_milo/W7800": "convolution_milo/MI250X",
    "dedispersion_milo/MI250X": "dedispersion_milo/A4000",
}
COST = 0.1
"""Time of a proxy as a share of the time of the target."""

NOISE = 0.05
"""Standard deviation of the logarithm of the noise of the good proxy."""

REFERENCE = "none"
VARIANTS = (REFERENCE, "good", "device", "misleading", "good, halving", "misleading, halving")


@cache
def proxy_of(name: str, data: Path, kind: str) -> dict[tuple[object, ...], float]:
    """Return the proxy's value of each configuration that runs at the target; NaN where the proxy fails."""
    problem, rng = problems.problem(name, data), np.random.default_rng(0)
    costs = problem.costs
    ran = ~np.isnan(costs)
    values = costs.copy()
    if kind == "good":
        values = 0.05 * costs * np.exp(NOISE * rng.standard_normal(len(costs)))
    elif kind == "misleading":
        values[ran] = rng.permutation(costs[ran])
    else:
        other = recording_of(OTHER[name], data)
        found = [other.find(dict(zip(problem.names, row, strict=True))) for row in problem.rows]
        known = [np.nan if o is None or o.value is None else o.value for o in found]
        values = np.where(ran, np.array(known, dtype=float), np.nan)
    return dict(zip(problem.rows, values.tolist(), strict=True))


def rank_correlation(name: str, data: Path, kind: str) -> float:
    problem = problems.problem(name, data)
    proxy = np.array([proxy_of(name, data, kind)[row] for row in problem.rows])
    both = ~np.isnan(problem.costs) & ~np.isnan(proxy)
    return float(spearmanr(problem.costs[both], proxy[both]).statistic)


def one_run(name: str, variant: str, seed: int, *, data: Path, evaluations: int) -> runs.Row:
    """Return the simulated seconds of a run until it is within 5 % at the target."""
    problem, recorded = problems.problem(name, data), recording_of(name, data)
    kind, _, strategy = variant.partition(", ")
    proxy = {} if variant == REFERENCE else proxy_of(name, data, kind)
    optimizer = Optimizer(
        problem.space.with_fidelity({"level": [1, 10]} if proxy else None),
        seed=seed,
        strategy="successive_halving" if strategy else "auto",
    )
    goal, clock, count, reached = problem.best / SHARE, 0.0, 0, False
    started = time.process_time()
    while count < evaluations and not reached:
        trial = optimizer.suggest()
        config = {n: trial[n] for n in problem.names}
        at_target = trial.config.get("level", 10) == 10
        outcome = recorded.find(config)
        assert outcome is not None
        value = outcome.value if at_target else proxy[tuple(config.values())]
        seconds = sum(outcome.seconds.values()) * (1.0 if at_target else COST)
        if value is None or np.isnan(value):
            optimizer.observe(trial, failed="runtime", seconds=seconds)
        else:
            optimizer.observe(trial, value, seconds=seconds)
        clock += seconds
        count += 1 if at_target else COST
        reached = optimizer.best_value is not None and optimizer.best_value <= goal
    return {
        "space": name,
        "variant": variant,
        "seed": seed,
        "seconds": clock,
        "evaluations": count,
        "reached": reached,
        "cpu": time.process_time() - started,
    }


def main() -> None:
    defaults = {"seeds": 10, "budget": 150, "processes": 1}
    args = runs.arguments(__doc__, **defaults, spaces=SPACES, variants=VARIANTS).parse_args()
    jobs = list(product(args.spaces, args.variants, range(args.seeds)))
    work = partial(one_run, data=args.data, evaluations=args.budget)
    rows = runs.finished(work, jobs, ("space", "variant", "seed"), args)
    kinds = ("good", "device", "misleading")
    ranks = [
        [space, *(f"{rank_correlation(space, args.data, kind):.2f}" for kind in kinds)]
        for space in args.spaces
    ]
    parts = [runs.provenance(), report_of(rows, VARIANTS, REFERENCE)]
    parts += [
        "Rank correlation of the proxies with the target:",
        runs.table(["space", *kinds], ranks),
    ]
    runs.publish("\n\n".join(parts), args.table)


if __name__ == "__main__":
    main()
