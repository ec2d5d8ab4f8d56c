"""Initial designs: distinct, feasible, not taken, as many as there are; and each one's own property."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from brute_force import Case, cases
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from baco_like.parameters import Integer, Ordinal, Permutation, Real, Sequence
from baco_like.parameters.priors import Gaussian
from baco_like.spaces.design import (
    biased_walk,
    distinct_middle,
    exclude_nothing,
    from_prior,
    latin_hypercube,
    maximin,
    middle,
    sobol,
    uniform,
)
from baco_like.spaces.space import Space

RNG = np.random.default_rng
DESIGNS = [
    uniform,
    biased_walk,
    latin_hypercube,
    sobol,
    maximin,
    from_prior,
    middle,
    distinct_middle,
]


def free(codes: np.ndarray) -> np.ndarray:
    return np.zeros(len(codes), dtype=bool)


@pytest.mark.parametrize("design", DESIGNS)
@given(case=cases(satisfiable=True), n=st.integers(0, 12), seed=st.integers(0, 1000))
def test_rows_are_distinct_feasible_and_not_taken(
    design: Callable, case: Case, n: int, seed: int
) -> None:
    space = case.space()
    count = space.feasible.count
    assert count is not None
    gone = space.feasible.unindex(list(range(0, count, 3)))

    def taken(codes: np.ndarray) -> np.ndarray:
        return (codes[:, None] == gone[None]).all(axis=2).any(axis=1)

    rows = design(space, n, RNG(seed), taken)
    assert rows.shape == (min(n, count - len(gone)), space.width)
    assert space.feasible.contains(rows).all()
    assert not taken(rows).any()
    assert len(np.unique(rows, axis=0)) == len(rows)


@pytest.mark.parametrize("design", DESIGNS)
def test_all_kinds_of_parameters(design: Callable) -> None:
    space = Space(
        {
            "r": Real(1e-3, 1e3, log=True),
            "n": Integer(1, 10**8, log=True),
            "p": Permutation([f"e{i}" for i in range(12)]),
            "c": ["x", "y"],
            "t": [1, 2, 4, 8],
            "one": [7],
        },
        ["t >= 2 or c == 'x'", "r <= 100", "pos(p, 'e0') < pos(p, 'e1')"],
    )
    rows = design(space, 16, RNG(0), free)
    assert rows.shape == (16, space.width)
    assert space.feasible.contains(rows).all()
    assert np.array_equal(rows, design(space, 16, RNG(0), free))
    space = Space({**space.parameters, "s": ["u", "v"]}, when={"r": "s == 'u'", "p": "t > 2"})
    assert space.feasible.contains(design(space, 12, RNG(0), free)).all()


def test_uniform_draws_every_row_equally_often() -> None:
    space = Space({"a": [1, 2, 3, 4], "b": [1, 2, 3, 4]}, ["a <= b"])
    ranks = [
        rank
        for seed in range(300)
        for rank in space.feasible.index(uniform(space, 3, RNG(seed), free))
    ]
    assert chisquare(np.bincount(ranks, minlength=10)).pvalue > 1e-4


def test_uniform_finds_the_last_row_of_a_large_space() -> None:
    space = Space({"a": list(range(300)), "b": list(range(300))}, ["a != b"])
    last = space.feasible.unindex([12_345])

    def taken(codes: np.ndarray) -> np.ndarray:
        return (codes != last).any(axis=1)

    assert np.array_equal(uniform(space, 5, RNG(0), taken), last)


def test_a_latin_hypercube_meets_every_part_of_every_parameter_once() -> None:
    space = Space({"a": list(range(40)), "b": list(range(10)), "r": Real(0, 1)})
    rows = latin_hypercube(space, 10, RNG(3), free)
    assert sorted(rows[:, 0] // 4) == list(range(10))
    assert sorted(rows[:, 1]) == list(range(10))
    assert sorted((rows[:, 2] * 10).astype(int)) == list(range(10))


def test_a_latin_hypercube_takes_only_values_that_are_ever_feasible() -> None:
    space = Space({"a": list(range(100)), "b": [0, 1]}, ["a < 10", "a + b < 100"])
    rows = latin_hypercube(space, 10, RNG(3), free)
    assert sorted(rows[:, 0]) == list(range(10))


def test_sobol_points_are_spread_more_evenly_than_random_ones() -> None:
    space = Space({"x": Real(0, 1), "y": Real(0, 1)})

    def emptiest(rows: np.ndarray) -> float:
        cells = (rows * 4).astype(int) @ [1, 4]
        return float(np.bincount(cells, minlength=16).std())

    spread = [emptiest(sobol(space, 64, RNG(seed), free)) for seed in range(10)]
    chance = [emptiest(uniform(space, 64, RNG(seed), free)) for seed in range(10)]
    assert max(spread) < min(chance)


def test_maximin_rows_are_farther_apart_than_random_ones() -> None:
    space = Space({"x": Real(0, 1), "y": Real(0, 1)}, ["x + y <= 1"])

    def closest(rows: np.ndarray) -> float:
        distance = np.linalg.norm(rows[:, None] - rows[None], axis=2)
        return float(distance[np.triu_indices(len(rows), 1)].min())

    far = [closest(maximin(space, 12, RNG(seed), free)) for seed in range(5)]
    chance = [closest(uniform(space, 12, RNG(seed), free)) for seed in range(5)]
    assert min(far) > max(chance)


def test_draws_from_the_prior_follow_it_and_the_constraints() -> None:
    space = Space(
        {
            "a": Ordinal([1, 2, 3, 4], prior=[0, 0, 1, 1]),
            "b": [1, 2],
            "r": Real(0, 1, prior=Gaussian(0.5, 0.01)),
        },
        ["a != 4 or b == 1"],
    )
    rows = from_prior(space, 40, RNG(0), free)
    assert rows.shape == (40, 3)
    assert set(rows[:, 0]) == {2.0, 3.0}
    assert np.abs(rows[:, 2] - 0.5).max() < 0.06
    plain = uniform(space, 400, RNG(0), free)
    assert set(plain[:, 0]) == {0.0, 1.0, 2.0, 3.0}
    assert chisquare(np.histogram(plain[:, 2], 4, (0, 1))[0]).pvalue > 1e-4


def test_a_prior_is_followed_in_sparse_spaces_too() -> None:
    """Few draws from the prior are feasible, or none at all; the shares are the prior's all the same."""
    for k in (12,):  # a share of 1e-10 of the combinations
        names = [f"x{i}" for i in range(k)]
        space = Space(
            {"w": Ordinal([1, 2, 3], prior=[1, 1, 8])} | {name: list(range(8)) for name in names},
            [f"{a} == {b}" for a, b in itertools.pairwise(names)],
        )
        assert space.feasible_size == 24
        firsts = [from_prior(space, 1, RNG(seed), free)[0, 0] for seed in range(60)]
        assert 36 <= sum(code == 2.0 for code in firsts) <= 58  # Binomial(60, 0.8), +- 4 deviations


