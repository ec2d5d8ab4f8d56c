"""Spaces as T1 files: there and back, by the published schema, and refused where they do not fit."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baco_like import Categorical, Integer, Ordinal, Permutation, Real, Space
from baco_like.exceptions import SpaceError
from baco_like.spaces.formats.t1 import to_t1

SPACE = Space(
    {
        "bx": Ordinal([16, 32, 64, 128], log=True, default=32),
        "share": Ordinal([0.5, 1, 2]),
        "unroll": Integer(1, 64, log=True),
        "kind": Categorical(["it's", 'a "b"', "\\n"], default="\\n"),
        "pad": Categorical([True, False], prior=[0.25, 0.75]),
        "level": Ordinal(["-O1", "-O2"]),
        "fixed": [7],
    },
    constraints=["bx * unroll <= 1024", "pad or bx % 32 == 0", "kind != 'it\\'s' or share > 1"],
)

numbers = st.lists(
    st.integers(1, 2**60) | st.floats(0.25, 1e9), min_size=1, max_size=5, unique_by=float
)
texts = st.lists(st.text(max_size=6), min_size=1, max_size=4, unique=True)
parameters = st.one_of(
    st.builds(Ordinal, numbers, log=st.booleans()),
    st.builds(Ordinal, texts.filter(lambda one: len(one) > 1)),
    st.builds(Categorical, texts),
    st.just(Categorical([True, False], default=False)),
    st.just(Categorical([1, "1", True])),
    st.builds(lambda low, size: Integer(low, low + size), st.integers(-9, 9), st.integers(0, 99)),
)


@settings(max_examples=40)
@given(st.dictionaries(st.text(min_size=1, max_size=4), parameters, min_size=1, max_size=3))
def test_there_and_back_nothing_changes(given: dict[str, Any]) -> None:
    space = Space(given)
    document = json.loads(json.dumps(to_t1(space)))
    assert Space.from_t1(document).to_dict() == space.to_dict()


def test_constraints_and_what_stands_beside_the_space(tmp_path: Path) -> None:
    kernel = {"Language": "CUDA", "KernelName": "gemm"}
    document = to_t1(SPACE, kernel, Budget=[{"Type": "ConfigurationCount", "BudgetValue": 9}])
    path = tmp_path / "T1.json"
    path.write_text(json.dumps(document))
    assert Space.from_t1(path).to_dict() == SPACE.to_dict()
    assert document["KernelSpecification"]["KernelName"] == "gemm"
    first, *_ = document["ConfigurationSpace"]["Conditions"]
    assert first == {"Expression": "bx * unroll <= 1024", "Parameters": ["bx", "unroll"]}
    written = {one["Name"]: one for one in document["ConfigurationSpace"]["TuningParameters"]}
    assert written["share"] == {"Name": "share", "Type": "float", "Values": "[0.5, 1, 2]"}
    assert written["unroll"]["Values"] == "list(range(1, 65))"
    assert (written["pad"]["Type"], written["level"]["Type"]) == ("bool", "string")
    assert "BacoLike" in written["bx"]  # its scale
    assert "BacoLike" not in written["fixed"]


def test_by_the_published_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    pytest.importorskip("kernel_tuner")
    place = "schema/T1/1.0.0/input-schema.json"
    rules = json.loads(resources.files("kernel_tuner").joinpath(place).read_text())
    document = to_t1(SPACE)
    jsonschema.validate(document, rules)
    document["ConfigurationSpace"]["TuningParameters"][0]["Type"] = "ordinal"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, rules)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Space({"r": Real(0, 1)}), "'r': a T1 file lists every value, and a Real"),
        (Space({"p": Permutation(["i", "j"])}), "'p': .* a Permutation"),
        (Space({"n": Integer(0, 10**6)}), "'n': .* an? Integer"),
        (
            Space({"k": ["a", "b"], "t": [1, 2]}, when={"t": "k == 'a'"}),
            "'t': it is active only when",
        ),
        (Space({"n": [1, 2]}, constraints=[lambda n: n > 1]), "not an expression"),
    ],
)
def test_refused(space: Space, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        to_t1(space)


def test_a_null_character_in_the_path_is_an_os_error():
    with pytest.raises(OSError, match="null character"):
        Space.from_t1("a\0b.json")
