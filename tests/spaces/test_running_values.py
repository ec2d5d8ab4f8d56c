"""Sums, products, counts and tables of many parameters: exact counts, against brute force and closed forms."""

import itertools
import math
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from baco_like import ExpressionError, Integer, Sequence, Space, SpaceError, Subset
from baco_like.constraints import Expression
from baco_like.constraints.language import exact
from baco_like.constraints.language.reader import read
from baco_like.constraints.language.writer import write
from baco_like.exceptions import SpaceWarning
from baco_like.spaces.feasible import machines, rules, tree_builder, work_limit
from baco_like.spaces.feasible.filtered import Filtered
from baco_like.spaces.neighbourhoods import hamming, nearest

FLAGS = {f"p{i}": [False, True] for i in range(300)}
ALL = ", ".join(FLAGS)


def check(space, total, tried=200):
    """Check the count of a space, its draws, and their indices."""
    assert space.feasible.count == total
    rows = space.feasible.sample(tried, np.random.default_rng(0))
    assert space.feasible.contains(rows).all()
    assert space.satisfied(rows).all()
    assert np.array_equal(space.feasible.unindex(space.feasible.index(rows)), rows)


class TestClosedForms:
    @pytest.mark.parametrize(
        ("text", "total"),
        [
            (f"sum({ALL}) <= 20", sum(math.comb(300, k) for k in range(21))),
            (f"{ALL.replace(', ', ' + ')} == 20", math.comb(300, 20)),
            (f"count({ALL}) % 2 == 1", 2**299),
            (f"abs(sum({ALL}) - 150) == 149", 2 * 300),
            (f"max({ALL}) == 1", 2**300 - 1),
        ],
    )
    def test_three_hundred_flags(self, text, total):
        check(Space(FLAGS, [text]), total)

    @pytest.mark.parametrize("whole", ["1024 % ({}) == 0", "0 == 1024 % ({})"])
    def test_tile_factors(self, whole):
        tiles = {f"t{i}": Integer(1, 1024) for i in range(3)}
        check(Space(tiles, [whole.format("t0 * t1 * t2")]), math.comb(13, 3))

    def test_products_of_three_hundred_factors_beyond_64_bits(self):
        factors = {f"t{i}": [1, 2, 4, 7] for i in range(300)}
        text = " * ".join(factors)
        check(
            Space(factors, [f"{text} == {2**70}"]),
            sum(
                math.comb(300, fours) * math.comb(300 - fours, 70 - 2 * fours)
                for fours in range(36)
            ),
        )

    def test_both_sides_of_a_comparison(self):
        left, right = [[f"{side}{i}" for i in range(20)] for side in "ab"]
        space = Space(
            {name: [0, 1] for name in left + right},
            [f"sum({', '.join(left)}) == sum({', '.join(right)})"],
        )
        check(space, math.comb(40, 20))

    def test_other_constraints_of_the_same_parameters(self):
        pairs = [f"not (p{2 * i} and p{2 * i + 1})" for i in range(150)]
        total = sum(math.comb(150, k) * 2**k for k in range(11))
        check(Space(FLAGS, [*pairs, f"sum({ALL}) <= 10"]), total)

    def test_a_sum_applies_only_where_its_parameters_are_active(self):
        parameters = {"mode": ["a", "b"], **FLAGS}
        space = Space(parameters, [f"sum({ALL}) <= 2"], when={"p7": "mode == 'a'"})
        check(space, sum(math.comb(300, k) for k in range(3)) + 2**299)

    def test_three_hundred_conditional_parameters(self):
        parameters = {"mode": ["a", "b"], **FLAGS}
        when = dict.fromkeys(FLAGS, "mode == 'a'")
        check(Space(parameters, [f"sum({ALL}) == 2"], when=when), math.comb(300, 2) + 1)


TERMS = ["{}", "2 * {}", "-{}", "{} // 2", "({} > 2)", "({} - 3) ** 2", "0.5 * {}"]
CONDITIONS = [
    "{} <= 7", "{} > 2", "3 <= {} < 9", "{} == 6", "6 == {}", "{} != 4", "{} % 3 == 1", "60 % ({}) == 0",
    "-12 % ({}) == 0", "{} in (2, 3, 5)", "not {} > 5", "abs({} - 4) <= 2", "{} * 2 - 1 >= 4", "{} < 2.5",
    "{} // 2 == 1",
]  # fmt: skip
JOINS = [" + ", " * ", " - ", "min", "max", "count"]


