"""Compare a run through Kernel Tuner with a run of our own loop: configurations, failures and best values.

Kernel Tuner simulates from recorded GPU spaces; our loop replays the same tables. Both get the space as Kernel Tuner's
users write it, ``tune_params`` and ``restrictions``. Ends with 1 if anything differs.

    python benchmarks/quality/through_kernel_tuner.py --data DIR [--strategy auto] [--evaluations 100] [--seed 1]

DIR (or the folder that BACO_LIKE_DATA names) holds ``recorded``, a folder of tables, and ``spaces``, their T1 files.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from kernel_tuner import tune_kernel

from baco_like import MaxEvals, Optimizer, Space, run
from baco_like.evaluators import ReplayEvaluator
from baco_like.evaluators.replay import load
from baco_like.integrations import BacoStrategy

TABLES = {
    "convolution_milo/A4000_T4.json.gz": "convolution_milo.json",
    "convolution/RTX_3060_laptop.json.gz": "convolution.json",
    "dedispersion_milo/MI250X_T4.json.gz": "dedispersion_milo.json",
}
ERRORS = {"compile": "CompilationFailedConfig", "constraints": "InvalidConfig"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("BACO_LIKE_DATA"))
    parser.add_argument("--strategy", default="auto")
    parser.add_argument("--evaluations", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def cache_row(names, values, entry):
    known = dict(zip(names, values, strict=True))
    if entry.failed:
        return {**known, "__error__": ERRORS.get(entry.failed, "RuntimeFailedConfig")}
    return {**known, "time": float(entry.value), "times": list(entry.repeats)}


def write_cache(path, recorded, tune_params):
    rows = {
        ",".join(map(str, values)): cache_row(recorded.names, values, entry)
        for values, entry in recorded.entries.items()
    }
    head = {"device_name": "recorded", "kernel_name": "kernel", "problem_size": [1]}
    names = {"tune_params_keys": list(tune_params), "tune_params": tune_params}
    path.write_text(json.dumps({**head, **names, "objective": "time", "cache": rows}))


def within(recorded, tune_params, restrictions, args):
    """Return our optimizer after a run through Kernel Tuner, and the best time that Kernel Tuner reports."""
    strategy = BacoStrategy(args.strategy, seed=args.seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cache.json")
        write_cache(path, recorded, tune_params)
        _, env = tune_kernel(
            "kernel",
            "",
            1,
            [],
            tune_params,
            restrictions=restrictions,
            strategy=strategy,
            strategy_options={"max_fevals": args.evaluations},
            cache=str(path),
            simulation_mode=True,
            quiet=True,
        )
    return strategy.optimizer, env["best_config"]["time"]


def alone(recorded, tune_params, restrictions, args):
    """Return our optimizer after a run of our own."""
    space = Space.from_kernel_tuner(tune_params, restrictions)
    optimizer = Optimizer(space, seed=args.seed, budget=args.evaluations, strategy=args.strategy)
    run(optimizer, ReplayEvaluator(recorded), MaxEvals(args.evaluations))
    return optimizer


def observed_results(optimizer):
    return [(dict(trial.config), trial.value, trial.failure) for trial in optimizer.trials]


def main():
    args = arguments()
    if args.data is None:
        raise SystemExit("no recorded spaces: give --data DIR, or set BACO_LIKE_DATA")
    differing = 0
    for table, described in TABLES.items():
        recorded = load(args.data / "recorded" / table)
        declared = Space.from_t1(args.data / "spaces" / described)
        tune_params = {name: list(one.values) for name, one in declared.parameters.items()}
        restrictions = [constraint.text for constraint in declared.constraints]
        theirs, best = within(recorded, tune_params, restrictions, args)
        ours = alone(recorded, tune_params, restrictions, args)
        same = observed_results(theirs) == observed_results(ours) and best == ours.best_value
        differing += not same
        optimum = min(one.value for one in recorded.entries.values() if one.value is not None)
        print(
            f"{table}: {len(theirs.trials)} evaluations, best through Kernel Tuner {best!r} ms, alone "
            f"{ours.best_value!r} ms (optimum {optimum!r}): {'the same run' if same else 'DIFFERENT'}",
            flush=True,
        )
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
