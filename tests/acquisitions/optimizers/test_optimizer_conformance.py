"""What every search promises, on spaces of every kind."""

import numpy as np
import pytest

from baco_like import Categorical, Integer, Ordinal, Permutation, Real, Space
from baco_like.acquisitions.optimizers.alternating import AlternatingSearch
from baco_like.acquisitions.optimizers.exhaustive import ExhaustiveSearch
from baco_like.acquisitions.optimizers.local import LocalSearch
from baco_like.acquisitions.optimizers.sampled import SampledSearch
from baco_like.spaces.rows import distinct

SEARCHES = {
    "exhaustive": ExhaustiveSearch(),
    "exhaustive in chunks": ExhaustiveSearch(chunk=7),
    "sampled": SampledSearch(candidates=500),
    "local": LocalSearch(candidates=100, starts=4),
    "local from two draws": LocalSearch(candidates=2, starts=1, values=2),
    "local that keeps all": LocalSearch(candidates=50, kept=1.0),
    "alternating": AlternatingSearch(candidates=50, starts=3),
}
SPACES = {
    "constrained": Space(
        {
            "a": [1, 2, 4, 8, 16],
            "b": [1, 2, 4, 8, 16],
            "c": Categorical(["x", "y", "z"]),
            "p": Permutation(list("ijk")),
            "k": [3],
        },
        constraints=["a * b <= 64", "pos(p, 'i') < pos(p, 'k')"],
    ),
    "two groups": Space(
        {f"v{i}": Ordinal([2**j for j in range(5)], log=True) for i in range(4)},
        constraints=["v0 >= v1", "v2 % v3 == 0"],
    ),
    "one configuration": Space({"a": [1, 2], "b": [3, 4]}, constraints=["a + b == 6"]),
    "one value": Space({"a": [7]}),
    "permutations of 8": Space({"p": Permutation(list(range(8)))}),
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
    if space.feasible.count is not None or "exhaustive" not in one
    if space.feasible.count is None or space.feasible.count < 10**6 or "exhaustive" not in one
]


def nothing(codes):
    return np.zeros(len(codes), bool)


def everything(codes):
    return np.ones(len(codes), bool)


def score_of(space, seed=0):
    """Return a score of few levels, with ties, that is NaN and infinite here and there, and smooth in reals."""
    features = space.features(space.feasible.sample(1, np.random.default_rng(seed)))

    def score(codes):
        assert space.feasible.contains(codes).all()
        found = -np.round(4 * np.abs(space.features(codes) - features)).sum(axis=1)
        found -= ((space.features(codes) - features) ** 2).sum(axis=1) * np.isinf(space.size)
        found[found == -3.0] = np.nan
        found[found < -6.0] = -np.inf
        return found

    return score


def found_by(search, space, n, seed=3, taken=nothing, start=3):
    rng = np.random.default_rng(seed)
    return search.maximise(score_of(space), space, n, rng, space.feasible.sample(start, rng), taken)


@pytest.mark.parametrize(("search", "space"), PAIRS)
@pytest.mark.parametrize("start", [0, 3])
def test_rows_are_distinct_feasible_free_and_sorted(search, space, start):
    gone = {row.tobytes() for row in space.feasible.sample(20, np.random.default_rng(1))}

    def taken(codes):
        return np.array([row.tobytes() in gone for row in codes], bool)

    found = found_by(search, space, 5, taken=taken, start=start)
    assert found.shape[1] == space.width
    assert len(found) <= 5
    assert len(found) or space.feasible.count == 1
    assert len(distinct(found)) == len(found)
    assert space.feasible.contains(found).all()
    assert not taken(found).any()
    scores = score_of(space)(found)
    scores[np.isnan(scores)] = -np.inf
    assert (scores[1:] <= scores[:-1]).all()


@pytest.mark.parametrize(("search", "space"), PAIRS)
def test_everything_taken_gives_nothing(search, space):
    found = found_by(search, space, 2, taken=everything)
    assert found.shape == (0, space.width)


@pytest.mark.parametrize(("search", "space"), PAIRS)
def test_chance_is_the_generator_and_nothing_else(search, space):
    first, second = (found_by(search, space, 4) for _ in range(2))
    assert (first == second).all()


@pytest.mark.parametrize(("search", "space"), PAIRS)
def test_more_than_there_are(search, space):
    count = space.feasible.count
    if count is None or count > 400:
        pytest.skip("there are too many")
    found = found_by(search, space, count + 5)
    assert len(found) <= count
    if isinstance(search, ExhaustiveSearch):
        assert len(found) == count


@pytest.mark.parametrize(("search", "space"), PAIRS)
def test_arguments_are_left_alone(search, space):
    start = space.feasible.sample(4, np.random.default_rng(0))
    before = start.copy()
    search.maximise(score_of(space), space, 2, np.random.default_rng(0), start, nothing)
    assert (start == before).all()


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_the_last_free_row_is_found(search):
    space = SPACES["two groups"]
    if "two draws" in {v: k for k, v in SEARCHES.items()}[search]:
        pytest.skip("it sees too little")
    rows = np.concatenate(list(space.feasible.iterate()))
    last = rows[77]
    found = search.maximise(
        lambda codes: -np.abs(codes - last).sum(axis=1),
        space,
        3,
        np.random.default_rng(0),
        rows[:0],
        lambda codes: (codes != last).any(axis=1),
    )
    assert (found == last).all()
    assert len(found) == 1


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_a_flat_score_does_not_favour_a_place(search):
    space = Space({"a": list(range(12))})
    found = {
        search.maximise(
            lambda codes: np.zeros(len(codes)),
            space,
            1,
            np.random.default_rng(seed),
            np.empty((0, 1)),
            nothing,
        )[0, 0]
        for seed in range(150)
    }
    assert found == set(range(12))
