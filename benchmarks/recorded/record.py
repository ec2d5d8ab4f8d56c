"""Record every configuration of a run file with its evaluator, and write the table as T4.

    OMP_NUM_THREADS=1 nice -n 10 python benchmarks/recorded/record.py FILE.toml --journal FILE.jsonl --out FOLDER

The journal makes it resumable: interrupted and started again it goes on. The file's strategy should be random search,
so that a change of the machine's load falls on all configurations alike. Writes NAME.json.gz (T4) and NAME.space.json
(the space, for `Space.from_dict`).
"""

import argparse
import time
from pathlib import Path

from baco_like import MaxEvals, Optimizer, runfile
from baco_like.tuner import run


def record(file: Path, journal: Path) -> Optimizer:
    asked = runfile.read(file)
    optimizer = Optimizer(
        asked.space,
        asked.objective.goal,
        asked.seed,
        objective=asked.objective.name,
        strategy=asked.strategy,
        storage=journal,
    )
    start, before = time.perf_counter(), len(optimizer.trials)
    reason = run(optimizer, asked.evaluator(), MaxEvals(asked.evaluations or 10**9))
    seconds, done = time.perf_counter() - start, len(optimizer.trials) - before
    print(
        f"{file.name}: {len(optimizer.trials)} trials, {done} new ones in {seconds:.0f} s; {reason}"
    )
    return optimizer


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    record(args.file, args.journal)


if __name__ == "__main__":
    main()
