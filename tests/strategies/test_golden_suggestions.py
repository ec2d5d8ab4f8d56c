"""The suggestions of eight strategies on seven spaces stay the same; also with tasks, limits, seconds and a warm start.

`golden_suggestions.json` has a digest of every ten suggestions, which shows where two runs part. A change that is
meant to alter suggestions cuts the file anew: ``python tests/strategies/test_golden_suggestions.py``. The file
holds for the versions in it, because another version of NumPy or SciPy may round differently. So do NumPy's logarithms
with AVX-512; the file is cut without it, and a case that differs is computed again without it.
"""

import hashlib
import json
import os
import platform
import subprocess
import sys
import zlib
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from baco_like import (
    Aim,
    Categorical,
    Integer,
    Optimizer,
    Ordinal,
    Permutation,
    Real,
    Search,
    Sharing,
    Space,
    SpaceExhausted,
    WarmStart,
)

PATH = Path(__file__).with_name("golden_suggestions.json")
TILES = {"tile": Ordinal([2**i for i in range(8)], log=True), "unroll": Integer(1, 16)}
FLAGS = {name: Categorical([False, True]) for name in "abcdefgh"}
SPACES = {
    "tiles": Space({**TILES, "vector": [1, 2, 4]}, ["tile * unroll <= 512", "tile >= vector"]),
    "order": Space({"loops": Permutation(list("ijkl")), **TILES}, ["pos(loops, 'i') < 3"]),
    "real": Space({"x": Real(1e-3, 1.0, log=True), "y": Real(-1.0, 1.0), "n": Integer(1, 9)}),
    "flags": Space(FLAGS, ["not a or b"]),
    "branches": Space(
        {"where": ["cpu", "gpu"], **TILES, "warps": [1, 2, 4, 8]}, when={"warps": "where == 'gpu'"}
    ),
    "large": Space({f"p{i}": Integer(1, 50) for i in range(6)}, ["p0 <= p1", "p2 + p3 < 70"]),
    "tiny": Space({"a": [1, 2, 3]}),
}
MODELS = ["auto", "bayesian", "baco", "ehvi"]
STRATEGIES = [*MODELS, "genetic_algorithm", "iterated_local_search", "racing", "particle_swarm"]
TASKS = {"tasks": [{"n": 64}, {"n": 512}, {"n": 4096}]}
OBJECTIVES = {"aim": {"value": "minimize", "size": "minimize"}}
OTHER = [(config, {"value": i % 7 + 1.5, "size": i % 4}) for i, config in
         enumerate(SPACES["tiles"].sample(20, seed=1))]  # fmt: skip
TIMES = [(config, values["value"]) for config, values in OTHER]
PRIOR = {"warm_start": WarmStart(TIMES, "prior")}
SEVERAL_PRIOR = {**OBJECTIVES, "warm_start": WarmStart(OTHER, "prior")}
ONE_TASK = {**TASKS, "sharing": Sharing(task="n=64"), "warm_start": WarmStart(TIMES, task="n=512")}
OPTIONS = {
    "tasks": ("auto", TASKS),
    "one task, another one known": ("auto", ONE_TASK),
    "goal single": ("auto", {**TASKS, "aim": Aim(goal="single")}),
    "fidelity": ("auto", {"fidelity": {"share": [0.1, 0.3, 1.0]}}),
    "halving": ("successive_halving", {"fidelity": {"share": [0.1, 0.3, 1.0]}}),
    "limits": ("auto", {"aim": Aim(limits=["size <= 9"])}),
    "limits of bayesian": ("bayesian", {"aim": Aim(limits=["size <= 9"])}),
    "seconds": ("auto", {"seconds": 100.0}),
    "noise": ("auto", {"noise": "repeat"}),
    "prior": ("auto", PRIOR),
    "prior and seconds": ("bayesian", {**PRIOR, "seconds": 100.0}),
    "prior and limits": ("smac", {**PRIOR, "aim": Aim(limits=["size <= 9"])}),
    "prior, two objectives": ("auto", SEVERAL_PRIOR),
    "prior of parego": ("parego", SEVERAL_PRIOR),
    "parego": ("parego", OBJECTIVES),
    "kernel tuner": ("kernel_tuner_bo", {}),
    "forest": ("random_forest", {}),
    "portfolio": ("portfolio", {}),
}


