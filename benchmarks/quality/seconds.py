"""How many seconds until a configuration within 5 % of the optimum is found, on recorded build and run times?

    OMP_NUM_THREADS=1 python benchmarks/quality/seconds.py --data DIR --out rows.jsonl --seeds 5 --table seconds.md

A replayed device has a clock: each evaluation takes the recorded time of its build, its check and the repeats that it
used. A run ends when the value of the best configuration so far, by its recorded value of all repeats, is within 5 % of
the optimum of the table (least time / 0.95). The figure is the clock at that moment. A run that does not get there
within `--budget` counts with the clock at its end.

`default` uses all recorded repeats and has a budget of evaluations. `repeats` measures three times first, and more only
while a configuration may win. `repeats, seconds` also has a budget in seconds: the time that `--budget` average
configurations take. Ratios are geometric means over seeds, of the same seeds side by side; intervals are bootstrapped
over the seeds of each space.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from collections.abc import Mapping, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import runs
from peers import problems

from baco_like import Optimizer
from baco_like.evaluators import Repeats, ReplayEvaluator
from baco_like.evaluators.replay import load
from baco_like.results.recording import Recording

SPACES = (
    "convolution_milo/A4000",
    "convolution_milo/MI250X",
    "convolution_milo/W7800",
    "dedispersion_milo/A4000",
    "dedispersion_milo/MI250X",
)
SHARE = 0.95
FEW = Repeats(32, first_repeats=3)
"""Three measurements, and up to all recorded ones while a configuration may win."""

REFERENCE = "default"
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    REFERENCE: {},
    "repeats": {"repeats": FEW},
    "repeats, seconds": {"repeats": FEW, "seconds": True},
}
RESAMPLES = 2000


@cache
def recording_of(name: str, data: Path) -> Recording:
    return load(path_of(name, data))


def path_of(name: str, data: Path) -> Path:
    if name in problems.COMPILER:
        return problems.RECORDED / f"{name}.json.gz"
    folder, device = name.split("/")
    return data / "recorded" / folder / f"{device}_T4.json.gz"


def one_run(name: str, variant: str, seed: int, *, data: Path, evaluations: int) -> runs.Row:
    """Return the simulated seconds of a run until it is within 5 %, and how it got there."""
    options = dict(VARIANTS[variant])
    space, recorded = problems.problem(name, data).space, recording_of(name, data)
    rule = options.pop("repeats", None)
    device = ReplayEvaluator(recorded, repeats=rule)
    if options.get("seconds"):
        seconds = [sum(o.seconds.values()) for o in recorded.outcomes]
        options["seconds"] = evaluations * float(np.mean(seconds))
    goal = min(o.value for o in recorded.outcomes if o.value is not None) / SHARE
    optimizer = Optimizer(space, seed=seed, **options)
    started, reached = time.process_time(), False
    while len(optimizer.trials) < evaluations and not reached:
        device.submit(optimizer.suggest())
        optimizer.complete(device.wait())
        best = optimizer.best
        if best is not None:
            true = recorded.find(best.config)
            assert true is not None
            assert true.value is not None
            reached = true.value <= goal
    return {
        "space": name,
        "variant": variant,
        "seed": seed,
        "seconds": device.clock,
        "evaluations": len(optimizer.trials),
        "reached": reached,
        "cpu": time.process_time() - started,
    }


def report_of(rows: Sequence[runs.Row], known: Sequence[str], reference: str) -> str:
    """Return a table of seconds, and of the ratios to the reference with 95 % intervals over seeds."""
    variants = [v for v in known if any(r["variant"] == v for r in rows)]
    others = [v for v in variants if v != reference]
    head = ["space", *(f"{v}: s (evaluations)" for v in variants)]
    head += [f"{v} / {reference}" for v in others]
    rng, lines = np.random.default_rng(0), []
    drawn: dict[str, list[np.ndarray]] = {v: [] for v in others}
    for space in dict.fromkeys(r["space"] for r in rows):
        own = {v: [r for r in rows if (r["space"], r["variant"]) == (space, v)] for v in variants}
        line = [space]
        for some in own.values():
            missed = sum(not r["reached"] for r in some)
            mark = f", {missed} of {len(some)} not reached" if missed else ""
            mean = np.exp(np.mean(np.log([r["seconds"] for r in some])))
            line.append(f"{mean:.1f} ({np.mean([r['evaluations'] for r in some]):.0f}{mark})")
        first = {r["seed"]: r["seconds"] for r in own[reference]}
        for v in others:
            logs = np.array(
                [np.log(r["seconds"] / first[r["seed"]]) for r in own[v] if r["seed"] in first]
            )
            drawn[v].append(runs.resampled(logs, rng, RESAMPLES))
            line.append(_ratio(logs.mean(), drawn[v][-1]))
        lines.append(line)
    means = {v: np.mean(some, axis=0) for v, some in drawn.items()}
    last = [_ratio(some.mean(), some) for some in means.values()]
    return runs.table(head, [*lines, ["geometric mean", *[""] * len(variants), *last]])


def _ratio(log: float, resampled: np.ndarray) -> str:
    low, high = np.exp(runs.ends(resampled))
    return f"{np.exp(log):.2f} ({low:.2f} to {high:.2f})"


def main() -> None:
    defaults = {"seeds": 5, "budget": 150, "processes": 1}
    args = runs.arguments(__doc__, **defaults, spaces=SPACES, variants=VARIANTS).parse_args()
    jobs = list(product(args.spaces, args.variants, range(args.seeds)))
    work = partial(one_run, data=args.data, evaluations=args.budget)
    rows = runs.finished(work, jobs, ("space", "variant", "seed"), args)
    text = f"{runs.provenance()}\n\n{report_of(rows, list(VARIANTS), REFERENCE)}"
    runs.publish(text, args.table)


if __name__ == "__main__":
    main()