@st.composite
def folds(draw, names):
    """Draw a condition on one sum, product, count, least or greatest value."""
    join = draw(st.sampled_from(JOINS))
    own = draw(st.lists(st.sampled_from(names), min_size=2, max_size=4))
    terms = TERMS[:-1] if join == " * " else TERMS
    used = [draw(st.sampled_from(terms)).format(name) for name in own]
    used += draw(st.lists(st.sampled_from(["1", "2"]), max_size=1))
    whole = join.join(used) if join.strip() != join else f"{join}({', '.join(used)})"
    if draw(st.integers(0, 9)) == 0:
        return f"{whole} <= {draw(st.sampled_from(names))} + 3"
    return draw(st.sampled_from(CONDITIONS)).format(f"({whole})")


@given(st.data())
def test_random_folds_against_brute_force(data):
    names = [f"x{i}" for i in range(data.draw(st.integers(2, 5)))]
    parameters = {
        name: sorted(data.draw(st.sets(st.integers(0, 6), min_size=1, max_size=4)))
        for name in names
    }
    texts = [data.draw(folds(names)) for _ in range(data.draw(st.integers(1, 3)))]
    when = {}
    if len(names) > 2 and data.draw(st.booleans()):
        when = {"x1": "x0 > 2"}
        if data.draw(st.booleans()):
            when["x2"] = "x1 < 4"
    with patch.object(rules, "TABLE_LIMIT", 0):
        try:
            space = Space(parameters, texts, when=when)
        except SpaceError as error:
            space, message = None, str(error)
    everything = itertools.product(*parameters.values())
    conditions = {n: compile(c, "", "eval") for n, c in when.items()}
    wanted = set()
    for row in everything:
        config = dict(zip(names, row, strict=True))
        for name in when:
            parent = "x0" if name == "x1" else "x1"
            if parent not in config or not eval(conditions[name], {}, config):
                config.pop(name)
        if all(holds(text, config, names) for text in texts):
            wanted.add(tuple(config.items()))
    if space is None:
        assert not wanted or "holds in no configuration" in message
        return
    assert {tuple(config.items()) for config in space} == wanted
    assert space.feasible.count == len(wanted)


def holds(text, config, names):
    """Whether a constraint holds by Python, or is not applied."""
    read = [name for name in names if name in text]
    if not all(name in config for name in read):
        return True
    try:
        return bool(eval(text, {"count": lambda *conditions: sum(map(bool, conditions))}, config))
    except ArithmeticError:
        return False


def test_the_running_value_of_a_sum_of_fractions_is_exact_or_not_used():
    parameters = {f"x{i}": [0, 1] for i in range(5)}
    for weight, used in ((0.25, True), (0.1, False)):
        text = f"{' + '.join(f'{weight} * {name}' for name in parameters)} <= {2 * weight + weight}"
        with patch.object(rules, "TABLE_LIMIT", 0):
            space = Space(parameters, [text])
        wanted = sum(eval(text, {}, config) for config in Space(parameters))
        assert space.feasible.count == wanted
        domains = [rules.list_domain(*item) for item in space.parameters.items()]
        states = machines.count_states(rules.bind(space.constraints[0], domains))
        assert (states is not None) is used


def test_a_fold_prunes_before_its_last_parameter(monkeypatch):
    edges = []
    extend = tree_builder._Layer.extend

    def count(*args):
        found = extend(*args)
        edges.append(len(found[0]))
        return found

    monkeypatch.setattr(tree_builder._Layer, "extend", count)
    Space(
        {f"t{i}": Integer(1, 1024) for i in range(8)},
        ["2**20 % (" + "*".join(f"t{i}" for i in range(8)) + ") == 0"],
    )
    assert sum(edges) < 2000


