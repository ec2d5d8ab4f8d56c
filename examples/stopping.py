"""When a run ends, and how sure its result is: stopping rules, control measurements, a confirmation.

Run it with: python examples/stopping.py [EVALUATIONS]
"""

import random
import sys

from baco_like import (
    Confirm,
    LowOutlook,
    MaxEvals,
    MaxFailures,
    MaxTime,
    Measuring,
    NoImprovement,
    Ordinal,
    Recheck,
    Result,
    Space,
    Target,
    tune,
)

noise = random.Random(1)
space = Space(
    {
        "tile": Ordinal([8, 16, 32, 64, 128], log=True, default=8),
        "unroll": Ordinal([1, 2, 4, 8], default=1),
        "vector": Ordinal([1, 2, 4], default=1),
    }
)


def milliseconds(trial):
    """Return a made-up run time that varies by 2 %."""
    time = 1 + abs(trial["tile"] - 32) / 32 + 1 / trial["unroll"] + 1 / trial["vector"]
    return time * noise.uniform(0.98, 1.02)


def main(evaluations):
    stop = (
        MaxEvals(evaluations)  # whichever comes first
        | MaxTime(60)  # seconds
        | NoImprovement(30, rel=0.01)
        | LowOutlook(20, rel=0.002)
        | Target(0.5)
        | MaxFailures(10)
    )
    measuring = Measuring(
        repeats=3,  # the median counts
        recheck=Recheck(
            10
        ),  # the best one again after every ten evaluations: has the machine changed?
        confirm=Confirm(2, 15),  # at the end, the best two and the default by turns
    )
    result: Result = tune(milliseconds, space, stop, measuring=measuring, progress=False)
    print("ended:", result.reason)
    print("best", result.best_config, "recommended", dict(result.recommended.config))
    print("speed-up over the default:", result.confirmation.speedup)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
