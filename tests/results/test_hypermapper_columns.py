"""The columns of BaCO's and HyperMapper's messages and files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like.exceptions import ConfigError, SpaceError
from baco_like.parameters import Categorical, Integer, Ordinal, Permutation, Real
from baco_like.records.trial import Status
from baco_like.results.hypermapper import (
    Feasibility,
    Layout,
    number,
    read_value,
    write_value,
)

PARAMETERS = {
    "real": (Real(-5, 10), st.floats(-5, 10)),
    "integer": (Integer(-(10**15), 10**15), st.integers(-(10**15), 10**15)),
    "ordinal": (Ordinal([1, 2, 4, 2**60]), st.sampled_from([1, 2, 4, 2**60])),
    "whole floats": (Ordinal([1.0, 2.0]), st.sampled_from([1.0, 2.0])),
    "mixed": (Ordinal([0, 0.1, 0.3, 1]), st.sampled_from([0, 0.1, 0.3, 1])),
    "words in order": (Ordinal(["low", "high"]), st.sampled_from(["low", "high"])),
    "categorical": (Categorical(["-O2", "-O3 -g"]), st.sampled_from(["-O2", "-O3 -g"])),
    "booleans": (Categorical([True, False]), st.booleans()),
    "permutation": (Permutation(range(4)), st.permutations(range(4)).map(tuple)),
    "named elements": (Permutation(["i", "j"]), st.permutations(["i", "j"]).map(tuple)),
    "one element": (Permutation(range(1)), st.just((0,))),
}


@pytest.mark.parametrize("name", PARAMETERS)
@given(st.data())
def test_every_value_is_read_as_it_was_written(name, data):
    parameter, values = PARAMETERS[name]
    value = data.draw(values)
    found = read_value(parameter, write_value(parameter, value))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("real", 0, "0.0"),
        ("real", 6.870039939880371, "6.870039939880371"),
        ("integer", -7, "-7"),
        ("ordinal", 2**60, "1152921504606846976"),
        ("whole floats", 2.0, "2"),
        ("mixed", 0, "0.0"),
        ("booleans", True, "True"),
        ("permutation", (0, 2, 1, 3), "(0, 2, 1, 3)"),
        ("one element", (0,), "(0,)"),
    ],
)
def test_the_texts_are_those_of_the_protocol(name, value, text):
    assert write_value(PARAMETERS[name][0], value) == text


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("integer", "16.0", 16),
        ("ordinal", "4.0", 4),
        ("mixed", "0.10000000149011612", 0.1),  # kept by BaCO in single precision
        ("mixed", "0.0", 0),
        ("real", "10.0000002", 10.0),
        ("permutation", "[3, 2, 1, 0]", (3, 2, 1, 0)),
    ],
)
def test_what_the_originals_write_is_read(name, text, value):
    found = read_value(PARAMETERS[name][0], text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("real", "10.1"),
        ("real", "nan"),
        ("real", "x"),
        ("integer", "1.5"),
        ("ordinal", "3"),
        ("ordinal", "9" * 400),
        ("integer", "9" * 400),
        ("mixed", "0.2"),
        ("categorical", "-O4"),
        ("permutation", "(0, 1, 2)"),
        ("permutation", "(0, 1, 2, 2)"),
        ("permutation", ""),
    ],
)
def test_what_is_no_value_is_refused(name, text):
    with pytest.raises(ConfigError):
        read_value(PARAMETERS[name][0], text)


def test_numbers_are_only_what_c_prints_as_numbers():
    assert [number(text) for text in ("1", "-1e-3", " 2.5 ")] == [1.0, -0.001, 2.5]
    assert [number(text) for text in ("nan", "-nan", "inf", "1_0", "", "-nan(ind)", "1e999")] == (
        [None] * 7
    )


@pytest.mark.parametrize(
    ("yes", "no", "text", "ran"),
    [
        ("True", "False", "True", True),
        ("true", "false", "True", True),  # the original takes it for a failure
        ("True", "False", "false", False),
        ("1", "0", "1", True),
        ("1", "0", "False", False),
        ("0", "1", "1", False),
        ("yes", "no", "NO", False),
        ("yes", "no", "1", True),
    ],
)
def test_both_spellings_of_what_ran(yes, no, text, ran):
    assert Feasibility(yes=yes, no=no).read(text) is ran


def test_an_unknown_word_for_what_ran_is_refused():
    with pytest.raises(ValueError, match="Valid = 'maybe' is neither 'True' nor 'False'"):
        Feasibility().read("maybe")


LAYOUT = Layout({"x": Integer(0, 9)}, "runtime")


@pytest.mark.parametrize(
    ("cells", "value"),
    [
        ({"runtime": "2.5", "Valid": "True"}, 2.5),
        ({"runtime": "-1"}, -1.0),
        ({"runtime": "2147483647", "Valid": "1"}, 2147483647.0),
        ({"runtime": "-1", "Valid": "False"}, None),
        ({"runtime": "2147483647", "Valid": "0"}, None),
        ({"runtime": "nan", "Valid": "False"}, None),
        ({"runtime": "nan", "Valid": "True"}, None),
        ({"runtime": "-inf"}, None),
        ({"runtime": "segmentation fault"}, None),
    ],
)
def test_what_came_of_a_row(cells, value):
    found = LAYOUT.outcome(3, cells, "")
    assert found.trial_id == 3
    assert found.value == value
    assert found.status is (Status.OK if value is not None else Status.FAILED)
    assert found.extra == ({} if value is not None else {"reported": cells["runtime"]})


@pytest.mark.parametrize(
    ("parameters", "objective", "named"),
    [
        ({"a,b": Integer(0, 1)}, "y", "a,b"),
        ({"a": Integer(0, 1)}, "a", "'a'"),
        ({"a": Integer(0, 1)}, "(y)", "cannot be written"),
        ({"a": Integer(0, 1)}, " y", "cannot be written"),
        ({"a": Categorical(["x,y", "z"])}, "y", "x,y"),
        ({"a": Categorical(["x\ny", "z"])}, "y", "cannot be written"),
        ({"a": Categorical([1, "1"])}, "y", "written '1'"),
        ({"a": Integer(0, 1)}, "Valid", "two columns"),
    ],
)
def test_a_layout_that_no_line_can_have(parameters, objective, named):
    with pytest.raises(SpaceError, match=named):
        Layout(parameters, objective)
