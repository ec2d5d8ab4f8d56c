"""Tables as constraints: written down, read back, refused."""

import json

import numpy as np
import pytest

from baco_like.constraints import table
from baco_like.exceptions import JournalError, SpaceError
from baco_like.optimizer import Optimizer
from baco_like.parameters import Ordinal, Real
from baco_like.spaces.space import Space

ROWS = [
    {"bx": 16, "p": ("i", "j", "k"), "s": "a", "mixed": 1, "one": 5},
    {"bx": 64, "p": ("k", "j", "i"), "s": "b", "mixed": "1", "one": 5},
    {"bx": 32, "p": ("j", "i", "k"), "s": "a", "mixed": True, "one": 5},
    {"bx": 16, "p": ("j", "i", "k"), "s": "b", "mixed": 1.0, "one": 5},
    {"bx": 16, "p": ("i", "j", "k"), "s": "a", "mixed": 1, "one": 5},
]


def key(config):
    return tuple((type(value), value) for value in config.values())


def test_a_table_is_written_down_and_read_back():
    space = Space.from_dataframe(ROWS)
    text = json.dumps(space.to_dict())
    again = Space.from_dict(json.loads(text))
    assert again == space
    assert set(map(key, again)) == set(map(key, ROWS))
    assert list(again) == list(space)
    assert again.feasible_size == 4


def test_the_order_of_the_rows_does_not_matter():
    rng = np.random.default_rng(0)
    rows = [{"a": int(a), "b": int(b)} for a, b in rng.integers(0, 9, (40, 2))]
    assert Space.from_dataframe(rows) == Space.from_dataframe(rows[::-1] + rows)
    assert Space.from_dataframe(rows) != Space.from_dataframe([*rows, {"a": 8, "b": -1}])


def test_the_rows_of_a_table_are_kept_once_and_sorted():
    rng = np.random.default_rng(1)
    parameters = {name: Ordinal([0, 1, 2]) for name in "abcd"}
    rows = rng.integers(0, 3, (12, 4))
    whole = table.TableConstraint.of(parameters, rows.astype(float))
    assert whole.codes.tolist() == np.unique(rows, axis=0).tolist()
    everything = np.array(np.meshgrid(*[range(3)] * 4)).reshape(4, -1)
    held = whole.holds(dict(zip("abcd", everything, strict=True)))
    wanted = set(map(tuple, rows.tolist()))
    assert held.tolist() == [tuple(row) in wanted for row in everything.T.tolist()]


def test_a_run_on_a_table_is_resumed_from_its_journal_alone(tmp_path):
    path = tmp_path / "run.jsonl"
    first = Optimizer(Space.from_dataframe(ROWS), strategy="random_search", storage=path)
    for _ in range(2):
        trial = first.suggest()
        first.observe(trial, float(trial["bx"]))
    again = Optimizer.load(path)
    assert again.space == first.space
    trial = again.suggest()
    assert dict(trial) in ROWS
    other = Space.from_dataframe(ROWS[:2])
    with pytest.raises(JournalError, match="belongs to another run"):
        Optimizer.load(path, space=other)


def test_a_large_table_is_only_described(monkeypatch):
    monkeypatch.setattr(table, "WRITTEN", 10)
    data = Space.from_dataframe(ROWS).to_dict()
    assert data["constraints"] == [{"callable": "(bx, p, s, mixed) is one of 4 rows of a table"}]
    with pytest.raises(SpaceError, match=r"large table.* give the space again"):
        Space.from_dict(data)


@pytest.mark.parametrize(
    ("constraint", "says"),
    [
        ({"table": "ab", "codes": [[0], [0]]}, "must name its parameters"),
        ({"table": ["a", "a"], "codes": [[0], [0]]}, "each once"),
        ({"table": [], "codes": []}, "must name its parameters"),
        ({"table": [["a"], "b"], "codes": [[0], [0]]}, "is not a listed parameter"),
        ({"table": ["a", "r"], "codes": [[0], [0]]}, "'r' is not a listed parameter"),
        ({"table": ["a", "x"], "codes": [[0], [0]]}, "'x' is not a listed parameter"),
        ({"table": ["a", "b"], "codes": [[0]]}, "2 lists"),
        ({"table": ["a", "b"], "codes": [[0], [0, 1]]}, "2 lists"),
        ({"table": ["a", "b"], "codes": [[], []]}, "2 lists"),
        ({"table": ["a", "b"], "codes": [[0], [0.5]]}, "whole numbers"),
        ({"table": ["a", "b"], "codes": [[0], [True]]}, "whole numbers"),
        ({"table": ["a", "b"], "codes": {"a": 1}}, "2 lists"),
        ({"table": ["a", "b"]}, "2 lists"),
        ({"table": ["a", "b"], "codes": [[0], [2]]}, "not values of parameter 'b'"),
        ({"table": ["a", "b"], "codes": [[0], [-1]]}, "not values of parameter 'b'"),
        ({"table": ["a", "b"], "codes": [[0], [10**400]]}, "largest double"),
        (5, "a text or an object"),
        ({}, "give the space again"),
    ],
)
def test_wrong_descriptions_are_refused(constraint, says):
    parameters = {"a": [1, 2], "b": ["x", "y"], "r": Real(0, 1)}
    data = Space(parameters).to_dict() | {"constraints": [constraint]}
    with pytest.raises(SpaceError, match=says):
        Space.from_dict(data)