class TestTables:
    def frame(self, n, d, k, seed=0):
        pd = pytest.importorskip("pandas")
        rows = np.random.default_rng(seed).integers(0, k, (n, d))
        table = pd.DataFrame(rows, columns=[f"c{i}" for i in range(d)])
        return table, rows

    def test_random_rows_of_many_columns(self):
        table, _ = self.frame(3000, 17, 100)
        space = Space.from_dataframe(table)
        check(space, 3000)
        assert {tuple(row) for row in space.feasible.listed.tolist()} == {
            tuple(row) for row in space.encode(table.to_dict("records")).tolist()
        }
        others = np.random.default_rng(1).integers(0, 100, (50, 17)).astype(float)
        assert not space.feasible.contains(others).any()
        codes = space.encode(table[:2].to_dict("records"))
        assert not len(hamming(space, codes, np.random.default_rng(0))[1])
        found = nearest(space, others[:2], np.random.default_rng(0))
        for row, other in zip(found, others[:2], strict=True):
            distance = np.abs(space.feasible.listed - other).sum(axis=1)
            assert np.abs(row - other).sum() == distance.min()

    def test_mixed_types_and_further_constraints(self):
        rng = np.random.default_rng(0)
        values = ["a", 1, 1.5, True], [0.1, 0.25, 7.5], [True, False], [*range(40)], [*range(60)]
        columns = [[some[k] for k in rng.integers(0, len(some), 2500).tolist()] for some in values]
        names = [f"c{i}" for i in range(5)]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        plain = Space.from_dataframe(rows)
        extra = ["c3 + c4 <= 50", "c0 != 'a' or c2", "c1 * 2 > 0.3"]
        space = Space(
            {**plain.parameters, "new": [1, 2, 3]}, [*plain.constraints, *extra, "new * c3 < 60"]
        )
        wanted = {
            (*((type(v), v) for v in row.values()), new)
            for row in rows
            for new in (1, 2, 3)
            if row["c3"] + row["c4"] <= 50
            and (row["c0"] != "a" or row["c2"])
            and row["c1"] * 2 > 0.3
            and new * row["c3"] < 60
        }
        check(space, len(wanted))
        assert {
            (*((type(v), v) for v in list(config.values())[:-1]), config["new"]) for config in space
        } == wanted

    def test_two_tables_with_other_orders_and_a_sum(self):
        first, rows = self.frame(2000, 5, 12)
        one = Space.from_dataframe(first).constraints[0]
        second = first[["c3", "c1", "c4", "c0"]][:900]
        two = Space.from_dataframe(second).constraints[0]
        space = Space(
            Space.from_dataframe(first).parameters, [two, one, "c0 + c1 + c2 + c3 + c4 <= 25"]
        )
        kept = {tuple(row[[3, 1, 4, 0]]) for row in rows[:900]}
        wanted = {
            tuple(row) for row in rows if tuple(row[[3, 1, 4, 0]]) in kept and row.sum() <= 25
        }
        assert {tuple(config.values()) for config in space} == wanted

    def test_a_table_that_applies_only_where_a_parameter_is_active(self):
        table, rows = self.frame(300, 3, 40)
        plain = Space.from_dataframe(table)
        space = Space(
            {"mode": ["a", "b"], **plain.parameters}, plain.constraints, when={"c1": "mode == 'a'"}
        )
        sizes = [len(set(column)) for column in rows.T]
        check(space, len(set(map(tuple, rows))) + sizes[0] * sizes[2])


class TestCallables:
    def test_too_many_combinations_are_drawn_with_a_warning(self, monkeypatch):
        monkeypatch.setattr(work_limit, "LISTING", 2**20)
        n = 40
        with pytest.warns(
            SpaceWarning, match=r"40 parameters with too many .* 'sum\(a, b, c\) <= 10'"
        ):
            space = Space(
                {f"p{i}": [0, 1] for i in range(n)},
                [lambda p: sum(p[f"p{i}"] for i in range(n)) <= 20],
            )
        assert isinstance(space.feasible.factors[0], Filtered)
        assert sum(space.sample(1)[0].values()) <= 20

    def test_the_number_of_calls_is_bounded_and_failure_says_what_to_write(self, monkeypatch):
        monkeypatch.setattr(work_limit, "LISTING", 2**22)
        monkeypatch.setattr(work_limit, "DRAWING", 2**22)
        monkeypatch.setattr(work_limit, "EXPLAINING", 2**20)
        calls = []

        def never(p):
            calls.append(len(p))
            return False

        with pytest.raises(
            SpaceError, match=r"all violate 'never'.*Python function.*'sum\(a, b, c\)"
        ):
            Space({f"p{i}": [0, 1] for i in range(100)}, [never])
        assert len(calls) < 2**23 / 1000

    def test_a_callable_beside_a_sum_keeps_the_sum_exact(self, monkeypatch):
        monkeypatch.setattr(work_limit, "LISTING", 2**27)
        constraints = [lambda p: sum(p.values()) % 3 != 0, f"sum({ALL}) <= 10"]
        with pytest.warns(SpaceWarning, match="too many combinations"):
            space = Space(FLAGS, constraints)
        assert space.acceptance > 0.5
        (factor,) = space.feasible.factors
        assert factor.superset.count == sum(math.comb(300, k) for k in range(11))

    def test_slow_calls_are_warned_about(self, monkeypatch):
        clock = itertools.count(0.0, 0.1)
        monkeypatch.setattr("baco_like.constraints.callables.perf_counter", lambda: next(clock))
        with pytest.warns(SpaceWarning, match=r"takes 3.12 ms for one configuration"):
            Space({"a": list(range(8)), "b": list(range(8))}, [lambda a, b: a != b])


# ---- Constraints and conditions on sequences: the language, and exact counts and draws, compared with enumeration ----


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


