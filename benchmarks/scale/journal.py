"""How many events a second does a journal take, when several threads or processes wait for the disk together?

    python benchmarks/scale/journal.py [--events 400] [--repeats 3] [--folder DIR] [--table journal.md]

Each writer suggests and observes without a model. `alone`: every event waits for the disk by itself, and the others
wait for its lock, as in earlier versions. `shared`: events of threads share a wait, and processes wait without the
lock. `grouped`: besides, each thread writes a result and its next trial together, as `tune` does with proposals in
store. The ways alternate; the table has the fastest of the repeats, because other processes use the disk too. DIR
should be on the disk of your journals.
"""

import os

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"

import argparse
import contextlib
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from baco_like import Optimizer, Space

SPACE = Space({f"p{i}": [2**k for k in range(12)] for i in range(10)})
WAYS = ("alone", "shared", "grouped")


def opened(path: Path, way: str) -> Optimizer:
    optimizer = Optimizer(SPACE, strategy="random_search", storage=path)
    if way == "alone":
        optimizer._run._disk = None  # then each event is appended durably under the lock
    return optimizer


def write(optimizer: Optimizer, way: str, pairs: int) -> None:
    trial = optimizer.suggest()
    for _ in range(pairs):
        with optimizer.grouped() if way == "grouped" else contextlib.nullcontext():
            optimizer.observe(trial, 1.0)
            trial = optimizer.suggest()


def run_threads(path: Path, way: str, writers: int, pairs: int) -> float:
    """Return the seconds of several threads with one optimizer."""
    optimizer = opened(path, way)
    threads = [threading.Thread(target=write, args=(optimizer, way, pairs)) for _ in range(writers)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def run_processes(path: Path, way: str, writers: int, pairs: int) -> float:
    """Return the seconds of several processes with an optimizer each."""
    opened(path, way)
    began = time.perf_counter()
    children = []
    for _ in range(writers):
        child = os.fork()
        if not child:
            write(opened(path, way), way, pairs)
            os._exit(0)
        children.append(child)
    ended = [os.waitpid(child, 0)[1] for child in children]
    assert not any(ended), ended
    return time.perf_counter() - began


def measure(
    run: Callable[[Path, str, int, int], float], writers: int, way: str, events: int, folder: Path
) -> tuple[float, float]:
    """Return the events per second, and the events per wait for the disk of this process."""
    calls, fsync = 0, os.fsync

    def count(fd: int) -> None:
        nonlocal calls
        calls += 1
        fsync(fd)

    with tempfile.TemporaryDirectory(dir=folder, prefix="baco-journal-") as name:
        pairs = max(1, events // (2 * writers))
        os.fsync = count
        try:
            seconds = run(Path(name) / "run.jsonl", way, writers, pairs)
        finally:
            os.fsync = fsync
    written = (2 * pairs + 1) * writers
    return written / seconds, written / max(1, calls)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("."))
    parser.add_argument("--table", type=Path)
    args = parser.parse_args()
    lines = [
        "| writers | alone, events/s | shared | grouped | shared / alone | grouped / alone | events per wait, shared | "
        "grouped |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    kinds = [("threads", run_threads, n) for n in (1, 8, 64)]
    kinds += [("processes", run_processes, n) for n in (4, 8)]
    for name, run, writers in kinds:
        found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
        for _ in range(args.repeats):
            for way in WAYS:
                found[way].append(measure(run, writers, way, args.events, args.folder))
        rate = {way: max(each[0] for each in found[way]) for way in WAYS}
        waits = {way: statistics.median(each[1] for each in found[way]) for way in WAYS}
        shared = [f"{waits[way]:.1f}" if run is run_threads else "" for way in WAYS[1:]]
        lines.append(
            f"| {writers} {name} | {rate['alone']:.0f} | {rate['shared']:.0f} | {rate['grouped']:.0f} "
            f"| {rate['shared'] / rate['alone']:.1f} | {rate['grouped'] / rate['alone']:.1f} "
            f"| {shared[0]} | {shared[1]} |"
        )
        print(lines[-1], flush=True)
    if args.table is not None:
        args.table.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
