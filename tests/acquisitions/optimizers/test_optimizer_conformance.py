"""Conformance of the acquisition optimizers on spaces of every kind."""

import numpy as np
import pytest

from baco_like import Categorical, Integer, Ordinal, Permutation, Real, Space
from baco_like.acquisitions.optimizers.searches import (
    AlternatingSearch,
    ExhaustiveSearch,
    LocalSearch,
    NearbySearch,
    SampledSearch,
)
from baco_like.testing.acquisition_optimizers import CHECKS, exclude_none, make_score

SEARCHES = {
    "exhaustive": ExhaustiveSearch(),
    "exhaustive in chunks": ExhaustiveSearch(chunk=7),
    "sampled": SampledSearch(candidates=500),
    "local": LocalSearch(candidates=100, starts=4),
    "local from two draws": LocalSearch(candidates=2, starts=1, values=2),
    "local that keeps all": LocalSearch(candidates=50, kept=1.0),
    "alternating": AlternatingSearch(candidates=50, starts=3),
    "nearby": NearbySearch(),
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
    if space.feasible.count is not None or "exhaustive" not in one
    if space.feasible.count is None or space.feasible.count < 10**6 or "exhaustive" not in one
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(("search", "space"), PAIRS)
def test_conformance(check, search, space):
    check(search, space)


@pytest.mark.parametrize("search", [ExhaustiveSearch(), ExhaustiveSearch(chunk=7)])
@pytest.mark.parametrize("name", ["one configuration", "one value"])
def test_an_exhaustive_search_returns_every_row(search, name):
    space = SPACES[name]
    count = space.feasible.count
    rng = np.random.default_rng(3)
    rows = search.maximise(make_score(space), space, count + 5, rng, np.empty((0, 2)), exclude_none)
    assert len(rows) == count


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_the_last_free_row_is_found(search):
    space = SPACES["two groups"]
    if "two draws" in {v: k for k, v in SEARCHES.items()}[search]:
        pytest.skip("two draws are too few")
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
def test_a_flat_score_does_not_favour_a_row(search):
    space = Space({"a": list(range(12))})
    found = {
        search.maximise(
            lambda codes: np.zeros(len(codes)),
            space,
            1,
            np.random.default_rng(seed),
            np.empty((0, 1)),
            exclude_none,
        )[0, 0]
        for seed in range(150)
    }
    assert found == set(range(12))
