import math

import numpy as np
import pytest

from baco_like import Ordinal, Outcome, Space, Trial
from baco_like.records.history import row_keys
from baco_like.strategies import Problem
from baco_like.strategies.observed_costs import ObservedCosts

SPACE = Space({"a": Ordinal([1, 2, 4])}, constraints=["a < 4"])


def trial(number, value, origin="told", a=1):
    outcome = (
        Outcome.failure(number, "compile") if value is None else Outcome.success(number, (value,))
    )
    return Trial(number, {"a": a}, None, origin, outcome)


def add(costs, problem, observation):
    (key,) = row_keys(problem.code(observation)[None, :])
    return costs.add(key, problem.cost(observation))


def test_an_older_version_keeps_its_contents():
    problem = Problem(SPACE)
    first = add(ObservedCosts(), problem, trial(0, 5.0))
    left = add(first, problem, trial(1, 7.0, a=2))
    right = add(first, problem, trial(1, 9.0, a=2))
    codes = np.array([[0.0], [1.0]])
    assert (len(first), len(left), len(right)) == (1, 2, 2)
    np.testing.assert_array_equal(first.costs(codes), [5.0, np.nan])
    np.testing.assert_array_equal(left.costs(codes), [5.0, 7.0])
    np.testing.assert_array_equal(right.costs(codes), [5.0, 9.0])


@pytest.mark.parametrize(
    ("values", "cost"),
    [((2.0, 4.0), 3.0), ((None, 4.0), 4.0), ((None,), math.inf), ((1e308, 1e308), 1e308)],
)
def test_the_successes_among_repeats_are_averaged(values, cost):
    costs = ObservedCosts()
    for number, value in enumerate(values):
        costs = add(costs, Problem(SPACE), trial(number, value))
    assert costs.costs(np.array([[0.0]])) == [cost]


def test_maximised_values_become_negative_costs():
    costs = add(ObservedCosts(), Problem(SPACE, direction="maximize"), trial(0, 5.0))
    assert costs.costs(np.array([[0.0]])) == [-5.0]


def test_a_configuration_outside_the_space_has_no_code():
    assert Problem(SPACE).code(trial(0, 5.0, "imported", a=4)) is None
