"""Constraints given as callables and as tables."""

import functools
import json
import math

import numpy as np
import pytest

from baco_like import Space
from baco_like.constraints import table
from baco_like.constraints.callables import from_callable
from baco_like.constraints.protocol import Constraint
from baco_like.exceptions import JournalError, SpaceError
from baco_like.optimizer import Optimizer
from baco_like.parameters import Categorical, Integer, Ordinal, Permutation, Real

PARAMETERS = {
    "x": Integer(0, 5),
    "y": Ordinal([0, 1, 2.5]),
    "s": Categorical(["a", "b"]),
    "o": Categorical([1, 1.0, True]),
    "p": Permutation(["i", "j", "k"]),
    "r": Real(0, 1),
}


def holds(constraint, configs):
    columns = {
        name: PARAMETERS[name].column(PARAMETERS[name].encode([config[name] for config in configs]))
        for name in constraint.parameters
    }
    return constraint.holds(columns).tolist()


class TestByName:
    def test_values_are_plain_python(self):
        seen = []
        constraint = from_callable(
            lambda x, y, s, o, p, r: seen.append((x, y, s, o, p, r)) or True, PARAMETERS
        )
        config = {"x": 3, "y": 0, "s": "b", "o": True, "p": ("k", "i", "j"), "r": 0.5}
        assert holds(constraint, [config]) == [True]
        assert seen == [(3, 0, "b", True, ("k", "i", "j"), 0.5)]
        assert [type(one) for one in seen[0]] == [int, int, str, bool, tuple, float]

    def test_each_distinct_row_is_asked_once(self):
        calls = []
        constraint = from_callable(lambda x, s: calls.append((x, s)) or x > 1, PARAMETERS)
        rows = [{"x": x % 3, "s": "a"} for x in range(300)]
        assert holds(constraint, rows) == [x % 3 > 1 for x in range(300)]
        holds(constraint, rows)
        assert sorted(calls) == [(0, "a"), (1, "a"), (2, "a")]

    def test_one_and_one_and_true_are_three_rows(self):
        constraint = from_callable(lambda o: o is True, PARAMETERS)
        given = [{"o": 1}, {"o": True}, {"o": 1.0}, {"o": True}]
        assert holds(constraint, given) == [False, True, False, True]

    @pytest.mark.parametrize(
        "function",
        [lambda x: 1 / x > 0, lambda x: math.exp(10_000 * x) > 0 and x > 0, lambda x: 5 % x >= 0],
    )
    def test_an_arithmetic_error_is_a_no(self, function):
        assert not all(holds(from_callable(function, PARAMETERS), [{"x": 0}, {"x": 1}]))

    def test_any_other_error_names_the_constraint_and_the_row(self):
        def typo(x):
            return x.nothing

        with pytest.raises(SpaceError, match=r"'typo' failed on \{'x': 2\}") as caught:
            holds(from_callable(typo, PARAMETERS), [{"x": 2}])
        assert isinstance(caught.value.__cause__, AttributeError)

    def test_defaults_that_are_no_parameters_are_kept(self):
        constraint = from_callable(lambda x, limit=3: x <= limit, PARAMETERS)
        assert constraint.parameters == ("x",)
        assert isinstance(constraint, Constraint)
        assert holds(constraint, [{"x": 3}, {"x": 4}]) == [True, False]
        assert from_callable(lambda x, s="a": True, PARAMETERS).parameters == ("x", "s")

    def test_other_callables(self):
        class Limit:
            def __call__(self, x):
                return x < 2

            def method(self, x, s):
                return x < 2

        assert from_callable(Limit(), PARAMETERS).parameters == ("x",)
        assert from_callable(Limit().method, PARAMETERS).parameters == ("x", "s")
        bound = functools.partial(lambda x, limit: x < limit, limit=2)
        assert holds(from_callable(bound, PARAMETERS), [{"x": 1}, {"x": 2}]) == [True, False]

    def test_explains_by_its_values(self):
        config = {"x": 2, "s": "a", "r": 0.5}
        assert from_callable(lambda s, x: False, PARAMETERS).explain(config) == "s = 'a', x = 2"

    def test_a_lambda_is_shown_by_what_it_says(self):
        assert from_callable(lambda x, s: x > 1, PARAMETERS).text == "lambda x, s: x > 1"
        least = 2
        outside = from_callable(lambda x: x > least, PARAMETERS)
        assert outside.text == "lambda x: x > least with least = 2"
        first, second = (from_callable(f, PARAMETERS).text for f in (lambda x: x > 1, lambda x: x < 1))  # fmt: skip
        assert first != second
        assert first.startswith("lambda x (code ")
        written = from_callable(eval("lambda x: x > 1"), PARAMETERS).text
        assert written == from_callable(eval("lambda x: x > 1"), PARAMETERS).text
        assert written != from_callable(eval("lambda x: x > 2"), PARAMETERS).text

    @pytest.mark.parametrize(
        ("function", "word"),
        [
            (lambda x, nothing: True, "'nothing', which is not a parameter"),
            (lambda x, *values: True, r"'\*values'"),
            (lambda x, **rest: True, r"'\*rest'"),
            (lambda x, s, /: True, "by position only"),
            (lambda x, /: True, "by position only"),
            (lambda: True, "no argument"),
            (lambda limit=3: True, "no argument"),
            (max, "cannot be inspected|is not a parameter|position"),
        ],
    )
    def test_refused(self, function, word):
        with pytest.raises(SpaceError, match=word):
            from_callable(function, PARAMETERS)


