"""The demo's space (`examples/matmul.toml`) at size 384 without threads, emulated from recorded configurations.

The file `benchmarks/recorded/matmul_384.csv.gz` has configurations that were measured on one quiet core with gcc: 700
uniform draws and the runs of three strategies. A model of them values every configuration (see `compilers`).
"""

import csv
import gzip
from typing import Any

import numpy as np

from baco_like import Categorical, Ordinal, Permutation, Space

from .compilers import modelled_table
from .problem import RECORDED
from .valued import ValuedProblem

NAME = "demo"
SIZE = 384
LOOPS = ("io", "jo", "ko", "ii", "ji", "ki")


def problem() -> ValuedProblem:
    space = _space()
    configs, costs = [], []
    with gzip.open(RECORDED / "matmul_384.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            configs.append({name: _value(name, row[name]) for name in space.parameters})
            costs.append(float(row["time"]))
    return modelled_table(NAME, "demo", space, configs, np.array(costs))


def _space() -> Space:
    tiles = [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256]
    return Space(
        {
            "order": Permutation(LOOPS),
            **{name: Ordinal(tiles, log=True) for name in ("ti", "tj", "tk")},
            "unroll": Ordinal([1, 2, 4, 8, 16], log=True),
            "pragma": Categorical(["none", "ivdep", "omp simd"]),
            "opt": Ordinal(["-O1", "-O2", "-O3"]),
            "march": Categorical(["generic", "native"]),
            "fast_math": Categorical([False, True]),
        },
        constraints=[
            *(f"pos(order, '{axis}o') < pos(order, '{axis}i')" for axis in "ijk"),
            *(f"{SIZE} % {name} == 0" for name in ("ti", "tj", "tk")),
            "pragma != 'omp simd' or unroll == 1",
        ],
    )


def _value(name: str, text: str) -> Any:
    if name == "order":
        return tuple(text.split())
    if name == "fast_math":
        return text == "True"
    return text if name in ("pragma", "opt", "march") else int(text)
