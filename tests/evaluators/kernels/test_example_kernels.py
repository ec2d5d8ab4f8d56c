"""The files of examples/kernels: their spaces have allowed values only; and checks that hold for every language."""

from __future__ import annotations

import re
from typing import Any

import pytest
from kernel_checks import KERNELS, load

from baco_like.evaluators import registry
from baco_like.evaluators.kernels import complete_config
from baco_like.evaluators.settings_table import Table
from baco_like.exceptions import RunFileError
from baco_like.spaces.space import Space

FILES = [
    file.stem
    for file in sorted(KERNELS.glob("*.py"))
    if re.search(r"^def space", file.read_text(), re.M) and not file.stem.startswith("taco")
]
LEFT_OUT = {"cuda_gemm": {"KWG", "KWI", "STRM", "STRN"}}
OWN_DEFAULTS = {"halide_matmul_hidden"}
"""Its space has tiles of 4 or more, but the default of a tile that a space leaves out is 1."""

TABLES: dict[str, dict[str, Any]] = {
    "c": {"problem": "c_loop_nest.py", "size": 64},
    "cupy": {"problem": "cuda_gemm.py", "size": 64},
    "halide": {"problem": "halide_matmul.py", "size": 64},
    "opencl": {"problem": "opencl_gemm.py", "size": 64},
}


def test_all_files_are_here() -> None:
    assert len(FILES) == 9


@pytest.mark.parametrize("name", FILES)
def test_spaces_have_allowed_values(name: str) -> None:
    problem = load(name)
    space, domains = problem.space(128), problem.domains()
    left_out = LEFT_OUT.get(name, set())
    assert set(domains) - set(space.parameters) == left_out
    assert space.contains(space.default_config)
    if name not in OWN_DEFAULTS:
        assert complete_config(name, domains, {}).items() >= space.default_config.items()
    for config in space.sample(50, seed=2):
        full = complete_config(name, domains, config)
        assert full.items() >= config.items()
        assert set(full) - set(config) == left_out


@pytest.mark.parametrize("kind", TABLES)
def test_the_unit_must_be_one_of_time(kind: str) -> None:
    table = Table("evaluator", {"kind": kind, **TABLES[kind]})
    with pytest.raises(RunFileError, match=rf"^\[evaluator\] kind '{kind}' measures time, not 'W'"):
        registry.create(table, Space({"any": [1, 2]}), "W", KERNELS)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("timeout", 0, "timeout = 0: expected a number above 0"),
        ("build_timeout", "1", "build_timeout = '1': expected a number above 0"),
        ("tolerance", -1e-3, "tolerance = -0.001: expected a number, 0 or more"),
        ("input_seed", -1, "input_seed = -1: expected a whole number, 0 or more"),
    ],
)
def test_wrong_values_of_common_keys(kind: str, key: str, value: object, message: str) -> None:
    table = Table("evaluator", {"kind": kind, **TABLES[kind], key: value})
    with pytest.raises(RunFileError, match=rf"^\[evaluator\] {message}$"):
        registry.create(table, Space({"any": [1, 2]}), "ms", KERNELS)
