"""7. Suggest, observe, abandon, enqueue, import, wait and reload in random orders: always equal to a simple model.

    python benchmarks/reliability/orders.py [--quick] [--orders 2000]

Runs the state machine of tests/test_stateful.py (hypothesis) with more examples: duplicates, unknown ids, foreign
configurations, values that cannot be written, leases that expire. A rejected call must change nothing.
"""

import os
import subprocess
import sys
from pathlib import Path

from harness import Report, arguments, chosen

ROOT = Path(__file__).parents[2]


def main() -> None:
    args = arguments(__doc__, orders=2000)
    orders, report = chosen(args.orders, args.quick, 3, 2000), Report()
    environment = {**os.environ, "BACO_LIKE_EXAMPLES": str(orders)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--hypothesis-profile=explore",
        "tests/test_stateful.py",
    ]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    report.check(done.returncode == 0, done.stdout[-3000:])
    report.figure(
        f"{orders} random orders of up to 30 steps, compared with the model after each step"
    )
    report.end()


if __name__ == "__main__":
    main()
