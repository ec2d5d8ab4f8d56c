"""The space as users meet it: what it takes, what it says of configurations, and how it is written down."""

from __future__ import annotations

import json
import math
import re
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from brute_force import Case, cases
from hypothesis import given

from baco_like.exceptions import ConfigError, SpaceError
from baco_like.optimizer import Optimizer
from baco_like.parameters import Categorical, Integer, Ordinal, Permutation, Real
from baco_like.spaces.feasible import tree_builder
from baco_like.spaces.space import Space, format_size


def example() -> Space:
    return Space(
        {
            "bx": Ordinal([16, 32, 64, 128], log=True, default=32),
            "by": [1, 2, 4, 8],
            "flags": ["-O2", "-O3"],
            "fast": [True, False],
            "eps": Real(1e-6, 1e-1, log=True),
            "unroll": Integer(1, 4),
            "loops": Permutation(["i", "j", "k"]),
            "n": [4096],
        },
        ["bx * by <= 256", "pos(loops, 'k') > pos(loops, 'i')", "unroll == 1 or fast"],
    )


LACKING = object()
CONFIG = {"bx": 32, "by": 8, "flags": "-O3", "fast": False, "eps": 1e-3, "unroll": 1}
CONFIG |= {"loops": ("i", "j", "k"), "n": 4096}


def test_lists_become_ordinals_and_categoricals() -> None:
    space = example()
    kinds = [type(parameter).__name__ for parameter in space.parameters.values()]
    assert kinds[:4] == ["Ordinal", "Ordinal", "Categorical", "Categorical"]
    assert kinds[4:] == ["Real", "Integer", "Permutation", "Ordinal"]
    assert space.active == tuple(name for name in space.names if name != "n")
    assert space.width == 10
    assert (space.columns["bx"], space.columns["loops"]) == (slice(0, 1), slice(6, 9))
    assert len(space.constraints) == 3


def test_sizes() -> None:
    assert example().size == math.inf
    assert example().feasible_size == math.inf
    space = Space({"a": [1, 2, 3], "b": [1, 2], "p": Permutation(list(range(20)))}, ["a != b"])
    assert space.size == 6 * math.factorial(20)
    assert space.feasible_size == 4 * math.factorial(20)
    assert isinstance(space.size, int)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "an unknown number of"),
        (math.inf, "endless"),
        (304405807104, "304405807104"),
        (10**15, str(10**15)),
        (10**15 + 1, "1e15"),
        (23 * 10**223, "2e224"),
        (10**400, "1e400"),  # too large for a float
    ],
)
def test_large_sizes_are_written_by_their_order(size: float | None, text: str) -> None:
    assert format_size(size) == text


def test_acceptance_is_stated() -> None:
    assert example().acceptance == 1.0
    assert "unknown feasible" not in repr(example())
    half = Space({"x": Real(0, 1), "y": Real(0, 1), "n": [1, 2]}, ["x < y"])
    assert half.acceptance == pytest.approx(0.5, abs=0.2)
    both = Space({"x": Real(0, 1), "i": Integer(1, 2**40)}, ["x * x < 0.25", "i < 2**39"])
    assert both.acceptance == pytest.approx(0.25, abs=0.12)
    assert both.feasible_size == np.inf
    # Rejection from a superset that is itself drawn by rejection.
    with patch.object(tree_builder, "MAX_EDGES", 2):
        nested = Space({n: list(range(4)) for n in "abcd"}, ["a != b", "b != c", "c != d"])
    draws = np.random.default_rng(0).integers(0, 4, size=(20_000, 4))
    assert nested.feasible_size is None
    share = (np.diff(draws, axis=1) != 0).all(axis=1).mean()
    assert nested.acceptance == pytest.approx(share, rel=0.2)
    assert "unknown feasible" in repr(Space({"i": Integer(1, 2**40)}, ["i < 2**39"]))