def test_the_log_density_of_a_space_is_that_of_its_priors() -> None:
    weights = Ordinal([1, 2, 3, 4], prior=[0, 1, 1, 2])
    space = Space({"a": weights, "b": [1, 2], "r": Real(0, 1, prior=Gaussian(0.5, 0.1))})
    rows = space.feasible.sample(50, RNG(0))
    found = space.log_density(rows)
    assert found.shape == (50,)
    assert np.array_equal(np.isinf(found), rows[:, 0] == 0.0)
    wanted = weights.log_density(rows[:, :1]) + space.parameters["r"].log_density(rows[:, 2:])
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("design", [latin_hypercube, sobol])
def test_integers_with_log_are_spread_by_factors(design: Callable) -> None:
    space = Space({"x": Integer(1, 1023, log=True), "y": [1, 2]}, ["x % y == 0"])
    rows = space.decode(design(space, 64, RNG(0), free))
    octaves = np.histogram(np.log2([row["x"] for row in rows]), 5, (0, 10))[0]
    assert octaves.max() < 40  # evenly over values, 48 would be in the last fifth of the scale
    assert octaves[1:].min() >= 4


def test_what_cannot_be_counted_is_exhausted_all_the_same():
    """Every one of 1,025 numbers among 2 million is found; a fixed number of fruitless draws misses some."""
    space = Space({"x": Integer(0, 2**21)}, ["x % 2048 == 0"])
    assert space.feasible.count is None
    rng = np.random.default_rng(0)
    rows = uniform(space, 1025, rng, lambda codes: np.zeros(len(codes), bool))
    assert sorted(rows[:, 0]) == list(range(0, 2**21 + 1, 2048))
    assert len(uniform(space, 1, rng, lambda codes: np.ones(len(codes), bool))) == 0


def test_middle_points_of_reals_differ():
    space = Space({"x": Real(0.0, 1.0), "y": Real(1e-3, 1.0, log=True), "z": Real(-1.0, 1.0)})
    rows = middle(space, 3, np.random.default_rng(0), lambda codes: np.zeros(len(codes), bool))
    features = space.features(rows)
    assert (np.abs(features - 0.5) <= 0.125).all()
    apart = np.abs(features[:, None] - features[None]).max(axis=2)
    assert apart[np.triu_indices(3, 1)].min() > 0.01


@pytest.mark.parametrize("distinct", [False, True])
def test_a_latin_hypercube_has_the_longer_half_of_the_lengths_of_a_sequence(distinct):
    space = Space({"passes": Sequence(range(12), 11, distinct=distinct), "x": Integer(0, 9)})
    rows = space.decode(latin_hypercube(space, 7, np.random.default_rng(0), exclude_nothing))
    assert sorted(len(row["passes"]) for row in rows) == [5, 6, 7, 8, 9, 10, 11]
    assert len({e for row in rows for e in row["passes"]}) == 12
    space = Space({"passes": Sequence(range(12), 11, min_length=8)})
    rows = space.decode(latin_hypercube(space, 8, np.random.default_rng(0), exclude_nothing))
    assert sorted({len(row["passes"]) for row in rows}) == [8, 9, 10, 11]
