"""Tables of many rows, whose values are numbered in whole passes: the result is that of one value after the other."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like import Space
from baco_like.exceptions import SpaceError
from baco_like.parameters.values import Lookup, extent_of, is_number, value_key
from baco_like.spaces.formats.dataframe import _number_distinct

SCALARS = st.one_of(
    st.integers(-2, 2),
    st.sampled_from([-1.0, -0.0, 0.0, 1.0, 1.5, 2.0**60]),
    st.sampled_from([2**53, 2**53 + 1, 2**60, 2**70]),
    st.booleans(),
    st.sampled_from(["a", "1"]),
)
TUPLES = st.recursive(SCALARS, lambda part: st.lists(part, max_size=2).map(tuple), max_leaves=3)
COLUMNS = st.sampled_from([st.integers(-2, 2), st.integers(-2, 2) | st.floats(-2, 2, width=16)])
CELLS = st.lists(SCALARS, min_size=1) | st.lists(TUPLES, min_size=1)
CELLS |= COLUMNS.flatmap(lambda kind: st.lists(kind, min_size=1))


@given(CELLS)
def test_distinct_values_are_numbered_by_type_and_value(cells):
    values, number = _number_distinct(cells)
    keys = list(map(value_key, values))
    assert len(set(keys)) == len(keys)
    assert [keys[i] for i in number] == list(map(value_key, cells))
    if set(map(type, cells)) == {int, float} and max(map(abs, cells)) < 2**53:
        assert values == sorted(values)


@given(CELLS, CELLS)
def test_a_value_is_looked_up_by_type_and_value_and_then_by_number(listed, wanted):
    values = list({value_key(value): value for value in listed}.values())
    lookup, keys = Lookup(values), list(map(value_key, values))
    equal = [[i for i, v in enumerate(values) if is_number(v) and v == w] for w in wanted]
    expected = [
        {keys.index(value_key(w))} if value_key(w) in keys else set(e) if is_number(w) else set()
        for w, e in zip(wanted, equal, strict=True)
    ]
    for one, together, possible in zip(
        map(lookup.find, wanted), lookup.find_all(wanted), expected, strict=True
    ):
        assert one == together
        assert one in possible or (one is None and not possible)
    with pytest.raises(SpaceError, match="occurs twice"):
        Lookup([*values, values[0]])


@given(st.lists(st.integers() | st.floats(-1e300, 1e300), min_size=1))
def test_the_extent_is_that_of_each_value(values):
    found = extent_of(values)
    assert (found.low, found.high) == (min(values), max(values))
    types, ints = set(map(type, values)), [abs(v) for v in values if type(v) is int]
    largest = {frozenset({int}): 2**63 - 1, frozenset({int, float}): 2**53}.get(frozenset(types))
    assert (found.kind.value == "object") == (largest is not None and max(ints) > largest)


def test_a_table_of_100_000_rows_of_any_kind():
    count, rng = 100_000, np.random.default_rng(1)
    orders = [rng.permutation(count).tolist() for _ in range(4)]
    columns = {
        "mixed": [i if i % 2 else i + 0.5 for i in orders[0]],
        "tuples": [(i, "a") for i in orders[1]],
        "others": [(i, None) if i % 2 else (i, (0.5, True)) for i in orders[2]],
        "half": [i % 2 for i in orders[3]],
        "sometimes": [i if i % 2 else None for i in orders[3]],
    }
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for row in rows:
        if row["sometimes"] is None:
            del row["sometimes"]
    started = time.process_time()
    space = Space.from_dataframe(rows)
    print(f"{time.process_time() - started:.2f} s of processor time")
    assert space.feasible_size == count
    for row in rows[:3]:
        assert space.contains(row)
        assert space.decode(space.encode([row])) == [row]
        assert not space.contains({**row, "mixed": rows[9]["mixed"]})
    assert list(space.conditions.texts) == ["sometimes"]


def test_a_table_whose_slices_are_transposed_is_read():
    rng = np.random.default_rng(52)
    sizes = rng.integers(2, 20, size=rng.integers(2, 5))  # 13, 6, 12 and 10
    every = [dict(zip("abcd", map(int, row), strict=True)) for row in np.ndindex(*sizes)]
    rows = [row for row in every if rng.random() < 0.5]
    space = Space.from_dataframe(rows)
    assert space.feasible_size == len(rows) == 4691
    assert all(space.contains(row) for row in rows[::50])
