"""What holds for every target of generated kernels: its problems, their spaces, its unit."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any

import pytest

from baco_like.evaluators import halide, registry
from baco_like.evaluators.gpu import cuda, opencl
from baco_like.evaluators.kernels.domains import completed
from baco_like.evaluators.settings_table import Table
from baco_like.exceptions import RunFileError
from baco_like.spaces.space import Space

TARGETS = {"cupy": cuda, "halide": halide, "opencl": opencl}
PROBLEMS = [(kind, name) for kind, target in TARGETS.items() for name in target.PROBLEMS]

LEFT_OUT = {("cupy", "gemm"): {"KWG", "KWI", "STRM", "STRN"}}
OWN_DEFAULTS = {("halide", "matmul_hidden")}
"""Its tiles are 4 or more; what a space leaves out is not tiled."""

TABLES: dict[str, dict[str, Any]] = {
    "c_loop_nest": {"size": 64},
    "cupy": {"problem": "gemm", "size": 64},
    "halide": {"problem": "matmul", "size": 64},
    "opencl": {"problem": "gemm", "size": 64},
    "taco": {"problem": "spmm", "size": 64},
}


@pytest.mark.parametrize("kind", TARGETS)
def test_every_problem_is_listed(kind: str) -> None:
    target = TARGETS[kind]
    beside = [one.name for one in pkgutil.iter_modules(target.__path__, f"{target.__name__}.")]
    found = {name for name in beside if hasattr(importlib.import_module(name), "expected")}
    assert found == {f"{target.__name__}.{name}" for name in target.PROBLEMS}


@pytest.mark.parametrize(("kind", "name"), PROBLEMS)
def test_spaces_are_of_what_is_understood(kind: str, name: str) -> None:
    problem = importlib.import_module(f"{TARGETS[kind].__name__}.{name}")
    space = problem.space(128)
    left_out = LEFT_OUT.get((kind, name), set())
    assert set(problem.DOMAINS) - set(space.parameters) == left_out
    assert space.contains(space.default_config)
    if (kind, name) not in OWN_DEFAULTS:
        assert completed(kind, problem.DOMAINS, {}).items() >= space.default_config.items()
    for config in space.sample(50, seed=2):
        full = completed(kind, problem.DOMAINS, config)
        assert full.items() >= config.items()
        assert set(full) - set(config) == left_out


@pytest.mark.parametrize("kind", TABLES)
def test_the_unit_is_one_of_time(kind: str) -> None:
    table = Table("evaluator", {"kind": kind, **TABLES[kind]})
    with pytest.raises(RunFileError, match=rf"^\[evaluator\] kind '{kind}' measures time, not 'W'"):
        registry.create(table, Space({"any": [1, 2]}), "W", Path())


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("timeout", 0, "timeout = 0.0: expected a number above 0"),
        ("build_timeout", "1", "build_timeout = '1': expected a finite number"),
        ("tolerance", -1e-3, "tolerance = -0.001: expected a number above 0"),
        ("input_seed", -1, "input_seed = -1: expected a whole number, 0 or more"),
    ],
)
def test_what_concerns_every_measurement(kind: str, key: str, value: object, message: str) -> None:
    table = Table("evaluator", {"kind": kind, **TABLES[kind], key: value})
    with pytest.raises(RunFileError, match=rf"^\[evaluator\] {message}$"):
        registry.create(table, Space({"any": [1, 2]}), "ms", Path())
