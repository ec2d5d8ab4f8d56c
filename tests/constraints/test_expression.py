"""Expressions against Python itself: an interpreter of the same syntax written here, row by row."""

import ast
import math
import operator
import pickle
import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from baco_like.constraints.expression import Expression
from baco_like.constraints.language.reader import read
from baco_like.constraints.language.vectorised import compile_node, extent_of_result
from baco_like.constraints.language.writer import write
from baco_like.exceptions import ExpressionError, SpaceError
from baco_like.parameters import Categorical, Integer, Ordinal, Permutation, Real
from baco_like.parameters.values import ColumnKind, Extent
from baco_like.spaces.space import Space

PARAMETERS = {
    "x": Integer(-3, 5),
    "y": Ordinal([0, 1, 2, 8]),
    "w": Integer(2**62, 2**62 + 9),
    "v": Integer(-(2**33), 2**33),
    "z": Integer(2**70, 2**70 + 3),
    "e": Real(-1.5, 2.5),
    "m": Ordinal([0, 0.5, 2]),
    "b": Categorical([True, False]),
    "s": Categorical(["a", "b", ""]),
    "o": Categorical([1, "a", True, 2.5]),
    "p": Permutation(["i", "j", 3]),
    "q": Permutation([0, 1, 2, 3]),
}


class Undefined(Exception):
    """Python would raise here."""


# fmt: off
SIGNS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.BitAnd: operator.and_, ast.BitXor: operator.xor, ast.BitOr: operator.or_,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b, ast.USub: operator.neg,
    ast.UAdd: operator.pos, ast.Not: operator.not_,
    ast.Invert: lambda a: ~operator.index(a),  # Python warns for bools
}
FUNCTIONS = {
    "min": min, "max": max, "abs": abs, "ceil": math.ceil, "floor": math.floor, "round": round, "int": int,
    "sqrt": math.sqrt, "log": math.log, "log2": math.log2, "log10": math.log10, "range": range,
}
# fmt: on


class Interpreter(ast.NodeVisitor):
    """Evaluates Python's own tree on one configuration; independent of the package but for the limit on bits."""

    def __init__(self, config):
        self.config = config

    def number(self, value):
        if isinstance(value, str):
            raise Undefined
        return value

    def visit_Constant(self, node):
        return node.value

    def visit_Name(self, node):
        return self.config[node.id]

    def visit_UnaryOp(self, node):
        operand = self.visit(node.operand)
        if not isinstance(node.op, ast.Not):
            self.number(operand)
        return SIGNS[type(node.op)](operand)

    def visit_BinOp(self, node):
        a, b = self.number(self.visit(node.left)), self.number(self.visit(node.right))
        whole = isinstance(a, int) and isinstance(b, int)
        if isinstance(node.op, ast.Pow) and whole and abs(a) > 1 and b > 4096:
            raise Undefined
        if isinstance(node.op, ast.LShift) and b > 4096:  # as Python, but for its memory
            if a or not isinstance(b, int):
                raise Undefined
            return a << 0
        result = SIGNS[type(node.op)](a, b)
        if isinstance(result, complex) or (isinstance(result, int) and result.bit_length() > 4096):
            raise Undefined
        return result

    def visit_BoolOp(self, node):
        for part in node.values:
            value = self.visit(part)
            if bool(value) is isinstance(node.op, ast.Or):
                break
        return value

    def visit_Compare(self, node):
        left = self.visit(node.left)
        for sign, given_ in zip(node.ops, node.comparators, strict=True):
            right = self.visit(given_)
            if not SIGNS[type(sign)](left, right):
                return False
            left = right
        return True

    def visit_IfExp(self, node):
        return self.visit(node.body if self.visit(node.test) else node.orelse)

    def visit_Tuple(self, node):
        return tuple(self.visit(one) for one in node.elts)

    visit_List = visit_Tuple

    def visit_Call(self, node):
        if node.func.id in ("pos", "at"):
            value = self.config[node.args[0].id]
            which = self.visit(node.args[1])
            return value.index(which) if node.func.id == "pos" else value[which]
        arguments = [self.number(self.visit(one)) for one in node.args]
        return FUNCTIONS[node.func.id](*arguments)


