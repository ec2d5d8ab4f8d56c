"""A table of several tasks, with constraints that read their descriptors, and the import of shipped modules."""

import importlib.util
import subprocess

from baco_like import Categorical, Ordinal, Permutation, Real, Space, TrialError
from baco_like.shipping import Evidence, ShippedEntry, ShippedTable, Stamp
from baco_like.shipping.stamp import fingerprint

SPACE = Space(
    {
        "tile": Ordinal([8, 16, 32, 64], default=8),
        "order": Permutation(["i", "j", "k"], default=("i", "j", "k")),
        "flag": Categorical(["-O2", "-O3"], default="-O2"),
        "share": Real(0.0, 1.0, default=0.5),
    }
)
CONSTRAINTS = (
    "tile <= n",
    "n % tile == 0 or device in ['mi250', 'gpu'] and pos(order, 'k') < 2",
    "not n // tile == 3",
    "sqrt(n - 8) >= 0 and (n ** 2 / tile > 1 if device == 'cpu' else n in range(8, 10**6, 4))",
)


def stamp(**facts):
    return Stamp(fingerprint(SPACE.to_dict()), "time", "ms", date="2026-11-23T00:00:00Z", **facts)


def entry(tile, **task):
    config = {"tile": tile, "order": ("k", "i", "j"), "flag": "-O3", "share": 0.25}
    return ShippedEntry(task, config, Evidence(1.5, 5, 3.0, 2.0, 1.9, 2.1, 0.95, 3, (1.9, 2.1)))


def table(constraints=CONSTRAINTS, **facts):
    entries = (
        entry(16, n=64, device="cpu"),
        entry(64, n=4096, device="cpu"),
        entry(32, n=4096, device="gpu"),
    )
    return ShippedTable(entries, SPACE.default_config, SPACE, stamp(**facts), tuple(constraints))


def single(**facts):
    return ShippedTable((entry(32),), SPACE.default_config, SPACE, stamp(**facts))


def plain_space(names, **values):
    """A space of integers, as kernels have."""
    return Space({name: values.get(name, [16, 32, 64]) for name in names})


def imported(path, name="shipped"):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def index_of(table, task):
    """Return the index of the configuration that a table selects; -1 if it refuses."""
    try:
        config = table.select(task)
    except TrialError:
        return -1
    return next(i for i, one in enumerate(table.configs) if one is config)


def run_c(folder, calls):
    """Return the whole numbers that a program with these calls of tuned.h prints."""
    source = (
        f'#include "tuned.h"\n#include <stdio.h>\nint main(void) {{\n{calls}    return 0;\n}}\n'
    )
    (folder / "main.c").write_text(source)
    strict = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    subprocess.run(["gcc", *strict, "main.c", "-lm", "-o", "main"], cwd=folder, check=True)
    out = subprocess.run([folder / "main"], capture_output=True, text=True, check=True).stdout
    return [int(word) for word in out.split()]
