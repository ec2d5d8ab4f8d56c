"""Keep 64 real processes busy on Dask and on Ray, and lose nothing when 10 % of them are killed.

    python benchmarks/scale/local_processes.py [--engine dask ray lanes] [--workers 64] [--seeds 3]

Every evaluation sleeps half a second, so that the table shows what the loop, the journal and the engine cost, and not
the evaluation. In each run the processes first evaluate two trials each, to import everything; then the measured run
begins, with a journal on disk. Beside it, the same run is made while 10 % of the processes are killed with SIGKILL in
the middle of an evaluation.

Busy is the sum of all evaluation times whose results arrived, over number of processes times the time from the first
start to the last end of an evaluation. So it includes the beginning, the end, and what the kills cost. A second figure
is what `baco-like show` names: idle time between a worker's first and last evaluation.
"""

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import contextmanager
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray warns without it

import numpy as np

from baco_like import MaxEvals, Optimizer, Space, run
from baco_like.benchmarking.studies.report import markdown_table
from baco_like.evaluators import ExecutorEvaluator, FunctionEvaluator, ProcessLanes, RayExecutor
from baco_like.records import read_utilisation
from baco_like.records.workers import WORKER

SPACE = Space(
    {"tile": [2**i for i in range(12)], "unroll": list(range(1, 65)), "ahead": list(range(64))}
)
DASK = {
    # Otherwise trials that wait stay at the scheduler until a worker is idle.
    "distributed.scheduler.worker-saturation": "inf",
    # 64 processes share the few processors of one machine here. They start by a fork, and do not profile themselves.
    "distributed.worker.multiprocessing-method": "forkserver",
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.admin.system-monitor.interval": "10s",
    # Otherwise 64 workers, and 64 nannies in the process of the run, wake up every 20 ms each.
    "distributed.admin.tick.interval": "5s",
    "distributed.admin.tick.limit": "30s",
}


def measure(log, seconds, trial):
    """Note the start with the process, sleep, and return a value."""
    with open(log, "ab", buffering=0) as file:
        file.write(f"{trial.id} {os.getpid()}\n".encode())
    time.sleep(seconds)
    return abs(trial["tile"] - 64) + 16 / trial["unroll"] + trial["ahead"]


def evaluator(log, seconds):
    """Return the evaluator of a worker."""
    return FunctionEvaluator(partial(measure, log, seconds))


@contextmanager
def started(engine, workers):
    """Start an engine with so many processes; yields its executor."""
    if engine == "dask":
        import dask
        from distributed import Client, LocalCluster

        dask.config.set(DASK)
        options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
        with (
            LocalCluster(n_workers=workers, silence_logs=50, memory_limit=0, **options) as cluster,
            Client(cluster) as client,
        ):
            while len(client.ncores()) < workers:
                time.sleep(0.1)
            yield client.get_executor(pure=False)
    elif engine == "ray":
        import ray

        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
        yield RayExecutor()
        ray.shutdown()
    else:
        with ProcessLanes(workers) as lanes:
            yield lanes


