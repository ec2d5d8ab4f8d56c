"""Texts from strangers: none is run, each is refused after bounded work. And the package has no way to run one."""

import ast
import contextlib
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import baco_like
from baco_like import Real, Space, SpaceError
from baco_like.constraints.expression import Expression
from baco_like.exceptions import ExpressionError
from baco_like.parameters import Categorical, Integer, Permutation
from baco_like.spaces.feasible import tree_builder, work_limit
from baco_like.spaces.feasible.conflict import quote
from baco_like.spaces.formats.baco import from_numexpr, read_baco
from baco_like.spaces.formats.t1 import MAX_STEPS, list_of, read_t1

PARAMETERS = {
    "x": Integer(0, 9),
    "y": Integer(0, 9),
    "s": Categorical(["a", "b"]),
    "p": Permutation(["i", "j"]),
}

MARK = "baco_like_was_here"
WRITES = f"__import__('builtins').__dict__.setdefault('{MARK}', 1)"

# fmt: off
CALLS = [
    WRITES, f"setattr(__builtins__, '{MARK}', 1)", f"exec('import builtins; builtins.{MARK} = 1')",
    f"eval('setattr(x, {MARK!r}, 1)')", "__import__('os').system('true')", "open('/etc/passwd').read()", "print(x)",
    "input()", "breakpoint()", "globals()", "locals()['x']", "vars()", "dir()", "getattr(x, '__class__')",
    "type(x)", "compile('1', '', 'eval')", "sum(v for v in (x, y))", "len('a' * 10**9)", "str(x)", "bytes(10**10)",
    "list(range(10**12))", "sorted(range(10**9))", "pow(9, 9**9)", "divmod(x, y)", "map(abs, (x, y))", "iter(x)",
    "memoryview(b'a')", "super()", "object()", "exit()", "quit()", "help()", "abs.__call__(x)",
    "min(x, y, key=print)", "max(*(x, y))", "abs(**{'x': 1})", "(lambda: x)()", "(abs)(x)(y)", "p('i')", "'a'()",
    "5()",
]
ATTRIBUTES = [
    "x.__class__", "x.real", "().__class__.__bases__[0].__subclasses__()", "''.__class__.__mro__[1]",
    "(1).__class__", "s.upper() == 'A'", "s.format(x)", "'{0.__class__}'.format(x)", "p.elements", "abs.__self__",
    "x.y.z", "__builtins__.x", "(x, y).count(x)", "[].append(x)", "{}.get(x)", "np.prod(x)", "math.pi > x",
    "True.real",
]
SYNTAX = [
    "lambda: x", "[x for x in (1, 2)]", "{x for x in (1, 2)}", "{x: y for x in (1, 2)}", "(x for x in (1, 2))",
    "[x async for x in y]", "f'{x}'", "f'{__import__(\"os\")}' == s", "x[0]", "x[0:1]", "p[...]", "(x := 5)",
    "await x", "yield x", "(yield)", "*x", "**x", "x; y", "x\ny", "import os", "from os import system", "x = 5",
    "x += 5", "del x", "assert x", "raise x", "return x", "pass", "def f(): pass", "class A: pass",
    "for x in y: pass", "while x: pass", "with x: pass", "try: x\nexcept: y", "global x", "@x", "x if y", "x is y",
    "x is not y", "x @ y", "x == ...", "x == 1j", "x == b'a'", "x == {}", "x == {'a': 1}", "x in {'a': 1}",
    "x in y", "x in s", "x in 'ab'", "x == [1]", "-[1]", "not ()", "(1, 2)", "()", "[]", "print", "__name__ == 'a'",
    "__builtins__", "__import__", "unknown > 1", "x.", ".x", "x..y", "$x", "x ? y : z", "x && y", "x || y", "!x",
    "`x`", "x <> y", "'unterminated", "'''x", "((x)", "x)", "\\", "# nothing", "", " ", "\t\n", "\x0c", "x\0", "\0",
    "x > 1 \u202e", "\ud800 > x", "x > \uff11\u0000", "x\u00a0> \u2003",
]
WORK = [
    "x < 9**9**9", "x < 9**9**9**9", "x < 2**2**2**2**2**2", "x < 10**10**10 % 7", "x < (10**4000) * (10**4000)",
    "x < " + "9" * 5000, "x < 1e999", "x < 2.0**99999", "x < -(9**99999)", "x == 'a' * 10**10",
    "x in range(10**12, 0, 0)", "x in (1,) * 10**10", "x" * 20_000, "x > " + "1" * 1_000_000,
    "x + " * 300_000 + "x", "(" * 10_000 + "x" + ")" * 10_000, "(" * 101 + "x" + ")" * 101, "[" * 5000, "{" * 300,
    "-" * 9000 + "x", "not " * 2000 + "x", "~" * 5000 + "x", "x" + "**x" * 2000, "x" + "+x" * 2000,
    "x" + "-(x" * 110 + ")" * 110 + "+x" * 200, "x" + "/x" * 200, "x" + ".x" * 2000, "x" + "[0]" * 1000,
    "x" + "()" * 1000, "x if x else " * 800 + "x", "lambda: " * 1200 + "x", "abs(" * 150 + "x" + ")" * 150,
    "x\n" * 3000, "\n" * 9000 + "x y", "'" * 9999, "\\\n" * 3000, "1_" * 3000, "0x" + "f" * 8000 + " > x",
]
# fmt: on
HOSTILE = CALLS + ATTRIBUTES + SYNTAX + WORK

