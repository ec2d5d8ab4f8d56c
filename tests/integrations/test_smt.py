"""Tuning problems of compilers: the same configurations as a solver allows, errors with lines, choices that go back."""

import itertools
import random
import re
from pathlib import Path

import forked
import pytest
import z3

from baco_like import ConfigError, Integer, Ordinal, SpaceError
from baco_like.integrations.smt import read_mlir, read_smtlib

# Random problems, and z3 ----------------------------------------------------------------------------------------------

WIDTH = 4
INTS = ["+", "-", "*", "div", "mod", "abs", "unary -"]
BITS = [f"bv{word}" for word in ("and", "or", "xor", "add", "sub", "mul", "neg", "not")]
BITS += [f"bv{word}" for word in ("udiv", "urem", "sdiv", "srem", "smod", "shl", "lshr", "ashr")]
TESTS = [f"bv{sign}{word}" for sign in "us" for word in ("lt", "le", "gt", "ge")]
DOMAINS = {
    "Int": [(-2, 1), (0, 3), (1, 4), (-3, -1), (5, 6)],
    "Bool": [(0, 1)],
    "Bits": [(0, 3), (6, 9), (12, 15)],
}


def number(value):
    return str(value) if value >= 0 else f"(- {-value})"


class Problem:
    """A random problem: ``text`` for our reader, ``solved`` with the meaning of a division by zero for z3."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.names = {"Int": [], "Bool": [], "Bits": []}
        self.values, lines = {}, []
        sorts = {"Int": "Int", "Bool": "Bool", "Bits": f"(_ BitVec {WIDTH})"}
        for i, kind in enumerate(self.random.choices(["Int", "Int", "Bool", "Bits"], k=3)):
            name, (low, high) = f"x{i}", self.random.choice(DOMAINS[kind])
            self.names[kind].append(name)
            self.values[name] = [*range(low, high + 1)]
            lines.append(f"(declare-const {name} {sorts[kind]})")
            if kind == "Int":
                forms = [
                    f"(and (<= {number(low)} {name}) (< {name} {number(high + 1)}))",
                    f"(not (or (< {name} {number(low)}) (> (+ {name} 7) {number(high + 7)})))",
                    "(or {})".format(
                        " ".join(f"(= {name} {number(v)})" for v in self.values[name])
                    ),
                ]
                lines.append(f"(assert {self.random.choice(forms)})")
            if kind == "Bits":
                ends = [f"#b{v:0{WIDTH}b}" for v in (low, high)]
                lines.append(f"(assert (and (bvule {ends[0]} {name}) (bvuge {ends[1]} {name})))")
        pairs = [(self.term("Bool", 3), self.term("Bool", 2)) for _ in range(2)]
        conditions = [self.join("or", *pair) for pair in pairs]
        self.text, self.solved = (
            "\n".join([*lines, *(f"(assert {each[i]})" for each in conditions)]) for i in (0, 1)
        )

    def term(self, kind, depth):
        """Return a term of this kind, as its two texts."""
        choose = self.random.choice
        if depth == 0 or self.random.random() < 0.1:
            names = self.names[kind]
            if names and self.random.random() < 0.85:
                return (choose(names),) * 2
            value = self.random.randrange(-3, 7)
            shown = {
                "Int": number(value),
                "Bool": choose(["true", "false"]),
                "Bits": choose([f"#b{value % 16:04b}", f"(_ bv{value % 16} {WIDTH})"]),
            }
            return (shown[kind],) * 2
        below = depth - 1
        if self.random.random() < 0.15:
            return self.join(
                "ite", self.term("Bool", below), *(self.term(kind, below) for _ in "ab")
            )
        if self.random.random() < 0.1 and self.names[kind]:
            self.names[kind].append("t")
            body = self.term(kind, below)
            self.names[kind].pop()
            bound = self.term(kind, below)
            return tuple(f"(let ((t {b})) {x})" for b, x in zip(bound, body, strict=True))
        if kind == "Int":
            head = choose(INTS)
            if head == "abs":
                return self.join(head, self.term("Int", below))
            if head == "unary -":
                return self.join("-", self.term("Int", below))
            if head in ("div", "mod"):
                a, b = self.term("Int", below), self.term("Int", below)
                zero = "0" if head == "div" else a[1]
                return (
                    f"({head} {a[0]} {b[0]})",
                    f"(ite (= {b[1]} 0) {zero} ({head} {a[1]} {b[1]}))",
                )
            return self.join(head, *(self.term("Int", below) for _ in range(choose([2, 2, 3]))))
        if kind == "Bits":
            head = choose([*BITS, "extract", "concat"])
            a, b = self.term("Bits", below), self.term("Bits", below)
            if head == "extract":
                return tuple(
                    f"(concat ((_ extract 2 1) {x}) ((_ extract 3 2) {y}))"
                    for x, y in zip(a, b, strict=True)
                )
            if head == "concat":
                return tuple(
                    f"((_ extract 5 2) (concat {x} {y}))" for x, y in zip(a, b, strict=True)
                )
            return self.join(head, *([a] if head in ("bvneg", "bvnot") else [a, b]))
        head = choose(
            ["and", "or", "xor", "=>", "not", "=", "distinct", "<", "<=", ">", ">=", "bv", "bv"]
        )
        if head == "not":
            return self.join(head, self.term("Bool", below))
        if head == "bv":
            return self.join(choose(TESTS), self.term("Bits", below), self.term("Bits", below))
        kind = (
            "Int"
            if head[0] in "<>"
            else choose(["Int", "Bool", "Bits"])
            if head in ("=", "distinct")
            else "Bool"
        )
        count = 2 if head == "=>" else choose([2, 2, 3])
        return self.join(head, *(self.term(kind, below) for _ in range(count)))

    @staticmethod
    def join(head, *arguments):
        return tuple(f"({' '.join([head, *texts])})" for texts in zip(*arguments, strict=True))

    def solutions(self):
        """Return the configurations that satisfy the assertions by z3, and that no other values do."""
        kinds = {name: kind for kind, names in self.names.items() for name in names}
        make = {"Int": z3.Int, "Bool": z3.Bool, "Bits": lambda name: z3.BitVec(name, WIDTH)}
        constant = {"Int": z3.IntVal, "Bool": z3.BoolVal, "Bits": lambda v: z3.BitVecVal(v, WIDTH)}
        variables = {name: make[kind](name) for name, kind in kinds.items()}
        condition = z3.And(*z3.parse_smt2_string(self.solved))
        for values in itertools.product(*self.values.values()):
            config = dict(zip(self.values, values, strict=True))
            pairs = [(variables[n], constant[kinds[n]](v)) for n, v in config.items()]
            if z3.is_true(z3.simplify(z3.substitute(condition, *pairs))):
                yield {n: bool(v) if kinds[n] == "Bool" else v for n, v in config.items()}


@pytest.mark.parametrize(
    "block", [pytest.param(i, marks=[pytest.mark.nightly] if i >= 3 else []) for i in range(10)]
)
def test_random_problems_have_the_configurations_that_a_solver_allows(block):
    for seed in range(100 * block, 100 * block + 100):
        problem = Problem(seed)
        expected = [*problem.solutions()]
        try:
            space = read_smtlib(problem.text).space
        except SpaceError:  # no configuration is feasible
            assert expected == [], problem.text
            continue
        assert space.feasible_size == len(expected), problem.text
        assert sorted(map(str, space)) == sorted(map(str, expected)), problem.text


@pytest.mark.parametrize("head", [*INTS[:5], *BITS[:6], *BITS[8:]])
def test_an_operator_has_the_values_of_the_standard(head):
    bits = head.startswith("bv")
    numbers, sort = (range(16), "(_ BitVec 4)") if bits else (range(-4, 5), "Int")
    text = "".join(f"(declare-const {name} {sort})" for name in "abc")
    if not bits:
        text += "(assert (and (<= (- 4) a 4) (<= (- 4) b 4) (<= (- 20) c 20)))"
        text += "(assert (distinct b 0))" if head in ("div", "mod") else ""
    text += f"(assert (= c ({head} a b)))"
    make, constant = (z3.BitVec, z3.BitVecVal) if bits else (z3.Int, z3.IntVal)
    size = (4,) if bits else ()
    condition = z3.And(*z3.parse_smt2_string(text))
    configs = [*read_smtlib(text).space]
    assert len(configs) == len(numbers) * (len(numbers) - (head in ("div", "mod")))
    for config in configs:
        pairs = [(make(name, *size), constant(value, *size)) for name, value in config.items()]
        assert z3.is_true(z3.simplify(z3.substitute(condition, *pairs))), config


# SMT-LIB --------------------------------------------------------------------------------------------------------------

MATMUL = """
(set-logic ALL) ; a comment
(declare-const |tile m| Int)
(declare-fun tile_n () Int)
(declare-const threads Int)
(declare-const offset Int)
(declare-const vectorize Bool)
(declare-const flags (_ BitVec 3))
(define-fun area () Int (* |tile m| tile_n))
(assert (! (and (>= |tile m| 16) (>= tile_n 16) (<= area 4096)) :named limits))
(assert (= 0 (mod 1024 |tile m|) (mod 768 tile_n)))
(assert (= threads (* 2 |tile m|)))
(assert (and (<= (- 2) offset) (< offset 0)))
(assert (let ((low ((_ extract 1 0) flags))) (=> vectorize (= low #b10))))
(check-sat)
(reset)
"""


def test_bounds_follow_from_the_conditions_and_values_without_a_solution_are_left_out():
    space = read_smtlib(MATMUL).space
    tiles = [16, 32, 64, 128, 256]
    assert space.parameters["tile m"] == Ordinal(tiles, log=True)
    assert space.parameters["tile_n"] == Ordinal([16, 24, 32, 48, 64, 96, 128, 192, 256])
    assert space.parameters["threads"] == Ordinal([2 * tile for tile in tiles], log=True)
    assert space.parameters["offset"] == Integer(-2, -1)
    pairs = [(m, n) for m in tiles for n in space.values("tile_n") if m * n <= 4096]
    assert space.feasible_size == len(pairs) * 2 * (8 + 2)


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        ("(and (<= 0 y 4) (>= (+ x y) 7) (<= x 6))", [3, 4, 5, 6]),
        ("(and (<= 2 y 9) (<= 0 x) (< (+ 1 x y) 6))", [0, 1, 2]),
        ("(and (<= 3 y 4) (<= 1 x) (<= (* x y 2) 20))", [1, 2, 3]),
        ("(and (= y 1) (<= (- 1) x 3) (= (abs x) y))", [-1, 1]),
        ("(and (= y 1) (or (< 1 x 3) (= x 7) (= x (* 9 y))))", [2, 7, 9]),
        ("(let ((p (<= 1 x 3))) (and p (= y 1) (distinct x 2) p))", [1, 3]),
    ],
)
def test_bounds_follow_from_sums_products_and_alternatives(condition, values):
    text = f"(declare-const x Int)(declare-const y Int)(assert {condition})"
    assert read_smtlib(text).space.values("x") == values


def test_a_configuration_goes_back_as_a_model():
    problem = read_smtlib(MATMUL)
    for config in problem.space.sample(5):
        model = problem.write_model(config)
        values = re.sub(
            r"\(define-fun (\|.*?\||\S+) \(\) (Int|Bool|\(_.*?\))", r"(assert (= \1", model
        )
        solver = z3.Solver()
        solver.from_string(MATMUL.replace("(reset)", values.strip()[1:-1].replace(")\n", "))\n")))
        assert solver.check() == z3.sat
    with pytest.raises(ConfigError, match="tile_n"):
        problem.write_model({**config, "tile_n": 20})
    with pytest.raises(ConfigError, match="use write_model"):
        problem.write_schedule(config)


def test_missing_bounds_are_given():
    text = "(declare-const x Int)\n(declare-const y Int)\n(assert (and (>= x 1) (= y (+ x 1))))"
    with pytest.raises(
        SpaceError, match=r"line 1: .*'x' no upper bound; give bounds=\{'x': \(LOW, HIGH\)\}"
    ):
        read_smtlib(text)
    space = read_smtlib(text, bounds={"x": (-5, 4)}).space
    assert [config["y"] for config in space] == [2, 3, 4, 5]
    with pytest.raises(SpaceError, match="bounds: 'z' is not one of the integers"):
        read_smtlib(text, bounds={"z": (1, 2)})


def test_constants_of_wide_bit_vectors_wrap():
    text = "(declare-const x (_ BitVec 64))\n(assert (bvult (bvmul x #x0000000000000002) #x0000000000000006))"
    space = read_smtlib(
        text + "(assert (bvuge x #x8000000000000000))(assert (bvult x #x8000000000000005))"
    ).space
    assert [config["x"] - 2**63 for config in space] == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(declare-const x Real)", "line 1: .* scale a Real to whole numbers"),
        ("(declare-fun f (Int) Int)", r"line 1: \(declare-fun ...\) has no meaning"),
        ("(push 1)", r"line 1: \(push ...\)"),
        ("(assert (>= x 1))", "line 1: 'x' is neither declared nor a whole number"),
        ("\n(declare-const x Int)\n(declare-const x Int)", "line 3: 'x' is declared in line 2"),
        ("(assert (forall ((y Int)) (= y 1)))", "line 1:"),
        ("(assert (select 1 2))", "line 1: 'select' has no meaning .* take it out"),
        ("(assert (+ 1 true))", r"line 1: '\+' does not take Int, Bool"),
        ("(assert (bvadd #b01 #b1))", "line 1: 'bvadd' does not take BitVec 2, BitVec 1"),
        ("(assert (ite 1 2 3))", "line 1: 'ite' does not take Int, Int, Int"),
        ("(assert 1)", "line 1: the asserted term is not a condition"),
        ("(assert (= 1 2))", "line 1: this condition and those before it never hold"),
        (
            "(declare-const x Int)\n(assert (< x 1))\n(assert (> x 1))",
            "line 3: .* leave 'x' no value",
        ),
        ("(assert true", "line 1: the parenthesis is not closed"),
        ("assert", "line 1: 'assert' is outside all parentheses"),
        ("(assert (= ((_ extract 0 2) #b0000) #b0))", "is not SMT-LIB"),
        ("(assert (let 5 true))", r"line 1: \(assert ...\) is not SMT-LIB"),
        ("(reset)(declare-const x Int)", "line 1: a second problem begins"),
        (
            "(assert " * 5000 + "true" + ")" * 5000,
            "nested too deeply|not SMT-LIB|not a term|has no meaning",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(text, message):
    with pytest.raises(SpaceError, match=message):
        read_smtlib(text)


def test_shared_terms_that_grow_are_refused_early():
    names = [f"t{i}" for i in range(60)]
    lets = "".join(f"(let (({b} (* {a} {a} 2))) " for a, b in itertools.pairwise(["x", *names]))
    text = f"(declare-const x Int)\n(assert (< 1 x 4))\n(assert {lets} (> t59 x) {')' * 60})"
    with pytest.raises(SpaceError, match=r"line 3: .* more than 1500 operators; assert its parts"):
        read_smtlib(text)


def test_the_example_of_the_guide_runs(tmp_path):
    page = Path(__file__).parents[2] / "docs/inside_your_compiler.md"
    (code,) = re.findall(r"```python\n((?:(?!```).)*read_smtlib.*?)```", page.read_text(), re.S)
    script = tmp_path / "example.py"
    script.write_text(code)
    done = forked.run("-W", "error", script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(re.search(r"# (\d+)", code).group(1))
    assert "(define-fun tile () Int 128)" in done.stdout


# MLIR -----------------------------------------------------------------------------------------------------------------

SCHEDULE = """
module attributes {transform.with_named_sequence} {
  func.func private @payload() // "
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %fuse = transform.tune.knob<"fuse"> options = [true, false] -> !transform.any_param
    %m = transform.tune.knob<"m"> = 16 : i64 from options = [8, 16, 32] -> !transform.param<i64>
    %kind = transform.tune.knob<"kind"> options = ["a, b", unit, 2.5 : f32] -> !transform.any_param
    %low = transform.param.constant 16 -> !transform.param<i64>
    transform.smt.constrain_params(%m, %fuse, %low) : (!any, !any, !any) -> () {
    ^bb0(%a: !smt.int, %b: !smt.bool, %c: !smt.int):
      %large = smt.int.cmp ge %a, %c
      %ok = smt.or %large, %b // not %d
      smt.assert %ok
    }
    %out = transform.tune.alternatives<"way"> -> !transform.any_op
    { // first {
      transform.yield %root : !transform.any_op
    }, {
      %u = transform.tune.knob<"unroll"> options = [1, 2, 4] -> !transform.param<i64>
      transform.smt.constrain_params(%u, %m) : (!transform.param<i64>, !transform.param<i64>) -> () {
      ^bb0(%a: !smt.int, %b: !smt.int):
        %product = smt.int.mul %a, %b
        %most = smt.int.constant 32
        %fits = smt.int.cmp le %product, %most
        smt.assert %fits
      }
      transform.smt.constrain_params(%m) : (!transform.param<i64>) -> () {
      ^bb0(%a: !smt.int):
        %sixteen = smt.int.constant 16
        %other = smt.int.cmp ge %a, %sixteen
        smt.assert %other
      }
      transform.yield %root : !transform.any_op
    }
    transform.yield
  }
}
"""


KNOB = '%m = transform.tune.knob<"m"> options = [1, 2] -> !transform.any_param\n'
CONSTRAIN = (
    "transform.smt.constrain_params(%m) : (!transform.any_param) -> () {\n^bb0(%a: !smt.int):\n"
)


def test_knobs_and_alternatives_are_parameters_with_the_conditions_of_their_region():
    space = read_mlir(SCHEDULE).space
    expected = [
        (fuse, m, kind, way)
        for fuse, m, kind in itertools.product([True, False], [8, 16, 32], ["a, b", "unit", 2.5])
        if m >= 16 or fuse
        for way in [None, 1, 2, 4]
        if way is None or (way * m <= 32 and m != 8)
    ]
    found = [(c["fuse"], c["m"], c["kind"], c.get("unroll")) for c in space]
    assert sorted(map(str, found)) == sorted(map(str, expected))
    assert space.feasible_size == len(expected)
    assert space.parameters["m"].default == 16


def test_the_conditions_on_one_knob_choose_among_its_options():
    text = (
        KNOB.replace("1, 2", "1, 2, 5, 9")
        + CONSTRAIN
        + (
            "%c = smt.int.constant 5\n%d = smt.int.cmp le %a, %c\nsmt.assert %d\n"
            "%e = smt.distinct %a, %c : !smt.int\nsmt.assert %e\n}\n"
        )
    )
    assert read_mlir(text).space.values("m") == [1, 2]
    with pytest.raises(SpaceError, match="bounds: 'm' is not one of the integers"):
        read_mlir(text, bounds={"m": (1, 2)})


def test_the_choices_are_written_into_the_schedule():
    problem = read_mlir(SCHEDULE)
    first = {"fuse": True, "m": 8, "kind": 2.5, "way": 0}
    text = problem.write_schedule(first)
    changes = {
        '"fuse"> options': '"fuse"> = true from options',
        '"m"> = 16 : i64 from': '"m"> = 8 from',
        '"kind"> options': '"kind"> = 2.5 : f32 from options',
        '"way"> ->': '"way"> selected_region = 0 ->',
    }
    expected = SCHEDULE
    for before, after in changes.items():
        expected = expected.replace(before, after)
    assert text == expected
    again = read_mlir(text)
    assert again.space.feasible_size == problem.space.feasible_size
    assert again.write_schedule(first) == text
    second = {"fuse": False, "m": 16, "kind": "unit", "way": 1, "unroll": 2}
    text = again.write_schedule(second)
    assert '"unroll"> = 2 from options' in text
    assert '"kind"> = unit from options' in text
    assert '"way"> selected_region = 1 ->' in text
    with pytest.raises(ConfigError, match="violated"):
        problem.write_schedule({**first, "fuse": False})


INT_OPERATIONS = {
    "int.add": "+",
    "int.sub": "-",
    "int.mul": "*",
    "int.div": "div",
    "int.mod": "mod",
}
COMPARISONS = {"int.cmp lt": "<", "int.cmp le": "<=", "int.cmp gt": ">", "int.cmp ge": ">="}
BOOL_OPERATIONS = {"and": "and", "or": "or", "xor": "xor", "implies": "=>", "eq": "="}


@pytest.mark.parametrize(
    ("operation", "head"),
    [*INT_OPERATIONS.items(), *COMPARISONS.items(), *BOOL_OPERATIONS.items()],
)
def test_an_operation_has_the_meaning_of_its_operator(operation, head):
    is_bool = operation in BOOL_OPERATIONS
    kind, sort = ("bool", "Bool") if is_bool else ("int", "Int")
    lines = [f'%{n} = smt.declare_fun "{n}" : !smt.{kind}' for n in "ab"]
    script = [f"(declare-const {n} {sort})" for n in "ab"]
    lines += [f"%r = smt.{operation} %a, %b", "%one = smt.int.constant 1"]
    term = f"({head} a b)"
    if operation in INT_OPERATIONS:
        lines += ["%large = smt.int.cmp ge %r, %one", "smt.assert %large"]
        script += [f"(assert (>= {term} 1))"]
    else:
        lines += ["%no = smt.not %r", "%x = smt.int.constant -3", "%y = smt.int.abs %x"]
        lines += [
            "%z = smt.ite %no, %x, %y : !smt.int",
            "%t = smt.int.cmp lt %z, %one",
            "smt.assert %t",
        ]
        script += [f"(assert (not {term}))"]
    bounds = None if is_bool else {"a": (-3, 4), "b": (-2, 3)}
    problem = read_mlir("\n".join(lines), bounds=bounds)
    expected = [*read_smtlib("\n".join(script), bounds=bounds).space]
    assert sorted(map(str, problem.space)) == sorted(map(str, expected))
    assert 0 < len(expected) < (4 if is_bool else 48)


def test_a_solver_region_declares_variables():
    problem = read_mlir("""
    iree_codegen.smt.constraints target = <set = 0>, knobs = {m = #iree_codegen.smt.int_knob<"m">} dims(%d) {
    ^bb0(%dim: !smt.int):
      smt.solver() : () -> () {
        %m = smt.declare_fun "m" : !smt.int
        %c64 = smt.int.constant 64
        %c0 = smt.int.constant 0
        %rest = smt.int.mod %c64, %m
        %divides = smt.eq %rest, %c0 : !smt.int
        smt.assert %divides
        %positive = smt.int.cmp gt %m, %c0
        smt.assert %positive
        %small = smt.int.cmp le %m, %c64
        smt.assert %small
        smt.yield
      }
    }""")
    assert problem.space.values("m") == [1, 2, 4, 8, 16, 32, 64]
    assert problem.write_model({"m": 8}) == "(\n  (define-fun m () Int 8)\n)\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (KNOB + KNOB, "line 2: 'm' is declared in line 1"),
        (
            KNOB.replace("[1, 2]", "affine_set<(d0) : (d0 >= 0)>"),
            "line 1: the options of 'm' are not a list",
        ),
        (KNOB.replace("1, 2", '"a"') + CONSTRAIN, "line 2: %m is not a number"),
        (KNOB.replace("1, 2", "true, false") + CONSTRAIN, "line 3: %a has the type !smt.int"),
        (KNOB + CONSTRAIN.replace("!smt.int", "!smt.bv<8>"), "line 3: !smt.bv<8> cannot be read"),
        (KNOB + CONSTRAIN + "%f = smt.forall {", "line 4: 'forall' has no meaning"),
        ("f {\n" + KNOB + "}\nf {\n" + CONSTRAIN, "line 5: %m is not a number"),
        ("%x = smt.int.constant five", "line 1: this operation cannot be read"),
        ('"smt.assert"(%m)', "line 1: .* generic form"),
        ('%x = iree_codegen.smt.knob "m" : !smt.int', "line 1: this is IREE's own form"),
        ('transform.tune.alternatives<"a"> selected_region = %m : !p {', "line 1: a value selects"),
        (
            KNOB
            + 'transform.tune.alternatives<"a"> {\n%u = transform.tune.knob<"u"> options = [1] -> !p\n'
            "%o = transform.smt.constrain_params(%u) : (!p) -> (!p) {\n}\n}, {\n}\n"
            + CONSTRAIN
            + "%c = smt.int.constant 5\n%d = smt.int.cmp ge %a, %c\nsmt.assert %d\n}",
            "line 12: .* never hold together",
        ),
    ],
)
def test_what_mlir_cannot_say_to_a_space_is_refused(text, message):
    with pytest.raises(SpaceError, match=message):
        read_mlir(text)