OUTSIDE = {"x": 1}


def reads_through_a_helper(p):
    return sum(p.values())


def reads_in_a_branch(p):
    if p["x"] > 2:
        return p["s"] == "a"
    return p["y"] < 2


def rebinds(p):
    p = {"x": 1, **p}
    return p["x"] > 1


def loops(p):
    return all(p[name] for name in ("x", "y"))


def nests(p):
    return max([p["x"] for _ in range(3)]) > 1


def looks_at_itself(p):
    return p["x"] > 1 and len(locals()) > 0


def writes(p):
    p["x"] = 3
    return p["x"] > 1


class TestMappings:
    @pytest.mark.parametrize(
        ("function", "names"),
        [
            (lambda p_: p_["x"] * p_["y"] <= 4, ("x", "y")),
            (lambda conf: conf["s"] == "a" and conf["x"] in (1, 2), ("s", "x")),
            (lambda conf: OUTSIDE["x"] < conf["y"], ("y",)),
            (reads_in_a_branch, ("x", "s", "y")),
        ],
    )
    def test_only_what_is_read_counts(self, function, names):
        parameters = {name: one for name, one in PARAMETERS.items() if name != "p"}
        assert from_callable(function, parameters).parameters == names

    @pytest.mark.parametrize(
        "function",
        [
            lambda c: c.get("x") == 1,
            lambda c: len(c) > 3,
            lambda c: c["x"] > 1 and reads_through_a_helper(c),
            lambda c, key="x": c[key] > 1,
            lambda c: True,
            lambda c: c["no such"] > 1,
            lambda c: (lambda: c["x"])() > 1,
            rebinds,
            loops,
            nests,
            looks_at_itself,
            writes,
        ],
    )
    def test_any_other_use_means_all(self, function):
        parameters = {name: one for name, one in PARAMETERS.items() if name != "p"}
        constraint = from_callable(function, parameters)
        if function is not nests:  # a later Python inlines the comprehension, and then sees the key
            assert constraint.parameters == tuple(parameters)

    def test_gets_every_parameter_as_a_plain_value(self):
        seen = []
        constraint = from_callable(lambda config: seen.append(dict(config)) or True, PARAMETERS)
        config = {"x": 3, "y": 2.5, "s": "b", "o": 1, "p": ("k", "i", "j"), "r": 0.5}
        assert holds(constraint, [config]) == [True]
        assert seen == [config]

    def test_a_wrapper_is_not_looked_through(self):
        def inner(conf):
            return conf["x"] > 1 and conf["y"] > 1

        @functools.wraps(inner)
        def outer(conf):
            return conf["x"] >= 0 and inner(dict(conf))

        assert from_callable(outer, PARAMETERS).parameters == tuple(PARAMETERS)


def test_a_misspelt_argument_is_not_taken_for_the_whole_configuration():
    space = {"tile": Ordinal([2, 4, 8]), "x": Ordinal([1, 2])}
    with pytest.raises(SpaceError, match="'tille', which is not a parameter; did you mean 'tile'"):
        from_callable(lambda tille: tille != 8, space)
    assert from_callable(lambda t: t["tile"] != 8, space).mapping
    assert from_callable(lambda config: config["tile"] != 8, space).mapping


def test_an_argument_that_is_no_parameter_is_named_where_it_fails():
    with pytest.raises(SpaceError, match="its argument is not a parameter's name"):
        Space({"a": [1, 2]}, [lambda z: z > 1])


def test_star_args_receive_the_values_in_the_order_of_the_space():
    space = Space({"b": [1, 2, 3], "a": [1, 2, 3], "c": ["x"]}, [lambda *args: args[0] < args[1]])
    assert sorted((c["b"], c["a"]) for c in space) == [(1, 2), (1, 3), (2, 3)]

    def rule(*values):
        return len(values) == 3 and values[2] == "x"

    assert Space({"b": [1, 2], "a": [1, 2], "c": ["x", "y"]}, [rule]).feasible_size == 4
    with pytest.raises(SpaceError, match=r"takes '\*rest'"):
        Space({"b": [1, 2]}, [lambda b, *rest: True])


# ---- Tables as constraints: written down, read back, refused ----


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
