import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like.evaluators._processes.process import Finished
from baco_like.evaluators.command.measure import Measure
from baco_like.exceptions import RunFileError


def make(scale=1e3, **entries):
    return Measure.parse(scale=scale, **entries)


def take(measure, out, seconds=0.25):
    return measure.take(Finished(0, None, False, out, "", seconds))


def test_regex_takes_the_group_of_the_last_match():
    measure = make(measure="regex", pattern=r"time: (\S+)")
    assert take(measure, "time: 9\nwarm\ntime: 1.5e-3 ms\n") == (0.0015,)


def test_regex_without_group_and_line_ends():
    assert take(make(pattern=r"^\d+$"), "x 1\n22\n333 y\n") == (22.0,)


@pytest.mark.parametrize(
    "out", ["", "no number", "time: fast", "time: nan", "time: 1e999", "time: "]
)
def test_regex_tells_what_was_printed(out):
    problem = take(make(measure="regex", pattern="time: (.*)"), out)
    assert isinstance(problem, str)
    assert "\n" not in problem
    assert not out or out.split()[-1] in problem


@pytest.mark.parametrize("pattern", [".*", r"\d*", "([0-9.]*)"])
def test_regex_skips_empty_matches(pattern):
    assert take(make(pattern=pattern), "1\n25\n") == (25.0,)
    assert "no match" in str(take(make(pattern=pattern), "\n"))


def test_json_key_nested_key_and_list():
    assert take(make(measure="json", key="time"), '{"time": 3}') == (3.0,)
    assert take(make(measure="json", key="a.b"), '{"a": {"b": [1, 2.5]}}') == (1.0, 2.5)
    assert take(make(measure="json", key="a.b"), '{"a.b": 7}') == (7.0,)
    assert take(make(measure="json", key="time"), 'log\n{"time": 1}\n{"time": 2}\n\nbye\n') == (
        2.0,
    )


@pytest.mark.parametrize(
    "out",
    [
        "",
        "[1]",
        "{",
        '{"tme": 1}',
        '{"time": "1"}',
        '{"time": true}',
        '{"time": NaN}',
        '{"time": []}',
        '{"time": [1, null]}',
        "[" * 100_000,
        '{"time": ' + "9" * 5000 + "}",
    ],
)
def test_json_problems(out):
    problem = take(make(measure="json", key="time"), out)
    assert isinstance(problem, str)
    assert len(problem) < 400
    assert "\n" not in problem


def test_json_suggests_the_close_key():
    assert "did you mean 'tme'" in str(take(make(measure="json", key="time"), '{"tme": 1}'))


def test_wall_is_in_the_unit_of_the_objective():
    assert take(make(measure="wall"), "", seconds=0.25) == (250.0,)
    with pytest.raises(RunFileError, match="unit"):
        make(scale=None, measure="wall")


@given(st.text(max_size=200))
def test_any_output_is_read_or_told(out):
    for measure in (make(measure="json", key="t"), make(measure="regex", pattern="t(.*)")):
        result = take(measure, out)
        assert isinstance(result, (str, tuple))
