import math

import numpy as np
import pytest

from baco_like import Ordinal, Space
from baco_like.records.trial import Outcome, Trial
from baco_like.strategies.observed_costs import Memo
from baco_like.strategies.protocol import Problem

SPACE = Space({"a": Ordinal([1, 2, 4])}, constraints=["a < 4"])


def observed(number, value, origin="told", a=1):
    outcome = (
        Outcome.failure(number, "compile") if value is None else Outcome.success(number, (value,))
    )
    return Trial(number, {"a": a}, None, origin, outcome)


def test_an_older_memo_stays_what_it_was():
    problem = Problem(SPACE)
    one = Memo().grown(problem, observed(0, 5.0))
    left = one.grown(problem, observed(1, 7.0, a=2))
    right = one.grown(problem, observed(1, 9.0, a=2))
    codes = np.array([[0.0], [1.0]])
    assert (len(one), len(left), len(right)) == (1, 2, 2)
    np.testing.assert_array_equal(one.costs(codes), [5.0, np.nan])
    np.testing.assert_array_equal(left.costs(codes), [5.0, 7.0])
    np.testing.assert_array_equal(right.costs(codes), [5.0, 9.0])


@pytest.mark.parametrize(
    ("values", "cost"),
    [((2.0, 4.0), 3.0), ((None, 4.0), 4.0), ((None,), math.inf), ((1e308, 1e308), 1e308)],
)
def test_repeats_are_averaged_over_their_successes(values, cost):
    memo = Memo()
    for number, value in enumerate(values):
        memo = memo.grown(Problem(SPACE), observed(number, value))
    assert memo.costs(np.array([[0.0]])) == [cost]


def test_costs_are_minimised_whatever_the_goal():
    memo = Memo().grown(Problem(SPACE, direction="maximize"), observed(0, 5.0))
    assert memo.costs(np.array([[0.0]])) == [-5.0]


def test_what_lies_outside_the_space_adds_nothing():
    memo = Memo()
    assert memo.grown(Problem(SPACE), observed(0, 5.0, "imported", a=4)) is memo
