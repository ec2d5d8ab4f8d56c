"""Sets of elements: codes, ranks, draws, moves and constraints, compared with enumeration."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baco_like import ExpressionError, Optimizer, Space, SpaceError, Subset
from baco_like.parameters.registry import parameter_from_dict, parameter_to_dict
from baco_like.parameters.sequence import sequences_from_ranks


@st.composite
def subsets(draw):
    """Return a small subset parameter."""
    k = draw(st.integers(1, 5))
    largest = draw(st.integers(1, k))
    return Subset([f"e{i}" for i in range(k)], largest, draw(st.integers(0, largest)))


def values_of(parameter):
    """Return all values, the smallest first, by brute force."""
    sizes = range(parameter.min_size, parameter.max_size + 1)
    return [v for n in sizes for v in itertools.combinations(parameter.elements, n)]


@given(subsets(), st.integers(0, 2**20))
@settings(max_examples=40, deadline=None)
def test_a_subset_agrees_with_enumeration(parameter, seed):
    rng = np.random.default_rng(seed)
    values = values_of(parameter)
    feasible = Space({"p": parameter}).feasible
    assert feasible.count == parameter.cardinality == len(values)
    rows = feasible.listed
    assert parameter.decode(rows) == values
    assert feasible.index(rows) == list(range(len(values)))
    np.testing.assert_array_equal(parameter.from_unit(parameter.to_unit(rows)), rows)
    known = {tuple(row) for row in rows.tolist()}
    others = rng.integers(-1, len(parameter.elements), (50, parameter.width)).astype(np.float64)
    expected = [tuple(row) in known for row in others.tolist()]
    assert parameter.legal(others).tolist() == expected
    near = parameter.nearest(others, rng)
    assert parameter.legal(near).all()
    np.testing.assert_array_equal(near[expected], others[expected])


@given(subsets(), st.integers(0, 2**20))
@settings(max_examples=30, deadline=None)
def test_neighbours_differ_in_one_element_or_in_one_pair(parameter, seed):
    values = values_of(parameter)
    rows = parameter.encode(values)
    found, owner = parameter.neighbours(rows)
    for number, value in enumerate(values):
        apart = {v: set(v) ^ set(value) for v in values}
        expected = {
            v for v, d in apart.items() if len(d) == 1 or (len(d) == 2 and len(v) == len(value))
        }
        assert set(parameter.decode(found[owner == number])) == expected
    rng = np.random.default_rng(seed)
    assert parameter.legal(parameter.change(rows, rng)).all()
    children = parameter.cross(rows, rows[::-1], rng)
    assert parameter.legal(children).all()
    for child, one, two in zip(parameter.decode(children), values, values[::-1], strict=True):
        if parameter.min_size == 0:
            assert set(child) <= set(one) | set(two)


def test_moves_reach_every_size_and_a_change_differs():
    parameter = Subset(["a", "b", "c", "d"])
    rows = np.repeat(parameter.encode([("a", "c")]), 300, axis=0)
    moved = parameter.decode(parameter.change(rows, np.random.default_rng(0)))
    assert ("a", "c") not in moved
    assert {len(value) for value in moved} == {1, 2, 3}


CONSTRAINTS = {
    "len(p) >= 2": lambda p, u: len(p) >= 2,
    "'a' in p": lambda p, u: "a" in p,
    "not ('a' in p and 'd' in p)": lambda p, u: not {"a", "d"} <= set(p),
    "('b' in p) or ('c' in p)": lambda p, u: bool({"b", "c"} & set(p)),
    "count('a' in p, 'b' in p, 'c' in p) <= u": lambda p, u: len(set(p) & set("abc")) <= u,
    "len(p) == u": lambda p, u: len(p) == u,
}


@given(st.sets(st.sampled_from(sorted(CONSTRAINTS)), max_size=3))
@settings(max_examples=25, deadline=None)
def test_constraints_count_and_draw_exactly(texts):
    parameter = Subset(["a", "b", "c", "d", "e"], 4)
    given = {"p": parameter, "u": [1, 2, 3]}
    expected = {
        (p, u)
        for p in values_of(parameter)
        for u in (1, 2, 3)
        if all(CONSTRAINTS[text](p, u) for text in texts)
    }
    if not expected:
        with pytest.raises(SpaceError):
            Space(given, constraints=sorted(texts))
        return
    space = Space(given, constraints=sorted(texts))
    assert space.feasible_size == len(expected)
    drawn = space.sample(200, seed=0)
    assert {(config["p"], config["u"]) for config in drawn} <= expected


def test_draws_are_uniform():
    parameter = Subset([f"e{i}" for i in range(6)], 3)
    for texts in ([], ["'e0' in p"]):
        space = Space({"p": parameter}, constraints=texts)
        drawn = [config["p"] for config in space.sample(4000, seed=1)]
        counts = np.unique([str(p) for p in drawn], return_counts=True)[1]
        mean = 4000 / int(space.feasible_size)
        assert len(counts) == space.feasible_size
        assert ((counts - mean) ** 2 / mean).sum() < 2.0 * len(counts)


def test_large_sets_are_counted_and_ranked_exactly():
    parameter = Subset(list(range(150)), 40)
    feasible = Space({"p": parameter}).feasible
    rows = feasible.sample(50, np.random.default_rng(0))
    ranks = np.array(feasible.index(rows), dtype=object)
    assert feasible.count > 2**64
    np.testing.assert_array_equal(sequences_from_ranks(ranks, parameter), rows)


def test_a_value_is_a_set_in_any_order():
    parameter = Subset(["x", "y", "z"], default={"z", "x"})
    assert parameter.default == ("x", "z")
    values = [("z", "x"), ["x", "z"], {"x", "z"}, frozenset(["z", "x"])]
    assert parameter.decode(parameter.encode(values)) == [("x", "z")] * 4
    assert not parameter.contains(("x", "x"))
    assert parameter.value_from_text("z,x") == ("x", "z")
    assert parameter_from_dict(parameter_to_dict(parameter)) == parameter


def test_an_optimizer_gives_sets_and_resumes(tmp_path):
    space = Space({"p": Subset(["a", "b", "c", "d"], 3), "u": [1, 2]}, constraints=["len(p) >= 1"])
    path = tmp_path / "run.jsonl"
    optimizer = Optimizer(space, seed=0, storage=path)
    for _ in range(6):
        trial = optimizer.suggest()
        optimizer.observe(trial, len(trial["p"]) + trial["u"])
    expected = Optimizer(space, seed=0)
    for trial in optimizer.trials:
        expected.observe(expected.suggest(), trial.value)
    assert Optimizer.load(path).suggest().config == expected.suggest().config
    again = {"p": {"d", "a"}, "u": 1}
    assert optimizer.claim(again).config["p"] == ("a", "d")


@pytest.mark.parametrize("text", ["pos(p, 'a') < 1", "first(p) == 'a'", "p[0] == 'a'"])
def test_functions_of_an_order_are_refused(text):
    with pytest.raises(ExpressionError, match="set without order"):
        Space({"p": Subset(["a", "b"])}, constraints=[text])


@pytest.mark.parametrize(
    ("sizes", "message"),
    [((3,), "max_size = 3"), ((2, 3), "min_size = 3"), ((0,), "max_size = 0")],
)
def test_wrong_sizes_are_refused(sizes, message):
    with pytest.raises(SpaceError, match=message):
        Subset(["a", "b"], *sizes)
