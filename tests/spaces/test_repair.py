"""Repair: the nearest feasible row by brute force, and the cascade of neighbourhoods."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import Case, cases, index_distances
from hypothesis import given, settings
from hypothesis import strategies as st

from baco_like.parameters.permutation import Permutation
from baco_like.parameters.real import Real
from baco_like.spaces.neighbourhoods import (
    cascade,
    hamming,
    jointly_adjacent,
    nearest,
    strictly_adjacent,
)
from baco_like.spaces.space import Space

RNG = np.random.default_rng


@settings(max_examples=60)
@given(cases(satisfiable=True), st.integers(0, 1000))
def test_nearest_is_feasible_and_at_the_least_distance(case: Case, seed: int) -> None:
    space = case.space()
    everything = space.encode(case.everything)
    feasible = everything[np.array(case.feasible)]
    given_rows = everything[RNG(seed).integers(0, len(everything), 10)]
    found = nearest(space, given_rows, RNG(seed))
    assert space.feasible.contains(found).all()
    for row, near in zip(given_rows, found, strict=True):
        least = index_distances(space, row, feasible).min()
        assert index_distances(space, row, near[None]) == least


@settings(max_examples=40)
@given(cases(satisfiable=True), st.integers(0, 1000))
def test_nearest_takes_any_numbers(case: Case, seed: int) -> None:
    space = case.space()
    wild = RNG(seed).normal(1.0, 4.0, (8, space.width))
    assert space.feasible.contains(nearest(space, wild, RNG(seed))).all()


def test_ties_are_broken_at_random() -> None:
    space = Space({"a": [1, 2, 3], "b": [1, 2, 3]}, ["a != b"])
    middle = np.tile(space.encode([{"a": 2, "b": 2}]), (400, 1))
    found = {(c["a"], c["b"]) for c in space.decode(nearest(space, middle, RNG(0)))}
    assert found == {(1, 2), (3, 2), (2, 1), (2, 3)}


def test_places_of_elements_become_the_permutation_that_sorts_them() -> None:
    space = Space({"p": Permutation(list("abcd"))})
    found = nearest(space, np.array([[0.9, 7.0, -1.0, 0.2]]), RNG(0))
    assert space.decode(found)[0]["p"] == ("c", "d", "a", "b")


@pytest.mark.parametrize("m", [5, 11])
def test_nearest_order_under_precedence_rules(m: int) -> None:
    elements = [f"e{i}" for i in range(m)]
    space = Space(
        {"p": Permutation(elements)}, ["pos(p, 'e0') < pos(p, 'e1')", "pos(p, 'e2') < pos(p, 'e1')"]
    )
    good = space.feasible.sample(20, RNG(0))
    assert np.array_equal(nearest(space, good, RNG(1)), good)
    swapped = good.copy()
    swapped[:, [0, 1]] = good[:, [1, 0]]
    found = nearest(space, swapped, RNG(1))
    assert space.feasible.contains(found).all()
    assert (np.abs(found - swapped).sum(axis=1) <= np.abs(good - swapped).sum(axis=1)).all()


def test_reals_are_moved_no_further_than_needed() -> None:
    space = Space({"x": Real(0, 1), "y": Real(0, 1), "a": [1, 2]}, ["x + y <= a / 2"])
    found = nearest(space, np.array([[0.9, 0.9, 0.0], [0.1, 0.1, 0.0], [2.0, -1.0, 1.0]]), RNG(0))
    assert space.feasible.contains(found).all()
    assert found[1].tolist() == [0.1, 0.1, 0.0]
    assert found[2].tolist() == [1.0, 0.0, 1.0]
    assert np.abs(found[0] - [0.9, 0.9, 0.0]).sum() < 2.0


@settings(max_examples=40)
@given(cases(satisfiable=True), st.integers(0, 1000))
def test_the_cascade_gives_the_first_definition_that_has_any(case: Case, seed: int) -> None:
    space = case.space()
    everything = space.encode(case.everything)
    given_rows = everything[RNG(seed).integers(0, len(everything), 6)]
    rows, owner = cascade(space, given_rows, RNG(seed), limit=10_000)
    assert np.array_equal(np.unique(owner), np.arange(6))
    assert space.feasible.contains(rows).all()
    for i in range(6):
        one = given_rows[i : i + 1]
        for definition in (strictly_adjacent, jointly_adjacent, hamming):
            expected, _ = definition(space, one, RNG(0), 10_000)
            if len(expected):
                assert {tuple(r) for r in rows[owner == i]} == {tuple(r) for r in expected}
                break
        else:
            assert (owner == i).sum() == 1