MOST_CALLS = 60_000
"""Python and built-in calls that reading any text may cost; an honest expression costs some hundred."""


def refused(read, text, error, most=MOST_CALLS):
    """Read a text that must be refused, counting every call that is made on the way."""
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        with pytest.raises(error) as caught:
            read(text)
    finally:
        sys.setprofile(before)
    assert calls < most
    assert not hasattr(__builtins__, MARK)
    assert MARK not in dir(__import__("builtins"))
    assert len(str(caught.value)) < 600
    return caught.value


def short(text):
    return ascii(text[:30])


@pytest.mark.parametrize("text", HOSTILE, ids=short)
def test_no_hostile_constraint_is_accepted(text):
    error = refused(lambda t: Expression(t, PARAMETERS), text, ExpressionError)
    assert error.position >= 1


@pytest.mark.parametrize("text", HOSTILE, ids=short)
def test_no_hostile_numexpr_is_accepted(text):
    refused(lambda t: from_numexpr(t, PARAMETERS), text, ExpressionError)


# fmt: off
LISTS = [
    *(f"[{text}]" for text in CALLS if text not in ("list(range(10**12))", "sorted(range(10**9))")),
    WRITES, "[i for i in range(10**12)]", "[i for i in range(10**7)]", "list(range(10**9))", "range(10**18)",
    "range(10**30)", "sorted(range(10**9))", "[0 for i in range(1000) for j in range(1000) for k in range(1000)]",
    "[i for i in range(10**5) for j in range(10**5) if False]", "[[0] * 10**9]", "[0] * 10**9", "[1, 2][0]",
    "[9**9**9]", "[i**i**i for i in range(10)]", "[x]", "[i for i in x]", "[i for i, j in [(1, 2)]]",
    "[i async for i in [1]]", "[i.real for i in [1]]", "[(i := 1)]", "[i for i in [1] if __import__('os')]", "[1j]",
    "[b'a']", "[lambda: 1]", "[f'{1}']", "[*range(3)]", "{1: 2}", "5", "'abc'", "[1 / 0]", "[-'a']",
    "['a' * 10**10]", "['%01000000000d' % 5]", "['a' + 'b']", "[1, 2", "", "[" * 5000, "[1, " * 5000,
    "[-" + "-" * 5000 + "1]", "[1] + " * 200 + "[1]", "[\0]", "list(list(range(10**8)))",
    "[i for i in range(99999)] + [i for i in range(99999)]",
]
# fmt: on


