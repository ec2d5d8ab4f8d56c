"""Measure one suggest() + observe() with and without the limit of one thread, alone and beside busy processes.

    python benchmarks/speed/threads.py --data DIR [--repeats 15] [--busy 4]

The space and the histories are those of `suggest.py` (the recorded 2-D convolution), the strategy is `auto`. Every
number of threads is measured in a separate process, because BLAS threads that wait for work use CPU time for a while
after it. `--busy` other processes that only count make the machine busy.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
SIZES = (50, 100, 200)
LIMITS = {"no limit": 0, "one thread (default)": 1}


def measure(data: str, threads: int, repeats: int) -> list[tuple[float, float]]:
    """Return for each size of history the median CPU and wall milliseconds of a step."""
    environment = {name: value for name, value in os.environ.items() if name not in _THREADS}
    environment["BACO_LIKE_THREADS"] = str(threads)
    command = [sys.executable, __file__, "--data", data, "--repeats", str(repeats), "--child"]
    done = subprocess.run(
        command, env=environment, check=True, stdout=subprocess.PIPE, encoding="utf-8"
    )
    return [tuple(pair) for pair in json.loads(done.stdout)]


def child(data: str, repeats: int) -> None:
    """Print the medians as JSON; the environment has the number of threads."""
    given = {name: os.environ.get(name) for name in _THREADS}
    import suggest  # it sets the variables for its own measurements; NumPy has read them by then

    assert not any(given.values())
    space = suggest.SPACES["convolution"](suggest.data_folder(data))
    pairs = []
    for size in SIZES:
        step = suggest.ours(space, *suggest.observations(space, size), "auto")
        times = []
        for _ in range(repeats):
            cpu, wall = time.process_time(), time.perf_counter()
            step()
            times.append((time.process_time() - cpu, time.perf_counter() - wall))
        pairs.append([1e3 * statistics.median(column) for column in zip(*times, strict=True)])
    print(json.dumps(pairs))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default=os.environ.get("BACO_LIKE_DATA", "../shared/data"))
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--busy", type=int, default=4)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        import numpy  # noqa: F401  its BLAS reads the variables when it is loaded
        import scipy.linalg  # noqa: F401

        child(args.data, args.repeats)
        return
    print("| busy processes | threads | " + " | ".join(f"{n} observations" for n in SIZES) + " |")
    print("|---:|---|" + "---:|" * len(SIZES))
    for busy in (0, args.busy):
        for name, threads in LIMITS.items():
            with ExitStack() as others:
                for _ in range(busy):
                    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
                    others.callback(process.wait)
                    others.callback(process.kill)
                pairs = measure(str(Path(args.data).resolve()), threads, args.repeats)
            cells = [f"{cpu:.0f} / {wall:.0f} ms" for cpu, wall in pairs]
            print(f"| {busy} | {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
