import math

import numpy as np
import pytest

from baco_like import Ordinal, Outcome, Space, Trial
from baco_like.records.history import History, row_keys
from baco_like.strategies.observed_costs import ObservedCosts

SPACE = Space({"a": Ordinal([1, 2, 4])}, constraints=["a < 4"])


def trial(number, value, origin="told", a=1, direction="minimize"):
    outcome = (
        Outcome.failure(number, "compile") if value is None else Outcome.success(number, (value,))
    )
    config = {"a": a}
    code = SPACE.encode([config])[0] if SPACE.contains(config) else None
    unsuggested = {number: (Trial(number, config, None, origin), code)}
    _, (observation,) = History.start(SPACE, direction).complete([outcome], unsuggested)
    return observation


def add(costs, observation):
    (key,) = row_keys(observation.code[None, :])
    return costs.add(key, observation.cost)


def test_an_older_version_keeps_its_contents():
    first = add(ObservedCosts(), trial(0, 5.0))
    left = add(first, trial(1, 7.0, a=2))
    right = add(first, trial(1, 9.0, a=2))
    codes = np.array([[0.0], [1.0]])
    assert (len(first), len(left), len(right)) == (1, 2, 2)
    np.testing.assert_array_equal(first.costs(row_keys(codes)), [5.0, np.nan])
    np.testing.assert_array_equal(left.costs(row_keys(codes)), [5.0, 7.0])
    np.testing.assert_array_equal(right.costs(row_keys(codes)), [5.0, 9.0])


@pytest.mark.parametrize(
    ("values", "cost"),
    [((2.0, 4.0), 3.0), ((None, 4.0), 4.0), ((None,), math.inf), ((1e308, 1e308), 1e308)],
)
def test_the_successes_among_repeats_are_averaged(values, cost):
    costs = ObservedCosts()
    for number, value in enumerate(values):
        costs = add(costs, trial(number, value))
    assert costs.costs(row_keys(np.array([[0.0]]))) == [cost]


def test_maximised_values_become_negative_costs():
    costs = add(ObservedCosts(), trial(0, 5.0, direction="maximize"))
    assert costs.costs(row_keys(np.array([[0.0]]))) == [-5.0]


def test_a_configuration_outside_the_space_has_no_code():
    assert trial(0, 5.0, "imported", a=4).code is None
