"""The feasible set against brute force on random small spaces, and its parts on cases worked out by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from itertools import pairwise, permutations
from unittest.mock import patch

import numpy as np
import pytest
from brute_force import Case, cases
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from baco_like.constraints.expression import Expression
from baco_like.exceptions import ConfigError, SpaceError
from baco_like.parameters import Integer, Permutation, Real, permutation
from baco_like.spaces.feasible import rules, tree_builder
from baco_like.spaces.feasible.filtered import Filtered
from baco_like.spaces.feasible.orders import Interleaved, OrderRules, interleave
from baco_like.spaces.feasible.rules import list_domain
from baco_like.spaces.feasible.tree import random_ranks
from baco_like.spaces.space import Space

RNG = np.random.default_rng


@settings(max_examples=80)
@given(cases())
def test_count_and_membership_agree_with_brute_force(case: Case) -> None:
    space = case.space_or_none()
    if space is None:
        return
    codes = space.encode(case.everything)
    assert space.feasible_size == sum(case.feasible)
    assert space.feasible.contains(codes).tolist() == case.feasible
    assert space.satisfied(codes).tolist() == case.feasible


@settings(max_examples=80)
@given(cases())
def test_merging_partial_configurations_loses_none(case: Case) -> None:
    with patch.object(tree_builder, "_WORTHWHILE", 0), patch.object(rules, "TABLE_LIMIT", 20):
        space = case.space_or_none()
    if space is None:
        return
    codes = space.encode(case.everything)
    assert space.feasible_size == sum(case.feasible)
    assert space.feasible.contains(codes).tolist() == case.feasible


@given(cases(satisfiable=True))
def test_index_is_a_bijection_onto_the_feasible_rows(case: Case) -> None:
    space = case.space()
    rows = space.encode(case.everything)[np.array(case.feasible)]
    ranks = space.feasible.index(rows)
    assert sorted(ranks) == list(range(len(rows)))
    assert np.array_equal(space.feasible.unindex(ranks), rows)
    listed = np.concatenate(list(space.feasible.iterate(7)))
    assert space.feasible.index(listed) == list(range(len(rows)))


@given(cases(satisfiable=True), st.integers(0, 2**32 - 1))
def test_samples_and_walks_are_feasible_and_reach_every_row_of_small_spaces(
    case: Case, seed: int
) -> None:
    space = case.space()
    count = space.feasible.count
    assert count is not None
    for draw in (space.feasible.sample, space.feasible.walk):
        rows = draw(64, RNG(seed))
        assert rows.shape == (64, space.width)
        assert space.feasible.contains(rows).all()
    if count <= 4:
        assert len(np.unique(space.feasible.sample(200, RNG(seed)), axis=0)) == count


@pytest.mark.parametrize(
    ("parameters", "constraints"),
    [
        ({"a": [1, 2, 3, 4], "b": [1, 2, 3, 4], "c": [0, 1]}, ["a <= b", "b % a == 0"]),
        ({"p": Permutation(list("abcd"))}, ["pos(p, 'a') < pos(p, 'b')"]),
        ({"p": Permutation(list("abcd")), "x": [0, 1, 2]}, ["pos(p, 'a') <= x"]),
        ({"p": Permutation(list("abcd"))}, ["pos(p, 'a') - pos(p, 'b') != 1"]),
    ],
    ids=["tree", "precedence", "mixed", "listed"],
)
def test_samples_are_uniform_over_configurations(parameters: dict, constraints: list[str]) -> None:
    space = Space(parameters, constraints)
    count = space.feasible.count
    assert count is not None
    ranks = space.feasible.index(space.feasible.sample(200 * count, RNG(5)))
    assert chisquare(np.bincount(ranks, minlength=count)).pvalue > 1e-4


def test_the_walk_is_biased_towards_sparse_subtrees_and_the_sample_is_not() -> None:
    # One configuration has a = 1, ninety-nine have a = 2: a walk that binds a first takes a = 1 half the time.
    space = Space({"a": [1, 2], "b": list(range(1, 100))}, ["a == 2 or b == 1"])
    walked = space.decode(space.feasible.walk(2000, RNG(0)))
    drawn = space.decode(space.feasible.sample(2000, RNG(0)))
    rare = [sum(config["a"] == 1 for config in configs) for configs in (walked, drawn)]
    assert rare[0] > 5 * rare[1]
    assert 2 <= rare[1] <= 60


@pytest.mark.parametrize(
    ("rules", "divisor"),
    [
        ([(0, 1)], 2),
        ([(2 * i, 2 * i + 1) for i in range(7)], 2**7),
        ([(0, i) for i in range(1, 12)], 12),
    ],
)
def test_twenty_elements_are_counted_without_listing(
    rules: list[tuple[int, int]], divisor: int
) -> None:
    elements = [f"e{i}" for i in range(20)]
    space = Space(
        {"p": Permutation(elements)},
        [f"pos(p, '{elements[a]}') < pos(p, '{elements[b]}')" for a, b in rules],
    )
    assert space.feasible_size == math.factorial(20) // divisor
    rows = space.feasible.sample(200, RNG(1))
    assert all((rows[:, a] < rows[:, b]).all() for a, b in rules)
    assert np.array_equal(space.feasible.unindex(space.feasible.index(rows)), rows)


@given(st.integers(1, 8), st.data())
def test_permutation_ranks_are_lexicographic(m: int, data: st.DataObject) -> None:
    ranks = np.array(
        data.draw(st.lists(st.integers(0, math.factorial(m) - 1), min_size=1, max_size=5))
    )
    rows = permutation.permutations_from_ranks(ranks, m)
    assert permutation.are_permutations(rows.astype(float)).all()
    assert permutation.permutation_ranks(rows.astype(float)).tolist() == ranks.tolist()
    listed = list(permutations(range(m))) if m <= 5 else []
    for rank, row in zip(ranks.tolist(), rows.tolist(), strict=True):
        assert not listed or tuple(row) == listed[rank]


@pytest.mark.parametrize("count", [1, 2, 8, 2**63, 2**63 + 1, 3**80])
def test_random_ranks_cover_the_whole_range(count: int) -> None:
    ranks = random_ranks(count, 4000, RNG(0)).tolist()
    assert 0 <= min(ranks) <= max(ranks) < count
    quarters = np.bincount([min(3, 4 * int(rank) // count) for rank in ranks], minlength=4)
    assert count < 4 or chisquare(quarters).pvalue > 1e-4


def test_a_group_of_more_configurations_than_int64_is_exact() -> None:
    # Rising sequences of 60 out of 12 values are multisets: C(60 + 11, 11).
    names = [f"x{i}" for i in range(60)]
    rules = [f"{a} <= {b}" for a, b in pairwise(names)]
    chain = Space({name: list(range(12)) for name in names}, rules)
    assert chain.feasible_size == math.comb(71, 11)
    near = [f"{b} - {a} <= 6 and {a} - {b} <= 6" for a, b in pairwise(names)]
    loose = Space({name: list(range(12)) for name in names}, near)
    step = (np.abs(np.arange(12)[:, None] - np.arange(12)) <= 6).astype(int).astype(object)
    ways = np.ones(12, dtype=object)
    for _ in range(59):
        ways = step @ ways
    assert loose.feasible_size == sum(ways) > 2**63
    rows = loose.feasible.sample(50, RNG(0))
    assert np.array_equal(loose.feasible.unindex(loose.feasible.index(rows)), rows)
    assert loose.feasible.unindex([loose.feasible_size - 1])[0].tolist() == [11.0] * 60
    with pytest.raises(IndexError):
        loose.feasible.unindex([loose.feasible_size])


def test_rows_that_are_not_feasible_have_no_index() -> None:
    space = Space({"a": [1, 2], "b": [1, 2]}, ["a <= b"])
    with pytest.raises(ConfigError, match="row 1 of 2"):
        space.feasible.index(np.array([[0.0, 0.0], [1.0, 0.0]]))
    illegal = np.array([[0.5, 0.0], [-1.0, 0.0], [2.0, 1.0], [np.nan, 0.0], [np.inf, 0.0]])
    assert not space.feasible.contains(illegal).any()


def test_free_parameters_of_every_kind_are_one_box() -> None:
    free = {
        "x": [1, 2, 3],
        "half": Real(0.5, 0.5),
        "p": Permutation(list("abc")),
        "w": Integer(5, 10**9),
    }
    space = Space({**free, "a": [1, 2], "b": [1, 2], "y": ["u", "v"]}, ["a <= b"])
    assert [factor.count for factor in space.feasible.chain] == [3 * 6 * (10**9 - 4), 3, 2]
    rows = space.feasible.sample(50, RNG(0))
    assert np.array_equal(space.feasible.unindex(space.feasible.index(rows)), rows)
    assert space.feasible.contains(rows).all()
    off = np.repeat(rows, space.width, axis=0) + np.tile(0.25 * np.eye(space.width), (50, 1))
    assert not space.feasible.contains(off).any()
    nearest = space.feasible.nearest(off, RNG(1))
    assert space.feasible.contains(nearest).all()
    assert np.abs(nearest - off).sum(axis=1).max() == 0.25


def test_reals_in_constraints_are_drawn_uniformly_and_the_discrete_part_is_listed() -> None:
    space = Space({"x": Real(0, 1), "a": [1, 2, 3], "b": [1, 2, 3]}, ["x * a <= 1", "a <= b"])
    (factor,) = space.feasible.factors
    assert isinstance(factor, Filtered)
    assert space.feasible_size == math.inf
    # Of the pairs a <= b there are 3, 2, 1 with a = 1, 2, 3, and x * a <= 1 leaves 1/a of the interval.
    weights = np.array([3.0, 2 / 2, 1 / 3])
    assert factor.acceptance == pytest.approx(weights.sum() / 6, abs=0.1)
    rows = space.feasible.sample(3000, RNG(2))
    assert space.satisfied(rows).all()
    counts = np.bincount(rows[:, 1].astype(int), minlength=3)
    assert chisquare(counts, 3000 * weights / weights.sum()).pvalue > 1e-4


def test_a_hopeless_rejection_names_only_the_constraints_that_conflict() -> None:
    constraints = ["x + n > 1", "x + y > 3", "y < n", "x - y > 0.5", "x * y < n / 9", "y > x + 0.1"]
    with pytest.raises(SpaceError, match="random configurations") as caught:
        Space({"x": Real(0, 2), "y": Real(0, 2), "n": [2, 3]}, constraints)
    named = [text for text in constraints if repr(text) in str(caught.value)]
    assert named in (["x - y > 0.5", "y > x + 0.1"], ["x + y > 3", "x * y < n / 9"])
    # x + y > 3 within [0, 2]^2 means x y > 2; n / 9 is at most 1 / 3.


def test_a_hopeless_rejection_is_refused_with_a_way_out() -> None:
    with pytest.raises(
        SpaceError, match=r"\d+ random configurations all violate .*'x == y'.*computed from"
    ):
        Space({"x": Real(0, 1), "y": Real(0, 1)}, ["x == y"])


@pytest.mark.parametrize(
    "text",
    [
        "a + b - c in (1, 3, 5)",
        "a - (b - c) - d < 2",
        "d - a * (b * c) + a >= -20",
        "a * b * c * d == 24",
        "a // (b - c) > 1 or d == 2",
        "a / b * d <= c or a == d",
        "min(a + b, c) * d > 6 and a != 3",
        "(a if b > c else d) % 2 == 0",
        "-(a + b) + c * d > 0",
        "a ** 2 - b <= c < d + a",
    ],
)
def test_known_parts_decide_as_the_values_themselves_do(text: str) -> None:
    values = [1, 2, 3, 4]
    space = Space({name: values for name in "abcd"})
    one = Expression(text, space.parameters)
    rows = np.array(list(itertools.product(values, repeat=4)))
    columns = dict(zip("abcd", rows.T, strict=True))
    held = one.holds(columns).reshape(4, 4, 4, 4)
    for known in itertools.chain.from_iterable(
        itertools.combinations("abcd", k) for k in (1, 2, 3)
    ):
        positions = {
            "abcd".index(n): np.indices((4,) * len(known))[i].ravel() for i, n in enumerate(known)
        }
        domains = [list_domain(name, space.parameters[name]) for name in "abcd"]
        with patch.object(tree_builder, "_WORTHWHILE", 0):
            number, count = tree_builder.number_futures(
                domains, [rules.bind(one, domains)], (), positions, 4 ** len(known)
            )
        axes = ["abcd".index(name) for name in known]
        completions = np.moveaxis(held, axes, range(len(axes))).reshape(4 ** len(known), -1)
        for group in range(count):
            assert len(np.unique(completions[number == group], axis=0)) == 1


def test_known_products_are_few() -> None:
    space = Space({name: [1, 2, 3, 4] for name in "abcd"})
    one = Expression("a * b * c * d == 24", space.parameters)
    domains = [list_domain(name, space.parameters[name]) for name in "abcd"]
    positions = {i: np.indices((4, 4, 4))[k].ravel() for k, i in enumerate((0, 2, 3))}
    with patch.object(tree_builder, "_WORTHWHILE", 0):
        _, count = tree_builder.number_futures(
            domains, [rules.bind(one, domains)], (), positions, 64
        )
    assert count == len({x * y * z for x, y, z in itertools.product([1, 2, 3, 4], repeat=3)})


def test_order_rules_that_fall_apart_need_no_common_tree() -> None:
    """26 elements in 13 pairs leave 3^13 sets that may come first; a tree of them took gigabytes at 28."""
    elements = [f"e{i}" for i in range(26)]
    space = Space(
        {"p": Permutation(elements)},
        [f"pos(p, 'e{i}') < pos(p, 'e{i + 1}')" for i in range(0, 26, 2)],
    )
    assert isinstance(space.feasible.factors[0], Interleaved)
    assert space.feasible_size == math.factorial(26) // 2**13
    rows = space.feasible.sample(100, RNG(0))
    assert (rows[:, 0::2] < rows[:, 1::2]).all()
    assert np.array_equal(space.feasible.unindex(space.feasible.index(rows)), rows)


def test_too_many_order_rules_for_a_tree_are_partly_tested_on_draws() -> None:
    elements = [f"e{i}" for i in range(26)]
    space = Space(
        {"p": Permutation(elements)},
        [f"pos(p, 'e{i}') < pos(p, 'e{i + 1}')" for i in range(0, 26, 2)]
        + ["pos(p, 'e0') != 25"],  # a place ties them together
    )
    assert space.feasible_size is None
    assert space.acceptance > 0.01
    rows = space.feasible.sample(100, RNG(0))
    assert (rows[:, 0::2] < rows[:, 1::2]).all()
    assert (rows[:, 0] != 25).all()
    with pytest.raises(SpaceError, match="numbered"):
        space.feasible.index(rows)


RULES = [
    (5, [(0, 3), (1, 4)]),  # two pairs and one alone
    (6, [(5, 0), (0, 2), (5, 2), (1, 4)]),  # a chain, a pair, one alone
    (6, [(0, 1), (0, 2), (3, 4), (3, 5)]),  # two trees
    (6, [(0, 1)]),
]


def grouped(m: int, pairs: Sequence[tuple[int, int]]) -> tuple[Interleaved, np.ndarray]:
    """Return the orders that satisfy the pairs, and all of them by listing."""
    before = np.zeros((m, m), dtype=np.bool_)
    for a, b in pairs:
        before[a, b] = True
    found = interleave(np.arange(m), OrderRules(before, np.ones((m, m), dtype=np.bool_)))
    assert isinstance(found, Interleaved)
    everything = np.array(list(permutations(range(m))), dtype=np.float64)
    good = np.all([everything[:, a] < everything[:, b] for a, b in pairs], axis=0)
    assert np.array_equal(found.contains(everything), good)
    return found, everything[good]


@pytest.mark.parametrize(("m", "pairs"), RULES)
def test_interleaved_groups_agree_with_listing(m: int, pairs: list[tuple[int, int]]) -> None:
    found, listed = grouped(m, pairs)
    assert found.count == len(listed)
    ranks = found.rank(listed)
    assert sorted(ranks.tolist()) == list(range(len(listed)))
    assert np.array_equal(found.unrank(ranks), listed)
    assert not found.contains(np.zeros((2, m))).any()
    assert found.rank(np.zeros((2, m))).tolist() == [-1, -1]
    for column in range(m):
        assert np.array_equal(found.used(column), np.unique(listed[:, column]))


@pytest.mark.parametrize(("m", "pairs"), RULES)
def test_interleaved_groups_are_drawn_uniformly(m: int, pairs: list[tuple[int, int]]) -> None:
    found, listed = grouped(m, pairs)
    drawn = found.rank(found.sample(40 * len(listed), RNG(1)))
    times = np.bincount(drawn.astype(np.int64), minlength=len(listed))
    assert chisquare(times).pvalue > 1e-3
    assert found.contains(found.walk(200, RNG(2))).all()
    assert len(np.unique(found.rank(found.walk(60 * len(listed), RNG(3))))) == len(listed)


@pytest.mark.parametrize(("m", "pairs"), RULES)
def test_the_nearest_of_interleaved_groups(m: int, pairs: list[tuple[int, int]]) -> None:
    found, listed = grouped(m, pairs)
    assert np.array_equal(found.nearest(listed, RNG(0)), listed)
    everything = np.array(list(permutations(range(m))), dtype=np.float64)
    near = found.nearest(everything, RNG(0))
    assert found.contains(near).all()
    moved = np.abs(near - everything).sum(axis=1)
    least = np.abs(everything[:, None] - listed).sum(axis=2).min(axis=1)
    assert (moved >= least).all()
    assert moved.mean() < 1.2 * least.mean()


def test_a_group_of_rules_that_contradict_leaves_nothing() -> None:
    before = np.zeros((4, 4), dtype=np.bool_)
    before[0, 1] = before[1, 0] = True
    assert interleave(np.arange(4), OrderRules(before, np.ones((4, 4), dtype=np.bool_))) is None


def test_sixty_four_elements_under_many_rules_are_counted_and_drawn() -> None:
    """Sixteen chains of four: 64! / 4!^16 orders."""
    elements = [f"e{i}" for i in range(64)]
    rules = [f"pos(p, 'e{i}') < pos(p, 'e{i + 1}')" for i in range(63) if i % 4 != 3]
    space = Space({"p": Permutation(elements), "x": [1, 2]}, rules)
    assert space.feasible_size == 2 * math.factorial(64) // math.factorial(4) ** 16
    rows = space.feasible.sample(20, RNG(0))
    assert np.array_equal(space.feasible.unindex(space.feasible.index(rows)), rows)


# ---- The product of groups at any scale, and spaces that nothing satisfies ----


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