def by_python(text, config):
    try:
        return bool(Interpreter(config).visit(ast.parse(text, mode="eval").body))
    except (Undefined, ArithmeticError, ValueError, TypeError):
        return False


def rows(names, n=60, seed=0):
    rng = np.random.default_rng(seed)
    codes = {name: PARAMETERS[name].sample(n, rng) for name in names}
    columns = {name: PARAMETERS[name].column(codes[name]) for name in names}
    values = [PARAMETERS[name].decode(codes[name]) for name in names]
    return columns, [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def check(text, n=60, seed=0):
    columns, configs = rows(list(PARAMETERS), n, seed)
    found = Expression(text, PARAMETERS).holds(columns)
    assert found.dtype == np.bool_
    assert found.shape == (n,)
    wanted = [by_python(text, config) for config in configs]
    wrong = [config for config, a, b in zip(configs, found.tolist(), wanted, strict=True) if a != b]
    assert not wrong, (text, wrong[0])
    return found


# fmt: off
CASES = [
    "x / e > 1", "x * y <= 4", "x * y * w <= 2**66", "v * v > 2**65", "v * v * v > 0", "z * z == 2**140", "z > w > v",
    "w + 1 > w", "w / 3 == w / 3", "w == e", "x != 0 and y % x == 0", "x == 0 or y % x == 0", "not y % x == 0",
    "not (x / y > 0)", "not not x // y", "y % x", "y % -2 < 0", "x // 2 == -1", "x % 3 == 1 and -x % 3 == 2",
    "e // 0.7 > 1", "e % 0.3 < 0.2", "e % x > 0", "x / y > 1 if y else x > 0", "2**y >= x", "x**y > 2", "x**-1 > 0",
    "(-8) ** e > 0", "y**0.5 == 1", "e**2 < 1", "2**v > 5", "(y & (y - 1)) == 0", "y & x == 0", "x & -2 == x",
    "x & 1 and y | 1 == y", "x ^ y > 3 | x", "x | y ^ 2 & b << 1 > 2", "~x & y == 0", "-~x == x + 1",
    "v & 255 == 3", "v | w > v ^ w", "w << 1 > w", "z >> 1 > w", "z & w != z ^ w", "1 << y < 100", "1 << x <= 8",
    "y >> x == 2", "v << 30 >> 30 == v", "1 << v > 0", "e & 1", "m | 1", "s & 1", "(x > 0) & (y > 1)",
    "(x == 0) | (y % x == 0)", "not (x != 0) & (y % x == 0)", "(x > 0) ^ b", "1 < x <= y < 9", "-2 <= x",
    "x in (1, 2, 3) or y in [8]", "x not in range(-3, 5, 2)", "e in range(5)", "m in (0.5, 2)",
    "y in (x, x + 1, 1 / x)", "s in ('a', 'b')", "x in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)", "y in range(0)",
    "y in range(0, 10**30, 3)", "not y in range(10**30, -5, -10**20)", "min(x, y) < max(x, y, 2)", "min(e, x) == x",
    "max(m, y) > 1", "min(x, w) == x", "abs(x) == 3", "ceil(e) == floor(e) + 1", "round(e) == int(e)",
    "round(m) == 0", "ceil(x / 2) * 2 == x", "sqrt(y) <= x", "log2(y) % 1 == 0", "log(x) > 0 or log10(y) > 0", "b",
    "not b", "b + 1 == 2", "b == 1", "b < 1 and -b < 0", "min(b, x) == 0", "s", "s == 'a' or s != 'b'", "s < 'b'",
    "s < 1", "s == 1", "s != 1", "not s < 1", "s + s == 'aa'", "o == 1", "o == 'a'", "o < 2", "o in (1, 'a')",
    "x and y", "(x or y) > 2", "(x and e) < 1", "(m or x) * 2 > 1", "(x or s) == 'a'", "pos(p, 'i') < pos(p, 'j')",
    "pos(p, 3) == 1", "at(p, 0) == 'i'", "at(p, -1) == 3", "at(q, 1) * 2 > at(q, 0)", "pos(q, 2) + x > 2",
    "at(q, 0) in (1, 3)", "m * 2 == y", "m * 9007199254740992 > 5", "m // 1 == m", "(x if b else e) > 1",
    "1 if x > 0 else 0", "x - -x == 2 * x", "+x == x", "True", "1 < 2 and x > 0", "x == 2**40 * 2**40",
    "v * 2**40 * 2**40 > 2**100",
]
# fmt: on


@pytest.mark.parametrize("text", CASES)
def test_means_what_python_means(text):
    check(text)


def test_the_cases_are_no_tautologies():
    shares = [check(text).mean() for text in CASES]
    assert sum(0 < share < 1 for share in shares) > 0.7 * len(CASES)


def test_both_ways_of_evaluating_are_used():
    vectors = [compile_node(read(text, PARAMETERS), PARAMETERS) for text in CASES]
    fast = [vector.kind is not ColumnKind.OBJECT for vector in vectors]
    assert sum(fast) > 40
    assert fast.count(False) > 20


integers = st.sampled_from(["x", "y", "v", "w", "b", "pos(q, 1)", "at(q, 2)"]) | st.integers(
    -4, 9
).map(str)
reals = st.sampled_from(["e", "m", "0.5", "2.0", "1e-3"])
leaves = integers | reals | st.sampled_from(["s", "o", "z", "'a'", "True", "at(p, 0)"])


def grown(inner):
    sign = st.sampled_from(["+", "-", "*", "/", "//", "%", "<<", ">>", "&", "^", "|"])
    compare = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    function = st.sampled_from(["abs", "ceil", "floor", "round", "int", "sqrt", "log2"])
    shapes = [
        ("({} {} {})", inner, sign | compare | st.sampled_from(["and", "or"]), inner),
        ("({} {} {} {} {})", inner, compare, inner, compare, inner),
        ("({} ** {})", inner, st.sampled_from(["0", "1", "2", "3", "-1", "y"])),
        ("({}{})", st.sampled_from(["-", "+", "not ", "~+"]), inner),
        ("({} if {} else {})", inner, inner, inner),
        ("({} {} ({}, {}))", inner, st.sampled_from(["in", "not in"]), inner, inner),
        ("{}({}, {})", st.sampled_from(["min", "max"]), inner, inner),
        ("{}({})", function, inner),
    ]
    return st.one_of(*(st.builds(shape.format, *parts) for shape, *parts in shapes))


texts = st.recursive(leaves, grown, max_leaves=9)


@settings(max_examples=200)
@given(texts, st.integers(0, 10**6))
def test_random_expressions_mean_what_python_means(text, seed):
    try:
        check(text, n=12, seed=seed)
    except ExpressionError as error:
        assume("cannot be computed" not in str(error))
        raise


@settings(max_examples=100)
@given(texts)
def test_writing_a_tree_and_reading_it_gives_the_tree(text):
    try:
        node = read(text, PARAMETERS)
    except ExpressionError as error:
        assume("cannot be computed" not in str(error))
        raise
    elements = {name: PARAMETERS[name].elements for name in "pq"}
    assert read(write(node, elements), PARAMETERS) == node


def test_a_negative_zero_keeps_its_parentheses():
    node = read("(-0.0) ** y > 0", PARAMETERS)
    assert read(write(node, {}), PARAMETERS) == node


@given(st.lists(texts, min_size=1, max_size=4), st.integers(0, 99))
def test_conjuncts_say_the_same_together(parts, seed):
    text = " and ".join(parts)
    try:
        whole = Expression(text, PARAMETERS)
    except ExpressionError as error:
        assume("cannot be computed" not in str(error))
        raise
    columns, _ = rows(list(PARAMETERS), 20, seed)
    together = np.ones(20, dtype=bool)
    for part in whole.conjuncts():
        together &= part.holds(columns)
    assert np.array_equal(together, whole.holds(columns))


TOP, TALL = Integer(1, 2**50), Integer(1, 2**40)
EDGE, WIDE = Integer(2**63 - 9, 2**63 - 1), Integer(2**53, 2**53 + 1)


@pytest.mark.parametrize(
    ("text", "parameter", "values", "held"),
    [
        ("a * a == 2**100 and a * a > 0", TOP, [2**50], [True]),
        ("a * a * a * a == 2**200", TOP, [2**50], [True]),
        ("a * a - 1 == a * a", TOP, [2**50], [False]),
        ("a + 1 == 2**63", EDGE, [2**63 - 1], [True]),
        ("-a - 2 == -(2**63) - 1 and abs(a) == a", EDGE, [2**63 - 1], [True]),
        ("a <= 9007199254740992.0", WIDE, [2**53, 2**53 + 1], [True, False]),
        ("a ** a ** a > 0", TALL, [3, 2**40], [True, False]),  # beyond the limit: not computed
        ("not a ** a < 0", TALL, [3, 2**40], [True, False]),
    ],
)
def test_integers_are_exact(text, parameter, values, held):
    columns = {"a": parameter.column(parameter.encode(values))}
    assert Expression(text, {"a": parameter}).holds(columns).tolist() == held


class TestMessages:
    @pytest.mark.parametrize(
        ("text", "position", "word"),
        [
            ("x + unknown > 2", 5, "unknown name 'unknown'; the parameters are x, y"),
            ("x @ y", 1, "operator MatMult"),
            ("math.gamma(x) > 1", 1, "unknown function 'gamma'"),
            ("os.abs(x) > 1", 1, "only these functions"),
            ("np.linalg.sqrt(x) > 1", 1, "only these functions"),
            ("~(x > 1)", 1, "write 'not'"),
            ("1 << 5000 > x", 1, "4096 bits"),
            ("  x.real > 2", 3, "attributes"),
            ("x[0] > 1", 1, "subscripts"),
            ("len(s) > 1", 1, "len takes a sequence"),
            ("(lambda: 1)() > 0", 1, "functions"),
            ("[i for i in (1, 2)] == x", 1, "comprehensions"),
            ("p == 1", 1, "is a permutation"),
            ("pos(x, 1) > 0", 5, "not a permutation"),
            ("pos(p, 'k') > 0", 8, "not an element"),
            ("at(p, 3) == 'i'", 7, "0 to 2"),
            ("at(p, x) == 'i'", 7, "constant"),
            ("x == [1, 2]", 6, "value"),
            ("x == (1, x)", 6, "constants only"),
            ("x in y", 6, "list or a range"),
            ("x + (1, 2) > 0", 5, "list"),
            ("x in range(0, 9, 0)", 6, "not 0"),
            ("1 / 0 > x", 1, "division by zero"),
            ("x < 1e999", 5, "too large"),
            ("x == ...", 6, "not a number"),
            ("x is 1", 1, "is for None"),
            ("f'{x}' == s", 1, "f-strings"),
            ("(x := 2) > 1", 2, "write '=='"),
            ("max(x) > 1", 1, "two or more"),
            ("abs(x, y) > 1", 1, "one number"),
            ("abs(x=1) > 1", 1, "plain arguments"),
            ("max(*p) > 1", 1, "plain arguments"),
            ("s == 'é' and é > 1", 14, "unknown name"),
            ("(x >\n  foo)", 8, "unknown name"),
        ],
    )
    def test_refusals_say_what_and_where(self, text, position, word):
        with pytest.raises(ExpressionError) as caught:
            Expression(text, PARAMETERS)
        assert word in str(caught.value)
        assert caught.value.position == position
        assert caught.value.text == text
        assert "\n" not in str(caught.value).replace(repr(text), "")

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("y % x == 0", "3"),
            ("x <= -y", "5 <= -8"),
            ("1 < x < y < 6", "y < 6: 8"),
            ("x > 1 and y < 2", "y < 2: 8"),
            ("y % (x - 5) == 0", "y = 8, x = 5 (integer modulo by zero)"),
            ("pos(p, 'i') < pos(p, 'j')", "2 < 1"),
            ("at(p, 0) == 'i'", "3"),
            ("x not in (5, 6)", "5"),
            ("s == 'b'", "'a'"),
        ],
    )
    def test_explanations_put_the_numbers_in(self, text, shown):
        config = {"x": 5, "y": 8, "p": (3, "j", "i"), "b": True, "s": "a"}
        found = Expression(text, PARAMETERS).explain(config)
        assert found.replace("modulo by zero", "").startswith(shown.replace("modulo by zero)", ""))

    @pytest.mark.parametrize(
        "text", ["", " ", "x <", "x y", "1 = x", "x > 1;", "(x", "x)", "x >> ", "if x", "# x"]
    )
    def test_what_is_no_expression_is_refused_within_its_text(self, text):
        with pytest.raises(ExpressionError) as caught:
            Expression(text, PARAMETERS)
        assert 1 <= caught.value.position <= len(text) + 1

    def test_a_long_text_is_cut_in_the_message(self):
        with pytest.raises(ExpressionError) as caught:
            Expression("x + " * 50 + "nothing", PARAMETERS)
        assert len(str(caught.value)) < 250
        with pytest.raises(ExpressionError, match="not a string"):
            Expression(5, PARAMETERS)


