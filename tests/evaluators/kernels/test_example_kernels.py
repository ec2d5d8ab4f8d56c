"""The files of examples/kernels: their spaces have allowed values only; and checks that hold for every language."""

import re

import pytest
from kernel_checks import KERNELS, load

from baco_like.evaluators.kernels import complete_config

FILES = [
    file.stem
    for file in sorted(KERNELS.glob("*.py"))
    if re.search(r"^def space", file.read_text(), re.M) and not file.stem.startswith("taco")
]
LEFT_OUT = {"cuda_gemm": {"KWG", "KWI", "STRM", "STRN"}}
OWN_DEFAULTS = {"halide_matmul_hidden"}
"""Its space has tiles of 4 or more, but the default of a tile that a space leaves out is 1."""


def test_all_files_are_here():
    assert len(FILES) == 9


@pytest.mark.parametrize("name", FILES)
def test_spaces_have_allowed_values(name):
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
