"""Constraints and conditions on sequences: the language, and exact counts and draws, compared with enumeration."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baco_like import ExpressionError, Integer, Sequence, Space, SpaceError
from baco_like.constraints import Expression
from baco_like.constraints.language import exact
from baco_like.constraints.language.reader import read
from baco_like.constraints.language.writer import write

TEXTS = [
    "len(p) >= 2",
    "count(p, 'a') <= 1",
    "'a' in p",
    "'b' not in p",
    "pos(p, 'b') < pos(p, 'a')",
    "first(p) == 'a'",
    "p[1] != 'a'",
    "last(p) in ('a', 'b')",
    "p[-1] == p[0]",
    "follows(p, 'a', 'b')",
    "not follows(p, 'a', 'a')",
    "len(p) == 0 or 'c' in p",
    "count('a' in p, 'b' in p, len(p) > 1) == 1",
]
WITH_OTHERS = ["len(p) <= u", "count(p, 'a') == u or v", "('b' in p) == v", "u > 1"]


def value_of(text, p):
    """Return what Python gives for a text, with the functions of sequences; None if it is undefined."""
    functions = {
        "pos": lambda p, e: p.index(e) if e in p else len(p),
        "first": lambda p: p[0],
        "last": lambda p: p[-1],
        "follows": lambda p, a, b: (a, b) in itertools.pairwise(p),
        "count": lambda first, *rest: (
            first.count(*rest) if isinstance(first, tuple) else sum([first, *rest])
        ),
    }
    try:
        return bool(eval(text, {"p": p, **functions}))
    except IndexError:
        return False


@pytest.mark.parametrize("text", TEXTS)
def test_expressions_mean_what_python_says(text):
    parameter = Sequence(["a", "b", "c"], 3)
    expression = Expression(text, {"p": parameter})
    rows = Space({"p": parameter}).feasible.listed
    column = parameter.column(rows)
    values = parameter.decode(rows)
    expected = [value_of(text, p) for p in values]
    assert expression.holds({"p": column}).tolist() == expected
    assert any(expected)
    assert not all(expected)
    by_row = exact.function(expression._tree, ["p"])
    for own, wanted in zip(exact.row_values(parameter, column), expected, strict=True):
        try:
            assert bool(by_row([own])) == wanted
        except exact.UNDEFINED:
            assert not wanted
    written = write(expression._tree, {"p": parameter.elements})
    assert read(written, {"p": parameter}) == expression._tree


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p == 'a'", "'p' is a sequence; use len"),
        ("len(u) > 1", "len takes a sequence"),
        ("p[3] == 'a'", "places of 'p' are 0 to 2, or -1"),
        ("count(p, 'z') > 1", "'z' is not an element of 'p'"),
        ("p[u] == 'a'", "a constant is needed"),
        ("follows(p, 'a')", "takes a sequence and 2 more"),
        ("u[0] == 1", "subscripts are for sequences"),
        ("first(p) == 'z'", "never has the value 'z'"),
    ],
)
def test_wrong_expressions_are_explained(text, message):
    with pytest.raises((ExpressionError, SpaceError), match=message):
        Space({"p": Sequence(["a", "b", "c"], 3), "u": [1, 2]}, constraints=[text])


def rows_of(space):
    """Return all rows of codes of a space without its constraints, ``(n, w)``."""
    parts = []
    for parameter in space.parameters.values():
        parts.append(Space({"any": parameter}).feasible.listed)
    return np.array([np.concatenate(row) for row in itertools.product(*parts)])


def check(space):
    """Check membership, count, ranks and draws of a space against enumeration."""
    feasible, rows = space.feasible, rows_of(space)
    good = space.satisfied(rows) & (space.activity.at_rest(rows) == rows).all(axis=1)
    np.testing.assert_array_equal(feasible.contains(rows), good)
    assert feasible.count == good.sum()
    assert feasible.index(feasible.listed) == list(range(feasible.count))
    rng, n = np.random.default_rng(0), 3000
    counts = np.bincount(feasible.index(feasible.sample(n, rng)), minlength=feasible.count)
    assert abs(counts - n / feasible.count).max() < 6 * np.sqrt(n / feasible.count) + 6
    at = space.columns["p"]
    lengths = np.unique((rows[good][:, at] >= 0).sum(axis=1))
    drawn = feasible.spread(n, rng)
    assert feasible.contains(drawn).all()
    found = np.bincount((drawn[:, at] >= 0).sum(axis=1), minlength=lengths.max() + 1)[lengths]
    assert abs(found - n / len(lengths)).max() < 6 * np.sqrt(n / len(lengths))
    assert feasible.contains(feasible.nearest(rows[:: max(1, len(rows) // 20)], rng)).all()


@given(
    st.lists(st.sampled_from(TEXTS), max_size=3, unique=True),
    st.lists(st.sampled_from(WITH_OTHERS), max_size=2, unique=True),
    st.sampled_from([None, "'a' in p", "len(p) > 1"]),
    st.booleans(),
    st.integers(0, 1),
)
@settings(max_examples=25, deadline=None)
def test_counts_and_draws_are_those_of_enumeration(alone, others, when, distinct, shortest):
    parameters = {
        "p": Sequence(["a", "b", "c"], 3, shortest, distinct),
        "u": Integer(1, 2),
        "v": [False, True],
    }
    texts = [*alone, *others]
    conditions = {} if when is None else {"u": when}
    try:
        space = Space(parameters, constraints=texts or ["len(p) < 3"], when=conditions)
    except SpaceError as error:
        if "satisfi" in str(error) or "holds in no configuration" in str(error):
            return
        raise
    check(space)


def test_numbers_and_a_guarded_sequence_are_exact_or_drawn():
    check(Space({"p": Sequence([1, 2, 3], 3)}, constraints=["p[0] + p[1] <= 3"]))
    space = Space({"p": Sequence(["a", "b"], 3), "v": [1, 2]}, when={"p": "v == 2"})
    configs = space.sample(100)
    assert {len(config) for config in configs} == {1, 2}


def test_a_python_function_is_tested_on_draws():
    def ends_as_it_begins(p, u):
        return len(p) > u and p[0] == p[-1]

    space = Space(
        {"p": Sequence(["a", "b", "c"], 5), "u": [1, 2]},
        constraints=[ends_as_it_begins, "count(p, 'b') == 1"],
    )
    assert space.feasible_size is None
    for config in space.sample(20):
        assert config["p"][0] == config["p"][-1]
        assert config["p"].count("b") == 1


def test_rules_on_long_pipelines_are_counted():
    elements = [f"pass{i}" for i in range(52)]
    rules = [
        "'pass1' in p",
        "not follows(p, 'pass2', 'pass3')",
        "count(p, 'pass4') <= 2",
        "pos(p, 'pass1') < pos(p, 'pass2')",
    ]
    space = Space({"p": Sequence(elements, 30), "u": [1, 2]}, constraints=[*rules, "u < len(p)"])
    rows = space.feasible.sample(50, np.random.default_rng(0))
    assert space.satisfied(rows).all()
    assert space.feasible.unindex(space.feasible.index(rows)).tolist() == rows.tolist()
    assert 1e51 < space.feasible_size < sum(52**n for n in range(31)) * 2


def test_contradicting_rules_are_an_error():
    with pytest.raises(SpaceError, match="no configuration satisfies"):
        Space({"p": Sequence(["a", "b"], 3)}, constraints=["'a' in p", "count(p, 'a') == 0"])
