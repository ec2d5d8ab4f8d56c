"""The product of groups at any scale, the errors of spaces that nothing satisfies, and the sizes of known spaces."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chisquare

from baco_like.exceptions import SpaceError
from baco_like.parameters import Permutation
from baco_like.spaces.space import Space

RNG = np.random.default_rng


def pairs(k: int) -> Space:
    """Return k independent groups with 10 of 16 configurations each."""
    parameters = {f"{x}{i}": [1, 2, 4, 8] for i in range(k) for x in "ab"}
    return Space(parameters, [f"b{i} % a{i} == 0" for i in range(k)])


@pytest.mark.parametrize("k", [15, 40])
def test_huge_products_are_exact(k: int) -> None:
    space = pairs(k)
    assert space.feasible_size == 10**k
    assert space.size == 16**k
    draw = np.random.default_rng(k)
    ranks = [0, 10**k - 1] + [
        sum(int(digit) * 10**place for place, digit in enumerate(draw.integers(0, 10, k)))
        for _ in range(500)
    ]
    rows = space.feasible.unindex(ranks)
    assert space.feasible.contains(rows).all()
    assert space.feasible.index(rows) == ranks
    assert all(type(rank) is int for rank in space.feasible.index(rows[:3]))
    with pytest.raises(IndexError):
        space.feasible.unindex([10**k])
    with pytest.raises(IndexError):
        space.feasible.unindex([-1])


def test_samples_of_a_huge_product_are_uniform_in_every_group_and_pair_of_groups() -> None:
    space = pairs(15)
    rows = space.feasible.sample(20_000, RNG(0))
    digits = [factor.rank(rows[:, factor.columns]) for factor in space.feasible.factors]
    for digit in digits:
        assert chisquare(np.bincount(digit, minlength=10)).pvalue > 1e-5
    for a, b in itertools.pairwise(digits):
        assert chisquare(np.bincount(10 * a + b, minlength=100)).pvalue > 1e-5


def test_equal_subtrees_are_stored_once() -> None:
    # One deep group of 3.4 million configurations: without merging a tree needs as many leaves.
    space = Space(
        {f"x{i}": list(range(10)) for i in range(13)},
        [f"x{i + 1} - x{i} <= 1 and x{i} - x{i + 1} <= 1" for i in range(12)],
    )
    ways = np.ones(10, dtype=np.int64)
    step = np.abs(np.arange(10)[:, None] - np.arange(10)) <= 1
    for _ in range(12):
        ways = step @ ways
    assert space.feasible_size == ways.sum() == 3_385_486
    assert space.feasible.factors[0].tree.edges == 10 + 12 * 28


def before(*names: str) -> list[str]:
    return [f"pos(p, '{a}') < pos(p, '{b}')" for a, b in itertools.pairwise(names)]


PAIR, TRIPLE = {n: [1, 2] for n in "abc"}, {**{n: [1, 2, 3] for n in "abc"}, "d": [1, 2]}
SIXTEEN = {"p": Permutation([f"e{i}" for i in range(16)])}
CIRCLE = before(*"abcda")


@pytest.mark.parametrize(
    ("parameters", "constraints", "core"),
    [
        (PAIR, ["a > 5"], {"a > 5"}),
        (PAIR, ["a < b", "a + b + c < 100", "b < a", "c <= a"], {"a < b", "b < a"}),
        (TRIPLE, ["a < b", "d <= c", "b < c", "c < a", "a != d"], {"a < b", "b < c", "c < a"}),
        (
            {"p": Permutation(list("abcd")), "x": [1, 2]},
            [*CIRCLE[::2], *CIRCLE[1::2], "x > 0"],
            {*CIRCLE},
        ),
        (SIXTEEN, [*before("e0", "e1", "e0"), *before("e2", "e3")], {*before("e0", "e1", "e0")}),
    ],
)
def test_a_minimal_conflicting_set_is_named(
    parameters: dict, constraints: list[str], core: set[str]
) -> None:
    with pytest.raises(SpaceError) as caught:
        Space(parameters, constraints)
    message = str(caught.value)
    assert "\n" not in message
    assert {c for c in constraints if repr(c) in message} == core


def test_a_conflict_in_a_large_group_is_found_without_listing_it() -> None:
    names = [f"x{i}" for i in range(12)]
    rules = [f"{a} * {b} <= 400" for a, b in itertools.combinations(names, 2)]
    with pytest.raises(SpaceError) as caught:
        Space(
            {name: list(range(1, 31)) for name in names},
            [*rules, "x0 > x1", "x3 + x5 < 40", "x1 > x0"],
        )
    assert str(caught.value).count("'") == 4
    assert "'x0 > x1' and 'x1 > x0'" in str(caught.value)


def sgemm(size: int) -> Space:
    """Return the space of a tiled matrix multiplication (CLTune's), for square matrices."""
    numbers = list(range(1, size + 1))
    tiled = ("MWG", "NWG", "KWG", "MDIMC", "NDIMC", "MDIMA", "NDIMB", "KWI")
    parameters: dict = {name: numbers for name in tiled}
    parameters |= {"VWM": [1, 2, 4, 8], "VWN": [1, 2, 4, 8]}
    parameters |= {name: [0, 1] for name in ("STRM", "STRN", "SA", "SB")}
    return Space(
        parameters,
        [f"{size} % {x} == 0" for x in ("MWG", "NWG", "KWG")]
        + ["MWG % MDIMC == 0", "NWG % NDIMC == 0", "MDIMC * NDIMC <= 1024", "KWG % KWI == 0"]
        + ["MWG % MDIMA == 0", "NWG % NDIMB == 0"]
        + [f"(MDIMC * NDIMC) % {x} == 0" for x in ("MDIMA", "NDIMB")]
        + [f"KWG % (MDIMC * NDIMC / {x}) == 0" for x in ("MDIMA", "NDIMB")]
        + [f"(MWG / {x}) % VWM == 0" for x in ("MDIMC", "MDIMA")]
        + [f"(NWG / {x}) % VWN == 0" for x in ("NDIMC", "NDIMB")]
        + ["(SA * KWG * MWG / VWM + SB * KWG * NWG / VWN) * 8 <= 49152"],
    )


@pytest.mark.parametrize(("size", "count"), [(8, 194_144), (16, 1_230_176), (64, 20_513_952)])
def test_sgemm(size: int, count: int) -> None:
    space = sgemm(size)
    assert space.feasible_size == count
    assert space.feasible.contains(space.feasible.sample(100, RNG(0))).all()
    assert math.prod(factor.count for factor in space.feasible.factors) == count
