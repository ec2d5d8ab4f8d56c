"""Call the optimizer from the loop of a compiler pipeline: suggest a configuration, observe its result.

Run it with: python examples/own_loop.py [EVALUATIONS]
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from baco_like import Categorical, Integer, Optimizer, Ordinal, Search, Space

SOURCE = """
#include <stdio.h>
#define PRAGMA(x) _Pragma(#x)
#define UNROLLED(n) PRAGMA(GCC unroll n)
static float a[1 << 16], b[1 << 16];
int main(void) {
    for (int r = 0; r < 200; r++)
        for (int i = 0; i + BLOCK <= 1 << 16; i += BLOCK)
            UNROLLED(UNROLL) for (int j = 0; j < BLOCK; j++)
                b[i + j] = b[i + j] * 0.5f + a[i + j];
    printf("%f\\n", b[17]);
    return 0;
}
"""

space = Space(
    {
        "level": Categorical(["-O0", "-O1", "-O2", "-O3"]),
        "block": Ordinal([16, 32, 64, 128, 256], log=True),
        "unroll": Integer(1, 8, log=True),
        "native": [True, False],
    },
    constraints=["block % unroll == 0", "unroll == 1 or level != '-O0'"],
)


def build(config, folder):
    """Compile one configuration; return the program, or None and the compiler's message."""
    program = Path(folder) / "kernel"
    flags = [config["level"], f"-DBLOCK={config['block']}", f"-DUNROLL={config['unroll']}"]
    flags += ["-march=native"] if config["native"] else []
    command = ["cc", "-x", "c", "-", "-o", str(program), *flags]
    done = subprocess.run(command, input=SOURCE, text=True, capture_output=True, check=False)
    return (program, "") if done.returncode == 0 else (None, done.stderr)


def main(evaluations):
    if shutil.which("cc") is None:
        sys.exit("this example needs a C compiler named cc")
    optimizer = Optimizer(space, seed=1, strategy=Search(initial=5))
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(evaluations):
            trial = optimizer.suggest()
            program, log = build(trial, folder)
            if program is None:
                optimizer.observe(trial, failed="compile", message=log)
                continue
            times = []
            for _ in range(3):
                start = time.perf_counter()
                subprocess.run([program], check=True, capture_output=True)
                times.append(1e3 * (time.perf_counter() - start))
            optimizer.observe(trial, times)
    print(
        f"best of {len(optimizer.trials)}: {optimizer.best_value:.2f} ms with {optimizer.best_config}"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
