"""Terms of SMT-LIB in the language of constraints, and the space that asserted terms describe.

All values are those of the standard: ``div`` and ``mod`` are Euclidean, bit vectors wrap. For a division of integers by
zero, which the standard leaves to the solver, ``div`` is 0 and ``mod`` is the dividend.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from itertools import combinations, pairwise
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias

from baco_like.constraints.expression import Expression
from baco_like.constraints.language import exact, tree
from baco_like.constraints.language.operators import COMPARE
from baco_like.constraints.language.reader import read
from baco_like.constraints.language.tree import Node
from baco_like.constraints.language.vectorised import extent_of_result
from baco_like.constraints.language.writer import write
from baco_like.exceptions import ExpressionError, SpaceError
from baco_like.integrations._shared import listed_parameter
from baco_like.parameters import Categorical, ColumnKind, Integer, Parameter
from baco_like.parameters.values import Extent
from baco_like.spaces import Space

Sort: TypeAlias = Literal["Int", "Bool"] | int
"""The sort of a term; a number is the width of a bit vector, whose values are 0 to 2**width - 1."""

Bounds: TypeAlias = Mapping[str, tuple[float, float]]
"""The least and the greatest value of each integer and bit vector; infinite where unknown."""

MAX_SIZE = 1_500
"""Most nodes of a term; the language reads texts of 3,000 words and signs."""

MAX_LISTED = 1_000
"""Most feasible values of an integer that are listed."""

_UNBOUNDED = (-math.inf, math.inf)
_ROUNDS = 20
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}

_OPERATORS: dict[str, tuple[str, str, str]] = {
    name: (takes, gives, meaning)
    for name, takes, gives, meaning in (
        re.split(r"\s{2,}", line.strip())
        for line in """
        +            Int     Int        a + b
        *            Int     Int        a * b
        -            Int     Int        a - b
        unary -      Int     Int        -a
        abs          Int     Int        abs(a)
        div          Int     Int        0 if b == 0 else a // b if b > 0 else -(a // -b)
        mod          Int     Int        a if b == 0 else a % abs(b)
        <            Int     Bool       a < b
        <=           Int     Bool       a <= b
        >            Int     Bool       a > b
        >=           Int     Bool       a >= b
        =            same    Bool       a == b
        distinct     same    Bool       a != b
        not          Bool    Bool       not a
        and          Bool    Bool       a and b
        or           Bool    Bool       a or b
        xor          Bool    Bool       a != b
        =>           Bool    Bool       not a or b
        bvnot        bits    w          M - 1 - a
        bvneg        bits    w          -a % M
        bvand        bits    w          a & b
        bvor         bits    w          a | b
        bvxor        bits    w          a ^ b
        bvadd        bits    w          (a + b) % M
        bvsub        bits    w          (a - b) % M
        bvmul        bits    w          a * b % M
        bvudiv       bits    w          M - 1 if b == 0 else a // b
        bvurem       bits    w          a if b == 0 else a % b
        bvsdiv       bits    w          (1 - 2 * (s >= 0) if t == 0 else s // t if s * t >= 0 else -(-s // t)) % M
        bvsrem       bits    w          (s if t == 0 else -(-s % abs(t)) if s < 0 else s % abs(t)) % M
        bvsmod       bits    w          (s if t == 0 else s % t) % M
        bvshl        bits    w          (a << min(b, w)) % M
        bvlshr       bits    w          a >> min(b, w)
        bvashr       bits    w          (s >> min(b, w)) % M
        bvult        bits    Bool       a < b
        bvule        bits    Bool       a <= b
        bvugt        bits    Bool       a > b
        bvuge        bits    Bool       a >= b
        bvslt        bits    Bool       s < t
        bvsle        bits    Bool       s <= t
        bvsgt        bits    Bool       s > t
        bvsge        bits    Bool       s >= t
        concat       widths  w + v      a * 2 ** v + b
        extract      bits    i - j + 1  (a >> j) % 2 ** (i - j + 1)
        repeat       bits    w * i      a * ((2 ** (w * i) - 1) // (M - 1))
        zero_extend  bits    w + i      a % 2 ** (w + i)
        sign_extend  bits    w + i      s % 2 ** (w + i)
        bv2nat       bits    Int        a
        """.splitlines()
        if line.strip()
    )
}
"""Sorts that an operator takes and gives, and its meaning: ``a`` and ``b`` are arguments, ``s`` and ``t`` the same with
a sign, ``w`` and ``v`` their widths, ``M`` is 2**w, ``i`` and ``j`` are the numbers in ``(_ extract 7 0)``."""

_SYMBOLS = {name: Integer(0, 1) for name in "abstwvMij"}
_template = cache(lambda text: read(text, _SYMBOLS))


def refuse(line: int, message: str) -> NoReturn:
    """Raise the error about a line of a problem."""
    raise SpaceError(f"line {line}: {message}")


# Terms ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Term:
    """A term, with its sort and its bounds.

    Attributes:
        node: The term in the language of constraints.
        sort: Its sort.
        low: Least value, or -inf.
        high: Greatest value, or inf.
        parts: The terms of the node's parts.
        size: Number of nodes.
    """

    node: Node
    sort: Sort
    low: float
    high: float
    parts: tuple[Term, ...] = ()
    size: int = 1

    def is_made_by(self, operator: str) -> bool:
        """Whether the node is an operation of this kind."""
        return isinstance(self.node, tree.Operation) and self.node.operator == operator


def constant(value: Any, sort: Sort = "Int") -> Term:
    """Return the term of a number or a bool."""
    return Term(tree.Literal(value), sort, value, value)


def apply(head: str, arguments: Sequence[Term], line: int, *indices: int) -> Term:
    """Return the term of an operator of SMT-LIB.

    Args:
        head: Name of the operator.
        arguments: Its arguments.
        line: Line of the text, for errors.
        indices: The numbers beside the name, such as 7 and 0 in ``(_ extract 7 0)``.

    Raises:
        SpaceError: It has no meaning here, or not for these arguments.
    """
    sorts = [argument.sort for argument in arguments]
    if head == "-" and len(sorts) == 1:
        head = "unary -"
    if head == "ite" and len(sorts) == 3 and sorts[0] == "Bool" and sorts[1] == sorts[2]:
        test, body, otherwise = arguments
        term = replace(_make("if", body, test, otherwise), sort=body.sort)
    elif head in _OPERATORS and _fits(head, sorts, indices):
        if len(sorts) == 1:
            term = _operate(head, indices, arguments[0])
        elif _OPERATORS[head][1] != "Bool" or head in ("and", "or", "xor"):
            term = reduce(lambda a, b: _operate(head, indices, a, b), arguments)
        else:
            pairs: Iterable[tuple[Term, Term]] = pairwise(arguments)
            if head == "distinct":
                pairs = combinations(arguments, 2)
            if head == "=":  # each with a constant, if there is one
                first, *others = sorted(arguments, key=lambda part: bool(tree.names(part.node)))
                pairs = ((other, first) for other in others)
            term = _make("and", *(_operate(head, indices, *pair) for pair in pairs))
    elif head in _OPERATORS or head == "ite":
        shown = ", ".join(f"BitVec {sort}" if isinstance(sort, int) else sort for sort in sorts)
        refuse(line, f"{head!r} does not take {shown or 'nothing'}")
    else:
        refuse(
            line,
            f"{head!r} has no meaning in a space of configurations; write the condition with integers, bools and bit "
            "vectors, or take it out and check it in the evaluation",
        )
    if term.size > MAX_SIZE:
        refuse(line, f"a condition of more than {MAX_SIZE} operators; assert its parts separately")
    return term


def _fits(head: str, sorts: Sequence[Sort], indices: Sequence[int]) -> bool:
    takes, _, text = _OPERATORS[head]
    reads = set(tree.names(_template(text)))
    fewest = 2 if reads & {"b", "t"} else 1
    most = 1 if fewest == 1 else 2 if head in ("mod", "=>") else len(sorts)
    if not fewest <= len(sorts) <= most or len(indices) != len(reads & {"i", "j"}):
        return False
    if takes in ("bits", "widths") and not all(isinstance(sort, int) for sort in sorts):
        return False
    return takes == "widths" or len({*sorts, *({takes} & {"Int", "Bool"})}) == 1


def _operate(head: str, indices: Sequence[int], *arguments: Term) -> Term:
    known = dict(zip("ij", map(constant, indices), strict=False))
    for term, name, signed, width in zip(arguments, "ab", "st", "wv", strict=False):
        known[name] = term
        if isinstance(term.sort, int):
            known[width], half = constant(term.sort), constant(2 ** (term.sort - 1))
            known.setdefault("M", constant(2**term.sort))
            known[signed] = (
                term if term.high < half.low else _make("-", _make("^", term, half), half)
            )
    _, gives, text = _OPERATORS[head]
    sort: Any = gives if gives in ("Int", "Bool") else int(_evaluate(_template(gives), known).low)
    if isinstance(sort, int) and sort < 1:
        raise ValueError(f"a bit vector of {sort} bits")
    return replace(_evaluate(_template(text), known), sort=sort)


def _evaluate(node: Node, known: Mapping[str, Term]) -> Term:
    """Return the term of a meaning, with terms for its names."""
    match node:
        case tree.Name(name=name):
            return known[name]
        case tree.Literal(value=value):
            return constant(value)
        case tree.Operation(operator="if", parts=(body, condition, otherwise)):
            test = _evaluate(condition, known)
            if isinstance(test.node, tree.Literal):
                return _evaluate(body if test.node.value else otherwise, known)
            return _make("if", _evaluate(body, known), test, _evaluate(otherwise, known))
        case tree.Operation(operator=operator) | tree.Comparison(operators=(operator,)):
            return _make(operator, *(_evaluate(part, known) for part in tree.children(node)))
    raise AssertionError(node)


def _make(operator: str, *parts: Term) -> Term:
    """Return the term of an operator of our language, simplified by the bounds of its parts."""
    if operator in ("+", "*", "and", "or"):
        nested = [part.parts if part.is_made_by(operator) else (part,) for part in parts]
        parts = tuple(part for group in nested for part in group)
    if operator in ("and", "or"):
        known = [part.node.value for part in parts if isinstance(part.node, tree.Literal)]
        parts = tuple(part for part in parts if not isinstance(part.node, tree.Literal))
        decisive = operator == "or"
        if decisive in known or not parts:
            return constant(decisive if decisive in known else not decisive, "Bool")
    a, b = parts[0], parts[-1]
    match operator:
        case "and" | "or" if len(parts) == 1:
            return a
        case "if" if isinstance(parts[1].node, tree.Literal):
            return a if parts[1].node.value else b
        case "not" if isinstance(a.node, tree.Comparison):
            return _make(_OPPOSITE[a.node.operators[0]], *a.parts)
        case "not" if a.is_made_by("and") or a.is_made_by("or"):
            other = "or" if a.is_made_by("and") else "and"
            return _make(other, *(_make("not", part) for part in a.parts))
        case "%" if a.low >= 0 and a.high < b.low:
            return a
        case "abs" if a.low >= 0:
            return a
        case "min" if a.high <= b.low:
            return a
        case "==" | "!=" if a.high < b.low or b.high < a.low:
            return constant(operator == "!=", "Bool")
        case "<" | ">=" if a.high < b.low or a.low >= b.high:
            return constant((a.high < b.low) == (operator == "<"), "Bool")
        case ">" | "<=" if a.low > b.high or a.high <= b.low:
            return constant((a.low > b.high) == (operator == ">"), "Bool")
    nodes = tuple(part.node for part in parts)
    compares = operator in COMPARE
    node = tree.Comparison((operator,), nodes) if compares else tree.Operation(operator, nodes)
    sort: Sort = "Bool" if compares or operator in ("and", "or", "not") else "Int"
    if all(isinstance(each, tree.Literal) for each in nodes):
        return constant(exact.function(node, ())(()), sort)
    low, high = (0, 1) if sort == "Bool" else _interval(operator, parts)
    return Term(node, sort, low, high, parts, 1 + sum(part.size for part in parts))


def _interval(operator: str, parts: Sequence[Term]) -> tuple[float, float]:
    """Return the bounds of a number; infinite where they are unknown."""
    a, b = parts[0], parts[-1]
    if operator == "+":
        return sum(part.low for part in parts), sum(part.high for part in parts)
    if operator == "%" and b.low > 0:
        return 0, b.high - 1
    if operator == "if":
        return min(a.low, b.low), max(a.high, b.high)
    if any(math.isinf(bound) for part in parts for bound in (part.low, part.high)):
        return _UNBOUNDED
    extent = extent_of_result(operator, [Extent(ColumnKind.INT, p.low, p.high) for p in parts])
    return _UNBOUNDED if extent is None else (extent.low, extent.high)


# From asserted terms to a space ---------------------------------------------------------------------------------------

Where: TypeAlias = frozenset[Node]
"""Conditions that all hold wherever something exists or applies."""


class Choice(NamedTuple):
    """A place of the text where a choice is written.

    Attributes:
        name: The parameter.
        start: Begin of the part that the choice replaces.
        end: Its end.
        form: The text of the choice, with ``{}`` for the value.
        texts: The text of each value, by `value_key`; a value without one is written as in Python.
    """

    name: str
    start: int
    end: int
    form: str
    texts: Mapping[Any, str]


@dataclass
class Draft:
    """The variables and conditions of a text, from one pass over it.

    Attributes:
        bounds: Known bounds of variables.
        sorts: The sort of each variable; None if its values are not numbers or bools.
        lines: The line that declares it.
        where: Where it exists.
        listed: The parameter of a variable whose values are listed.
        assertions: The asserted conditions, with their lines and where they apply.
        choices: The places of the choices in a schedule, in order.
    """

    bounds: Bounds
    sorts: dict[str, Sort | None] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    where: dict[str, Where] = field(default_factory=dict)
    listed: dict[str, Parameter] = field(default_factory=dict)
    assertions: list[tuple[Term, int, Where]] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)

    def declare(self, name: str, sort: Sort | None, line: int, where: Where = frozenset()) -> None:
        """Add a variable.

        Raises:
            SpaceError: There is one of this name.
        """
        if name in self.lines:
            refuse(line, f"{name!r} is declared in line {self.lines[name]} already; rename one")
        self.sorts[name], self.lines[name], self.where[name] = sort, line, where
        if sort == "Bool":
            self.listed[name] = Categorical([False, True])

    def variable(self, name: str) -> Term:
        """Return the term of a variable; a constant if it has one value."""
        sort = self.sorts[name]
        assert sort is not None
        low, high = self.range(name)
        if low == high and name not in self.listed:
            return constant(low, sort)
        return Term(tree.Name(name), sort, low, high)

    def range(self, name: str) -> tuple[float, float]:
        """Return the bounds of a variable that are known so far."""
        sort = self.sorts[name]
        if name in self.listed:  # all of its values stay
            return self.listed[name].extent.low, self.listed[name].extent.high
        own = (0, 2**sort - 1) if isinstance(sort, int) else _UNBOUNDED
        return _meet(own, self.bounds.get(name, _UNBOUNDED))

    def require(self, term: Term, line: int, where: Where = frozenset()) -> None:
        """Add an asserted condition.

        Raises:
            SpaceError: It never holds, or reads a variable that does not exist wherever it applies.
        """
        if term.sort != "Bool":
            refuse(line, "the asserted term is not a condition")
        for part in term.parts if term.is_made_by("and") else [term]:
            for name in tree.names(part.node):
                if not self.where[name] <= where:
                    refuse(line, f"{name!r} exists in one alternative; move the condition there")
            if part.node == tree.Literal(False):
                refuse(line, "this condition and those before it never hold together")
            self.assertions.append((part, line, where))

    def implied_bounds(self) -> Bounds:
        """Return the bounds of all variables that follow from the conditions.

        Raises:
            SpaceError: A variable has no value.
        """
        bounds = {name: self.range(name) for name in self.sorts}
        for term, line, where in self.assertions:
            for name, implied in _implied(term).items():
                if where <= self.where[name]:
                    low, high = bounds[name] = _meet(bounds[name], implied)
                    if low > high:
                        refuse(line, f"this condition and those before it leave {name!r} no value")
        return bounds

    def to_space(self) -> Space:
        """Return the space.

        Raises:
            SpaceError: A variable has no bounds, or no configuration satisfies the conditions.
        """
        parameters = {name: self.listed.get(name) or self._integer(name) for name in self.sorts}
        constraints: dict[str, Expression] = {}
        for term, line, where in self.assertions:
            reads = [self.where[name] for name in tree.names(term.node)]
            # Where a parameter that it reads is inactive, a condition does not apply.
            outside = [tree.Operation("not", (node,)) for node in where.difference(*reads)]
            text = write(tree.Operation("or", (*outside, term.node)) if outside else term.node, {})
            try:
                if reads:
                    constraints[text] = Expression(text, parameters)
            except ExpressionError as error:
                refuse(line, f"{error.message}; assert its parts separately")
        when = {
            name: " and ".join(sorted(write(node, {}) for node in nodes))
            for name, nodes in self.where.items()
            if nodes
        }
        space = Space(parameters, constraints.values(), when=when)
        # A list of the feasible values has a better scale: the multiples of 16 that divide 1024 are powers of two.
        for name in parameters:
            if name not in self.listed and not self.where[name]:
                whole = parameters[name].cardinality
                values = space.values(name) if 1 < whole <= MAX_LISTED else []
                if 0 < len(values) < whole:
                    parameters[name] = listed_parameter(values, None)
        return Space(parameters, constraints.values(), when=when)

    def _integer(self, name: str) -> Integer:
        low, high = self.range(name)
        if math.isinf(low) or math.isinf(high):
            which = (
                "bounds" if low == -high else "upper bound" if high == math.inf else "lower bound"
            )
            way_out = f"give bounds={{{name!r}: (LOW, HIGH)}}"
            refuse(self.lines[name], f"the conditions give {name!r} no {which}; {way_out}")
        return Integer(int(low), int(high))


def find_space(read_text: Callable[[Bounds], Draft], given: Bounds | None) -> tuple[Space, Draft]:
    """Return the space of a problem, and the draft that it comes from.

    Args:
        read_text: Reads the text with known bounds, which simplify its terms.
        given: Bounds that the text does not state.

    Raises:
        SpaceError: The text cannot be read, or describes no space.
    """
    bounds: Bounds = given or {}
    try:
        draft = read_text(bounds)
        for name in bounds:
            if name not in (numbers := draft.sorts.keys() - draft.listed):
                raise SpaceError(f"bounds: {name!r} is not one of the integers {sorted(numbers)}")
        for _ in range(_ROUNDS):
            before, bounds = bounds, draft.implied_bounds()
            if bounds == before:
                break
            draft = read_text(bounds)
        return draft.to_space(), draft
    except RecursionError:
        raise SpaceError("a condition is nested too deeply; assert its parts separately") from None


def _meet(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    return max(a[0], b[0]), min(a[1], b[1])


def _implied(term: Term) -> dict[str, tuple[float, float]]:
    """Return the bounds of variables wherever a condition holds."""
    if term.is_made_by("or"):
        first, *others = map(_implied, term.parts)
        for other in others:
            shared = first.keys() & other
            first = {
                n: (min(first[n][0], other[n][0]), max(first[n][1], other[n][1])) for n in shared
            }
        return first
    implied: dict[str, tuple[float, float]] = {}
    for name, bounds in _narrow_sides(term):
        implied[name] = _meet(implied.get(name, _UNBOUNDED), bounds)
    return implied


def _narrow_sides(term: Term) -> Iterable[tuple[str, tuple[float, float]]]:
    if term.is_made_by("and"):
        for part in term.parts:
            yield from _implied(part).items()
    elif isinstance(term.node, tree.Comparison):
        sign, (left, right) = term.node.operators[0], term.parts
        strict = sign in "<>"
        if sign in ("<", "<=", "=="):
            yield from _narrow(left, -math.inf, right.high - strict)
            yield from _narrow(right, left.low + strict, math.inf)
        if sign in (">", ">=", "=="):
            yield from _narrow(left, right.low + strict, math.inf)
            yield from _narrow(right, -math.inf, left.high - strict)


def _narrow(term: Term, low: float, high: float) -> Iterator[tuple[str, tuple[float, float]]]:
    """Yield the bounds of variables that follow from the bounds of a number."""
    if isinstance(term.node, tree.Name):
        yield term.node.name, (low, high)
    for i, part in enumerate(term.parts):
        others = [*term.parts[:i], *term.parts[i + 1 :]]
        if term.is_made_by("+"):
            least, most = sum(other.low for other in others), sum(other.high for other in others)
            yield from _narrow(part, low - most, high - least)
        elif term.is_made_by("*") and min(p.low for p in term.parts) >= 1 and high < math.inf:
            yield from _narrow(part, 1, high // math.prod(int(other.low) for other in others))