class TestStructure:
    def test_parameters_in_the_order_of_the_text(self):
        assert Expression("y > x or pos(p, 3) > y", PARAMETERS).parameters == ("y", "x", "p")
        assert Expression("x if y else e", PARAMETERS).parameters == ("x", "y", "e")
        assert Expression("1 < 2", PARAMETERS).parameters == ()
        assert Expression("1 < 2", PARAMETERS).holds({}).tolist() == [True]
        assert Expression("2 ** 90", PARAMETERS).holds({}).tolist() == [True]

    @pytest.mark.parametrize(
        ("text", "parts"),
        [
            ("x > 1 and (y < 2 and b)", ["x > 1", "y < 2", "b"]),
            ("x > 1 or y < 2", ["x > 1 or y < 2"]),
            ("1 <= x * y <= 4", ["1 <= x * y <= 4"]),
            ("1 <= x <= y*2", ["1 <= x", "x <= y * 2"]),
            ("pos(p, 'i') < pos(p, 'j') and x<y", ["pos(p, 'i') < pos(p, 'j')", "x<y"]),
        ],
    )
    def test_conjuncts_keep_the_users_text(self, text, parts):
        assert [part.text for part in Expression(text, PARAMETERS).conjuncts()] == parts

    def test_elements(self):
        expression = Expression("pos(p, 'i') < pos(p, 3) and at(q, 0) == pos(q, 1)", PARAMETERS)
        assert expression.elements("p") == {"i", 3}
        assert expression.elements("q") is None
        assert expression.elements("x") == frozenset()

    def test_survives_a_copy_to_another_process(self):
        columns, _ = rows(["x", "y"])
        expression = Expression("x * y > 2", PARAMETERS)
        back = pickle.loads(pickle.dumps(expression))
        assert back == expression
        assert np.array_equal(back.holds(columns), expression.holds(columns))

    def test_deep_and_long_but_allowed(self):
        deep = "(" * 60 + "x" + ")" * 60 + " > 1"
        wide = " or ".join(f"x == {i}" for i in range(500))
        columns, configs = rows(["x"])
        for text, least in ((deep, 2), (wide, 0)):
            found = Expression(text, PARAMETERS).holds(columns).tolist()
            assert found == [c["x"] >= least for c in configs]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a > 1 && a < 3", "write 'and' for '&&'"),
        ("a > 1 || a < 3", "write 'or' for '||'"),
        ("!(a > 1)", "write 'not' for '!'"),
        ("a = 1", "write '==' for '='"),
    ],
)
def test_operators_of_c_are_told_as_python_writes_them(text: str, hint: str) -> None:
    with pytest.raises(SpaceError, match=re.escape(hint)):
        Space({"a": [1, 2, 3]}, constraints=[text])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("s != 'A'", [("s", "A")]),
        ("'A' == s or y == 1", [("s", "A")]),
        ("s in ('a', 'B', 'C')", [("s", "B"), ("s", "C")]),
        ("s not in ['B'] and not s == 'B'", [("s", "B")]),
        ("y == '2'", [("y", "2")]),
        ("x != '2'", [("x", "2")]),
        ("s == 1", [("s", 1)]),
        ("at(p, 0) == 'k'", [("p", "k")]),
        ("at(p, 0) == 'i' or at(p, 1) == 3", []),
        ("s == 'a' or s in ('b', '') or b == 1 or o == True", []),
        ("y != 4 and y in (3, 5) and m == 1", []),
        ("x == 99", []),
    ],
)
def test_values_that_a_parameter_never_has_are_found(text, found):
    assert Expression(text, PARAMETERS).unmatched_literals() == found


