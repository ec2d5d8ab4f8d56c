"""Neighbourhoods and repairs against their definitions, by brute force on random small spaces."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from brute_force import Case, cases, index_distances
from hypothesis import given
from hypothesis import strategies as st

from baco_like import Categorical, Integer, Ordinal, Permutation, Real, Space
from baco_like.spaces.neighbourhoods import (
    RandomChanges,
    adjacent,
    cascade,
    hamming,
    jointly_adjacent,
    nearest,
    strictly_adjacent,
)

RNG = np.random.default_rng


def changed(space: Space, a: np.ndarray, b: np.ndarray) -> list[str]:
    """Return the parameters in which two rows differ."""
    return [name for name, at in space.columns.items() if (a[at] != b[at]).any()]


def swap(space: Space, name: str, a: np.ndarray, b: np.ndarray) -> list[float]:
    """Return the places of the elements that moved."""
    at = space.columns[name]
    return sorted(a[at][a[at] != b[at]].tolist())


def is_hamming(space: Space, a: np.ndarray, b: np.ndarray, feasible: np.ndarray) -> bool:
    names = changed(space, a, b)
    return len(names) == 1 and (
        space.parameters[names[0]].width == 1 or len(swap(space, names[0], a, b)) == 2
    )


def is_adjacent(space: Space, a: np.ndarray, b: np.ndarray, feasible: np.ndarray) -> bool:
    if not is_hamming(space, a, b, feasible):
        return False
    (name,) = changed(space, a, b)
    if space.parameters[name].width > 1:
        low, high = swap(space, name, a, b)
        return high - low == 1
    if name == "word":
        return True
    column = space.columns[name].start
    line = (np.delete(feasible, column, axis=1) == np.delete(a, column)).all(axis=1)
    values = feasible[line, column]
    low, high = sorted([a[column], b[column]])
    return not ((values > low) & (values < high)).any()


def is_step(space: Space, a: np.ndarray, b: np.ndarray, feasible: np.ndarray) -> bool:
    names = changed(space, a, b)
    return bool(names) and all(
        swap(space, name, a, b) in [[k, k + 1] for k in range(4)]
        if space.parameters[name].width > 1
        else name == "word" or abs(a[space.columns[name]] - b[space.columns[name]]) == 1
        for name in names
    )


def is_supported_step(space: Space, a: np.ndarray, b: np.ndarray, feasible: np.ndarray) -> bool:
    names = changed(space, a, b)
    for name in names:
        if space.parameters[name].width > 1:
            if not is_step_of(swap(space, name, a, b)):
                return False
        elif name != "word":
            column = space.columns[name].start
            low, high = sorted([a[column], b[column]])
            if ((feasible[:, column] > low) & (feasible[:, column] < high)).any():
                return False
    return bool(names)


def is_step_of(places: list[float]) -> bool:
    return len(places) == 2 and places[1] - places[0] == 1


@pytest.mark.parametrize(
    ("found", "defined"),
    [
        (hamming, is_hamming),
        (adjacent, is_adjacent),
        (partial(strictly_adjacent, limit=10_000), is_step),
        (partial(jointly_adjacent, limit=10_000), is_supported_step),
    ],
    ids=["hamming", "adjacent", "strictly", "jointly"],
)
@given(case=cases(satisfiable=True))
def test_neighbours_are_those_of_the_definition(
    found: Callable, defined: Callable, case: Case
) -> None:
    space = case.space()
    everything = space.encode(case.everything)
    feasible = everything[np.array(case.feasible)]
    given_rows = everything[RNG(1).integers(0, len(everything), 12)]  # feasible or not
    rows, owner = found(space, given_rows, RNG(2))
    assert (np.diff(owner) >= 0).all()
    for i, row in enumerate(given_rows):
        expected = {tuple(b) for b in feasible if defined(space, row, b, feasible)}
        got = [tuple(b) for b in rows[owner == i]]
        assert len(got) == len(set(got))
        assert set(got) == expected


def test_a_permutation_beside_a_number_changes_by_one_swap() -> None:
    coupled = Space({"p": Permutation(list("abcd")), "x": [0, 1, 2]}, ["pos(p, 'a') <= x"])
    listed = coupled.feasible.listed
    rows, owner = hamming(coupled, listed, RNG(0))
    swapped = np.flatnonzero(rows[:, -1] == listed[owner, -1])
    assert len(swapped)
    assert ((rows != listed[owner])[swapped].sum(axis=1) == 2).all()


def test_limits_thin_at_random_and_never_repeat() -> None:
    names = [f"x{i}" for i in range(8)]
    space = Space({name: list(range(9)) for name in names}, ["x0 + x1 <= 12", "x2 * x3 <= 40"])
    codes = space.feasible.sample(20, RNG(0))
    for limit in (1, 5, 40):
        for found in (strictly_adjacent, jointly_adjacent):
            rows, owner = found(space, codes, RNG(1), limit=limit)
            assert np.bincount(owner).max() <= limit
            both = np.concatenate([owner[:, None], rows], axis=1)
            assert len(np.unique(both, axis=0)) == len(rows)
            assert space.feasible.contains(rows).all()
            assert (np.abs(rows - codes[owner]) <= 1).all()
    few, owner = hamming(space, codes, RNG(1), limit=2)
    assert space.feasible.contains(few).all()
    assert np.bincount(owner).max() <= 2 * len(names)
    again, _ = hamming(space, codes, RNG(1), limit=2)
    assert np.array_equal(few, again)


def test_reals_and_wide_integers_move_a_little_and_far() -> None:
    space = Space({"r": Real(1e-3, 1e3, log=True), "n": Integer(0, 10**9)}, ["n % 2 == 0"])
    codes = np.tile(space.encode([{"r": 1.0, "n": 500_000_000}]), (400, 1))
    rows, owner = hamming(space, codes, RNG(0))
    assert space.feasible.contains(rows).all()
    assert (np.abs(rows - codes[owner]) > 0).sum(axis=1).max() == 1
    moved = rows[rows[:, 1] == codes[0, 1]][:, 0]
    shares = (np.log10(moved) + 3) / 6
    local = np.abs(shares - 0.5) < 0.1
    assert 0.4 < local.mean() < 0.75  # half near, and a fifth of the other half
    assert np.std(shares[local]) == pytest.approx(0.03, rel=0.3)
    assert shares.min() < 0.05
    assert shares.max() > 0.95


def test_rows_without_neighbours_have_none() -> None:
    space = Space({"a": [1, 2, 3], "b": [1, 2, 3]}, ["a == b"])
    codes = space.encode([{"a": 2, "b": 2}])
    assert len(hamming(space, codes, RNG(0))[0]) == 0
    assert len(adjacent(space, codes, RNG(0))[0]) == 0
    assert len(strictly_adjacent(space, codes, RNG(0))[0]) == 2
    constant = Space({"a": [1], "b": ["x"]})
    for found in (hamming, adjacent, strictly_adjacent, jointly_adjacent):
        rows, owner = found(constant, constant.feasible.sample(3, RNG(0)), RNG(0))
        assert rows.shape == (0, 2)
        assert owner.shape == (0,)


def test_no_rows_have_no_neighbours() -> None:
    space = Space({"a": [1, 2, 3], "p": Permutation(list("abc")), "r": Real(0, 1)}, ["a != 2"])
    nothing = np.empty((0, space.width))
    for found in (hamming, adjacent, strictly_adjacent, jointly_adjacent):
        rows, owner = found(space, nothing, RNG(0))
        assert rows.shape == (0, space.width)
        assert owner.shape == (0,)


def test_adjacent_passes_over_infeasible_values_far_away() -> None:
    space = Space({"n": Integer(0, 100_000), "k": [0, 1]}, ["n % 5000 == k"])
    codes = space.encode([{"n": 50_000, "k": 0}])
    rows, _ = adjacent(space, codes, RNG(0))
    assert sorted(config["n"] for config in space.decode(rows)) == [45_000, 55_000]


@pytest.mark.parametrize("count", [1, 4, 100])
def test_random_changes_are_feasible_and_change_one_parameter(count: int) -> None:
    space = Space(
        {
            "flag": [False, True],
            "tile": [8, 16, 32, 64],
            "unroll": Integer(1, 32),
            "wide": Integer(1, 10**9),
            "eps": Real(0.0, 1.0),
            "order": Permutation(["i", "j", "k"]),
            "constant": [1],
        },
        ["tile % unroll == 0", "pos(order, 'k') > pos(order, 'i')"],
    )
    rows = space.feasible.sample(40, RNG(0))
    changes = RandomChanges(space)
    near, owner = changes.draw(rows, RNG(1), count)
    assert space.feasible.contains(near).all()
    assert (np.diff(owner) >= 0).all()
    differing = [changed(space, a, rows[i]) for a, i in zip(near, owner, strict=True)]
    assert all(len(names) == 1 for names in differing)
    assert np.bincount(owner, minlength=40).max() <= min(count, 6)
    assert count < 4 or {name for (name,) in differing} == set(space.active)
    again = changes.draw(rows, RNG(1), count)
    np.testing.assert_array_equal(again[0], near)


def test_a_space_of_constants_has_no_random_changes():
    space = Space({"a": [7], "b": [1]})
    rows, owner = RandomChanges.of(space).draw(space.feasible.listed, np.random.default_rng(0), 2)
    assert rows.shape == (0, 2)
    assert len(owner) == 0
    assert RandomChanges.of(space) is RandomChanges.of(space)


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


# ----  ----


SPACES = {
    "one tree": Space(
        {"a": Integer(0, 9), "seven": [7], "b": Integer(0, 4), "c": Categorical(["p", "q", "r"])},
        constraints=["(a + b) % 3 == 0 or b == 4", "c != 'p' or a > 3"],
    ),
    "two trees": Space(
        {"a": [1, 2, 4, 8], "b": [1, 2, 4, 8], "x": Integer(0, 6), "y": Integer(0, 6), "f": [0, 1]},
        constraints=["a * b == 8", "x % 4 == y % 4"],
    ),
    "gaps": Space(
        {"g": Integer(1, 40, log=True), "t": Ordinal([1, 2, 4, 8, 16, 32])},
        constraints=["g % 7 == 0", "g * t <= 100"],
    ),
}
each = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
seeds = given(st.integers(0, 2**32 - 1))


def rows_of(space, n, seed):
    """Legal rows, feasible or not."""
    rng = np.random.default_rng(seed)
    rows = np.tile(space.feasible.sample(1, rng), (n, 1))
    for name in space.active:
        rows[:, space.columns[name].start] = rng.integers(0, space.parameters[name].cardinality, n)
    return rows


def paths_of(walk, choices):
    """Every feasible path of a walk, by trying all."""
    for codes in itertools.product(*choices):
        row = dict(zip((step.column for step in walk.steps), codes, strict=True))
        if walk.is_feasible(row):
            yield codes


@each
@seeds
def test_what_is_feasible(space, seed):
    rows = rows_of(space, 20, seed)
    np.testing.assert_array_equal(space.feasible.contains_few(rows), space.feasible.contains(rows))
    assert space.feasible.contains_few(space.feasible.sample(5, np.random.default_rng(seed))).all()


@each
@seeds
def test_single_changes_are_the_hamming_neighbours(space, seed):
    single_rows = space.feasible.single_rows
    for row in rows_of(space, 5, seed):
        found = []
        for column, code in single_rows.single_changes(row.tolist()):
            found.append(tuple(np.where(np.arange(len(row)) == column, code, row)))
        near, _ = hamming(space, row[None, :], np.random.default_rng(0))
        assert sorted(found) == sorted(map(tuple, near))


@each
@seeds
def test_the_cheapest_path_of_all(space, seed):
    rng = np.random.default_rng(seed)
    (row,) = rows_of(space, 1, seed)
    for walk in space.feasible.single_rows.walks:
        codes = [step.adjacent(row[step.column]) for step in walk.steps]
        costs = [dict(zip(some, rng.random(len(some)), strict=True)) for some in codes]
        every = [
            sum(cost[code] for cost, code in zip(costs, path, strict=True))
            for path in paths_of(walk, codes)
        ]
        found = walk.cheapest([list(cost.items()) for cost in costs])
        if not every:
            assert found is None
            continue
        assert walk.is_feasible(dict(zip((s.column for s in walk.steps), found, strict=True)))
        total = sum(cost[code] for cost, code in zip(costs, found, strict=True))
        assert total == pytest.approx(min(every))


@each
def test_random_paths_are_each_as_likely(space):
    rng = np.random.default_rng(0)
    for walk in space.feasible.single_rows.walks:
        choices = [step.used[:4] for step in walk.steps]
        every = list(paths_of(walk, choices))
        drawn = [tuple(walk.random(choices, rng)) for _ in range(200 * len(every))]
        counts = np.array([drawn.count(path) for path in every])
        assert counts.sum() == len(drawn)
        assert ((counts - 200) ** 2 / 200).sum() < 2 * len(every) + 20


@each
@seeds
def test_no_random_path_where_there_is_none(space, seed):
    (row,) = rows_of(space, 1, seed)
    for walk in space.feasible.single_rows.walks:
        choices = [step.nearest_used(row[step.column]) for step in walk.steps]
        found = walk.random(choices, np.random.default_rng(seed))
        every = list(paths_of(walk, choices))
        assert tuple(found) in every if every else found is None


@each
@seeds
def test_a_row_without_neighbours_always_becomes_the_same_nearest_row(space, seed):
    single_rows, rng = space.feasible.single_rows, np.random.default_rng(seed)
    rows = rows_of(space, 10, seed)
    apart = np.abs(nearest(space, rows, rng) - rows)
    for name, parameter in space.parameters.items():
        if isinstance(parameter, Categorical):
            apart[:, space.columns[name]] = apart[:, space.columns[name]] > 0
    for row, distance in zip(rows.tolist(), apart.sum(axis=1), strict=True):
        found = single_rows.repair(row, lambda: None)
        own = np.abs(np.array(found) - row)
        for name, parameter in space.parameters.items():
            if isinstance(parameter, Categorical):
                own[space.columns[name]] = own[space.columns[name]] > 0
        assert own.sum() == distance
        assert space.feasible.contains_few(np.array([found])).all()
        single_rows.repaired.clear()
        assert single_rows.repair(row, lambda: None) == found


@each
def test_mutations_are_hamming_neighbours_each_as_likely(space):
    rng = np.random.default_rng(1)
    (row,) = space.feasible.sample(1, rng)
    single_rows = space.feasible.single_rows
    near = [tuple(r) for r in hamming(space, row[None, :], rng)[0]]
    drawn = [tuple(single_rows.mutate(row.tolist(), rng)) for _ in range(200 * max(1, len(near)))]
    counts = np.array([drawn.count(one) for one in near])
    assert counts.sum() == (len(drawn) if near else 0) or set(drawn) == {tuple(row)}
    assert ((counts - 200) ** 2 / 200).sum() < 2 * len(near) + 20


OTHERS = [
    Permutation(["i", "j", "k"]),
    Real(0.0, 1.0),
    Integer(0, 5000),
    Categorical([*map(str, range(100))]),
]


@pytest.mark.parametrize("parameter", OTHERS, ids=lambda p: type(p).__name__)
def test_other_spaces_are_treated_with_arrays(parameter):
    space = Space({"a": Integer(0, 3), "p": parameter})
    assert Space({"a": Integer(0, 3)}).feasible.single_rows is not None
    assert space.feasible.single_rows is None
    rows = space.feasible.sample(4, np.random.default_rng(0))
    assert space.feasible.contains_few(rows).all()


def test_a_row_of_many_bits():
    space = Space(
        {f"v{i}": Integer(0, 99) for i in range(4)}, constraints=["v0 + v1 + v2 + v3 == 390"]
    )
    (walk,) = space.feasible.single_rows.walks
    row = [97.0, 98.0, 98.0, 98.0]
    choices = [
        [(code, abs(code - row[step.column])) for code in step.adjacent(row[step.column])]
        for step in walk.steps
    ]
    found = walk.cheapest(choices)
    assert sum(found) == 390
    assert sum(abs(code - row[s.column]) for code, s in zip(found, walk.steps, strict=True)) == 1
    assert walk.cheapest([[(10.0, 0.0)], *choices[1:]]) is None
