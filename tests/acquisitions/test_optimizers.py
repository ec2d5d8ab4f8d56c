"""Acquisition optimizers: conformance on spaces of every kind, scores whose best rows are known, and their parts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like import Categorical, Integer, Ordinal, Permutation, Real, Space
from baco_like.acquisitions.gradient import GradientAscent
from baco_like.acquisitions.optimizers import (
    AlternatingSearch,
    ExhaustiveSearch,
    LocalSearch,
    NearbySearch,
    SampledSearch,
    best_by_owner,
    best_free_rows,
    best_rows,
    combine_changes,
)
from baco_like.spaces.neighbourhoods import hamming
from baco_like.spaces.rows import drop_duplicates
from baco_like.strategies.bayesian.bayesian import Bayesian
from baco_like.testing.acquisitions import OPTIMIZER_CHECKS, exclude_none

SEARCHES = {
    "exhaustive": ExhaustiveSearch(),
    "exhaustive in chunks": ExhaustiveSearch(chunk=7),
    "sampled": SampledSearch(candidates=500),
    "local": LocalSearch(candidates=100, starts=4),
    "local that keeps all": LocalSearch(candidates=50, kept=1.0),
    "alternating": AlternatingSearch(candidates=50, starts=3),
    "nearby": NearbySearch(),
    "local from two draws": LocalSearch(candidates=2, starts=1, values=2),
}
SMALL = Space(
    {
        "a": [1, 2, 4, 8, 16],
        "b": [1, 2, 4, 8, 16],
        "c": Categorical(["x", "y", "z"]),
        "p": Permutation(list("ijk")),
        "k": [3],
    },
    constraints=["a * b <= 64", "pos(p, 'i') < pos(p, 'k')"],
)
SPACES = {
    "constrained": SMALL,
    "two groups": Space(
        {f"v{i}": Ordinal([2**j for j in range(5)], log=True) for i in range(4)},
        constraints=["v0 >= v1", "v2 % v3 == 0"],
    ),
    "one configuration": Space({"a": [1, 2], "b": [3, 4]}, constraints=["a + b == 6"]),
    "one value": Space({"a": [7]}),
    "permutations of 7": Space({"p": Permutation(list(range(7)))}),
    "reals only": Space({"x": Real(0.0, 1.0), "y": Real(1e-3, 1e3, log=True)}),
    "reals with a constraint": Space(
        {"x": Real(0.0, 1.0), "y": Real(0.0, 1.0), "k": [1, 2, 3]}, constraints=["x + y * k <= 1"]
    ),
    "wide integers": Space({"n": Integer(0, 10**9), "c": Categorical(list("ab"))}),
}
PAIRS = [
    pytest.param(search, space, id=f"{one}, {other}")
    for one, search in SEARCHES.items()
    for other, space in SPACES.items()
    if "exhaustive" not in one or (space.feasible.count or 10**6) < 10**6
]


@pytest.mark.parametrize(("search", "space"), PAIRS)
def test_conformance(search, space):
    for check in OPTIMIZER_CHECKS:
        check(search, space)


def find(search, score, space, n=1, seed=0, start=None, excluded=exclude_none):
    """Return the rows and scores of a search that starts from no row."""
    start = np.empty((0, space.width)) if start is None else start
    return search.maximise(score, space, n, np.random.default_rng(seed), start, excluded)


def bowl(space, seed=0):
    centre = space.feasible.sample(1, np.random.default_rng(seed))[0]
    return centre, lambda codes: -((codes - centre) ** 2).sum(axis=1)


@pytest.mark.parametrize("search", list(SEARCHES.values())[:-1], ids=list(SEARCHES)[:-1])
def test_the_last_free_row_is_found(search):
    space = SPACES["two groups"]
    last = np.concatenate(list(space.feasible.iterate()))[77]
    found, _ = find(
        search,
        lambda codes: -np.abs(codes - last).sum(axis=1),
        space,
        3,
        excluded=lambda codes: (codes != last).any(axis=1),
    )
    assert found.tolist() == [last.tolist()]


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_a_flat_score_does_not_favour_a_row(search):
    space = Space({"a": list(range(12))})
    found = {
        find(search, lambda codes: np.zeros(len(codes)), space, seed=seed)[0][0, 0]
        for seed in range(150)
    }
    assert found == set(range(12))


@pytest.mark.parametrize("seed", range(5))
def test_the_best_rows_are_found(seed):
    centre, score = bowl(SMALL, seed)
    every = np.concatenate(list(SMALL.feasible.iterate()))
    found, _ = find(ExhaustiveSearch(chunk=11), score, SMALL, 9)
    np.testing.assert_array_equal(score(found), np.sort(score(every))[::-1][:9])
    assert (find(LocalSearch(candidates=50), score, SMALL, seed=seed)[0][0] == centre).all()


def test_a_local_search_climbs_in_a_space_that_cannot_be_listed():
    space = Space(
        {f"v{i}": Ordinal([2**j for j in range(11)], log=True) for i in range(8)},
        constraints=["v0 >= v1", "v2 % v3 == 0"],
    )
    centre, score = bowl(space)
    assert (find(LocalSearch(candidates=100, starts=3), score, space)[0][0] == centre).all()


SQUARE = Space({"a": list(range(50)), "b": list(range(50))})


def test_a_local_search_ends_after_a_small_gain():
    """With two values of a parameter in a step, a search in this space takes several steps."""

    def best_score(gain):
        search = LocalSearch(candidates=1, starts=1, values=2, gain=gain)
        return find(search, lambda c: c.sum(axis=1), SQUARE, seed=1, start=np.zeros((1, 2)))[1][0]

    assert best_score(1000.0) < best_score(20.0) < best_score(0.0)


def test_a_local_search_passes_through_excluded_rows():
    _, score = bowl(SQUARE)
    search = LocalSearch(candidates=5, starts=1, values=50)
    _, scores = find(search, score, SQUARE, 3, excluded=lambda c: score(c) > -4)
    assert scores.tolist() == [-4, -4, -4]


def test_the_search_of_a_wide_space_scores_few_rows_and_finds_the_best():
    space = Space({f"flag_{i}": [False, True] for i in range(150)} | {"tile": [1, 2, 4, 8]})
    counted = Counted(bowl(space)[1], space)
    start = space.feasible.sample(3, np.random.default_rng(1))
    _, scores = find(LocalSearch(candidates=200), counted, space, seed=2, start=start)
    assert scores[0] == 0.0  # of random rows it is near -75
    assert counted.rows < 9_000  # with all neighbours in every step it would be more than 15,000


def test_a_nearby_search_changes_the_incumbents_only():
    space = Space({f"f{i}": Categorical([False, True]) for i in range(100)})
    start = np.zeros((2, 100))
    start[1] = 1.0
    drawn = []

    def score(codes):
        drawn.append(codes)
        return -codes[:, :3].sum(axis=1)

    found, _ = find(NearbySearch(), score, space, 4, start=start)
    changes = drawn[0].sum(axis=1)
    near_first = changes[changes < 50]
    assert near_first.max() <= 8  # twice the mean share of 4 %
    assert (100 - changes[changes > 50]).max() <= 8
    assert len(near_first) > len(changes) / 2
    assert not found[:, :3].any()


# Gradient ascent --------------------------------------------------------------------------------------------------

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

EXACT = AlternatingSearch(ascent=GradientAscent(), gain=0.0)


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


def maximised(search, score, space, seed=0):
    """Return the best score and the number of scored rows."""
    counted = Counted(score, space)
    return float(find(search, counted, space, seed=seed)[1][0]), counted.rows


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
    assert maximised(SampledSearch(candidates=20_000), score, space, seed)[0] < -1e-6


@pytest.mark.parametrize("seed", range(3))
def test_wide_integers_are_climbed_like_reals(seed):
    best, rows = maximised(AlternatingSearch(), wide_rosenbrock, WIDE, seed)
    assert best > -2e-3
    assert rows < 1.5 * maximised(AlternatingSearch(), rosenbrock, CUBE, seed)[1]
    assert maximised(LocalSearch(), wide_rosenbrock, WIDE, seed)[0] < 5 * best
    assert isinstance(Bayesian().search_of(WIDE), AlternatingSearch)


UNIT = {"x": Real(0.0, 1.0), "y": Real(0.0, 1.0)}
OPTIMA = {
    "a coarse integer": (
        Space({"x": Integer(0, 1023), "y": Real(0.0, 1.0)}),
        lambda c: -((c[:, 0] - 417.4) ** 2) - (c[:, 1] - 0.3) ** 2,
        -0.16,
    ),
    "a corner": (
        Space({"x": Real(0.0, 1.0), "y": Real(1e-2, 1e2, log=True)}),
        lambda c: c[:, 0] - np.log(c[:, 1]),
        1.0 + np.log(1e2),
    ),
    "a constraint": (  # on the line: x = 0.4 + 1 / 6
        Space({**UNIT, "k": [1, 2]}, constraints=["x + y <= 1"]),
        lambda c: 2 * c[:, 0] + c[:, 1] - 3 * (c[:, 0] - 0.4) ** 2 - c[:, 2],
        1.4 + 1 / 6 - 3 / 36,
    ),
    "no reals": (
        Space({"a": list(range(30)), "b": list(range(30))}, constraints=["a + b <= 40"]),
        lambda c: -((c - 13) ** 2).sum(axis=1),
        0.0,
    ),
}


@pytest.mark.parametrize("name", OPTIMA)
def test_optima_at_the_border_of_what_can_be_climbed_are_reached(name):
    space, score, optimum = OPTIMA[name]
    assert maximised(EXACT, score, space)[0] == pytest.approx(
        optimum, abs=2e-3 if name == "a constraint" else 1e-9
    )


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
    counted = Counted(lambda codes: 1e-12 * codes[:, 0], CUBE)
    rows = CUBE.feasible.sample(10, np.random.default_rng(0))
    GradientAscent().climb(counted, CUBE, rows, 1e-12 * rows[:, 0], np.random.default_rng(0))
    assert counted.calls <= 2


def test_the_number_of_steps_is_bounded():
    counted = Counted(lambda codes: np.full(len(codes), 1e-3 * counted.calls), CUBE)
    ascent = GradientAscent(steps=5)
    find(AlternatingSearch(10, 2, steps=4, ascent=ascent), counted, CUBE)
    assert counted.calls <= 2 + 4 * (2 * 5 + 3)


def test_rows_without_a_finite_score_do_not_move():
    def score(codes):
        return np.where(codes[:, 0] < 0, np.nan, -(codes**2).sum(axis=1))

    rows = np.array([[-1.0, 0, 0, 0], [1.0, 1, 1, 1]])
    climb = GradientAscent().climb
    found, heights = climb(score, CUBE, rows, score(rows), np.random.default_rng(0))
    assert (found[0] == rows[0]).all()
    assert heights[1] > -1e-9


# Parts, against plain loops ---------------------------------------------------------------------------------------

NUMBERS = st.lists(st.sampled_from([0.0, 1.0, 2.5, np.nan, -np.inf]), min_size=1, max_size=60)


@given(scores=NUMBERS, n=st.integers(0, 70), free=st.integers(0, 2**60 - 1))
def test_best_rows_equal_those_of_sorting_all(scores, n, free):
    scores = np.array(scores)
    rows = np.arange(float(len(scores)))[:, None]
    low = np.where(np.isnan(scores), -np.inf, scores)
    rng = np.random.default_rng(0)
    found, _ = best_rows(rows, scores, n, rng)
    assert np.array_equal(low[found[:, 0].astype(int)], np.sort(low)[::-1][:n])
    gone = np.array([(free >> i) & 1 for i in range(len(rows))], bool)
    found, _ = best_free_rows(rows, scores, n, rng, lambda r: gone[r[:, 0].astype(int)])
    assert np.array_equal(low[found[:, 0].astype(int)], np.sort(low[~gone])[::-1][:n])
    assert len(np.unique(found)) == len(found)


def test_the_best_row_of_each_owner_breaks_ties_at_random():
    owner = np.array([0, 0, 2, 2, 2, 5])
    scores = np.array([np.nan, 1.0, 3, 3, 2, np.nan])
    found = {tuple(best_by_owner(owner, scores, np.random.default_rng(s))) for s in range(30)}
    assert found == {(1, 2, 5), (1, 3, 5)}


def test_combined_changes_are_the_best_of_each_parameter_in_order():
    space = Space(
        {
            "a": list(range(6)),
            "b": list(range(6)),
            "c": Categorical(list("xyz")),
            "p": Permutation(list("ijkl")),
        },
        constraints=["a + b <= 7"],
    )
    rng = np.random.default_rng(0)
    rows = drop_duplicates(space.feasible.sample(30, rng))
    near, owner = hamming(space, rows, rng)
    scores = rng.random(len(near))
    joint, whose = combine_changes(space, rows, near, owner, scores)
    expected = []
    for i, row in enumerate(rows):
        changed, current = set(), row.copy()
        for j in sorted(np.flatnonzero(owner == i), key=lambda j: -scores[j]):
            name = next(n for n, at in space.columns.items() if (near[j][at] != row[at]).any())
            if name in changed:
                continue
            changed.add(name)
            current[space.columns[name]] = near[j][space.columns[name]]
            if len(changed) > 1 and space.feasible.contains(current[None])[0]:
                expected.append((i, *current))
    assert [(i, *row) for i, row in zip(whose, joint, strict=True)] == expected
