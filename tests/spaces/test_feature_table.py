import numpy as np

from baco_like import Categorical, Integer, Ordinal, Real, Space
from baco_like.spaces.derived_features import FeatureTable


def test_numbers_of_several_columns_at_once():
    gather = FeatureTable([(2, np.array([5.0, 6.0])), (0, np.array([1.0, 2.0, 3.0]))])
    codes = np.array([[0.0, 9.0, 1.0], [2.0, 9.0, 0.0]])
    np.testing.assert_array_equal(gather(codes), [[6.0, 1.0], [5.0, 3.0]])


def test_no_columns_give_no_numbers():
    assert FeatureTable([])(np.ones((3, 2))).shape == (3, 0)


def test_features_of_a_space_are_those_of_its_parameters():
    few = {
        "a": Ordinal([1, 2, 8], log=True),
        "one": [7],
        "n": Integer(3, 9),
        "s": Ordinal(["x", "y"]),
    }
    for more in (
        {},
        {"c": Categorical(["p", "q", "r"])},
        {"x": Real(0.0, 1.0)},
        {"w": Integer(0, 10**9)},
    ):
        space = Space({**few, **more})
        rows = space.feasible.sample(40, np.random.default_rng(0))
        parts = [p.features(rows[:, space.columns[name]]) for name, p in space.parameters.items()]
        np.testing.assert_array_equal(space.features(rows), np.concatenate(parts, axis=1))
