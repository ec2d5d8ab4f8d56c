"""Every search on scores whose best rows are known."""

import numpy as np
import pytest

from baco_like import Categorical, Ordinal, Permutation, Real, Space
from baco_like.acquisitions.optimizers.best_rows import best_rows
from baco_like.acquisitions.optimizers.searches import (
    AlternatingSearch,
    ExhaustiveSearch,
    LocalSearch,
    NearbySearch,
    SampledSearch,
)
from baco_like.spaces.rows import drop_duplicates

SEARCHES = [
    ExhaustiveSearch(),
    ExhaustiveSearch(chunk=7),
    SampledSearch(),
    LocalSearch(),
    LocalSearch(candidates=20),
    NearbySearch(),
]
EXACT = [ExhaustiveSearch(), LocalSearch(candidates=50)]

SMALL = Space(
    {
        "a": [1, 2, 4, 8, 16],
        "b": [1, 2, 4, 8, 16],
        "c": Categorical(["x", "y", "z"]),
        "p": Permutation(list("ijk")),
    },
    constraints=["a * b <= 64", "pos(p, 'i') < pos(p, 'k')"],
)
LARGE = Space(
    {f"v{i}": Ordinal([2**j for j in range(11)], log=True) for i in range(8)},
    constraints=["v0 >= v1", "v2 % v3 == 0"],
)


def nothing(codes):
    return np.zeros(len(codes), bool)


def bowl(space, seed=0):
    centre = space.feasible.sample(1, np.random.default_rng(seed))[0]
    return centre, lambda codes: -((codes - centre) ** 2).sum(axis=1)


@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_rows_are_distinct_feasible_free_and_sorted(search):
    rng = np.random.default_rng(1)
    _, score = bowl(SMALL)
    start = SMALL.feasible.sample(3, rng)
    gone = {row.tobytes() for row in SMALL.feasible.sample(60, rng)}

    def taken(codes):
        return np.array([row.tobytes() in gone for row in codes], bool)

    found = search.maximise(score, SMALL, 5, rng, start, taken)
    assert len(found) == 5
    assert len(drop_duplicates(found)) == 5
    assert SMALL.feasible.contains(found).all()
    assert not taken(found).any()
    assert (np.diff(score(found)) <= 0).all()


@pytest.mark.parametrize("search", [*SEARCHES, AlternatingSearch()], ids=repr)
def test_the_best_rows_come_with_their_scores(search):
    _, score = bowl(SMALL)
    start = np.empty((0, SMALL.width))
    rows = search.maximise(score, SMALL, 5, np.random.default_rng(1), start, nothing)
    found, scores = search.find_best(score, SMALL, 5, np.random.default_rng(1), start, nothing)
    np.testing.assert_array_equal(found, rows)
    np.testing.assert_array_equal(scores, score(rows))


@pytest.mark.parametrize("search", EXACT, ids=repr)
def test_the_best_row_is_found(search):
    for seed in range(5):
        centre, score = bowl(SMALL, seed)
        found = search.maximise(
            score, SMALL, 1, np.random.default_rng(seed), np.empty((0, SMALL.width)), nothing
        )
        assert (found[0] == centre).all()


def test_exhaustive_agrees_with_sorting_everything():
    _, score = bowl(SMALL)
    rows = np.concatenate(list(SMALL.feasible.iterate()))
    found = ExhaustiveSearch(chunk=11).maximise(
        score, SMALL, 9, np.random.default_rng(0), np.empty((0, SMALL.width)), nothing
    )
    assert np.allclose(score(found), np.sort(score(rows))[::-1][:9])


def test_local_search_climbs_in_a_space_that_cannot_be_listed():
    centre, score = bowl(LARGE)
    found = LocalSearch(candidates=100, starts=3).maximise(
        score, LARGE, 1, np.random.default_rng(0), np.empty((0, LARGE.width)), nothing
    )
    assert (found[0] == centre).all()