def arguments(case):
    """Return the space, the strategy, the options and the size of the batches."""
    batch, _, name = case.rpartition(" x ")
    if name in OPTIONS:
        return SPACES["tiles"], *OPTIONS[name], int(batch or 1)
    strategy, _, space = name.partition(" on ")
    return SPACES[space], strategy, OBJECTIVES if strategy == "ehvi" else {}, int(batch or 1)


CASES = [f"{strategy} on {space}" for strategy in STRATEGIES for space in SPACES]
CASES += [*OPTIONS, "3 x auto on tiles", "3 x bayesian on real", "3 x ehvi on tiles", "3 x prior"]


def outcome(trial):
    """Return the arguments of `observe`, from a digest of the configuration: a value, or a failure of one in nine."""
    number = zlib.crc32(json.dumps(dict(trial.config), default=str).encode())
    if number % 9 == 0:
        return {"failed": "compile"}
    values = [float(x) for x in trial.config.values() if isinstance(x, int | float)]
    value = 1.0 + sum((x - 3.0) ** 2 for x in values) + number % 5 * 0.1
    seconds = {"compile": 1.0 + number % 4, "run": 0.1 * value}
    return {"value": {"value": value, "size": number % 12}, "seconds": seconds}


def suggestions(case):
    """Return the configurations of a run with the phases of their tags, as texts."""
    space, strategy, options, batch = arguments(case)
    options = dict(options)
    space = space.with_tasks(options.pop("tasks", None))
    space = space.with_fidelity(options.pop("fidelity", None))
    initial = {"initial": 5} if strategy in ("bayesian", "baco") else {}
    search = Search(strategy, initial, noise=options.pop("noise", "none"))
    optimizer = Optimizer(space, strategy=search, seed=7, budget=60, **options)
    modelled = strategy in MODELS or case.rpartition(" x ")[2] in OPTIONS
    texts = []
    try:
        while len(texts) < (12 if modelled else 60):
            trials = [optimizer.suggest()] if batch == 1 else optimizer.suggest(batch)
            texts += [f"{trial.config} {trial.task} {trial.read_tag('phase')}" for trial in trials]
            for trial in trials:
                optimizer.observe(trial, **outcome(trial))
    except SpaceExhausted:
        pass
    return texts


def digests(case):
    """Return a short digest of every ten suggestions."""
    texts = suggestions(case)
    tens = ["\n".join(texts[i : i + 10]) for i in range(0, len(texts), 10)]
    return " ".join(hashlib.sha256(ten.encode()).hexdigest()[:6] for ten in tens)


def machine():
    return " ".join([platform.machine(), *(version(name) for name in ("numpy", "scipy"))])


def wide_extensions():
    """Return NumPy's names of what it uses of AVX-512, for its variable that turns it off."""
    found = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    return " ".join(name for name in found if name == "X86_V4" or name.startswith("AVX512"))


def run_without_wide_extensions(*arguments):
    """Run this file in a new process; return what it prints."""
    environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": wide_extensions()}
    command = [sys.executable, __file__, *arguments]
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return run.stdout.strip()


@pytest.mark.filterwarnings("ignore::baco_like.BacoWarning")
@pytest.mark.parametrize("case", CASES)
def test_the_suggestions_stay_the_same(case):
    golden = json.loads(PATH.read_text())
    if golden["machine"] != machine():
        pytest.skip(f"cut on {golden['machine']}, this is {machine()}")
    found = digests(case)
    if found != golden[case] and wide_extensions():
        found = run_without_wide_extensions(case)
    assert found == golden[case]


if __name__ == "__main__":
    if sys.argv[1:]:
        print(digests(sys.argv[1]))
    elif wide_extensions():
        run_without_wide_extensions()
    else:
        golden = {"machine": machine(), **{case: digests(case) for case in CASES}}
        PATH.write_text(json.dumps(golden, indent=1) + "\n")