@pytest.mark.parametrize("text", LISTS, ids=short)
def test_no_hostile_list_is_accepted(text):
    refused(list_of, text, SpaceError, most=15 * MAX_STEPS)


def t1(values="[1, 2]", **condition):
    entry = {"Name": "x", "Type": "int", "Values": values}
    conditions = [condition] if condition else []
    return {"ConfigurationSpace": {"TuningParameters": [entry], "Conditions": conditions}}


@pytest.mark.parametrize("text", [*LISTS, "[" * 90 + "]" * 90], ids=short)
def test_no_hostile_values_pass_in_a_file(text):
    with pytest.raises(SpaceError, match="'x'"):
        read_t1(t1(values=text))


@pytest.mark.parametrize("text", CALLS + ATTRIBUTES, ids=short)
def test_no_hostile_condition_passes_in_a_file(text):
    with pytest.raises(SpaceError):
        read_t1(t1(Expression=text, Parameters=["x"]))
    scenario = {"x": {"parameter_type": "integer", "values": [0, 9], "constraints": [text]}}
    with pytest.raises(SpaceError):
        read_baco({"input_parameters": scenario})


@settings(max_examples=150)
@given(st.text(max_size=60) | st.text("xyspab01239()[]+-*/%<>=!&|~.,:'\" \n", max_size=60))
def test_any_text_is_accepted_or_refused_in_our_words(text):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for read, error in [
            (lambda t: Expression(t, PARAMETERS), ExpressionError),
            (list_of, SpaceError),
        ]:
            with contextlib.suppress(error):
                read(text)


@settings(max_examples=80)
@given(st.data())
def test_broken_files_are_refused_in_our_words(data):
    json = st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-3, 3)
        | st.floats()
        | st.text("ab[]x01", max_size=6),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
        ),
        max_leaves=12,
    )
    broken = data.draw(st.dictionaries(st.sampled_from(KEYS), json, max_size=5))
    for read in (read_t1, read_baco):
        with contextlib.suppress(SpaceError):
            read(broken)


# fmt: off
KEYS = [
    "ConfigurationSpace", "TuningParameters", "Conditions", "Name", "Values", "Default", "Expression", "Parameters",
    "input_parameters", "x", "parameter_type", "values", "parameter_default", "constraints", "dependencies",
    "transform", "prior", "prior_parameters",
]
# fmt: on


def mutated(document, data):
    """One change somewhere in a valid file."""
    if isinstance(document, dict) and document:
        key = data.draw(st.sampled_from(sorted(document)))
        return {**document, key: mutated(document[key], data)}
    if isinstance(document, list) and document:
        at = data.draw(st.integers(0, len(document) - 1))
        return [*document[:at], mutated(document[at], data), *document[at + 1 :]]
    return data.draw(
        st.sampled_from([None, -1, 0, 2.5, 10**400, "x", "[1]", [], {}, [[]], True, float("nan")])
    )


T1 = t1("[1, 2, 4]", Expression="x * 2 <= 4", Parameters=["x"])
# fmt: off
BACO = {"input_parameters": {
    "x": {"parameter_type": "ordinal", "values": [1, 2, 4], "constraints": ["x < 3"], "transform": "log"},
    "r": {"parameter_type": "real", "values": [0, 1], "prior": "gaussian", "prior_parameters": [0.5, 0.1]},
    "i": {"parameter_type": "integer", "values": [0, 3], "prior": [1, 2, 3, 4], "parameter_default": 2},
    "c": {"parameter_type": "categorical", "values": ["a", "b"], "parameter_default": "a"},
    "p": {"parameter_type": "permutation", "values": [3], "constraints": ["p_0 != 1"], "parametrization": "kendall"},
}}
# fmt: on


