"""Every parameter type passes the checks of `baco_like.testing.parameters`."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import pytest
from test_parameters import EXAMPLES

from baco_like import Categorical, Gaussian, Integer, Ordinal, Permutation, Real, Sequence, Subset
from baco_like.exceptions import SpaceError
from baco_like.parameters import ListedParameter, ParameterKind, register_parameter, registry
from baco_like.parameters.registry import parameter_from_dict, parameter_to_dict
from baco_like.testing.parameters import CHECKS, features_measure_the_distance

EXAMPLE = Path(__file__).parents[2] / "examples" / "parameter_type.py"


def load_example():
    spec = importlib.util.spec_from_file_location("parameter_type", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SPAN = load_example().CORES

PARAMETERS = [
    Real(0.5, 2.0),
    Real(1e-6, 1.0, log=True, prior=Gaussian(1e-3, 1.0)),
    Real(0.0, 1.0, step=0.05, default=0.5),
    Real(-1.0, 2.03, step=0.1, prior=Gaussian(0.0, 1.0)),
    Real(0.0, 1.0, step=1e-9),
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
    Sequence(["a", "b", "c"], 3),
    Sequence(["a", "b", "c", "d"], 4, 2, distinct=True),
    Sequence(["loop(x,y)", "x", "y"], 5, default=["x", "loop(x,y)"]),
    Sequence([f"p{i}" for i in range(52)], 30),
    Subset(["a", "b", "c", "d"], 3, 1),
    Subset([f"f{i}" for i in range(24)]),
    SPAN,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("parameter", PARAMETERS, ids=lambda p: f"{p!r:.40}")
def test_parameter(parameter, check):
    check(parameter)


@pytest.mark.parametrize("check", CHECKS[:-1], ids=lambda check: check.__name__)
@pytest.mark.parametrize("parameter", EXAMPLES, ids=lambda p: f"{p!r:.40}")
def test_examples(parameter, check):
    check(parameter)


@final
@dataclass(frozen=True)
class Distorted(ListedParameter):
    """Four ordered values with wrong features."""

    columns: tuple[tuple[float, ...], ...]
    kind = ParameterKind.ORDERED
    values = ("a", "b", "c", "d")
    default = None

    def distance(self, a, b):
        return np.abs(a - b.T)

    def features(self, codes):
        return np.array(self.columns)[codes[:, 0].astype(int)]

    def to_dict(self):
        return {"type": "distorted"}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (np.zeros((4, 1)), "different values have different features"),
        (np.eye(4) / 2, "proportional to distance"),
        (np.array([[0.0], [1.0], [0.2], [0.7]]), "proportional to distance"),
    ],
    ids=["zeros", "one-hot", "shuffled"],
)
def test_features_that_do_not_measure_the_distance_are_found(columns, message):
    parameter = Distorted(tuple(map(tuple, columns.tolist())))
    with pytest.raises(AssertionError, match=message):
        features_measure_the_distance(parameter)


@pytest.mark.parametrize(
    "parameter", [Integer(3, 3), Permutation(["i"]), Permutation(range(9), "naive")]
)
def test_constants_and_hashed_features_pass(parameter):
    features_measure_the_distance(parameter)


def test_built_in_names_are_not_replaced():
    with pytest.raises(SpaceError, match="'real' is built in"):
        register_parameter("real", Integer)
    register_parameter("span", type(SPAN))  # registering again is fine


def define_three_sizes():
    """Return a new type that inherits `to_dict`."""

    @final
    @dataclass(frozen=True)
    class ThreeSizes(ListedParameter):
        unit: int
        kind = ParameterKind.ORDERED

        @property
        def values(self):
            return (self.unit, 2 * self.unit, 3 * self.unit)

        def distance(self, a, b):
            return np.abs(a - b.T)

        def features(self, codes):
            return codes / 2

    return ThreeSizes


def test_an_inherited_description_has_the_registered_name(monkeypatch):
    monkeypatch.setattr(registry, "PARAMETER_TYPES", dict(registry.PARAMETER_TYPES))
    sizes = define_three_sizes()(8)
    with pytest.raises(SpaceError, match=r"ThreeSizes is not registered; call register_parameter"):
        parameter_to_dict(sizes)
    register_parameter("three_sizes", type(sizes))
    assert parameter_to_dict(sizes) == {"version": 1, "type": "three_sizes", "unit": 8}
    assert parameter_from_dict(parameter_to_dict(sizes)) == sizes
    for check in CHECKS:
        check(sizes)
    # A notebook cell that runs again defines another class; objects of the first one keep their name.
    register_parameter("three_sizes", define_three_sizes())
    assert parameter_to_dict(sizes)["type"] == "three_sizes"