ODD = {
    "unroll-loops": Ordinal([1, 2, 4]),
    "if": Integer(0, 3),
    "loop-order": Permutation(["i", "j", "k"]),
    "value": Integer(0, 1),
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("value('unroll-loops') < 4", lambda u, i, p, v: u < 4),
        ("value < value('if') <= value('unroll-loops')", lambda u, i, p, v: v < i <= u),
        (
            "pos('loop-order', 'i') < pos('loop-order', 'k') and value('value') == 1",
            lambda u, i, p, v: p.index("i") < p.index("k") and v == 1,
        ),
        ("at('loop-order', -1) == 'j'", lambda u, i, p, v: p[-1] == "j"),
    ],
)
def test_names_that_python_does_not_have(text, holds):
    space = Space(ODD, [text])
    wanted = [c for c in Space(ODD) if holds(*c.values())]
    assert sorted(map(str, space)) == sorted(map(str, wanted))
    node = read(text, ODD)
    assert read(write(node, {"loop-order": ("i", "j", "k")}), ODD) == node
    assert all(read(part.text, ODD) for part in Expression(text, ODD).conjuncts())
    assert Space.from_dict(space.to_dict()) == space


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("unroll-loops < 4", r"unknown name 'unroll'.*write value\('unroll-loops'\)"),
        ("2 > 1 and 4 > unroll-loops", r"unknown name 'unroll'.*write value\('unroll-loops'\)"),
        ("if > 1", r"write value\('if'\)"),
        ("loop-order == 1", r"write pos\('loop-order', element\)"),
        ("value('loop-order') == 1", r"pos\('loop-order', element\)"),
        ("value(if_) == 1", "in quotes"),
        ("value('x', 'y') == 1", "in quotes"),
        ("pos(3, 'i') == 0", "pos takes a permutation and an element"),
    ],
)
def test_how_to_write_such_names_is_told(text, hint):
    with pytest.raises(ExpressionError, match=hint):
        Expression(text, ODD)


