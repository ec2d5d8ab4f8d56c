"""BaCO's and HyperMapper's files of samples, there and back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baco_like import Categorical, Integer, Optimizer, Ordinal, Permutation, Real, Space
from baco_like.exceptions import ConfigError, RunFileError, SpaceError
from baco_like.integrations import observe_samples, read_samples, write_samples
from baco_like.records.trial import Status, Trial
from baco_like.results.hypermapper_csv import (
    Feasibility,
    Layout,
    csv_text,
    number,
    read_value,
    write_value,
)

SPACE = Space(
    {
        "x": Real(-5, 10),
        "n": Integer(0, 99),
        "tile": Ordinal([1, 2, 4, 0.5]),
        "flag": Categorical(["-O2", "-O3"]),
        "p": Permutation(range(3)),
    },
    constraints=["tile <= 2 or n > 3"],
)
LAYOUT = Layout(SPACE.parameters, "runtime", Feasibility(required=True))

ORIGINAL = """x,n,tile,flag,p,runtime,Valid,timestamp
0.0,7,4.0,-O2,"(0, 2, 1)",14.527795791625977,True,1700000000000
-3.6780152320861816,0,0.5,-O3,"(2, 1, 0)",-1.0,False,1700000000011
"""


def observed(values):
    """Return the trials of an optimizer that has observed these values, None for a failure."""
    optimizer = Optimizer(SPACE, seed=3, strategy="random_search")
    for value in values:
        trial = optimizer.suggest()
        optimizer.observe(trial, value, failed=None if value is not None else True)
    return optimizer.trials


@settings(max_examples=20)
@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=6))
def test_rows_survive_the_round_trip(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("csv") / "samples.csv"
    trials = observed(values)
    write_samples(path, trials, LAYOUT)
    configs, outcomes = read_samples(path, LAYOUT)
    assert configs == [dict(trial.config) for trial in trials]
    assert [outcome.value for outcome in outcomes] == values
    again = [Trial(o.trial_id, c, outcome=o) for c, o in zip(configs, outcomes, strict=True)]
    assert csv_text(again, LAYOUT) == path.read_text()


def test_a_file_of_the_original(tmp_path):
    path = tmp_path / "samples.csv"
    path.write_text(ORIGINAL)
    configs, outcomes = read_samples(path, LAYOUT)
    assert configs[0] == {"x": 0.0, "n": 7, "tile": 4, "flag": "-O2", "p": (0, 2, 1)}
    assert [outcome.value for outcome in outcomes] == [14.527795791625977, None]
    assert outcomes[1].extra == {"reported": "-1.0", "timestamp": "1700000000011"}
    trials = [
        Trial(i, c, outcome=o) for i, (c, o) in enumerate(zip(configs, outcomes, strict=True))
    ]
    assert csv_text(trials, LAYOUT) == ORIGINAL.replace("timestamp", "Timestamp")


def test_columns_in_any_order_with_additional_columns(tmp_path):
    path = tmp_path / "samples.csv"
    path.write_text(
        '\ufeffenergy, Valid,p,flag,tile,n,x,runtime\n\n3,1,"(0, 1, 2)", -O3,2,5,1.5,7\n',
        encoding="utf-8",
    )
    configs, outcomes = read_samples(path, LAYOUT)
    assert configs == [{"x": 1.5, "n": 5, "tile": 2, "flag": "-O3", "p": (0, 1, 2)}]
    assert outcomes[0].value == 7.0
    assert outcomes[0].extra == {}


def test_without_a_feasibility_column_a_failure_is_nan(tmp_path):
    layout = Layout(SPACE.parameters, "runtime")
    path = tmp_path / "samples.csv"
    write_samples(path, observed([1.5, None]), layout)
    assert path.read_text().splitlines()[0] == "x,n,tile,flag,p,runtime,Timestamp"
    assert [outcome.value for outcome in read_samples(path, layout)[1]] == [1.5, None]
    assert ",nan," in path.read_text()


def test_a_torn_last_line_is_left_out(tmp_path):
    path = tmp_path / "samples.csv"
    path.write_text(ORIGINAL[:-5])
    assert len(read_samples(path, LAYOUT)[0]) == 1


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("runtime", "time", "column 'runtime' once"),
        ("x,n,", "n,n,", "column 'x' once"),
        ("-O3", "-O9", "line 3: parameter 'flag'"),
        (",-1.0,False", ",False", "line 3: 7 cells for 8 columns"),
        ("True", "maybe", "line 2: Valid = 'maybe'"),
        ("True", "y" * 2**18, "line 2: field larger"),
    ],
)
def test_an_error_names_the_line(tmp_path, old, new, named):
    path = tmp_path / "samples.csv"
    path.write_text(ORIGINAL.replace(old, new))
    with pytest.raises(RunFileError, match=named):
        read_samples(path, LAYOUT)


def test_a_missing_file_is_rejected(tmp_path):
    with pytest.raises(RunFileError, match=r"none\.csv: cannot be read"):
        read_samples(tmp_path / "none.csv", LAYOUT)


def test_an_optimizer_observes_the_rows(tmp_path):
    path = tmp_path / "samples.csv"
    path.write_text(ORIGINAL + '1.0,0,4,-O2,"(0, 1, 2)",3.0,True,0\n')
    optimizer = Optimizer(SPACE, seed=1, strategy="random_search")
    assert observe_samples(optimizer, *read_samples(path, LAYOUT)) == 1  # tile = 4 needs n > 3
    assert [trial.value for trial in optimizer.trials] == [14.527795791625977, None, 3.0]
    assert optimizer.best_value == 14.527795791625977
    assert optimizer.trials[1].extra["reported"] == "-1.0"


# ---- The columns of BaCO's and HyperMapper's messages and files ----


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


COLUMNS = Layout({"x": Integer(0, 9)}, "runtime")


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
    found = COLUMNS.outcome(3, cells, "")
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