def test_encode_and_decode_are_inverse() -> None:
    space = example()
    configs = space.sample(50, seed=4)
    assert space.decode(space.encode(configs)) == configs
    assert json.loads(json.dumps(configs[0]))["bx"] == configs[0]["bx"]
    assert all(type(config["fast"]) is bool and type(config["bx"]) is int for config in configs)
    assert all(isinstance(config["loops"], tuple) for config in configs)
    assert space.encode([]).shape == (0, space.width)
    assert space.decode(np.empty((0, space.width))) == []


@given(cases(satisfiable=True))
def test_contains_validate_and_explain_agree(case: Case) -> None:
    space = case.space()
    for config, feasible in list(zip(case.everything, case.feasible, strict=True))[:20]:
        assert space.contains(config) == feasible
        assert (space.explain(config) == []) == feasible
        if feasible:
            space.validate(config)
        else:
            with pytest.raises(ConfigError, match="violated"):
                space.validate(config)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"bx": 48}, "parameter 'bx': 48 is not one of"),
        ({"fast": 1}, "parameter 'fast': 1 is not one of"),
        ({"loops": ("i", "k", "k")}, "parameter 'loops'"),
        ({"eps": 1.0}, "parameter 'eps'"),
        ({"typo": 1}, "has unknown 'typo'; the parameters are bx, by"),
        ({"by": LACKING}, "lacks 'by'"),
        ({"by": LACKING, "bz": 8}, "lacks 'by' and has unknown 'bz'"),
    ],
)
def test_what_is_wrong_with_a_configuration(change: dict, says: str) -> None:
    space = example()
    config = {name: value for name, value in (CONFIG | change).items() if value is not LACKING}
    with pytest.raises(ConfigError, match=says.replace("(", r"\(")):
        space.encode([CONFIG, config])
    with pytest.raises(ConfigError, match=says.replace("(", r"\(")):
        space.validate(config)
    assert not space.contains(config)


def test_explain_names_every_violated_constraint() -> None:
    space = example()
    assert space.explain(CONFIG) == []
    lines = space.explain(CONFIG | {"bx": 128, "unroll": 2})
    assert len(lines) == 2
    assert lines[0].startswith("bx * by <= 256 violated: ")
    assert "1024" in lines[0]
    assert lines[1].startswith("unroll == 1 or fast violated: ")


def test_defaults() -> None:
    assert example().default_config is None
    space = Space(
        {"a": Ordinal([1, 2], default=2), "n": [7], "c": Categorical(["x", "y"], default="x")}
    )
    assert space.default_config == {"a": 2, "n": 7, "c": "x"}


def test_bounds_and_values_after_constraints() -> None:
    space = Space(
        {"a": [1, 2, 4, 8], "b": Integer(0, 100), "r": Real(0.5, 2.0), "c": ["x", "y"], "n": [3]},
        ["a * b <= 20 and a > 1", "b % 7 == 3"],
    )
    assert space.bounds() == {"a": (2, 4), "b": (3, 10), "r": (0.5, 2.0), "n": (3, 3)}
    assert space.values("b") == [3, 10]
    assert space.values("a") == [2, 4]
    assert space.values("c") == ["x", "y"]
    with pytest.raises(SpaceError, match="'r' are not listed"):
        space.values("r")


def test_iteration_and_data_frame() -> None:
    space = Space({"a": [1, 2, 3], "c": ["x", "y"]}, ["a != 2 or c == 'x'"])
    configs = list(space)
    assert len(configs) == space.feasible_size == 5
    frame = space.to_dataframe()
    assert isinstance(frame, pd.DataFrame)
    assert frame.to_dict("records") == configs
    with pytest.raises(SpaceError, match="a table holds at most"):
        Space({f"x{i}": list(range(10)) for i in range(7)}).to_dataframe()
    with pytest.raises(SpaceError, match="unknown number"):
        Space({"r": Real(0, 1)}).to_dataframe()


def test_written_and_read_back() -> None:
    space = example()
    text = json.dumps(space.to_dict())
    again = Space.from_dict(json.loads(text))
    assert again == space
    assert hash(again) == hash(space)
    assert again.to_dict() == json.loads(text) == space.to_dict()
    assert again.sample(5) == space.sample(5)


