"""How busy are 64 to 4,096 workers? A simulated cluster in virtual time, with the real optimizer and its journal.

    OMP_NUM_THREADS=1 python benchmarks/scale/cluster.py --workers 1000 [--ahead 500] [--patience 1] [--killed 0.1]
        [--strategy auto] [--data DIR --recorded dedispersion_milo/A4000] [--out rows.jsonl] [--table cluster.md]

The clock is virtual: an evaluation takes a drawn time (log-normal with mean `--mean` and a standard deviation of half
of it) or the recorded one of its configuration, and costs the machine nothing. Everything else is done for real and
put on the clock. The manager is the loop of `tune`: it takes all results that have arrived, records them, and suggests
trials for the free workers. A step takes its measured CPU time and the measured seconds in which it waited for the
disk. The store is filled beside it, by one thread of the same process: a fill takes its measured CPU time, and it
stands still while the manager works, because both need the interpreter. A step beside a fill takes `--interpreter`
seconds more: so long the manager waits for it (37 instead of 15 ms for a step, measured on two processors that 60
others shared).

`--killed` is the share of the workers that are killed, each at a random moment. The trials that they had are suggested
again after their lease of `--lease` virtual seconds. At the end the journal is opened again. It must hold each result
that was acknowledged, with its value, each number and each configuration once, and no trial without a result.
"""

import os

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"

import argparse
import heapq
import json
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from baco_like import Optimizer, Ordinal, Sharing, Space
from baco_like.evaluators.replay import load
from baco_like.optimizer import ahead as store_module
from baco_like.optimizer.ahead import FALLBACK, ProposalStore
from baco_like.records import Outcome, Trial
from baco_like.records.leases import Moment

LONGEST = 5.0
"""Most seconds of an evaluation, as a factor of the mean; a lease has to be longer."""

Evaluate = Callable[[Trial], tuple[float | None, float]]
"""Returns the value of a trial (None: it fails) and the seconds that it takes."""


class VirtualStore(ProposalStore):
    """The store without its thread: the simulation decides when a fill begins and ends."""

    def refill(self) -> None:
        """Do nothing."""

    def _prepare(self, n: int) -> bool:
        return len(self) >= n


@dataclass
class Meter:
    """Measures what the manager or a fill costs.

    Attributes:
        disk: Seconds of waiting for the disk, in total.
        syncs: Number of these waits.
    """

    disk: float = 0.0
    syncs: int = 0
    _fsync: Callable[[int], None] = os.fsync

    def install(self) -> None:
        os.fsync = self._measure  # type: ignore[assignment]

    def remove(self) -> None:
        os.fsync = self._fsync

    def _measure(self, fd: int) -> None:
        began = time.perf_counter()
        self._fsync(fd)
        self.disk += time.perf_counter() - began
        self.syncs += 1


@dataclass
class Totals:
    """What a simulation has counted; all seconds are virtual.

    Attributes:
        busy: Seconds of evaluations within the horizon, over all workers.
        alive: Seconds in which workers lived, within the horizon.
        manager: Seconds of the manager's work within the horizon, with the disk.
        disk: Those of them in which it waited for the disk.
        fill: CPU seconds of fills.
        fills: Number of fills.
        fallback: Number of trials without a model.
        killed: Number of killed workers.
        lost: Number of trials that killed workers had.
    """

    busy: float = 0.0
    alive: float = 0.0
    manager: float = 0.0
    disk: float = 0.0
    fill: float = 0.0
    fills: int = 0
    fallback: int = 0
    killed: int = 0
    lost: int = 0


