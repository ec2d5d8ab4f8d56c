"""1. Kill a run 200 times at random moments: no acknowledged result is lost, and every resume continues identically.

    python benchmarks/reliability/kills.py [--quick] [--kills 200]

A child opens the journal and continues with Bayesian optimization. It logs, with fsync,
every trial returned by `suggest` and every result accepted by `observe`. The parent kills it (SIGKILL) after a random
time and starts the next one. After each kill, the journal must open and hold every acknowledged result with the same
value, and at most one more for each kill. A whole run must have the same suggestions, with the same notes in the same
order, as a run without kills.
"""

import random
import time
from functools import partial
from pathlib import Path

from harness import (
    SPACE,
    Log,
    Report,
    arguments,
    chosen,
    entries,
    forked,
    kill,
    known,
    observe,
    scratch,
)

from baco_like import Optimizer, Search, Trial

LONGEST = 0.6
"""Seconds after which a child is killed at the latest; the double after each child without a result."""


def optimizer(seed: int, path: Path | None) -> Optimizer:
    return Optimizer(SPACE, seed=seed, strategy=Search(initial=5), storage=path)


def go_on(seed: int, length: int, path: Path, log: Path) -> None:
    """Work as a worker does; `suggest` returns the pending trial of the killed process first."""
    opt, acknowledged = optimizer(seed, path), Log(log)
    while len(opt.trials) < length:
        trial = opt.suggest()
        acknowledged.write(["suggested", trial.id, dict(trial)])
        observe(opt, trial)
        acknowledged.write(["observed", trial.id, known(opt)[trial.id]])


def check(report: Report, path: Path, log: Path, starts: int) -> int:
    """Compare the journal with the acknowledged results; return their number."""
    told = entries(log)
    opt = Optimizer.load(path) if path.exists() and path.stat().st_size else None
    if opt is None:
        report.check(not told, "the journal is gone")
        return 0
    seen, ids = known(opt), {t.id for t in [*opt.trials, *opt.pending]}
    results = {entry[1]: entry[2] for entry in told if entry[0] == "observed"}
    for trial_id, result in results.items():
        report.check(seen.get(trial_id) == result, f"result of trial {trial_id} is lost or changed")
    report.check(all(entry[1] in ids for entry in told), "a trial that was suggested is unknown")
    report.check(len(seen) <= len(results) + starts, "more results than one per kill beyond those")
    return len(results)


def complete(path: Path, length: int) -> bool:
    return path.exists() and path.stat().st_size > 0 and len(Optimizer.load(path).trials) >= length


def undisturbed(seed: int, length: int) -> list[Trial]:
    whole = optimizer(seed, None)
    for _ in range(length):
        observe(whole, whole.suggest())
    return whole.trials


def compare(report: Report, seed: int, whole: list[Trial], path: Path) -> int:
    """Compare a run with an undisturbed one; return the number of compared suggestions."""
    parts = Optimizer.load(path).trials
    for one, other in zip(whole, parts, strict=True):
        same = (one.id, dict(one), one.tag) == (other.id, dict(other), other.tag)
        report.check(same, f"run {seed}: suggestion {one.id} is another than undisturbed")
    return len(parts)


def main() -> None:
    args = arguments(__doc__, kills=200)
    wanted, length = chosen(args.kills, args.quick, 5, 200), 12 if args.quick else 40
    rng, report = random.Random(args.seed), Report()
    kills = acknowledged = compared = seed = 0
    with scratch() as folder:
        while kills < wanted:
            path, log, count = folder / f"{seed}.jsonl", folder / f"{seed}.log", 0
            starts, longest = 0, LONGEST
            whole = undisturbed(
                seed, length
            )  # once in the parent, so that the children need no imports
            while not complete(path, length):
                child = forked(partial(go_on, seed, length, path, log))
                time.sleep(rng.uniform(0, longest))
                kill(child)
                kills, starts, before = kills + 1, starts + 1, count
                count = check(report, path, log, starts)
                longest = LONGEST if count > before else 2 * longest
            acknowledged += count
            compared += compare(report, seed, whole, path)
            seed += 1
    report.figure(f"{kills} kills in {seed} runs; every start after one opened the journal")
    report.figure(f"{acknowledged} acknowledged results looked for after each kill of their run")
    report.figure(f"{compared} suggestions compared with those of undisturbed runs")
    report.end()


if __name__ == "__main__":
    main()