def kill_some(log, number, pause, ended):
    """Kill so many processes one by one, each while it evaluates; return their process numbers by trial."""
    killed, rng = {}, np.random.default_rng(0)
    while len(killed) < number and not ended.wait(pause):
        lines = [line.split() for line in Path(log).read_text().splitlines()]
        latest = {pid: trial for trial, pid in lines}  # the last trial that each process has begun
        recent = lines[-len(latest) // 2 :]
        candidates = [pid for _, pid in recent if pid not in killed]
        if candidates:
            pid = candidates[rng.integers(len(candidates))]
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed[pid] = latest[pid]
    return killed


def one_run(executor, workers, args, kills, seed, folder):
    """Return the row of one run: busy and idle share, evaluations per second, and how often trials were repeated."""
    log, journal = folder / f"log{kills}", folder / f"run{kills}.jsonl"
    make, options = (
        partial(evaluator, str(log), args.seconds),
        {"waiting": args.waiting, "lease": 120.0},
    )
    number = workers * args.each
    optimizer = Optimizer(SPACE, strategy=args.strategy, storage=journal, seed=seed, budget=number)
    killed, ended = {}, threading.Event()
    log.touch()

    def kill():
        # Spread over the first two thirds of the run, so that replaced processes are seen too.
        pause = args.each * args.seconds * 2 / 3 / max(kills, 1)
        killed.update(kill_some(log, kills, pause, ended))

    killer = threading.Thread(target=kill)
    before, clock = time.process_time(), time.monotonic()
    killer.start()
    run(optimizer, ExecutorEvaluator(make, executor, **options), MaxEvals(number))
    wall, cpu = time.monotonic() - clock, time.process_time() - before
    ended.set()
    killer.join()
    loaded = Optimizer.load(journal)
    begun = Counter(int(line.split()[0]) for line in log.read_text().splitlines())
    assert len(loaded.trials) >= number, f"{number - len(loaded.trials)} results are lost"
    assert len({trial.id for trial in loaded.trials}) == len(loaded.trials), "a result came twice"
    assert {trial.id for trial in loaded.trials if trial.origin != "late"} <= set(begun)
    assert not loaded.pending, "trials are left over"
    records = [trial.extra[WORKER] for trial in loaded.trials]
    starts = np.array([record["start"] for record in records])
    seconds = np.array([record["seconds"] for record in records])
    window = (starts + seconds).max() - starts.min()
    return {
        "busy": seconds.sum() / (workers * window),
        "idle": read_utilisation(loaded.history).idle,
        "rate": number / window,
        "killed": len(killed),
        "repeated": sum(begun.values()) - len(begun),
        "results": len(loaded.trials),
        "cpu": cpu / number * 1e3,
        "wall": wall,
    }


def warm_up(executor, workers, folder):
    """Let every process import what it needs."""
    log = folder / "warm"
    optimizer = Optimizer(SPACE, strategy="random_search", seed=99)
    make = partial(evaluator, str(log), 0.5)
    run(optimizer, ExecutorEvaluator(make, executor), MaxEvals(2 * workers))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--engine", nargs="+", default=["dask", "ray"])
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--each", type=int, default=40, help="evaluations per worker")
    parser.add_argument("--seconds", type=float, default=0.5, help="of an evaluation")
    parser.add_argument("--waiting", type=int, default=64, help="trials that wait for a worker")
    parser.add_argument("--strategy", default="random_search")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    rows = []
    for engine in args.engine:
        with started(engine, args.workers) as executor, tempfile.TemporaryDirectory() as name:
            warm_up(executor, args.workers, Path(name))
            for seed in range(args.seeds):
                for kills in (0, round(0.1 * args.workers)):
                    folder = Path(name) / str(seed)
                    folder.mkdir(exist_ok=True)
                    row = one_run(executor, args.workers, args, kills, seed, folder)
                    rows.append({"engine": engine, "seed": seed, **row})
                    print(rows[-1], flush=True)
    table = to_markdown(rows, args)
    print(table)


def to_markdown(rows, args):
    """Return the table: the median over the seeds, and the range of the busy share."""
    head = ["engine", "killed", "busy, median", "lowest to highest", "idle by `show`"]
    head += ["results per second", "evaluations repeated", "results lost"]
    lines = []
    groups = {}
    for row in rows:
        groups.setdefault((row["engine"], row["killed"] > 0), []).append(row)
    number = args.workers * args.each
    for (engine, _), group in groups.items():
        busy, idle = ([row[key] for row in group] for key in ("busy", "idle"))
        cells = [
            engine,
            f"{np.median([row['killed'] for row in group]):.0f}",
            f"{np.median(busy):.1%}",
            f"{min(busy):.1%} to {max(busy):.1%}",
            f"{np.median(idle):.1%}",
            f"{np.median([row['rate'] for row in group]):.0f}",
            f"{np.median([row['repeated'] for row in group]):.0f}",
            f"{sum(max(0, number - row['results']) for row in group)}",
            f"{np.median([row['cpu'] for row in group]):.1f}",
        ]
        lines.append(cells)
    return markdown_table([*head, "CPU of the run per evaluation (ms)"], lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