def test_local_search_ends_after_a_small_gain():
    """With two values of a parameter in a step, a search in this space takes several steps."""
    space = Space({"a": list(range(50)), "b": list(range(50))})
    start = np.zeros((1, 2))

    def best_score(gain):
        search = LocalSearch(candidates=1, starts=1, values=2, gain=gain)
        rng = np.random.default_rng(1)
        _, scores = search.find_best(lambda codes: codes.sum(axis=1), space, 1, rng, start, nothing)
        return scores[0]

    assert best_score(1000.0) < best_score(20.0) < best_score(0.0)


def test_local_search_passes_through_excluded_rows():
    space = Space({"a": list(range(50)), "b": list(range(50))})
    _, score = bowl(space)
    found = LocalSearch(candidates=5, starts=1, values=50).maximise(
        score, space, 3, np.random.default_rng(0), np.empty((0, 2)), lambda c: score(c) > -4
    )
    assert np.allclose(np.sort(score(found)), [-4, -4, -4])


def test_local_search_on_reals_comes_close():
    space = Space({"x": Real(0.0, 1.0), "y": Real(1e-3, 10.0, log=True)})

    def score(codes):
        return -((codes[:, 0] - 0.3) ** 2) - (np.log(codes[:, 1]) - 0.5) ** 2

    found = LocalSearch(candidates=50, starts=4).maximise(
        score, space, 1, np.random.default_rng(0), np.empty((0, 2)), nothing
    )
    assert score(found)[0] > -1e-3


@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_nothing_is_returned_if_all_rows_are_excluded(search):
    _, score = bowl(SMALL)
    found = search.maximise(
        score,
        SMALL,
        2,
        np.random.default_rng(0),
        np.empty((0, SMALL.width)),
        lambda c: np.ones(len(c), bool),
    )
    assert found.shape == (0, SMALL.width)


def test_ties_are_broken_at_random_and_nan_is_last():
    rows = np.arange(6.0)[:, None]
    firsts = {
        best_rows(rows, np.array([1.0, 1, 1, 1, np.nan, 0]), 1, np.random.default_rng(s))[0][0, 0]
        for s in range(40)
    }
    assert firsts == {0, 1, 2, 3}
    order = best_rows(rows, np.array([np.nan, 3, 2, 1, 0, -np.inf]), 6, np.random.default_rng(0))[
        0
    ][:, 0]
    assert list(order[:4]) == [1, 2, 3, 4]


def test_the_search_of_a_wide_space_scores_few_rows_and_finds_the_best():
    space = Space({f"flag_{i}": [False, True] for i in range(150)} | {"tile": [1, 2, 4, 8]})
    _, bowl_score = bowl(space)
    scored = []

    def score(codes):
        scored.append(len(codes))
        return bowl_score(codes)

    start = space.feasible.sample(3, np.random.default_rng(1))
    search = LocalSearch(candidates=200)
    found = search.maximise(score, space, 1, np.random.default_rng(2), start, nothing)
    assert bowl_score(found)[0] == 0.0  # of random rows it is near -75
    assert sum(scored) < 9_000  # with all neighbours in every step it would be more than 15,000


def test_the_nearby_search_changes_the_incumbents_only():
    space = Space({f"f{i}": Categorical([False, True]) for i in range(100)})
    rng = np.random.default_rng(0)
    start = np.zeros((2, 100))
    start[1] = 1.0
    drawn = []

    def score(codes):
        drawn.append(codes)
        return -codes[:, :3].sum(axis=1)

    found = NearbySearch().maximise(score, space, 4, rng, start, nothing)
    changes = drawn[0].sum(axis=1)
    near_first = changes[changes < 50]
    assert near_first.max() <= 8  # twice the mean share of 4 %
    assert (100 - changes[changes > 50]).max() <= 8
    assert len(near_first) > len(changes) / 2
    assert not found[:, :3].any()
