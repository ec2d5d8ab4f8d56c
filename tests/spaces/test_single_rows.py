import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like import Categorical, Integer, Ordinal, Permutation, Real, Space
from baco_like.spaces.neighbourhoods import hamming, nearest

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
