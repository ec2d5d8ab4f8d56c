"""Drive `baco-like serve` like a compiler that was written for HyperMapper.

Run it with: python examples/serve/client.py [SCENARIO.json]
The file of samples, tiles_output_samples.csv, is written to the folder it is run in.
"""

import re
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-m", "baco_like", "serve"]


def runtime(tile, vector, order):
    """Stand for compiling and running; None where the program crashes."""
    if tile * vector > 512:
        return None
    return abs(tile - 32) / 8 + 8 / vector + 2 * order.index(0)


def reply(names, line):
    """Return the row of a reply: the parameters as they came, the objective, whether it ran."""
    cells = dict(zip(names, re.split(r",(?![^(]*\))", line), strict=True))
    order = [int(element) for element in re.findall(r"\d+", cells["order"])]
    value = runtime(int(cells["tile"]), int(cells["vector"]), order)
    return f"{line},-1,False" if value is None else f"{line},{value},True"


def main(scenario):
    server = subprocess.Popen(
        [*COMMAND, scenario], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    best = float("inf")
    while (request := server.stdout.readline().strip()) != "End of HyperMapper":
        if not request.startswith("Request "):
            sys.exit(f"the server has ended with {server.wait()}")
        names = server.stdout.readline().strip().split(",")
        rows = [
            reply(names, server.stdout.readline().strip()) for _ in range(int(request.split()[1]))
        ]
        server.stdin.write("\n".join([",".join([*names, "runtime", "Valid"]), *rows]) + "\n")
        server.stdin.flush()
        best = min([best, *(float(row.split(",")[-2]) for row in rows if row.endswith("True"))])
        print(f"{request}: best so far {best:g}")
    server.stdin.close()
    return server.wait()


if __name__ == "__main__":
    default = str(Path(__file__).with_name("scenario.json"))
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else default))
