import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like import Categorical, Integer, Ordinal, Permutation, Real, Space
from baco_like.strategies.geometry import UnitBox

ALL = Space(
    {
        "x": Real(1e-4, 10.0, log=True),
        "seven": [7],
        "k": Integer(3, 12),
        "g": Integer(1, 100, log=True),
        "o": Permutation(["i", "j", "l"]),
        "c": Categorical(["p", "q"]),
        "r": Real(2.0, 2.0),
        "wide": Integer(0, 2**40),
        "biglog": Integer(5, 2**40, log=True),
        "t": Ordinal([1, 2, 4, 8, 16], log=True),
    }
)


@given(st.integers(0, 2**32 - 1))
def test_codes_come_back_from_their_points(seed):
    codes = ALL.feasible.sample(20, np.random.default_rng(seed))
    points = UnitBox.of(ALL).to_unit(codes)
    assert points.shape == (20, 10)
    assert ((points >= 0) & (points <= 1)).all()
    np.testing.assert_allclose(UnitBox.of(ALL).from_unit(points), codes, rtol=1e-12)


@given(st.integers(0, 2**32 - 1))
def test_every_point_has_legal_codes(seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(0.5, 1.0, (50, 10))
    assert ALL.feasible.contains(UnitBox.of(ALL).from_unit(points)).all()


def test_values_lie_on_the_grid_of_the_survey():
    space = Space({"t": [1, 2, 4, 8], "c": Categorical(["p", "q"])})
    points = UnitBox.of(space).to_unit(space.encode([{"t": 1, "c": "q"}, {"t": 8, "c": "p"}]))
    np.testing.assert_allclose(points, [[1 / 8, 3 / 4], [7 / 8, 1 / 4]])
    codes = UnitBox.of(space).from_unit(
        np.array([[0.0, 0.49], [0.2501, 0.51], [0.99, 1.0], [1.0, -3.0]])
    )
    np.testing.assert_array_equal(codes, [[0, 0], [1, 1], [3, 1], [3, 0]])


def test_reals_and_logarithms_by_their_scale():
    space = Space({"x": Real(1.0, 100.0, log=True), "y": Real(-1.0, 3.0)})
    np.testing.assert_allclose(UnitBox.of(space).to_unit(np.array([[10.0, 0.0]])), [[0.5, 0.25]])
    np.testing.assert_allclose(
        UnitBox.of(space).from_unit(np.array([[0.25, 0.75]])), [[10**0.5, 2.0]]
    )


def test_an_integer_with_log_has_intervals_of_its_logarithm():
    space = Space({"g": Integer(1, 4, log=True)})
    length = np.log(4.5 / 0.5)
    ends = np.log(np.array([0.5, 1.5, 2.5, 3.5, 4.5]) / 0.5) / length
    np.testing.assert_allclose(
        UnitBox.of(space).to_unit(np.arange(4.0)[:, None])[:, 0], (ends[1:] + ends[:-1]) / 2
    )
    inside = np.concatenate([ends[:-1] + 1e-9, ends[1:] - 1e-9])
    np.testing.assert_array_equal(
        UnitBox.of(space).from_unit(inside[:, None])[:, 0], [0, 1, 2, 3] * 2
    )


def test_permutations_by_random_keys():
    space = Space({"o": Permutation(["a", "b", "c"])})
    codes = UnitBox.of(space).from_unit(np.array([[0.9, 0.1, 0.5], [0.5, 0.5, 0.2]]))
    assert [c["o"] for c in space.decode(codes)] == [("b", "c", "a"), ("c", "a", "b")]


def test_one_step_is_equally_long_on_every_axis_of_the_scaled_box():
    space = Space(
        {"t": list(range(8)), "c": Categorical(["p", "q"]), "o": Permutation(list("abcd"))}
    )
    box = UnitBox.of(space)
    np.testing.assert_allclose(box.extents, [1.0, 0.25, 0.5, 0.5, 0.5, 0.5])
    codes = np.array([[0.0, 0, 0, 1, 2, 3], [1.0, 1, 1, 0, 3, 2]])
    left, right = box.to_unit(codes) * box.extents
    np.testing.assert_allclose(np.abs(left - right), 1 / 8)


@pytest.mark.parametrize(
    ("parameters", "extents"),
    [
        ({"x": Real(0, 1), "f": [True, False], "t": [1, 2, 3, 4]}, [1.0, 0.5, 1.0]),
        ({"x": Real(0, 1)}, [1.0]),
        ({"n": Integer(0, 10**6), "t": [1, 2, 3]}, [1.0, 1.0]),
        ({"seven": [7]}, []),
    ],
)
def test_reals_and_wide_integers_have_the_whole_axis(parameters, extents):
    space = Space(parameters)
    box = UnitBox.of(space)
    np.testing.assert_allclose(box.extents, extents)
    assert space.feasible.contains(box.from_unit(np.full((2, box.axes), 0.3))).all()