def check_by_enumeration(space):
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
    check_by_enumeration(space)


def test_numbers_are_exact():
    check_by_enumeration(Space({"p": Sequence([1, 2, 3], 3)}, constraints=["p[0] + p[1] <= 3"]))


def values_of(given):
    """Return the values of a sequence, a set or a list in plain Python."""
    if not isinstance(given, Sequence):
        return list(given)
    draw = itertools.combinations if isinstance(given, Subset) else itertools.product
    sizes = range(given.min_length, given.max_length + 1)
    repeats = [{"r": size} if isinstance(given, Subset) else {"repeat": size} for size in sizes]
    return [value for size in repeats for value in draw(given.elements, **size)]


ONE = Subset(["a", "b"], 1, 1)

# Text, the conditional parameters that it reads, and its meaning in plain Python.
GUARDED_RULES = [
    ("len(p) <= u", "p", lambda p, u, **_: len(p) <= u),
    ("'a' in p or u == 2", "p", lambda p, u, **_: "a" in p or u == 2),
    ("len(q) + len(p) < 4", "pq", lambda p, q, **_: len(q) + len(p) < 4),
    ("('a' in p) == ('b' in q)", "pq", lambda p, q, **_: ("a" in p) == ("b" in q)),
    ("u != 1 or mode != 'y'", "", lambda u, mode, **_: u != 1 or mode != "y"),
]


@given(
    st.lists(st.sampled_from(GUARDED_RULES), max_size=2, unique_by=lambda rule: rule[0]),
    st.sampled_from([None, Subset(list("abc"), 2), Sequence(["b", "c"], 2, 1), ONE]),
    st.sampled_from([Subset(list("abc"), default=("b",)), Sequence(["a", "b"], 3, 1), ONE]),
    st.sampled_from(["mode == 'x'", "'a' in p", "len(p) > 1"]),
)
@example([], ONE, ONE, "mode == 'x'")
def test_conditional_sequences_are_counted_and_drawn_as_enumerated(rules, second, first, when):
    parameters = {"mode": ["x", "y", "z"], "u": [1, 2], "p": first}
    conditions = {"p": "mode == 'y'"}
    if second is not None:
        parameters["q"], conditions["q"] = second, when
    rules = [rule for rule in rules if second is not None or "q" not in rule[1]]
    found = {}
    for row in itertools.product(*map(values_of, parameters.values())):
        config = dict(zip(parameters, row, strict=True))
        if config["mode"] != "y":
            del config["p"]
        met = {
            "mode == 'x'": config["mode"] == "x",
            "'a' in p": "a" in config.get("p", ()),
            "len(p) > 1": len(config.get("p", ())) > 1,
        }
        if second is not None and not met[when]:
            del config["q"]
        applied = (holds(**config) for _, read, holds in rules if config.keys() >= set(read))
        found[repr(config)] = config, all(applied)
    space = Space(parameters, [text for text, *_ in rules], when=conditions)
    feasible = [config for config, good in found.values() if good]
    assert space.size == len(found)
    assert space.feasible_size == len(feasible)
    assert sorted(map(repr, space)) == sorted(map(repr, feasible))
    check(space, len(feasible))
    ranks = space.feasible.index(space.feasible.sample(3000, np.random.default_rng(0)))
    expected = 3000 / len(feasible)
    counts = np.bincount(ranks, minlength=len(feasible))
    assert abs(counts - expected).max() < 6 * np.sqrt(expected) + 6


@pytest.mark.parametrize("second", [{}, {"q": Sequence(["b", "c"], 3)}])
def test_strategies_meet_the_inactive_sequence_as_often_as_its_condition_is_false(second):
    parameters = {"mode": ["x", "y"], "p": Subset(list("abcdefghij")), **second}
    when = dict.fromkeys(["p", *second], "mode == 'y'")
    space = Space(parameters, ["'a' in p or 'b' in p"], when=when)
    rows = space.feasible.spread(1000, np.random.default_rng(0))
    assert space.feasible.contains(rows).all()
    active = space.activity.where("p", rows)
    assert 300 < active.sum() < 600  # half the draws, less those rejected; uniform draws: 99 %
    sizes = np.bincount((rows[active][:, space.columns["p"]] >= 0).sum(axis=1), minlength=11)
    assert sizes[10] > 3 * active.sum() / 2**10 * 10  # uniform draws seldom have all elements


def test_a_conditional_sequence_of_many_values_is_drawn():
    space = Space({"p": Sequence(["a", "b"], 12), "v": [1, 2]}, when={"p": "v == 2"})
    assert space.feasible_size is None
    configs = space.sample(100)
    assert 25 < sum("p" in config for config in configs) < 75


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