@settings(max_examples=150)
@given(st.data())
def test_a_mutated_file_is_read_or_refused_in_our_words(data):
    for read, document in ((read_t1, T1), (read_baco, BACO)):
        with contextlib.suppress(SpaceError):
            read(mutated(document, data))


FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_METHODS = {"eval", "exec", "read_pickle", "to_pickle"}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "numexpr"}


def forbidden(tree):
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in FORBIDDEN_CALLS
        ):
            yield node.func.id
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            # With arguments, as `DataFrame.eval(text)`; without, `model.eval()` is torch's evaluation mode.
            yield from {node.func.attr} & FORBIDDEN_METHODS if node.args else ()
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            yield node.arg
        if isinstance(node, ast.Import):
            yield from {alias.name.split(".")[0] for alias in node.names} & FORBIDDEN_MODULES
        if isinstance(node, ast.ImportFrom):
            yield from {(node.module or "").split(".")[0]} & FORBIDDEN_MODULES


def test_the_check_below_finds_what_it_looks_for():
    text = "import pickle\nfrom dill import loads\neval('1')\nframe.eval('a')\nmodel.eval()"
    text += "\nbuiltins.exec(s)\nnp.load(f, allow_pickle=True)\nre.compile('a')"
    found = list(forbidden(ast.parse(text)))
    assert sorted(found) == ["allow_pickle", "dill", "eval", "eval", "exec", "pickle"]


def test_the_package_cannot_run_or_unpickle_anything():
    files = sorted(Path(baco_like.__file__).parent.rglob("*.py"))
    assert len(files) > 20
    found = [(path.name, *forbidden(ast.parse(path.read_text()))) for path in files]
    assert [one for one in found if len(one) > 1] == []


# ---- The work of building a space is bounded by counting, so hostile constraints are refused soon ----


NAMES = "abcdef"
PRODUCT = f"{' * '.join(NAMES)} == {7919 * 7907}"
EVEN = "(a * b % c + d * e % f) * 2 == 7919"


@pytest.fixture
def rows(monkeypatch):
    """Return a list of the numbers of rows on which constraints are evaluated."""
    counted = []
    holds = Expression.holds

    def count(self, columns):
        counted.append(len(next(iter(columns.values()))) * self.cost)
        return holds(self, columns)

    monkeypatch.setattr(Expression, "holds", count)
    return counted


def limit(monkeypatch, **limits):
    for name, value in limits.items():
        monkeypatch.setattr(work_limit, name, value)


def refuse(parameters, constraints):
    with pytest.raises(SpaceError) as caught:
        Space(parameters, constraints)
    return str(caught.value)


def test_an_infeasible_equation_is_refused_after_bounded_work(monkeypatch, rows):
    limit(monkeypatch, LISTING=2**22, DRAWING=2**23, EXPLAINING=2**22)
    values = {name: list(range(1, 2001)) for name in NAMES}
    message = refuse(values, [EVEN])
    assert "random configurations all violate" in message
    assert repr(EVEN) in message
    assert "fewer or listed values, or write an equation as one parameter" in message
    assert sum(rows) < 2**24
    assert refuse(values, [EVEN]) == message  # a time limit would not end at the same draw


def test_a_product_beyond_64_bits_costs_more_than_one_within():
    def cost(text, high):
        return Expression(text, {name: Integer(1, high) for name in NAMES}).cost

    assert cost(PRODUCT, 200) == 13
    assert cost(PRODUCT, 2000) == 64 * 13
    assert cost("a ** 200 * b ** 200 == 7", 2000) == 8 * 64 * 9
    assert cost("a ** 2 * b ** 2 == 7", 10**6) == 64 * 9


