"""The rule of repeats against its definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like._tables import Table
from baco_like.evaluators import Repeats
from baco_like.exceptions import RunFileError
from baco_like.records.trial import median, standard_error

VALUES = st.lists(st.floats(0.5, 100), max_size=20)
RULES = st.builds(
    lambda least, most, error, slow: Repeats(least, most if error else None, error, slow),
    st.integers(1, 6),
    st.integers(6, 40),
    st.one_of(st.none(), st.floats(0.001, 0.5)),
    st.one_of(st.none(), st.floats(1.5, 10)),
)


def measured(rule, draw, best):
    """Return what is measured of an endless list of values under a rule."""
    values = []
    while (count := rule.missing(values, best)) > 0:
        values += [draw[(len(values) + i) % len(draw)] for i in range(count)]
    return values


def test_a_fixed_number():
    assert measured(Repeats(4), [1.0, 9.0], None) == [1.0, 9.0, 1.0, 9.0]
    assert measured(Repeats(), [3.0], 1.0) == [3.0]


@given(RULES, VALUES.filter(bool), st.one_of(st.none(), st.floats(0.5, 100)))
def test_it_ends_between_least_and_most(rule, draw, best):
    values = measured(rule, draw, best)
    most = rule.most if rule.relative_error is not None else rule.repeats
    assert rule.repeats <= len(values) <= max(most, rule.repeats)
    if rule.relative_error is not None and len(values) < most and not rule.is_slow(values, best):
        error = standard_error(tuple(values))
        assert error <= rule.relative_error * abs(median(tuple(values)))


def test_a_steady_configuration_needs_two_and_a_noisy_one_as_many_as_its_noise_says():
    rule = Repeats(1, 400, relative_error=0.01)
    assert measured(rule, [5.0], None) == [5.0, 5.0]
    draw = np.random.default_rng(0).normal(1.0, 0.1, 400).tolist()
    # the standard error of n values of spread 0.1 is 0.1 / sqrt(n), so n is about 100
    assert 60 <= len(measured(rule, draw, None)) <= 200


def test_never_more_than_twice_as_many_at_a_time():
    rule = Repeats(2, 1000, relative_error=1e-6)
    assert rule.missing([1.0, 2.0], None) == 2
    assert rule.missing([1.0, 2.0, 1.0, 2.0], None) == 4
    assert rule.missing([-1.0, 1.0], None) == 2  # no error is small relative to a median of 0


@pytest.mark.parametrize(
    ("values", "best", "is_slow"),
    [
        ([], 1.0, False),
        ([3.1], None, False),
        ([3.1], 1.0, True),
        ([3.0], 1.0, False),
        ([50.0, 2.9], 1.0, False),
        ([50.0, 3.2], 1.0, True),
        ([3.1], -1.0, False),  # a ratio to a number that is not positive is meaningless
    ],
)
def test_clearly_slower_is_every_value_above_the_ratio(values, best, is_slow):
    rule = Repeats(5, slow_ratio=3.0)
    assert rule.is_slow(values, best) is is_slow
    assert rule.missing(values, best) == (0 if is_slow else 5 - len(values))
    assert not Repeats(5).is_slow(values, best)


OPTIONAL = st.one_of(st.none(), st.integers(-1, 9))
SHARES = st.one_of(st.none(), st.sampled_from([-1.0, 0.0, 0.1, 1.0, 2.0]))


@given(st.tuples(st.integers(-1, 9), OPTIONAL, SHARES, SHARES, OPTIONAL))
def test_python_and_run_files_refuse_the_same_rules(values):
    names = ["repeats", "max_repeats", "relative_error", "slow_ratio", "first_repeats"]
    entries = {n: v for n, v in zip(names, values, strict=True) if v is not None}
    repeats, most, error, slow, first = values
    allowed = (
        repeats >= 1
        and (most is None) == (error is None)
        and (most is None or (most >= repeats and error > 0))
        and (slow is None or slow > 1)
        and (first is None or 2 <= first <= repeats)
    )
    if allowed:
        assert Table("evaluator", entries).create(Repeats) == Repeats(*values)
        return
    with pytest.raises(ValueError, match=r" = .*: expected ") as python:
        Repeats(*values)
    with pytest.raises(RunFileError) as file:
        Table("evaluator", entries).create(Repeats)
    assert str(file.value) == f"[evaluator] {python.value}"


def test_first_repeats_are_followed_by_more_only_for_those_that_may_win():
    rule = Repeats(32, first_repeats=3)
    assert rule.missing([], None) == 3
    assert rule.missing([5.0, 5.0, 5.0], None) == 0  # there is nothing to compare with
    assert rule.missing([11.0, 11.1, 11.0], 10.0, is_cheap=True) == 3
    assert rule.missing([], 10.0) == 3
    assert rule.missing([11.0, 11.1, 11.0], 10.0) == 0
    assert rule.missing([10.05, 10.04, 10.05], 10.0) == 3  # within 1 % of the best
    assert rule.missing([11.0, 9.9, 11.1], 10.0) == 3  # one of the values is better
    assert rule.missing([10.5, 14.0, 12.0], 10.0) == 3  # three standard errors reach the best
    assert rule.missing([9.0] * 24, 10.0) == 8


def test_first_repeats_go_with_a_relative_error():
    rule = Repeats(4, 9, 0.01, None, 2)
    assert rule.missing([12.0, 12.0], 10.0) == 0
    assert rule.missing([9.0, 9.5], 10.0) == 2
    assert rule.missing([9.0, 9.5, 9.2, 9.9], 10.0) > 0


def test_the_best_of_few_repeats_never_beats_the_best_value():
    """A configuration that is not measured further has only values above the best one."""
    rng = np.random.default_rng(0)
    rule = Repeats(30, first_repeats=2)
    for _ in range(300):
        values, best = list[float](), 1.0
        noisy = 1.0 + 0.2 * rng.standard_normal(30)
        while (count := rule.missing(values, best)) > 0:
            values += noisy[len(values) :][:count].tolist()
        assert len(values) == 30 or np.median(values) > best
