"""Tune a kernel for two sizes and write the winners in all seven formats.

Run it with: python examples/ship.py [EVALUATIONS]
"""

import importlib.util
import json
import math
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from baco_like import MaxEvals, Ordinal, Space, tune
from baco_like.shipping import make_table, read_table, ship

TILES = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M")
SPACE = Space({name: Ordinal([16, 32, 64], default=16) for name in TILES})
SIZES = (64, 4096)


def kernel(size):
    """Return a made-up kernel: a function from configurations to milliseconds."""

    def milliseconds(trial):
        best = min(64, size // 4)
        return size / 64 * (1 + sum(abs(math.log2(trial[name] / best)) for name in TILES))

    return milliseconds


def tuned_table(evaluations, descriptor, constraints=()):
    """Tune both sizes; return one table, in which a function of the size describes each task."""
    runs = []
    for size in SIZES:
        result = tune(kernel(size), SPACE, stop=MaxEvals(evaluations), seed=1, progress=False)
        runs.append(result.optimizer.shipped_run(descriptor(size)))
    device = "NVIDIA A100"  # without a name, it is the model of the CPU
    return make_table(runs, SPACE, unit="ms", device=device, constraints=constraints)


def use_c_header(table, folder):
    ship(table, "c", folder / "tuned.h")
    main = '#include "tuned.h"\n#include <stdio.h>\nint main(void) {\n'
    main += '    printf("%lld\\n", tuned_select(3000)->BLOCK_SIZE_M);\n    return 0;\n}\n'
    (folder / "main.c").write_text(main)
    if shutil.which("cc"):
        subprocess.run(["cc", "main.c", "-lm", "-o", "main"], cwd=folder, check=True)
        print(
            "C, size 3000: BLOCK_SIZE_M =",
            subprocess.check_output([folder / "main"], text=True),
            end="",
        )


def use_json(table, folder):
    again = read_table(ship(table, "json", folder / "tuned.json"))
    print("JSON, size 100:", again.select({"n": 100}))


def use_python(table, folder):
    path = ship(table, "python", folder / "tuned.py")
    spec = importlib.util.spec_from_file_location("tuned", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    print("Python, size 20:", module.select(n=20))


def use_triton(table, folder):
    path = ship(table, "triton", folder / "tuned_triton.py")
    print("Triton:", path.read_text().count("triton.Config("), "configurations")


def use_vllm(table, folder):
    path = ship(table, "vllm", folder)
    batches = [key for key in json.loads(path.read_text()) if key.isdigit()]
    print(f"vLLM: {path.name} with the batch sizes {batches}")


def use_inductor(table, folder):
    path = ship(table, "inductor", folder / "inductor.json")
    print("Inductor:", list(json.loads(path.read_text()))[-1])


def use_wisdom(table, folder):
    path = ship(table, "wisdom", folder, name="vector_add")
    record = json.loads(path.read_text().splitlines()[-1])
    print(f"Kernel Launcher: {path.name}, size {record['problem_size']}")


def main(evaluations):
    by_size = tuned_table(evaluations, lambda n: {"n": n}, ["BLOCK_SIZE_M <= n"])
    by_batch = tuned_table(evaluations, lambda n: {"M": n, "E": 8, "N": 7168})
    shapes = tuned_table(evaluations, lambda n: {"dtype": "float16", "M": n, "N": n, "K": n})
    volumes = tuned_table(evaluations, lambda n: {"x": n})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for use in (use_c_header, use_json, use_python, use_triton):
            use(by_size, folder)
        use_vllm(by_batch, folder)
        use_inductor(shapes, folder)
        use_wisdom(volumes, folder)
    for entry in by_size.entries:
        print(f"best for {dict(entry.task)}: {entry.evidence.value:.3g} ms, {entry.config}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
