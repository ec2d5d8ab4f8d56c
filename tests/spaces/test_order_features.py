"""Groups of features of permutations."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from baco_like import Ordinal, Permutation, Space
from baco_like.spaces.derived_features import MOST_ELEMENTS, order_features


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
