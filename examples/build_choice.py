"""Build several configurations for each one that is measured, and choose it by what the compiler has made.

Run it with: python examples/build_choice.py [EVALUATIONS]
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from baco_like import Categorical, Integer, Optimizer, Ordinal, Space

SOURCE = """
double work(const double *a, double *b, int n) {
    double sum = 0.0;
    for (int r = 0; r < n; r += STEP)
        for (int i = 0; i < BLOCK; i++) {
            b[i] = a[i] * 0.5 + b[i] * (double)r;
            sum += b[i];
        }
    return sum;
}
"""

space = Space(
    {
        "level": Categorical(["-O1", "-O2", "-O3", "-Os"]),
        "block": Ordinal([4, 8, 16, 32, 64], log=True),
        "step": Integer(1, 8),
        "fast": [False, True],
        "unroll": [False, True],
    }
)


def build(config, folder):
    """Compile a configuration; return numbers that the assembly gives: what runs may cost is known before they run."""
    flags = [config["level"], f"-DBLOCK={config['block']}", f"-DSTEP={config['step']}"]
    flags += ["-ffast-math"] * config["fast"] + ["-funroll-loops"] * config["unroll"]
    assembly = Path(folder) / "work.s"
    command = ["cc", "-x", "c", "-", "-S", "-o", str(assembly), *flags]
    subprocess.run(command, input=SOURCE, text=True, check=True)
    words = [line.split() for line in assembly.read_text().splitlines() if line.startswith("\t")]
    names = [line[0] for line in words if not line[0].startswith(".")]
    return {
        "code.instructions": len(names),
        "code.branches": sum(name.startswith(("j", "b.", "cb", "tb")) for name in names),
        "code.packed": sum(name.endswith(("pd", "ps")) for name in names),
    }


def measure(config, metrics):
    """Stand for a long run: more passes over the data take longer, and so do more instructions in each."""
    return config["block"] / config["step"] * (1 + metrics["code.instructions"] / 40)


def main(evaluations):
    if shutil.which("cc") is None:
        sys.exit("this example needs a C compiler named cc")
    optimizer, built = Optimizer(space, seed=1), 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(evaluations):
            for candidate in optimizer.candidates(6):
                optimizer.report_build(candidate, build(candidate, folder))
                built += 1
            trial = optimizer.choose()
            metrics = build(trial, folder)
            optimizer.observe(trial, measure(trial, metrics), build=metrics)
            print(trial.id, optimizer.why(trial).get("build", "the next suggestion"))
    best = optimizer.best
    print(f"{built} built, {evaluations} measured; best {best.value:.3g} with {dict(best.config)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