def test_no_hint_at_a_name_that_is_quoted_already():
    with pytest.raises(ExpressionError) as caught:
        Expression("value('unroll-loops') < other", ODD)
    assert "write value" not in str(caught.value)


@pytest.mark.parametrize("module", ["math", "np", "numpy"])
@pytest.mark.parametrize("call", ["ceil(e) == y", "log2(y) > 1", "abs(x) <= floor(e)"])
def test_functions_of_modules(module, call):
    text = re.sub(r"(\w+\()", rf"{module}.\1", call)
    assert read(text, PARAMETERS) == read(call, PARAMETERS)


@pytest.mark.parametrize("sign", ["&", "|", "^"])
def test_a_chain_of_bit_operators_may_be_long(sign):
    bits = {f"b{i}": Categorical([0, 1]) for i in range(300)}
    columns = {name: np.array([0, 1, i % 2]) for i, name in enumerate(bits)}
    found = Expression(f"({f' {sign} '.join(bits)}) == 1", bits).holds(columns)
    assert found.tolist() == [False, sign != "^", sign == "|"]


def test_comparisons_joined_by_bit_operators_are_found_by_the_analysis():
    parts = Expression("(x > 1) & (y < 2) & (x & 1)", PARAMETERS).conjuncts()
    assert [part.text for part in parts] == ["(x > 1) & (y < 2) & (x & 1)"]
    parts = Expression("(x > 1) & (y < 2) & (x != y)", PARAMETERS).conjuncts()
    assert [part.text for part in parts] == ["x > 1", "y < 2", "x != y"]