def test_differences_are_readable() -> None:
    space = Space({"a": [1, 2], "b": [1, 2]}, ["a <= b"])
    other = Space({"a": [1, 2, 3], "c": [1]}, ["a >= 1"])
    assert space.difference(space) == []
    lines = space.difference(other)
    assert lines[:2] == ["parameter 'b' was removed", "parameter 'c' was added"]
    assert lines[2].startswith("parameter 'a' was ")
    assert lines[3:] == ["constraint 'a <= b' was removed", "constraint 'a >= 1' was added"]
    assert space != other
    turned = Space({"b": [1, 2], "a": [1, 2]}, ["a <= b"])
    assert space.difference(turned) == [
        "the order of the parameters was ['a', 'b'], now ['b', 'a']"
    ]


def test_callables_are_described_and_not_read_back() -> None:
    space = Space({"a": [1, 2], "b": [1, 2]}, [lambda a, b: a < b])
    assert list(space) == [{"a": 1, "b": 2}]
    data = json.loads(json.dumps(space.to_dict()))
    assert set(data["constraints"][0]) == {"callable"}
    with pytest.raises(SpaceError, match=r"callable .* give the space again"):
        Space.from_dict(data)
    with pytest.raises(SpaceError, match="version 99"):
        Space.from_dict(data | {"version": 99})


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], "must be an object"),
        ({}, "version None"),
        ({"version": 1}, "needs an object 'parameters'"),
        ({"version": 1, "parameters": [], "constraints": []}, "needs an object 'parameters'"),
        ({"version": 1, "parameters": {"a": {}}, "constraints": "a"}, "a list 'constraints'"),
        ({"version": 1, "parameters": {"a": 5}, "constraints": []}, "parameter 'a': .*an object"),
        ({"version": 1, "parameters": {"a": {"type": "real"}}}, "parameter 'a': field 'low'"),
        ({"version": 1, "parameters": {}}, "at least one parameter"),
    ],
)
def test_broken_descriptions_are_refused(data: object, says: str) -> None:
    with pytest.raises(SpaceError, match=says):
        Space.from_dict(data)


@pytest.mark.parametrize(
    ("parameters", "constraints", "says"),
    [
        ({}, [], "at least one parameter"),
        ({"a": []}, [], "parameter 'a': the domain is empty"),
        ({"a": [1, 1]}, [], "parameter 'a': .*1"),
        ({"a": "abc"}, [], "parameter 'a' must be a parameter or a list"),
        ({"": [1]}, [], "name of a parameter"),
        ({"a": [1, 2]}, ["a + b < 3"], "'b'"),
        ({"a": [1, 2]}, [3], "an expression or a callable"),
        ({"a": [1, 2]}, "1 > 2", "'1 > 2' is never satisfied"),
        ([[1, 2, 4]], [], "made from a mapping of names to parameters"),
    ],
)
def test_what_cannot_be_a_space(parameters: dict, constraints: list, says: str) -> None:
    with pytest.raises(SpaceError, match=says) as caught:
        Space(parameters, constraints)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "schedule != 'Dynamic' or chunk == 8",
            "parameter 'schedule' never has the value 'Dynamic'; its values are ['static', "
            "'dynamic']; did you mean 'dynamic'?; correct the text or the values",
        ),
        ("schedule in ('static', 'xyz')", "never has the value 'xyz'; its values are ['static'"),
        ("chunk != '8'", "parameter 'chunk' never has the value '8'; its values are [1, 8]; did"),
        (
            "size == 'big'",
            "never has the value 'big'; its values are numbers: Real(low=0.0, high=1.0",
        ),
        ("at(order, 0) == 'J'", "its values are ['i', 'j']; did you mean 'j'?"),
        ("chunk == 8 or level <= 'mid'", "the values of 'level' have another order; list the"),
        ("'hi' > level != 'mid'", "level in ('low', 'mid')"),
    ],
)
def test_a_value_that_a_parameter_never_has_is_an_error(text, message):
    parameters = {
        "schedule": ["static", "dynamic"],
        "chunk": [1, 8],
        "size": Real(0, 1),
        "order": Permutation(["i", "j"]),
        "level": Ordinal(["low", "mid", "hi"]),
        "grade": Ordinal(["a", "b", "c"]),
    }
    assert Space(parameters, ["grade <= 'b'", "level != 'hi'"]).sample(1)
    with pytest.raises(SpaceError, match=re.escape(message)):
        Space(parameters, [text])
    with pytest.raises(SpaceError, match=re.escape(message)):
        Space({**parameters, "unroll": [1, 2]}, when={"unroll": text})


