"""The rule that chooses a configuration for a task, against a direct implementation and its laws."""

import math

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from shipped_tables import CONSTRAINTS, SPACE, entry, single, stamp, table

from baco_like import RunFileError, TrialError
from baco_like.shipping import ShippedTable
from baco_like.shipping.stamp import Stamp, fingerprint

TABLE = table()


def is_allowed(config, n, device):
    """The constraints of the table, in Python."""
    tile, position = config["tile"], config["order"].index("k")
    if n - 8 < 0:  # the root cannot be computed
        return False
    sizes = n**2 / tile > 1 if device == "cpu" else n in range(8, 10**6, 4)
    divides = n % tile == 0 or (device in ("mi250", "gpu") and position < 2)
    return tile <= n and divides and n // tile != 3 and sizes


@settings(max_examples=150)
@given(st.integers(1, 20_000), st.sampled_from(["cpu", "gpu", "mi250", "?"]))
def test_the_nearest_entry_that_satisfies_the_constraints_is_chosen(n, device):
    near = [
        (abs(math.log(e.task["n"] / n)), i, e.config)
        for i, e in enumerate(TABLE.entries)
        if e.task["device"] == device and is_allowed(e.config, n, device)
    ]
    task = {"n": n, "device": device}
    if near:
        assert TABLE.select(task) == min(near)[2]
    elif is_allowed(TABLE.default, n, device):
        assert TABLE.select(task) == TABLE.default
    else:
        with pytest.raises(TrialError, match="no entry and no default"):
            TABLE.select(task)


def test_each_task_gets_its_own_entry():
    for row in TABLE.entries:
        assert TABLE.select(row.task) == row.config


@pytest.mark.parametrize("n", [0, -1, math.inf, math.nan, "64"])
def test_a_size_that_is_none_gets_the_default(n):
    free = table(constraints=())
    assert free.select({"n": n, "device": "cpu"}) == free.default


def test_a_run_without_tasks_has_one_entry_for_all():
    assert single().select({})["tile"] == 32
    with pytest.raises(TrialError, match=r"expected the descriptors \[\]"):
        single().select({"n": 3})


def test_flags_and_numbers_below_1_must_be_equal():
    rows = (entry(16, transposed=0), entry(32, transposed=1))
    flags = ShippedTable(rows, SPACE.default_config, SPACE, stamp())
    assert flags.select({"transposed": 1})["tile"] == 32
    assert flags.select({"transposed": 2}) == flags.default


@pytest.mark.parametrize(
    ("entries", "constraints", "message"),
    [
        ((), (), "at least one entry"),
        ((entry(8, n=1), entry(8, n=1)), (), "two entries have the task n=1"),
        ((entry(8, n=1), entry(8, m=1)), (), "different descriptors"),
        ((entry(8, n=1), entry(8, n="a")), (), "has texts, booleans and numbers"),
        ((entry(64, n=32),), ("tile <= n",), "n=32 violates 'tile <= n'"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(entries, constraints, message):
    with pytest.raises(RunFileError, match=message):
        ShippedTable(entries, None, SPACE, stamp(), constraints).kinds  # noqa: B018


def test_constraints_of_the_space_may_read_descriptors_too():
    assert [condition.text for condition in TABLE.conditions] == list(CONSTRAINTS)


def test_the_fingerprint_depends_on_the_space_alone():
    described = SPACE.to_dict()
    assert fingerprint(described) == fingerprint(dict(reversed(described.items())))
    assert fingerprint(described) != fingerprint({**described, "constraints": ["tile > 8"]})


def test_white_space_in_a_constraint_is_no_change_of_the_space():
    def of(text):
        return fingerprint({**SPACE.to_dict(), "constraints": [text]})

    assert of("tile<=8  and not flag=='a b'") == of("tile <= 8 and not flag == 'a b'")
    assert of("flag == 'a b'") != of("flag == 'ab'")
    assert of("tile in [8, 16]") == of("tile in [ 8,16 ]")
    assert of("tile <= 8") != of("tile <= 9")


def test_facts_that_are_unknown_are_not_compared():
    old = Stamp("a" * 16, "time", device="A4000", compiler=None)
    assert old.differences("a" * 16, None, "gcc 13") == []
    (difference,) = old.differences(device="W7800")
    assert difference == "another device: it was tuned with device 'A4000', now it is 'W7800'"
