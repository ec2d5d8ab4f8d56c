"""BaCO's and HyperMapper's files of samples, there and back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baco_like import Categorical, Integer, Optimizer, Ordinal, Permutation, Real, Space
from baco_like.exceptions import RunFileError
from baco_like.integrations import observe_samples, read_samples, write_samples
from baco_like.records.trial import Trial
from baco_like.results.hypermapper import Feasibility, Layout, csv_text

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