@dataclass
class Cluster:
    """The simulation.

    Attributes:
        optimizer: The optimizer under test; its store has no thread.
        evaluate: Evaluates a trial.
        death: When each worker is killed, (workers,); infinity for the others.
        horizon: End of the measurement; afterwards only trials without a result are evaluated.
        ahead: Number of proposals to keep in store.
        patience: Seconds that free workers wait before the fallback, or None.
        meter: Measures the waits for the disk.
        interpreter: Seconds that a step waits for the interpreter beside a fill.
    """

    optimizer: Optimizer
    evaluate: Evaluate
    death: np.ndarray
    horizon: float
    ahead: int
    patience: float | None
    meter: Meter
    interpreter: float = 0.0
    now: float = 0.0
    totals: Totals = field(default_factory=Totals)
    acknowledged: dict[int, float | None] = field(default_factory=dict)
    _arrived: list[tuple[float, int, int, float | None]] = field(default_factory=list)
    _free: list[int] = field(default_factory=list)
    _fill: tuple[float, Any] | None = None
    _empty_since: float | None = None
    _leases: list[float] = field(default_factory=list)

    def run(self) -> Totals:
        self._free = list(range(len(self.death)))
        self.totals.alive = float(np.minimum(self.death, self.horizon).sum())
        self.totals.killed = int(np.isfinite(self.death).sum())
        while True:
            self._step()
            self._start_fill()
            if self.now >= self.horizon and not self.optimizer.pending:
                return self.totals
            self._wait()

    @property
    def _is_over(self) -> bool:
        return self.now >= self.horizon

    def _store(self) -> VirtualStore:
        store = self.optimizer._store
        assert isinstance(store, VirtualStore)
        return store

    def _start_fill(self) -> None:
        """Compute the next proposals for real; they arrive when their CPU time has passed on the clock."""
        store = self._store()
        if self._fill is not None or self._is_over or len(store) >= self.ahead:
            return
        began = time.thread_time()
        proposals = store.compute(self.ahead)
        seconds = time.thread_time() - began
        self.totals.fill += seconds
        self.totals.fills += 1
        self._fill = (self.now + seconds, proposals)

    def _step(self) -> None:
        """Record the results that have arrived, and suggest trials for the free workers."""
        finished = []
        while self._arrived and self._arrived[0][0] <= self.now:
            finished.append(heapq.heappop(self._arrived))
        self._free += [worker for _, worker, _, _ in finished]
        self._free = [worker for worker in self._free if self.death[worker] > self.now]
        outcomes = [_outcome(trial_id, value) for _, _, trial_id, value in finished]
        began, disk = time.thread_time(), self.meter.disk
        trials: list[Trial] = []
        with self.optimizer.grouped():
            if outcomes:
                self.optimizer.complete(outcomes)
            number = self._number_of_trials()
            if number:
                trials = self.optimizer.suggest(number)
        waited = self.meter.disk - disk
        seconds = time.thread_time() - began + waited
        if self._fill is not None and (outcomes or trials):
            seconds += self.interpreter
            waited += self.interpreter  # the fill has it meanwhile
        self.now += seconds
        if self._fill is not None:  # the thread of the fill has waited for the interpreter
            self._fill = (self._fill[0] + seconds - waited, self._fill[1])
        if self.now < self.horizon:
            self.totals.manager += seconds
            self.totals.disk += self.meter.disk - disk
        for _, _, trial_id, value in finished:
            self.acknowledged[trial_id] = value
        for trial in trials:
            self._begin(trial)

    def _number_of_trials(self) -> int:
        """Return for how many of the free workers trials are suggested now."""
        free, stored = len(self._free), len(self._store())
        expired = sum(until <= self.now for until in self._leases)
        if self._is_over or not free:
            return min(free, expired)
        if free <= stored + expired:
            self._empty_since = None
            return free
        since = self.now if self._empty_since is None else self._empty_since
        self._empty_since = since
        if self.patience is not None and self.now >= since + self.patience:
            self._empty_since = None
            return free
        return stored + expired

    def _begin(self, trial: Trial) -> None:
        """Start a trial on a free worker; a worker that is killed before its end reports nothing."""
        worker = self._free.pop()
        value, seconds = self.evaluate(trial)
        end, death = self.now + seconds, self.death[worker]
        stop = min(end, death, self.horizon)
        self.totals.busy += max(0.0, stop - self.now)
        self.totals.fallback += (trial.tag or {}).get("phase") == FALLBACK
        expired = [until for until in self._leases if until <= self.now]
        if expired:  # this trial was offered again
            self._leases.remove(min(expired))
        if death <= end:
            self.totals.lost += 1
            assert trial.lease is not None
            heapq.heappush(self._leases, self.now + trial.lease.seconds)
        else:
            heapq.heappush(self._arrived, (end, worker, trial.id, value))

    def _wait(self) -> None:
        """Set the clock to the next moment at which something happens."""
        moments = [each[0] for each in self._arrived[:1]]
        if self._free:
            moments += self._leases[:1]
        if not self._is_over:
            moments.append(self.horizon)
            if self._free and self._empty_since is not None and self.patience is not None:
                moments.append(self._empty_since + self.patience)
        if self._fill is not None:
            moments.append(self._fill[0])
        self.now = max(self.now, min(moments, default=math.inf))
        assert self.now < math.inf, "nothing can happen any more"
        if self._fill is not None and self._fill[0] <= self.now:
            self._store().add(*self._fill[1])
            self._fill = None