@pytest.mark.parametrize(
    "name", ["\N{MICRO SIGN}", "\N{LATIN SMALL LIGATURE FI}", "\N{FULLWIDTH LATIN SMALL LETTER X}"]
)
def test_names_that_python_normalises_keep_their_spelling(name: str) -> None:
    space = Space({name: Integer(0, 9), "y": Integer(0, 9)}, [f"{name} <= 3 and y > {name}"])
    assert space.feasible_size == sum(y > x for x in range(4) for y in range(10))
    assert Space.from_dict(space.to_dict()).feasible_size == space.feasible_size


def test_names_that_are_the_same_to_python_are_refused() -> None:
    with pytest.raises(SpaceError, match=r"'\\ufb01' and 'fi' are the same name .* rename one"):
        Space({"\N{LATIN SMALL LIGATURE FI}": Integer(0, 9), "fi": Integer(0, 9)})


FLAGS = {f"f{i}": Integer(0, 3) for i in range(300)}
ROWS = [{f"f{i}": (i * k + k) % 4 for i in range(300)} for k in range(3)]


class TestSums:
    """Sums and products of any number of operands, ``sum`` and ``count``."""

    def values(self, text):
        columns = {n: p.column(p.encode([c[n] for c in ROWS])) for n, p in FLAGS.items()}
        return Expression(text, FLAGS).holds(columns).tolist()

    @pytest.mark.parametrize("signs", ["+", "-", "+-", "*", "+--"])
    def test_three_hundred_operands_are_computed_as_in_python(self, signs):
        terms = [f"{i % 5 + 1} * f{i}" if i % 3 else f"f{i}" for i in range(300)]
        if signs == "*":
            terms = [f"(f{i} % 2 + 1)" for i in range(300)]
        rest = [f" {signs[i % len(signs)]} {term}" for i, term in enumerate(terms[1:])]
        text = "".join([terms[0], *rest])
        for k, config in enumerate(ROWS):
            value = eval(text, {}, config)
            assert self.values(f"{text} == {value}")[k]
            assert not self.values(f"{text} == {value + 1}")[k]

    @pytest.mark.parametrize("listed", ["{}", "[{}]", "({},)"])
    def test_sum_and_count(self, listed):
        names = listed.format(", ".join(FLAGS))
        tests = listed.format(", ".join(f"f{i} > {i % 3}" for i in range(300)))
        for k, config in enumerate(ROWS):
            total = sum(config.values())
            true = sum(value > i % 3 for i, value in enumerate(config.values()))
            assert self.values(f"sum({names}) == {total}")[k]
            assert self.values(f"count({tests}) == {true}")[k]

    def test_one_operand_is_a_number(self):
        given = {"b": [True, False], "s": ["a", ""]}
        columns = {
            name: PARAMETERS[name].column(PARAMETERS[name].encode(v)) for name, v in given.items()
        }
        text = "sum(b) + 1 == 2 or count(s) == 0"
        assert Expression(text, PARAMETERS).holds(columns).all()

    @pytest.mark.parametrize("text", ["sum()", "count([])", "sum(x, [1])", "sum(x in (1, 2))[0]"])
    def test_calls_without_terms_are_refused(self, text):
        with pytest.raises(ExpressionError):
            Expression(text, PARAMETERS)

    @pytest.mark.parametrize(
        "text", ["x - y + e", "x - -3 + y", "y - (x - e) - e", "x * y * e - 1"]
    )
    def test_the_text_of_a_sum_is_that_of_the_user(self, text):
        assert write(read(text, PARAMETERS), {}) == text


def test_rows_of_an_operator_without_known_bounds_are_computed_one_by_one():
    whole = Extent(ColumnKind.INT, 1, 9)
    assert extent_of_result("/", [whole, whole]) == Extent(ColumnKind.FLOAT, 1 / 9, 9.0)
    assert extent_of_result("gcd", [whole, whole]) is None  # such as a function to come
