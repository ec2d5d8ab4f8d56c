"""Compiler spaces from measured tables: TACO and RISE kernels of CATBench, and two exhaustive tables of flags.

The files are in the folder ``compilers`` of the data: CATBench's from anonymoussisef/catbench_data (MIT), LLVM's and
7z's from PromiseTune (Apache-2.0). A table of CATBench covers a part of its space, so a configuration is valued by a
model of the table, as CATBench does offline: extremely randomised trees on the logarithm of the time, over the
logarithms of the numbers and, for a loop order, each element's place and each pair's order. LLVM and 7z are complete.
"""

import csv
import gzip
import itertools
import pickle
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from baco_like import Categorical, Integer, Ordinal, Permutation, Space

from .problem import Problem, Values
from .valued import ValuedProblem, random_configs, valued

CACHE = Path(tempfile.gettempdir()) / "baco_like_suite"
"""Fitted models of the tables; a missing one is fitted again, in seconds."""

TREES = 60
MOST_ROWS = 12_000

CATBENCH = (
    "spmm_2630",
    "spmm_7742",
    "sddmm_2630",
    "sddmm_7742",
    "mm_rtxtitan",
    "mm_titanv",
    "harris_rtxtitan",
    "kmeans_rtxtitan",
)
FLAGS = ("LLVM", "7z")


def problem(name: str, data: Path) -> Problem:
    """Return a problem of this module by its name."""
    if name in FLAGS:
        return _flags(name, data / "compilers" / f"{name}.csv.gz")
    return _catbench(name, data / "compilers" / f"{name}.csv.gz")


def _powers(low: int, high: int) -> Ordinal:
    exponents = range(low.bit_length() - 1, high.bit_length())
    return Ordinal([2**i for i in exponents], log=True)


def _space(kernel: str) -> Space:
    return {"spmm": _spmm, "sddmm": _sddmm, "mm": _mm, "harris": _harris, "kmeans": _kmeans}[
        kernel
    ]()


def _taco(numbers: Mapping[str, Ordinal], constraints: Sequence[str]) -> Space:
    return Space(
        {
            **numbers,
            "omp_num_threads": Ordinal(list(range(2, 21, 2))),
            "omp_scheduling_type": Categorical(["0", "1", "2"]),
            "omp_monotonic": Categorical(["0", "1"]),
            "omp_dynamic": Categorical(["0", "1"]),
            "permutation": Permutation(range(5)),
        },
        constraints=constraints,
    )


def _spmm() -> Space:
    numbers = {
        "chunk_size": _powers(2, 64),
        "unroll_factor": _powers(1, 16),
        "omp_chunk_size": _powers(1, 64),
    }
    before = ["0 < 3", "1 < 3", "0 < 2", "1 < 2", "3 < 2 or 3 < 4"]
    return _taco(numbers, [_ordered(one) for one in before])


def _sddmm() -> Space:
    numbers = {
        "chunk_size": _powers(1, 256),
        "unroll_factor": _powers(1, 64),
        "omp_chunk_size": _powers(1, 256),
    }
    order = "(2 < 4 and 0 < 2 and 1 < 2) or (4 < 2 and 0 < 4 and 1 < 4)"
    return _taco(numbers, ["unroll_factor < chunk_size", _ordered(order)])


def _ordered(places: str) -> str:
    """Return a rule between the elements at some places of the order, given by their digits."""
    return "".join(f"at(permutation, {one})" if one.isdigit() else one for one in places)


def _mm() -> Space:
    least = {3: 4, 4: 1, 5: 4, 6: 4, 7: 4, 8: 1}
    return Space(
        {
            **{f"tuned_v{i}": _powers(low, 1024) for i, low in least.items()},
            **{f"tuned_{name}": _powers(1, 1024) for name in ("ls0", "ls1", "gs0", "gs1")},
        },
        constraints=[
            "tuned_v7 % tuned_v3 == 0",
            "tuned_v5 % tuned_v4 == 0",
            "tuned_v5 * tuned_v8 % tuned_v6 == 0",
            "tuned_gs0 % tuned_ls0 == 0",
            "tuned_gs1 % tuned_ls1 == 0",
            "tuned_ls0 * tuned_ls1 <= 1024",
            "49152 - tuned_v5 * tuned_v7 * 4 - tuned_v5 * tuned_v8 * 4 - 4 * tuned_v7 * tuned_v8 >= 0",
            "49152 - tuned_v5 * tuned_v7 * 4 - tuned_v5 * 4 - 4 * tuned_v7 >= 0",
        ],
    )


def _harris() -> Space:
    tiles = [1, *range(2, 1025, 2)]
    return Space(
        {
            **{f"tuned_{name}": _powers(1, 1024) for name in ("ls0", "ls1", "gs0", "gs1")},
            "tuned_tileX": Ordinal(tiles, log=True),
            "tuned_tileY": Ordinal(tiles, log=True),
            "tuned_vec": Ordinal([2, 4]),
        },
        constraints=[
            "tuned_gs0 % tuned_ls0 == 0",
            "tuned_gs1 % tuned_ls1 == 0",
            "(tuned_tileX + 4) % tuned_vec == 0",
            "tuned_tileX * tuned_tileY <= 1024",
            "tuned_ls0 * tuned_ls1 <= 1024",
            "tuned_tileY != 1 or (tuned_tileX != 1024 and tuned_tileX != 1022)",
        ],
    )


