"""The reference point of the expected gain of hypervolume, and the suggestions that improve one objective alone."""

import numpy as np
import pytest

from baco_like import Integer, Optimizer, Space
from baco_like.strategies.bayesian.several_objectives import choose_reference, end_of_turn


@pytest.mark.parametrize(("quantile", "expected"), [(0.5, [1.0, 1.5]), (0.9, [1.8, 1.9])])
def test_the_reference_point_stays_when_later_values_gather_at_one_point(
    quantile: float, expected: list[float]
) -> None:
    """It is far from the front, so that the other end of the front is searched too."""
    first = np.column_stack([np.linspace(0.0, 2.0, 10), np.linspace(2.0, 1.0, 10)])
    later = np.column_stack([np.zeros(50), np.linspace(0.5, 0.6, 50)])
    reference = choose_reference(np.concatenate([first, later]), later[:1], quantile)
    np.testing.assert_allclose(reference, expected)


def test_the_reference_point_is_beyond_the_whole_front():
    front = np.array([[0.0, 4.0], [1.0, 1.0], [5.0, 0.0]])
    np.testing.assert_allclose(choose_reference(front, front, 0.5), [5.5, 4.4])


def test_each_objective_is_improved_alone_in_turn():
    assert [end_of_turn(n, 2) for n in range(8, 17)] == [None] * 3 + [0] + [None] * 3 + [1, None]
    assert [end_of_turn(n, 3) for n in (11, 15, 19, 23)] == [2, 0, 1, 2]


@pytest.mark.parametrize(("known", "expected"), [(11, 0), (15, 20), (19, 0), (23, 20)])
def test_a_suggestion_that_improves_one_objective_alone_ignores_the_other(known, expected):
    """One objective falls with x, the other one rises, and values near the middle are known."""
    space = Space({"x": Integer(0, 20), "y": Integer(0, 20)})
    optimizer = Optimizer(
        space, objectives={"a": "minimize", "b": "minimize"}, strategy="ehvi", seed=0
    )
    for row in np.random.default_rng(0).permutation(9 * 9)[:known]:
        x, y = divmod(int(row), 9)
        configuration = {"x": x + 6, "y": y + 6}
        optimizer.observe(configuration, {"a": x + 10.0, "b": 20.0 - x})
    assert optimizer.suggest()["x"] == expected