def test_a_described_space_with_such_a_value_stays_readable():
    """A journal may have been written before this was an error."""
    described = Space({"schedule": ["static", "dynamic"]}, ["schedule != 'static'"]).to_dict()
    described["constraints"] = ["schedule != 'Static'"]
    assert Space.from_dict(described).feasible_size == 2
    parameters = {"schedule": ["static", "dynamic"], "chunk": [1, 8]}
    described = Space(parameters, when={"chunk": "schedule == 'static'"}).to_dict()
    described["when"] = {"chunk": "schedule == 'Static'"}
    assert Space.from_dict(described).feasible_size == 2
    assert Space.from_dict(described).with_tasks([{"n": 1}, {"n": 2}]).at_task(0).feasible_size == 2


def test_a_constraint_may_name_any_value_of_the_fidelity():
    parameters = {"size": Ordinal(["small", "large"]), "tile": [1, 2]}
    space = Space(parameters, ["size != 'large' or tile == 2"]).with_fidelity("size")
    assert [space.at_level(level).feasible_size for level in (0, 1)] == [2, 1]


def test_logarithmic_integers_are_drawn_on_their_scale() -> None:
    space = Space({"a": Integer(1, 10**6, log=True), "b": [1, 2]})
    numbers = [config["a"] for config in space.sample(2000, seed=1)]
    shares = np.histogram(np.log10(numbers), bins=6, range=(0, 6))[0] / 2000
    # The first tenth of the scale is 1 alone, which has the interval from 0.5 to 1.5.
    assert np.all(np.abs(shares[1:] - 0.16) < 0.04)
    assert shares[0] > 0.15
    drawn = [Optimizer(space, seed=i, strategy="random_search").suggest()["a"] for i in range(60)]
    assert 300 < np.exp(np.mean(np.log(drawn))) < 10_000


def test_bounds_of_reals_leave_no_draw_in_vain() -> None:
    space = Space(
        {"x": Real(1e-9, 1, log=True), "y": Real(0, 1), "a": [1, 2, 3]},
        constraints=["1e-8 < x <= 2e-8", "0.999999 <= y", "a * y > 1.5"],
    )
    assert space.acceptance > 0.5
    rows = space.sample(200, seed=1)
    assert all(1e-8 < c["x"] <= 2e-8 and c["y"] >= 0.999999 and c["a"] > 1 for c in rows)
    places = np.log([c["x"] for c in rows]) - np.log(1e-8)
    assert abs(places.mean() / np.log(2) - 0.5) < 0.08  # even on the parameter's scale
    assert not space.contains({"x": 1e-8, "y": 1.0, "a": 2})
    assert space.contains({"x": 2e-8, "y": 0.999999, "a": 2})
    with pytest.raises(SpaceError, match=r"'x > 2'.* is satisfied by no configuration"):
        Space({"x": Real(0, 1)}, ["x > 2"])
    with pytest.raises(SpaceError, match=r"'x > 0\.5' and 'x < 0\.4'"):
        Space({"x": Real(0, 1)}, ["x > 0.5", "x < 0.4"])
    either = Space({"x": Real(0, 1)}, ["x < 0.1 or x > 0.9"])
    assert {c["x"] < 0.5 for c in either.sample(40)} == {True, False}


@pytest.mark.parametrize("when", [None, {"b": "a == 2"}])
@pytest.mark.parametrize("wrong", [[{"a": 1, "b": 1}], "ab", 3, None])
def test_what_is_no_configuration_is_named(when, wrong) -> None:
    space = Space({"a": [1, 2], "b": [1, 2]}, when=when)
    for check in (space.validate, space.explain, lambda one: space.encode([one])):
        with pytest.raises(ConfigError, match="is not a configuration"):
            check(wrong)
    assert not space.contains(wrong)
