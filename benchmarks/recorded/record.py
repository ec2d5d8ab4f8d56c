"""Record every configuration of a run file with its evaluator, and write the table as T4.

    OMP_NUM_THREADS=1 python benchmarks/recorded/record.py FILE.toml --journal FILE.jsonl --out FOLDER

The journal makes the recording resumable: start it again after an interruption. The file's strategy should be random
search, so that changes of the machine's load affect all configurations equally. With --settle 1.1, a configuration
whose median exceeds 1.1 times its lowest repeat was disturbed by other work. It is measured again, up to four times,
and the least disturbed measurement counts. Writes NAME.json.gz (T4, in the order of the space) and NAME.space.json
(the space, for `Space.from_dict`), and prints the failures.
"""

import argparse
import json
import platform
import subprocess
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from baco_like import MaxEvals, Optimizer, Space, run
from baco_like.records import Objective
from baco_like.records.trial import Outcome, Trial
from baco_like.results import write
from baco_like.results.recording import recorded_trials
from baco_like.running import run_file as runfile


def record(asked: runfile.RunFile, journal: Path) -> Optimizer:
    optimizer = Optimizer(
        asked.space,
        asked.aim,
        asked.seed,
        strategy=asked.search,
        storage=journal,
    )
    start, before = time.perf_counter(), len(optimizer.trials)
    reason = run(optimizer, asked.create_evaluator(), MaxEvals(asked.budget.evaluations or 10**9))
    seconds, done = time.perf_counter() - start, len(optimizer.trials) - before
    print(f"{len(optimizer.trials)} trials, {done} new ones in {seconds:.0f} s; {reason}")
    return optimizer


def settled(
    trials: list[Trial], asked: runfile.RunFile, ratio: float, rounds: int = 4
) -> list[Trial]:
    evaluator = asked.create_evaluator()
    found = {trial.id: trial for trial in trials}
    for _ in range(rounds):
        disturbed = [trial for trial in found.values() if unrest(trial) > ratio]
        for trial in disturbed:
            evaluator.submit(trial)
            again = trial.with_outcome(evaluator.wait()[0])
            if again.value is not None and unrest(again) < unrest(trial):
                found[trial.id] = again
        print(f"{len(disturbed)} measured again")
    evaluator.close()
    return list(found.values())


def unrest(trial: Trial) -> float:
    return trial.value / min(trial.repeats) if trial.value is not None else 0.0


def shortened(trial: Trial, least: bool) -> Trial:
    """Return a trial with rounded digits, the stages of the format, and a shortened message.

    Args:
        trial: An observed trial.
        least: Keep only the lowest repeat.
    """
    outcome, seconds = trial.outcome, dict(trial.extra.get("seconds", {}))
    if "launch" in seconds:
        seconds["run"] = seconds.get("run", 0.0) + seconds.pop("launch")
    extra = {"seconds": {name: short(taken) for name, taken in seconds.items()}}
    if outcome.value is not None:
        repeats = tuple(map(short, outcome.repeats))
        repeats = (min(repeats),) if least else repeats
        metrics = dict(outcome.metrics)
        return trial.with_outcome(Outcome.success(trial.id, repeats, metrics=metrics, extra=extra))
    message = " ".join(outcome.message.split())[:120]
    return trial.with_outcome(replace(outcome, message=message, extra=extra))


def short(number: float) -> float:
    return float(f"{number:.5g}")


def write_problem(
    folder: Path,
    name: str,
    space: Space,
    trials: list[Trial],
    objective: Objective,
    compiler: str,
    least: bool = False,
) -> None:
    trials = [shortened(trial, least) for trial in in_order(space, trials)]
    metadata = {
        "machine": platform.machine(),
        "compiler": compiler,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }
    found = recorded_trials(trials, objective=objective.name, unit=objective.unit)
    write(found, folder / f"{name}.json.gz", "t4", metadata)
    described = json.dumps(space.to_dict(), indent=1)
    (folder / f"{name}.space.json").write_text(described + "\n")
    failures = Counter(trial.failure or "ok" for trial in trials)
    values = [trial.value for trial in trials if trial.value is not None]
    print(dict(failures), f"values {min(values):.6g} to {max(values):.6g} {objective.unit}")


def in_order(space: Space, trials: list[Trial]) -> list[Trial]:
    codes = space.encode([trial.config for trial in trials])
    return [trials[i] for i in np.lexsort(codes.T[::-1])]


def c_compiler() -> str:
    said = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True).stdout
    return said.splitlines()[0]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--compiler", help="default: what `cc --version` says")
    parser.add_argument(
        "--settle", type=float, help="largest ratio of the median to the least repeat"
    )
    parser.add_argument(
        "--least", action="store_true", help="the lowest repeat counts, for a busy machine"
    )
    args = parser.parse_args()
    asked = runfile.read(args.file)
    args.out.mkdir(parents=True, exist_ok=True)
    trials = record(asked, args.journal).trials
    if args.settle:
        trials = settled(trials, asked, args.settle)
    compiler = args.compiler or c_compiler()
    objective = asked.aim.first
    write_problem(args.out, args.file.stem, asked.space, trials, objective, compiler, args.least)


if __name__ == "__main__":
    main()
