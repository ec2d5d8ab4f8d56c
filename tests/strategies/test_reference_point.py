"""The reference point of the expected gain of hypervolume."""

import numpy as np
import pytest

from baco_like.strategies.bayesian.several_objectives import choose_reference


@pytest.mark.parametrize(("quantile", "expected"), [(0.5, [1.0, 1.5]), (0.9, [1.8, 1.9])])
def test_the_reference_point_stays_when_later_values_gather_at_one_point(
    quantile: float, expected: list[float]
) -> None:
    """It is far from the front, so that the other end of the front is searched too."""
    first = np.column_stack([np.linspace(0.0, 2.0, 10), np.linspace(2.0, 1.0, 10)])
    later = np.column_stack([np.zeros(50), np.linspace(0.5, 0.6, 50)])
    values = np.concatenate([first, later])
    reference = choose_reference(values, later[:1], first.T, quantile, 0.1)
    np.testing.assert_allclose(reference, expected)


def test_the_reference_point_is_beyond_the_whole_front():
    front = np.array([[0.0, 4.0], [1.0, 1.0], [5.0, 0.0]])
    np.testing.assert_allclose(choose_reference(front, front, front.T, 0.5, 0.1), [5.5, 4.4])
    np.testing.assert_allclose(choose_reference(front, front, front.T, 0.5, 1.0), [10.0, 8.0])
