"""Sequences and sets: codes, ranks, draws, moves, distances and constraints, compared with enumeration."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like import (
    ExpressionError,
    Optimizer,
    RunFileError,
    Sequence,
    Space,
    SpaceError,
    Subset,
    integrations,
)
from baco_like.exceptions import ConfigError
from baco_like.parameters import distances
from baco_like.parameters.registry import parameter_from_dict, parameter_to_dict
from baco_like.parameters.sequence import sequences_from_ranks
from baco_like.spaces.formats.t1 import to_t1


@st.composite
def sequences(draw, most=4, longest=4):
    """Return a small sequence parameter."""
    k = draw(st.integers(1, most))
    distinct = draw(st.booleans())
    longest = draw(st.integers(1, min(longest, k) if distinct else longest))
    return Sequence(
        [f"e{i}" for i in range(k)], longest, draw(st.integers(0, longest)), distinct=distinct
    )


def values_of(parameter):
    """Return all values, the shortest first, by brute force."""
    lengths = range(parameter.min_length, parameter.max_length + 1)
    every = (v for n in lengths for v in itertools.product(parameter.elements, repeat=n))
    return [v for v in every if not parameter.distinct or len(set(v)) == len(v)]


@given(sequences())
def test_rows_counts_ranks_and_the_unit_scale_agree_with_enumeration(parameter):
    values = values_of(parameter)
    feasible = Space({"p": parameter}).feasible
    assert feasible.count == parameter.cardinality == len(values)
    rows = feasible.listed
    assert parameter.decode(rows) == values
    assert feasible.index(rows) == list(range(len(values)))
    assert parameter.legal(rows).all()
    np.testing.assert_array_equal(parameter.from_unit(parameter.to_unit(rows)), rows)


@given(sequences(most=3, longest=3), st.integers(0, 2**20))
def test_rows_that_are_no_sequences_are_refused(parameter, seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-1, len(parameter.elements), (50, parameter.width)).astype(np.float64)
    known = {tuple(row) for row in Space({"p": parameter}).feasible.listed.tolist()}
    expected = [tuple(row) in known for row in rows.tolist()]
    assert parameter.legal(rows).tolist() == expected
    feasible = Space({"p": parameter}).feasible
    near = feasible.nearest(rows, rng)
    assert parameter.legal(near).all()
    np.testing.assert_array_equal(near[expected], rows[expected])
    used = {code for column in range(parameter.width) for code in feasible.used(column)}
    assert used == {code for row in known for code in row}


@pytest.mark.parametrize("distinct", [False, True])
def test_draws_are_uniform_over_sequences_and_those_of_strategies_over_lengths(distinct):
    parameter = Sequence(list("abc"), 3, distinct=distinct)
    feasible = Space({"p": parameter}).feasible
    rng, n = np.random.default_rng(0), 8000
    counts = np.bincount(feasible.index(feasible.sample(n, rng)), minlength=feasible.count)
    assert abs(counts - n / feasible.count).max() < 5 * np.sqrt(n / feasible.count)
    rows = feasible.spread(n, rng)
    lengths = np.bincount((rows >= 0).sum(axis=1), minlength=4)
    assert abs(lengths - n / 4).max() < 5 * np.sqrt(n / 4)
    # Within a length, all sequences are equally likely.
    of_two = feasible.index(rows[(rows >= 0).sum(axis=1) == 2])
    _, counts = np.unique(of_two, return_counts=True)
    assert len(counts) == (6 if distinct else 9)
    expected = len(of_two) / len(counts)
    assert abs(counts - expected).max() < 5 * np.sqrt(expected)


def one_move(value, parameter):
    """Return the sequences after one move, by brute force."""
    n = len(value)
    moved = [value[:i] + value[i + 1 :] for i in range(n)]
    moved += [(*value[:i], e, *value[i:]) for i in range(n + 1) for e in parameter.elements]
    moved += [(*value[:i], e, *value[i + 1 :]) for i in range(n) for e in parameter.elements]
    for i, j in itertools.permutations(range(n), 2):
        rest = value[:i] + value[i + 1 :]
        moved.append((*rest[:j], value[i], *rest[j:]))
        swapped = list(value)
        swapped[i], swapped[j] = value[j], value[i]
        moved.append(tuple(swapped))
    return {v for v in moved if v != value and parameter.contains(v)}


@given(sequences(), st.integers(0, 2**20))
def test_neighbours_are_the_sequences_after_one_move(parameter, seed):
    codes = parameter.sample_uniform(3, np.random.default_rng(seed))
    rows, owner = parameter.neighbours(codes)
    found = parameter.decode(rows)
    for i, value in enumerate(parameter.decode(codes)):
        own = [v for v, o in zip(found, owner, strict=True) if o == i]
        assert len(own) == len(set(own))
        assert set(own) == one_move(value, parameter)


@given(sequences(longest=4), st.integers(0, 2**20))
def test_random_moves_and_children_are_sequences(parameter, seed):
    rng = np.random.default_rng(seed)
    mothers, fathers = (parameter.sample_uniform(40, rng) for _ in range(2))
    moved = parameter.change(mothers, rng)
    children = parameter.cross(mothers, fathers, rng)
    assert parameter.legal(moved).all()
    assert parameter.legal(children).all()
    for child, *parents in zip(*map(parameter.decode, (children, mothers, fathers)), strict=True):
        assert len(child) <= parameter.min_length or set(child) <= set().union(*parents)


def test_all_kinds_of_moves_occur_and_keep_what_they_do_not_change():
    parameter = Sequence(list("abcdef"), 12)
    rng = np.random.default_rng(3)
    own = ("a", "b", "c", "d", "e", "f")
    moved = parameter.decode(parameter.change(np.tile(parameter.encode([own]), (4000, 1)), rng))
    lengths = np.bincount([len(value) for value in moved], minlength=8)
    assert own not in moved
    assert 0.3 < lengths[7] / 4000 < 0.4
    assert 0.1 < lengths[5] / 4000 < 0.2
    rotated = own[1:] + own[:1], own[-2:] + own[:-2]
    assert all(value in moved for value in rotated)  # a block of one and of several elements
    assert any(sorted(value) == list(own) and value != own for value in moved)
    assert all(len(set(value)) >= 5 for value in moved)


@given(st.lists(st.tuples(*[st.lists(st.sampled_from("abc"), max_size=5)] * 2), min_size=1))
def test_levenshtein_is_that_of_the_textbook(pairs):
    def textbook(a, b):
        if not a or not b:
            return len(a) + len(b)
        return min(
            textbook(a[1:], b) + 1, textbook(a, b[1:]) + 1, textbook(a[1:], b[1:]) + (a[0] != b[0])
        )

    parameter = Sequence(list("abc"), 5)
    left, right = (parameter.encode(side) for side in zip(*pairs, strict=True))
    found = distances.levenshtein(left, right)
    assert found.shape == (len(pairs), len(pairs))
    for i, (a, b) in enumerate(pairs):
        assert found[i, i] == textbook(a, b)
    np.testing.assert_array_equal(distances.levenshtein(right, left), found.T)


@pytest.mark.parametrize("text", ["", "()", "[]", [], ()])
def test_the_empty_sequence_is_read_from_text(text):
    assert Sequence(list("abc"), 3).value_from_text(text) == ()
    assert Sequence(list("abc"), 3, min_length=1).value_from_text(text) is None


def test_elements_with_commas_are_read_from_text():
    parameter = Sequence(["function(gvn,licm)", "gvn", "dce", 3], 4)
    expected = ("gvn", "function(gvn,licm)", 3)
    assert parameter.value_from_text("gvn,function(gvn,licm),3") == expected
    assert parameter.value_from_text("('gvn', 'function(gvn,licm)', 3)") == expected
    assert parameter.value_from_text("gvn,unknown") is None
    assert parameter.value_from_text(list(expected)) == expected


def test_values_outside_the_domain_are_refused():
    parameter = Sequence(list("abc"), 3, distinct=True)
    for value in [("a", "a"), ("a",) * 4, ("z",), "ab", None, ("a", None)]:
        assert not parameter.contains(value)
    with pytest.raises(ConfigError, match="0 to 3 distinct elements"):
        parameter.encode([("z",)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a", "a"], 3), "'a' occurs twice"),
        (([], 3), "is empty"),
        ((["a"], 0), "max_length = 0"),
        ((["a"], 2.5), "max_length must be a whole number"),
        ((["a"], 2, 3), "min_length = 3, max_length = 2"),
        ((["a", "b"], 3, 0, True), "write max_length = 2"),
        ((["a"], 2, 0, "yes"), "distinct must be true or false"),
        ((["a"], 2, 0, False, ["b"]), "default"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(SpaceError, match=message):
        Sequence(*arguments)


def test_long_pipelines_of_many_passes_are_counted_and_drawn():
    parameter = Sequence([f"pass{i}" for i in range(300)], 60)
    space = Space({"passes": parameter, "u": [1, 2]})
    assert space.feasible_size == 2 * sum(300**n for n in range(61))
    assert parameter_from_dict(parameter_to_dict(parameter)) == parameter
    rows = space.feasible.sample(20, np.random.default_rng(0))
    np.testing.assert_array_equal(space.feasible.unindex(space.feasible.index(rows)), rows)
    assert np.mean(rows[:, :60] >= 0) > 0.95
    assert 0.3 < np.mean(space.feasible.spread(200, np.random.default_rng(0))[:, :60] >= 0) < 0.7


# ---- Spaces with a sequence: formats and tools that cannot hold it say the way out ----


SPACE = Space({"passes": Sequence(["gvn", "loop(a,b)", "dce"], 4), "u": [1, 2, 4, 8]})


def test_formats_without_sequences_say_so(tmp_path):
    finished = Optimizer(SPACE, strategy="random_search")
    finished.observe(finished.suggest(), 1.0)
    frame = finished.to_dataframe()
    assert len(Optimizer(SPACE, strategy="random_search", warm_start=frame).history) == 1
    finished.ship("json", tmp_path / "best.json")
    assert "passes" in (tmp_path / "best.json").read_text()
    with pytest.raises(RunFileError, match="ship it as json or as python"):
        finished.ship("c", tmp_path / "best.h")
    with pytest.raises(SpaceError, match="a Sequence has no such list"):
        to_t1(SPACE)


def test_tools_without_sequences_say_so():
    pytest.importorskip("optuna")
    pytest.importorskip("ConfigSpace")
    with pytest.raises(SpaceError, match="no distribution for Sequence; use Optimizer"):
        integrations.optuna_distributions(SPACE)
    with pytest.raises(SpaceError, match="has no Sequence; keep the space by"):
        integrations.to_configspace(SPACE)


# ---- Sets of elements: codes, ranks, draws, moves and constraints, compared with enumeration ----


@st.composite
def subsets(draw):
    """Return a small subset parameter."""
    k = draw(st.integers(1, 5))
    largest = draw(st.integers(1, k))
    return Subset([f"e{i}" for i in range(k)], largest, draw(st.integers(0, largest)))


def subsets_of(parameter):
    """Return all values, the smallest first, by brute force."""
    sizes = range(parameter.min_size, parameter.max_size + 1)
    return [v for n in sizes for v in itertools.combinations(parameter.elements, n)]


@given(subsets(), st.integers(0, 2**20))
def test_a_subset_agrees_with_enumeration(parameter, seed):
    rng = np.random.default_rng(seed)
    values = subsets_of(parameter)
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
def test_neighbours_differ_in_one_element_or_in_one_pair(parameter, seed):
    values = subsets_of(parameter)
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
def test_constraints_count_and_draw_exactly(texts):
    parameter = Subset(["a", "b", "c", "d", "e"], 4)
    given = {"p": parameter, "u": [1, 2, 3]}
    expected = {
        (p, u)
        for p in subsets_of(parameter)
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
