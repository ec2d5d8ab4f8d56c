"""Gradient ascent and alternation on functions whose optimum is known."""

import numpy as np
import pytest

from baco_like import Categorical, Integer, Real, Space
from baco_like.acquisitions.optimizers.gradient import GradientAscent
from baco_like.acquisitions.optimizers.searches import (
    AlternatingSearch,
    LocalSearch,
    SampledSearch,
)
from baco_like.strategies.bayesian.bayesian import Bayesian

CUBE = Space({f"x{i}": Real(-2.0, 2.0) for i in range(4)})
SCALES = Space({"x": Real(0.0, 1.0), "y": Real(1e-3, 10.0, log=True), "z": Real(-500.0, 500.0)})
MIXED = Space(
    {
        "x": Real(0.0, 1.0),
        "c": Categorical(list("abcd")),
        "k": [1, 2, 4, 8, 16],
        "y": Real(0.0, 1.0),
    }
)

WIDE = Space({f"x{i}": Integer(-200_000, 200_000) for i in range(4)})
"""The cube in steps of 1e-5."""

EXACT = AlternatingSearch(GradientAscent(), gain=0.0)


def rosenbrock(codes):
    x, y = codes[:, :-1], codes[:, 1:]
    return -(100 * (y - x**2) ** 2 + (1 - x) ** 2).sum(axis=1)


def scaled(codes):
    x, y, z = codes.T
    return -((x - 0.3) ** 2) - 3 * (np.log(y) - 0.5) ** 2 - 1e-6 * (z - 100 * x) ** 2


def mixed(codes):
    x, c, k, y = codes.T
    return -((x - 0.2 * c) ** 2) - (y - 0.2 * k) ** 2 - 0.3 * (k - 3) ** 2 - 0.1 * (c == 2)


def wide_rosenbrock(codes):
    return rosenbrock(codes * 1e-5 - 2.0)


class Counted:
    """A score that counts its rows and calls and accepts feasible rows only."""

    def __init__(self, score, space):
        self.score, self.space, self.rows, self.calls = score, space, 0, 0

    def __call__(self, codes):
        assert self.space.feasible.contains(codes).all()
        self.rows += len(codes)
        self.calls += 1
        return self.score(codes)


def free(codes):
    return np.zeros(len(codes), bool)


def maximised(search, score, space, seed):
    counted = Counted(score, space)
    rng = np.random.default_rng(seed)
    found = search.maximise(counted, space, 1, rng, np.empty((0, space.width)), free)
    return float(score(found)[0]), counted.rows


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("space", "score"),
    [(CUBE, rosenbrock), (SCALES, scaled), (MIXED, mixed)],
    ids=["rosenbrock", "scales", "mixed"],
)
def test_optima_are_reached_with_fewer_rows_than_draws_need(space, score, seed):
    best, rows = maximised(EXACT, score, space, seed)
    assert best > -1e-9
    assert rows < 12_000
    near, rows = maximised(AlternatingSearch(), score, space, seed)
    assert near > -2e-3
    assert rows < 6_000
    drawn, _ = maximised(SampledSearch(candidates=20_000), score, space, seed)
    assert drawn < -1e-6


@pytest.mark.parametrize("seed", range(3))
def test_wide_integers_are_climbed_like_reals(seed):
    best, rows = maximised(AlternatingSearch(), wide_rosenbrock, WIDE, seed)
    assert best > -2e-3
    _, rows_of_reals = maximised(AlternatingSearch(), rosenbrock, CUBE, seed)
    assert rows < 1.5 * rows_of_reals
    in_steps, _ = maximised(LocalSearch(), wide_rosenbrock, WIDE, seed)
    assert in_steps < 5 * best
    assert isinstance(Bayesian().search_of(WIDE), AlternatingSearch)


def test_a_coarse_integer_ends_at_its_optimum():
    space = Space({"x": Integer(0, 1023), "y": Real(0.0, 1.0)})
    best, _ = maximised(EXACT, lambda c: -((c[:, 0] - 417.4) ** 2) - (c[:, 1] - 0.3) ** 2, space, 0)
    assert best == pytest.approx(-0.16, abs=1e-9)


def test_an_optimum_in_a_corner_of_the_domain_is_reached_exactly():
    space = Space({"x": Real(0.0, 1.0), "y": Real(1e-2, 1e2, log=True)})
    best, _ = maximised(EXACT, lambda c: c[:, 0] - np.log(c[:, 1]), space, 0)
    assert best == pytest.approx(1.0 + np.log(1e2), abs=1e-12)


def test_an_optimum_on_a_constraint_is_approached_from_inside():
    space = Space(
        {"x": Real(0.0, 1.0), "y": Real(0.0, 1.0), "k": [1, 2]}, constraints=["x + y <= 1"]
    )

    def score(c):  # on the line: x = 0.4 + 1/6
        return 2 * c[:, 0] + c[:, 1] - 3 * (c[:, 0] - 0.4) ** 2 - c[:, 2]

    x = 0.4 + 1 / 6
    best, _ = maximised(AlternatingSearch(), score, space, 0)
    assert score(np.array([[x, 1 - x, 0.0]]))[0] == pytest.approx(best, abs=2e-3)


def test_climbs_end_higher_and_move_only_reals():
    rng = np.random.default_rng(0)
    rows = MIXED.feasible.sample(40, rng)
    before = rows.copy()
    found, heights = GradientAscent().climb(Counted(mixed, MIXED), MIXED, rows, mixed(rows), rng)
    assert (rows == before).all()
    assert (heights >= mixed(before)).all()
    assert np.array_equal(heights, mixed(found))
    assert (found[:, 1:3] == before[:, 1:3]).all()
    best = np.clip(0.2 * before[:, 2], 0.0, 1.0)
    assert np.allclose(found[:, 3], best, atol=2e-6)


def test_a_climb_with_negligible_gains_ends():
    def nearly_flat(codes):
        return 1e-12 * codes[:, 0]

    counted = Counted(nearly_flat, CUBE)
    rows = CUBE.feasible.sample(10, np.random.default_rng(0))
    GradientAscent().climb(counted, CUBE, rows, nearly_flat(rows), np.random.default_rng(0))
    assert counted.calls <= 2


def test_the_number_of_steps_is_bounded():
    def jagged(codes):  # every call finds a little more
        jagged.calls += 1
        return np.full(len(codes), 1e-3 * jagged.calls)

    jagged.calls = 0
    search = AlternatingSearch(GradientAscent(steps=5), candidates=10, starts=2, rounds=4)
    maximised(search, jagged, CUBE, 0)
    assert jagged.calls <= 2 + 4 * (2 * 5 + 3)


def test_rows_without_a_finite_score_do_not_move():
    def score(codes):
        return np.where(codes[:, 0] < 0, np.nan, -(codes**2).sum(axis=1))

    rows = np.array([[-1.0, 0, 0, 0], [1.0, 1, 1, 1]])
    found, heights = GradientAscent().climb(
        score, CUBE, rows, score(rows), np.random.default_rng(0)
    )
    assert (found[0] == rows[0]).all()
    assert heights[1] > -1e-9


def test_a_space_without_reals_is_searched_too():
    space = Space({"a": list(range(30)), "b": list(range(30))}, constraints=["a + b <= 40"])
    best, _ = maximised(AlternatingSearch(), lambda c: -((c - 13) ** 2).sum(axis=1), space, 0)
    assert best == 0.0
