"""Values that come with a standard error, from a tool that averages automatically, and the log of the run.

Run it with: python examples/measurements.py [EVALUATIONS]
"""

import logging
import math
import random
import statistics
import sys

from baco_like import Integer, MaxEvals, Measurement, Ordinal, Space, tune

space = Space({"tile": Ordinal([8, 16, 32, 64, 128], log=True), "unroll": Integer(1, 8, log=True)})
noise = random.Random(1)


def benchmark(trial):
    """Return the mean of some noisy times and its standard error, as a benchmark library prints them."""
    exact = 1 + abs(math.log2(trial["tile"] / 32)) + 2 / trial["unroll"]
    times = [exact * noise.lognormvariate(0, 0.1) for _ in range(noise.randrange(3, 30))]
    return Measurement(statistics.mean(times), statistics.stdev(times) / math.sqrt(len(times)))


def main(evaluations):
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    logging.getLogger("baco_like").setLevel(logging.INFO)  # DEBUG: every trial
    result = tune(benchmark, space, stop=MaxEvals(evaluations), progress=False)
    best = result.best
    print(f"best: {best.value:.3g} ± {best.sem:.2g} with {dict(best)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 25)
