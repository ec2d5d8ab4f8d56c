"""Scipy's minimisers on the unit box."""

import numpy as np
import pytest
from scipy.optimize import minimize

from baco_like.strategies.direct.global_minimisers import METHODS, LocalMinimiser

COUNTS = np.array([10.0, 25.0, np.inf])
START = np.array([0.15, 0.82, 0.5])


def rough(point):
    """A function with the steps of a grid of values."""
    grid = np.floor(np.clip(point, 0, 1) * [10, 25, 500]) / [10, 25, 500]
    return float(1 + ((grid - [0.6, 0.3, 0.44]) ** 2 * [3, 1, 2]).sum())


def recorded(points):
    def function(point):
        points.append(tuple(np.clip(point, 0.0, 1.0)))
        return rough(point)

    return function


@pytest.mark.parametrize("method", METHODS)
def test_the_points_and_the_minimum_are_those_of_scipy(method):
    minimiser = LocalMinimiser(method, np.minimum(COUNTS, 1024))
    ours, scipys = [], []
    found = minimiser(recorded(ours), START)
    expected = minimize(
        recorded(scipys), START, method=METHODS[method], **minimiser.arguments(START)
    )
    assert ours == scipys[: minimiser.calls]
    assert found.cost < rough(START)
    if len(scipys) <= minimiser.calls:
        assert found.cost == expected.fun
        assert (found.point == np.clip(expected.x, 0, 1)).all()
        assert found.success == expected.success
    else:
        assert not found.success
        assert found.cost == min(rough(np.array(p)) for p in ours) == rough(found.point)


@pytest.mark.parametrize("method", METHODS)
def test_a_flat_function_ends_without_a_warning(method):
    found = LocalMinimiser(method, np.full(2, 5.0))(lambda point: 1.0, np.array([0.0, 1.0]))
    assert found.cost == 1.0
    assert ((found.point >= 0) & (found.point <= 1)).all()
