"""Features that models see: of parameters, of products and quotients, of orders; the middle of a space."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like import Categorical, Integer, Ordinal, Permutation, Real, Space
from baco_like.constraints.expression import Expression
from baco_like.spaces.derived_features import MOST_ELEMENTS, order_features
from baco_like.spaces.design import distinct_middle, middle

KERNEL = Space(
    {
        "bx": [16, 32, 48, 64, 96, 128],
        "by": [1, 2, 4, 8],
        "tx": [1, 2, 3, 4],
        "pad": [0, 1],
        "fixed": [7],
    },
    constraints=[
        "bx * by <= 512",
        "(bx * tx + fixed) * (by + 2) < 4096",
        "pad == 0 or bx % 32 == 0",
    ],
)


def never(codes):
    return np.zeros(len(codes), dtype=bool)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a * b <= 8", [("a", "b")]),
        ("2 * a * b * c <= 8", [("a", "b", "c")]),
        ("(a * c + 1) * (b * c) < 9", [("a", "c"), ("b", "c")]),
        ("a * a < 9", []),
        ("a * b + b * a < 9 and a * b > 1", [("a", "b")]),
        ("a + b < c", []),
        ("a % (b * c) == 0", [("b", "c")]),
        ("a * -b < 2", []),
    ],
)
def test_products_that_a_text_names(text, found):
    parameters = {name: Ordinal([1, 2, 4]) for name in "abc"}
    assert Expression(text, parameters).products() == found


@pytest.mark.parametrize(
    ("text", "quotients"),
    [
        ("a % b == 0", [(("a",), ("b",))]),
        ("a / b < 2 or a // b > 4", [(("a",), ("b",))]),
        ("2 * a * b % (c * 4) == 0", [(("a", "b"), ("c",))]),
        ("a * b % (b * c) == 0", [(("a",), ("c",))]),
        ("64 % a == 0 and b % 8 == 0", []),
        ("(a + 4) % b == 0", []),
        ("a * a % a == 0", []),
    ],
)
def test_quotients_that_a_text_names(text, quotients):
    parameters = {name: Ordinal([1, 2, 4]) for name in "abc"}
    assert Expression(text, parameters).quotients() == quotients


def test_quotients_of_a_kernel_are_features():
    sizes = [1, 2, 4, 8, 16]
    space = Space(
        {"local": sizes, "tile": sizes, "size": sizes},
        constraints=["size % (local * tile) == 0"],
    )
    seen = space.derived_features
    assert seen.active[-2:] == ("local * tile", "size / (local * tile)")
    rows = [(1, 1, 16), (2, 1, 8), (4, 4, 16)]
    codes = space.encode([dict(zip(space.names, row, strict=True)) for row in rows])
    expected = np.log([16, 4, 1]) / np.log(16)
    np.testing.assert_allclose(seen.features(codes)[:, -1], expected, atol=1e-12)


def test_what_a_kernel_is_seen_by():
    seen = KERNEL.derived_features
    assert seen.active[:4] == ("bx", "by", "tx", "pad")
    assert seen.active[4:] == ("halvings of bx", "halvings of tx", "bx * by", "bx * tx")
    assert seen.feature_owner.tolist() == list(range(8))
    (code,) = KERNEL.encode([{"bx": 48, "by": 4, "tx": 2, "pad": 0, "fixed": 7}])
    found = seen.features(code[None, :])[0]
    logs = np.log([48 / 16, 4, 2]) / np.log([128 / 16, 8, 4])
    np.testing.assert_allclose(found[:3], logs)
    # 16, 32, 48, 64, 96, 128 can be halved 4, 5, 4, 6, 5, 7 times; 1, 2, 3, 4: 0, 1, 0, 2 times.
    np.testing.assert_allclose(found[3:6], [0.0, 0.0, 0.5])
    threads = [bx * by for bx, by in {(c["bx"], c["by"]) for c in KERNEL.sample(4000, seed=1)}]
    expected = np.log(48 * 4 / min(threads)) / np.log(max(threads) / min(threads))
    np.testing.assert_allclose(found[6], expected)


def test_the_listed_rows_have_the_same_features_as_their_copies():
    listed = KERNEL.feasible.listed
    once = KERNEL.derived_features.features(listed)
    assert KERNEL.derived_features.features(listed) is once
    np.testing.assert_array_equal(KERNEL.derived_features.features(listed.copy()), once)


def test_without_lists_of_positive_numbers_nothing_is_added():
    space = Space(
        {
            "x": Real(0.1, 1.0, log=True),
            "n": Integer(1, 48),
            "sign": Ordinal([-1, 1, 2]),
            "flag": Categorical(["a", "b", "c"]),
            "order": Permutation(["i", "j"]),
        },
        constraints=["n * sign < 40"],
    )
    rows = space.feasible.sample(50, np.random.default_rng(1))
    assert space.derived_features.active == space.active
    np.testing.assert_array_equal(space.derived_features.feature_owner, space.feature_owner)
    np.testing.assert_array_equal(space.derived_features.features(rows), space.features(rows))


@given(
    st.lists(
        st.sets(st.integers(1, 300) | st.sampled_from([0.5, 1.5, 2.25]), min_size=1, max_size=6),
        min_size=2,
        max_size=4,
    )
)
def test_features_are_finite_and_owned_whatever_the_values(domains):
    space = Space(
        {f"p{i}": sorted(values) for i, values in enumerate(domains)},
        constraints=["p0 * p1 <= 90001", "p0 * p1 > 0"],
    )
    seen = space.derived_features
    found = seen.features(space.feasible.sample(30, np.random.default_rng(0)))
    assert np.isfinite(found).all()
    assert found.shape[1] == len(seen.feature_owner)
    assert sorted(set(seen.feature_owner.tolist())) == list(range(len(seen.active)))


def test_a_design_begins_in_the_middle_of_logarithmic_scales():
    space = Space({"a": [1, 2, 4, 8, 16, 32, 64], "b": [1, 2, 4]}, constraints=["a != 8 or b == 2"])
    rows = middle(space, 4, np.random.default_rng(0), never)
    assert space.decode(rows[:1]) == [{"a": 8, "b": 2}]
    assert len(np.unique(rows, axis=0)) == 4
    assert {(c["a"], c["b"]) for c in space.decode(rows[1:3])} == {(4, 2), (16, 2)}


def test_equally_middle_rows_are_a_matter_of_chance():
    space = Space({"f": [0, 1], "c": Categorical(["p", "q"])})
    first = {tuple(middle(space, 1, np.random.default_rng(seed), never)[0]) for seed in range(40)}
    assert len(first) == 4


FLAGS = Space({**{f"f{i}": [0, 1] for i in range(8)}, "width": [1, 8, 16]})


@pytest.mark.parametrize("seed", range(3))
def test_a_middle_that_singles_few_out_is_kept(seed):
    rows = [
        design(KERNEL, 4, np.random.default_rng(seed), never)
        for design in (middle, distinct_middle)
    ]
    np.testing.assert_array_equal(*rows)


def test_a_middle_of_hardly_anything_but_flags_is_none():
    widths = [
        {c["width"] for c in FLAGS.decode(design(FLAGS, 40, np.random.default_rng(0), never))}
        for design in (middle, distinct_middle)
    ]
    assert widths == [{8}, {1, 8, 16}]


def test_the_features_of_the_same_rows_are_computed_once(monkeypatch):
    derived, computed = Space({"a": [1, 2, 4], "b": [False, True]}).derived_features, []
    compute = type(derived)._features
    monkeypatch.setattr(
        type(derived), "_features", lambda self, rows: computed.append(1) or compute(self, rows)
    )
    rows = np.array([[0.0, 1.0], [2.0, 0.0]])
    first = derived.features(rows)
    assert derived.features(rows.copy()) is first
    assert len(computed) == 1
    rows[0, 0] = 1.0  # changed in place
    assert not np.array_equal(derived.features(rows), first)
    assert len(computed) == 2


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


def squared_distances(features: np.ndarray) -> np.ndarray:
    return ((features[:, None] - features[None]) ** 2).sum(axis=-1)


@pytest.mark.parametrize("elements", [3, 4, 5])
def test_distances_count_pairs_places_and_adjacent_pairs(elements: int) -> None:
    codes = np.array(list(permutations(range(elements))), dtype=float)
    precedence, places, adjacency = order_features("order", slice(0, elements))
    for a, b in zip(codes, codes[::-1], strict=True):
        rows = np.stack([a, b])
        pairs = [(i, j) for i in range(elements) for j in range(i)]
        discordant = sum((a[i] < a[j]) != (b[i] < b[j]) for i, j in pairs)
        changed = sum((abs(a[i] - a[j]) == 1) != (abs(b[i] - b[j]) == 1) for i, j in pairs)
        counts = {
            precedence: discordant / len(pairs),
            places: (a != b).mean(),
            adjacency: changed / (2 * (elements - 1)),
        }
        for group, expected in counts.items():
            assert group.features(rows).shape == (2, group.width)
            assert squared_distances(group.features(rows))[0, 1] == pytest.approx(expected)


def test_the_largest_squared_distance_is_one() -> None:
    codes = np.array(list(permutations(range(5))), dtype=float)
    for group in order_features("order", slice(0, 5)):
        assert squared_distances(group.features(codes)).max() == pytest.approx(1.0)


def test_short_and_long_permutations_have_no_groups() -> None:
    assert order_features("order", slice(0, 2)) == []
    assert order_features("order", slice(0, MOST_ELEMENTS + 1)) == []


def test_the_model_sees_each_group_with_a_lengthscale_of_its_own() -> None:
    space = Space({"tile": Ordinal([2, 4, 8]), "order": Permutation(["i", "j", "k"])})
    derived = space.derived_features
    groups = ("precedence in order", "places in order", "adjacency in order")
    assert derived.active == ("tile", "order", *groups)
    features = derived.features(space.feasible.listed)
    assert features.shape == (18, len(derived.feature_owner))
    owned = [features[:, derived.feature_owner == 2 + i] for i in range(3)]
    expected = [
        group.features(space.feasible.listed)
        for group in order_features("order", space.columns["order"])
    ]
    for one, other in zip(owned, expected, strict=True):
        np.testing.assert_array_equal(one, other)