def _outcome(trial_id: int, value: float | None) -> Outcome:
    if value is None:
        return Outcome.failure(trial_id, "runtime")
    return Outcome.success(trial_id, (value,))


def synthetic(seed: int, mean: float = 10.0) -> tuple[Space, Evaluate]:
    """Return twelve ordinals with a smooth cost, and evaluations of some seconds on average."""
    names = [f"p{i}" for i in range(12)]
    space = Space({name: Ordinal([2**k for k in range(8)], log=True) for name in names})
    rng = np.random.default_rng(seed)
    best, weights = rng.integers(0, 8, len(names)), rng.uniform(0.05, 0.3, len(names))
    spread = math.sqrt(math.log(1.25))  # standard deviation of half of the mean

    def evaluate(trial: Trial) -> tuple[float, float]:
        distance = np.abs(np.log2(np.array([trial[name] for name in names])) - best)
        slowdown = float(np.prod(1.0 + weights * distance))
        seconds = mean * math.exp(rng.normal(-(spread**2) / 2, spread))
        return slowdown, min(seconds, LONGEST * mean)

    return space, evaluate


def recorded(path: Path) -> tuple[Space, Evaluate]:
    """Return the space of a recording, with the recorded value and seconds of each configuration."""
    recording = load(path)
    space = recording.space()
    rows = {tuple(sorted(trial.config.items())): trial for trial in recording.trials}

    def evaluate(trial: Trial) -> tuple[float | None, float]:
        known = rows.get(tuple(sorted(trial.config.items())))
        if known is None or known.outcome is None:
            return None, 0.1
        return known.value, max(0.1, sum(known.outcome.seconds.values()))

    return space, evaluate


def check(path: Path, cluster: Cluster) -> list[str]:
    """Return what is wrong in the journal."""
    run = Optimizer.load(path)
    values = {trial.id: trial.value for trial in run.trials}
    configs = {json.dumps(dict(trial), sort_keys=True) for trial in run.trials}
    wrong = []
    if values != cluster.acknowledged:
        wrong.append("the journal differs from the acknowledged results")
    if len(values) != len(run.trials) or len(configs) != len(run.trials):
        wrong.append("a trial or a configuration was evaluated twice")
    if run.pending:
        wrong.append(f"{len(run.pending)} trials have no result")
    return wrong