def _kmeans() -> Space:
    return Space(
        {f"tuned_{name}": _powers(1, 1024) for name in ("gs0", "gs1", "ls0", "ls1")},
        constraints=[
            "tuned_gs0 % tuned_ls0 == 0",
            "tuned_gs1 % tuned_ls1 == 0",
            "tuned_ls0 * tuned_ls1 <= 1024",
        ],
    )


def _catbench(name: str, path: Path) -> ValuedProblem:
    space = _space(name.split("_")[0])
    rows = _table(str(path), space)
    return modelled_table(name, "catbench", space, *rows)


def modelled_table(
    name: str, group: str, space: Space, configs: Sequence[Mapping[str, Any]], costs: np.ndarray
) -> ValuedProblem:
    """Return a problem whose costs are predicted by a model of a table."""
    file = CACHE / f"{name}.pickle"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(pickle.dumps(_fitted(space, configs, costs)))
    trees, _, least = pickle.loads(file.read_bytes())

    def predict(configs: Sequence[Mapping[str, Any]]) -> np.ndarray:
        rows = _features(space, configs)
        return np.exp(np.mean([tree.predict(rows)[:, 0] for tree in trees], axis=0))

    def evaluate(config: Mapping[str, Any]) -> float:
        return float(predict([config])[0])

    return valued(name, group, space, evaluate, least, predict(random_configs(space)))


def _fitted(space: Space, configs: Sequence[Mapping[str, Any]], costs: np.ndarray) -> Any:
    """Return the trees, their R2 on a fifth of the rows that they have not seen, and the least cost."""
    from sklearn.ensemble import ExtraTreesRegressor

    kept = np.random.default_rng(0).permutation(len(costs))[:MOST_ROWS]
    x, y = _features(space, [configs[i] for i in kept]), np.log(costs[kept])
    fifth = len(y) // 5
    recipe = partial(ExtraTreesRegressor, TREES, random_state=0)
    tried = recipe().fit(x[fifth:], y[fifth:])
    quality = 1 - np.mean((tried.predict(x[:fifth]) - y[:fifth]) ** 2) / y[:fifth].var()
    model = recipe().fit(x, y)
    return [one.tree_ for one in model.estimators_], float(quality), float(np.exp(y.min()))


def _features(space: Space, configs: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """Return what the model of a table sees, in single precision as its trees read it."""
    columns: list[Any] = []
    for name, parameter in space.parameters.items():
        values = [config[name] for config in configs]
        if isinstance(parameter, Permutation):
            places = np.array([[order.index(e) for e in parameter.elements] for order in values])
            pairs = itertools.combinations(places.T, 2)
            columns += [*places.T, *(first < second for first, second in pairs)]
        elif isinstance(parameter, Categorical):
            columns += [np.array([v == choice for v in values]) for choice in parameter.values]
        elif isinstance(parameter.values[0], str):
            columns.append([parameter.values.index(v) for v in values])
        else:
            columns.append(np.log2(np.array(values, dtype=float)))
    return np.column_stack(columns).astype(np.float32)


def _table(path: str, space: Space) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Return the configurations of a file that could be measured, and their times."""
    configs, costs = [], []
    with gzip.open(path, "rt") as file:
        for row in csv.DictReader(file):
            try:
                time = float(row["compute_time"])
                config = {n: _value(p, row[n]) for n, p in space.parameters.items()}
            except (KeyError, ValueError):
                continue
            if time > 0:
                configs.append(config)
                costs.append(time)
    return configs, np.array(costs)


def _value(parameter: Any, text: str) -> Any:
    if isinstance(parameter, Permutation):
        return tuple(int(one) for one in text.strip("()").split(","))
    if isinstance(parameter, Categorical):
        return text.split(".")[0]
    return int(float(text))


def _flags(name: str, path: Path) -> Problem:
    """Return an exhaustive table as a problem: flags, numbers, and exactly one of some methods in 7z."""
    with gzip.open(path, "rt") as file:
        head, *table = csv.reader(file)
    values = np.array([[int(one) for one in row[:-1]] for row in table])
    parameters = {}
    for column, one in zip(values.T, head, strict=False):
        own = sorted({int(v) for v in column})
        if len(own) > 1:
            parameters[one] = Integer(0, 1) if own == [0, 1] else Ordinal(own)
    methods = [one for one in ("LZMA", "LZMA2", "PPMd", "BZip2", "Deflate") if one in parameters]
    space = Space(parameters, [f"{' + '.join(methods)} == 1"] if methods else [])
    kept = [head.index(one) for one in parameters]
    known = {tuple(row[kept].tolist()): float(t[-1]) for row, t in zip(values, table, strict=True)}
    rows: list[Values] = [tuple(c.values()) for c in space.decode(space.feasible.listed)]
    return Problem(name, "flags", space, rows, np.array([known[row] for row in rows]))