@pytest.mark.parametrize(
    ("parameters", "constraints"),
    [
        # a condition of thousands of operations, on a table, and on one long domain
        (
            {n: list(range(1, 150)) for n in "ab"},
            [" or ".join(f"a**{k} * b**{k + 1} == -1" for k in range(40, 100))],
        ),
        ({"a": Integer(1, 2**18)}, [" or ".join(f"a**{k} == -1" for k in range(40, 100))]),
        # candidates of one level of the tree
        ({n: list(range(3000)) for n in "ab"}, ["(a * b) % 1000003 == 1000004"]),
        # a rejection within a rejection
        (
            {name: Real(0.0, 1.0) for name in "xyzw"},
            ["abs(x * y * w - 0.1) < 1e-4", "abs(x * y * z - 0.3) < 1e-4", "x + y < 0"],
        ),
    ],
)
def test_other_hostile_constraints_are_refused_after_bounded_work(
    monkeypatch, rows, parameters, constraints
):
    limit(monkeypatch, LISTING=2**20, DRAWING=2**20, EXPLAINING=2**20)
    message = refuse(parameters, constraints)
    assert any(text[:190] in message for text in constraints)
    assert sum(rows) < 4 * 2**20


def test_a_feasible_space_that_takes_too_much_work_to_list_is_drawn_at_random(monkeypatch):
    parameters = {name: list(range(1, 120)) for name in "abc"}
    constraints = ["(a * b * c) % 7 < 3"]
    whole = Space(parameters, constraints)
    limit(monkeypatch, LISTING=2**12)
    drawn = Space(parameters, constraints)
    assert whole.feasible.count > 0
    assert drawn.feasible.count is None
    rows = drawn.encode(drawn.sample(50, seed=1))
    assert np.all(whole.feasible.contains(rows))


def test_groups_share_the_work_of_one_build(monkeypatch, rows):
    names = [f"{name}{i}" for i in range(20) for name in "ab"]
    parameters = {name: list(range(1, 150)) for name in names}
    constraints = [f"(a{i} * b{i}) % 7 == 3" for i in range(20)]
    limit(monkeypatch, LISTING=2**17)
    space = Space(parameters, constraints)
    assert space.feasible.count is None
    assert sum(rows) < 2**19
    assert space.contains(space.sample(1, seed=1)[0])


def test_rejections_are_nested_a_few_times_only(monkeypatch):
    limit(monkeypatch, LISTING=0)
    constraints = [f"(a * b * c) % 1009 != {i}" for i in range(100)]
    space = Space({name: list(range(1, 2001)) for name in "abc"}, constraints)
    depth, factors = 0, space.feasible.factors
    while hasattr(factors[0], "superset"):
        depth, factors = depth + 1, factors[0].superset.factors
    assert depth == 7  # 1, 1, 1, 4, 16, 64 and the rest
    assert space.contains(space.sample(1, seed=1)[0])


def test_a_conflict_of_many_constraints_on_draws_names_the_needed_ones():
    constraints = [f"(x * y * {i + 1}) % 1 < 2" for i in range(50)]
    unit = {"x": Real(0.0, 1.0), "y": Real(0.0, 1.0)}
    message = refuse(unit, [*constraints, "x + y > 3"])
    assert "'x + y > 3'" in message
    assert " and " not in message
    text = quote([Expression(f"a != {i}", {"a": Integer(1, 9)}) for i in range(2000)])
    assert text.endswith("'a != 19' and 1980 others")


def test_the_memory_of_trees_is_bounded(monkeypatch):
    names = [f"a{i}" for i in range(30)]
    weights = [7919 ** (i % 7) % 10007 + i * i for i in range(30)]
    total = " + ".join(f"{weight} * {name}" for weight, name in zip(weights, names, strict=True))
    edges = []
    extend = tree_builder._Layer.extend

    def count(*args):
        found = extend(*args)
        edges.append(len(found[0]))
        return found

    monkeypatch.setattr(tree_builder._Layer, "extend", count)
    limit(monkeypatch, MEMORY=2**20)
    space = Space({name: [0, 1] for name in names}, [f"({total}) % 100003 < 50000"])
    assert space.feasible.count is None
    assert 0 < sum(edges) < 2**20 / 32