def simulate(args: argparse.Namespace, workers: int, folder: Path) -> dict[str, Any]:
    """Run one simulation and return its figures."""
    path = folder / f"{workers}.jsonl"
    if args.recorded is None:
        space, evaluate = synthetic(args.seed, args.mean)
    else:
        device = args.recorded.split("/")
        space, evaluate = recorded(
            Path(args.data) / "recorded" / device[0] / f"{device[1]}_T4.json.gz"
        )
    size = args.ahead or max(16, workers // 2)
    optimizer = Optimizer(
        space,
        seed=args.seed,
        storage=path,
        strategy=args.strategy,
        sharing=Sharing(lease=args.lease),
    )
    optimizer._store = VirtualStore(
        optimizer._run, Sharing(lease=optimizer.lease, ahead=size), optimizer._threads
    )
    rng = np.random.default_rng(args.seed)
    death = np.full(workers, math.inf)
    dead = rng.permutation(workers)[: round(args.killed * workers)]
    death[dead] = rng.uniform(0.0, args.seconds, len(dead))
    meter = Meter()
    cluster = Cluster(
        optimizer, evaluate, death, args.seconds, size, args.patience, meter, args.interpreter
    )
    store_module.read_clocks = lambda: Moment(1e9 + cluster.now, "virtual", cluster.now)
    meter.install()
    try:
        totals = cluster.run()
    finally:
        meter.remove()
    wrong = check(path, cluster)
    number = len(cluster.acknowledged)
    return {
        "workers": workers,
        "strategy": args.strategy,
        "space": args.recorded or f"12 ordinals, {args.mean:g} s",
        "ahead": size,
        "patience": args.patience,
        "seed": args.seed,
        "results": number,
        "busy": totals.busy / totals.alive,
        "manager": totals.manager / args.seconds,
        "disk": totals.disk / args.seconds,
        "fill": totals.fill / totals.fills,
        "fills": totals.fills,
        "fallback": totals.fallback / number,
        "syncs": meter.syncs,
        "killed": totals.killed,
        "lost": totals.lost,
        "best": optimizer.best_value,
        "wrong": wrong,
    }


def write_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table of the last run of each kind."""
    lines = [
        "| workers | space | strategy | patience, s | results | busy | trials without a model | killed | lost and "
        "evaluated again | manager | disk | CPU s of a fill | trials per wait for the disk | violations |",
        "|---:|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        trials = row["results"] / max(1, row["syncs"])
        patience = "-" if row["patience"] is None else f"{row['patience']:g}"
        lines.append(
            f"| {row['workers']:,} | {row['space']} | {row['strategy']} | {patience} | {row['results']:,} "
            f"| {100 * row['busy']:.1f} % | {100 * row['fallback']:.1f} % | {row['killed']} | {row['lost']} "
            f"| {100 * row['manager']:.0f} % | {100 * row['disk']:.0f} % | {row['fill']:.2f} | {trials:.1f} "
            f"| {len(row['wrong'])} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", default="1000", help="numbers, separated by commas")
    parser.add_argument("--seconds", type=float, default=100.0, help="virtual seconds measured")
    parser.add_argument("--ahead", type=int, default=0, help="0: half of the workers")
    parser.add_argument("--patience", type=float, default=None)
    parser.add_argument("--killed", type=float, default=0.1, help="share of the workers")
    parser.add_argument("--mean", type=float, default=10.0, help="seconds of an evaluation")
    parser.add_argument("--lease", type=float, default=60.0)
    parser.add_argument("--interpreter", type=float, default=0.025)
    parser.add_argument("--strategy", default="auto")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", default=os.environ.get("BACO_LIKE_DATA", "../shared/data"))
    parser.add_argument("--recorded", help="such as dedispersion_milo/A4000: recorded times")
    parser.add_argument("--out", type=Path, help="append the figures to this file (JSONL)")
    parser.add_argument("--table", type=Path, help="write the table of all rows of --out")
    args = parser.parse_args()
    if args.recorded is None and args.lease <= LONGEST * args.mean:
        parser.error(f"--lease {args.lease:g}: give more than {LONGEST * args.mean:g}")
    rows = []
    with tempfile.TemporaryDirectory(prefix="baco-scale-") as folder:
        for workers in map(int, args.workers.split(",")):
            rows.append(simulate(args, workers, Path(folder)))
            print(json.dumps(rows[-1]), flush=True)
            if args.out is not None:
                with args.out.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    if args.table is not None:
        kept = rows if args.out is None else map(json.loads, args.out.read_text().splitlines())
        args.table.write_text(write_table(list(kept)))
    raise SystemExit(1 if any(row["wrong"] for row in rows) else 0)


if __name__ == "__main__":
    main()
