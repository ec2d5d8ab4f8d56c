"""Every parameter type passes the checks of `baco_like.testing.parameters`."""

import importlib.util
from pathlib import Path

import pytest

from baco_like import Categorical, Gaussian, Integer, Ordinal, Permutation, Real
from baco_like.exceptions import SpaceError
from baco_like.parameters import register_parameter
from baco_like.testing.parameters import CHECKS

EXAMPLE = Path(__file__).parents[2] / "examples" / "parameter_type.py"


def load_example():
    spec = importlib.util.spec_from_file_location("parameter_type", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SUBSET = load_example().FLAGS

PARAMETERS = [
    Real(0.5, 2.0),
    Real(1e-6, 1.0, log=True, prior=Gaussian(1e-3, 1.0)),
    Integer(-3, 12, default=4),
    Integer(1, 500, log=True),
    Integer(0, 2**40),
    Ordinal([1, 2.5, 4, 8], log=True, default=4),
    Ordinal(["small", "medium", "large"]),
    Categorical(["gcc", "clang", True, 1, 2.5], prior=[1, 2, 3, 4, 5]),
    Categorical([False, True]),
    *(
        Permutation(["i", "j", "k", "l"], metric)
        for metric in ("spearman", "kendall", "hamming", "naive")
    ),
    Permutation(list(range(8))),
    SUBSET,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("parameter", PARAMETERS, ids=lambda p: f"{p!r:.40}")
def test_parameter(parameter, check):
    check(parameter)


def test_built_in_names_are_not_replaced():
    with pytest.raises(SpaceError, match="'real' is built in"):
        register_parameter("real", Integer)
    register_parameter("subset", type(SUBSET))  # registering again is fine
