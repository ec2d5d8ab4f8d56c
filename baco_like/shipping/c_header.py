"""Write a shipped table as a header for C99 and C++: macros, a table and a function that chooses from it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from baco_like.constraints.language import tree
from baco_like.constraints.language.tree import Node
from baco_like.exceptions import RunFileError
from baco_like.parameters.protocol import is_permutation, is_sequence
from baco_like.parameters.values import EXACT, INT64, Lookup, is_number
from baco_like.records.task_selector import Leaf, Rule, Split
from baco_like.shipping.conditions import Condition
from baco_like.shipping.stamp import MARKER, stamp_text
from baco_like.shipping.table import Config, DescriptorKind, ShippedTable

_HELPERS = """\
static inline double @mod(double a, double b, int *ok) {
    double r = b == 0 ? 0 : fmod(a, b);
    if (b == 0) *ok = 0;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r; /* the sign of b */
}
static inline double @floor_quotient(double a, double b, int *ok) {
    double r = @mod(a, b, ok);
    return b == 0 ? 0 : rint((a - r) / b);
}
static inline double @quotient(double a, double b, int *ok) {
    if (b == 0) *ok = 0;
    return b == 0 ? 0 : a / b;
}
static inline double @power(double a, double b, int *ok) {
    double r = pow(a, b);
    if (!isfinite(r)) *ok = 0;
    return r;
}
static inline double @bits(double a, char sign, double b, int *ok) {
    double most = 9007199254740992.0; /* 2**53 */
    int whole = floor(a) == a && floor(b) == b && fabs(a) <= most && fabs(b) <= most;
    if (!whole || (b < 0 && (sign == '<' || sign == '>'))) *ok = 0;
    if (!whole) return 0;
    if (sign == '<') return ldexp(a, (int)fmax(0, fmin(b, 2000)));
    if (sign == '>') return floor(ldexp(a, -(int)fmax(0, fmin(b, 64))));
    long long x = (long long)a, y = (long long)b;
    return (double)(sign == '&' ? x & y : sign == '|' ? x | y : x ^ y);
}
""" + "".join(
    f"""\
static inline double @{name}(double a, int *ok) {{
    if (!(a {sign} 0)) *ok = 0;
    return a {sign} 0 ? {name}(a) : 0;
}}
"""
    for name, sign in (("sqrt", ">="), ("log", ">"), ("log2", ">"), ("log10", ">"))
)
"""Operators that raise an error in Python for some numbers; constraints are not satisfied there."""

_RATIO = """\
static inline double @ratio(double a, double b) {
    return !(b > 0) || b > DBL_MAX ? HUGE_VAL : a > b ? a / b : b / a;
}
"""


def header_bytes(table: ShippedTable, name: str = "tuned", **_: Any) -> bytes:
    """Return the header.

    ``NAME_select(...)`` takes the descriptors of a task, numbers as ``double`` and texts as ``const char *``, and
    returns the configuration, or a null pointer if none may be used. ``NAME_index(...)`` returns its index in
    ``NAME_table``: that of an entry, the number of entries for the default configuration, or -1. With a single entry,
    each parameter is also a macro ``NAME_PARAMETER``; with several, ``NAME_INDEX_PARAMETER``. Integers and booleans
    are integers of C. A text is a string, and a constant of an enum in ``NAME_PARAMETER_ENUM``.

    Args:
        table: The table.
        name: Beginning of all names.

    Raises:
        RunFileError: A value or a constraint has no form in C, or the name is not an identifier.
    """
    prefix = check_prefix(name)
    writer = _HeaderWriter(table, prefix)
    functions = writer.functions()
    parts = [
        f"/* Written by baco-like; do not edit. Include it, and call {prefix}_select().\n"
        f" * {MARKER}{stamp_text(table.stamp)}\n */",
        f"#ifndef {prefix.upper()}_TUNED_H\n#define {prefix.upper()}_TUNED_H",
        "#include <float.h>\n#include <math.h>\n#include <string.h>",
        writer.stamp_macros(),
        writer.enums(),
        writer.parameter_macros(),
        writer.struct_and_table(),
        _used_helpers(functions, prefix),
        functions,
        "#endif",
    ]
    return ("\n\n".join(part for part in parts if part) + "\n").encode("ascii")


_TAKEN = ("space", "device", "compiler", "date", "count", "tuned_h")
"""Ends of the macros of every header."""

_FUNCTIONS = (
    *("config", "table", "index", "select", "may_use", "allowed", "ranks"),
    *re.findall(r"@(\w+)\(", _RATIO + _HELPERS),
)
"""Ends of the other names of a header, which constants of an enum must not have."""


@dataclass(frozen=True)
class _Member:
    """A member of the struct; the macros of its values end with its word.

    A parameter with texts has two members: the text, and a constant of an enum.

    Attributes:
        name: The parameter.
        word: The identifier.
        kind: The C type.
        size: Length of the array of a permutation, or None.
        values: The values of an enum, or those of a permutation's elements; empty for other types.
        constants: Ends of their names.
    """

    name: str
    word: str
    kind: str
    size: int | None
    values: tuple[Any, ...] = ()
    constants: tuple[str, ...] = ()

    @property
    def declaration(self) -> str:
        """The member as in the struct."""
        star = "" if self.kind.endswith("*") else " "
        return f"{self.kind}{star}{self.word}{'' if self.size is None else f'[{self.size}]'};"

    def write(self, config: Config, constant: Callable[[str], str]) -> str:
        """Return the value in a configuration as C; 0 or an empty text for an inactive parameter.

        Args:
            config: The configuration.
            constant: Returns the name of a constant of the enum.
        """
        if self.name not in config:
            zero = {"const char *": '""'}.get(self.kind, f"({self.kind})0" if self.values else "0")
            return zero if self.size is None else f"{{{zero}}}"
        value = config[self.name]
        items = [value] if self.size is None else value
        texts = [self._scalar(item, constant) for item in items]
        return texts[0] if self.size is None else "{" + ", ".join(texts) + "}"

    def _scalar(self, value: Any, constant: Callable[[str], str]) -> str:
        if self.values:
            index = Lookup(self.values).find(value)
            assert index is not None
            return constant(self.constants[index])
        if self.kind == "const char *":
            return c_string(_text(value))
        if self.kind == "double":
            return c_number(value)
        return c_integer(int(value), is_unsigned=self.kind.startswith("unsigned"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


class _HeaderWriter:
    def __init__(self, table: ShippedTable, prefix: str) -> None:
        self._table, self._prefix = table, prefix
        self._configs = table.configs
        self._members = self._create_members()
        kinds = table.kinds
        self._arguments = {
            name: f"{'t' if kind is DescriptorKind.TEXT else 'n'}{i}"
            for i, (name, kind) in enumerate(kinds.items())
        }

    def _create_members(self) -> list[_Member]:
        """Return the members of all parameters, without the descriptors."""
        parameters = {
            name: parameter
            for name, parameter in self._table.space.parameters.items()
            if name not in self._table.kinds
        }
        words = c_names(parameters, _TAKEN)
        members = []
        used = [*_TAKEN, *_FUNCTIONS, *words]
        for word, (name, parameter) in zip(words, parameters.items(), strict=True):
            if is_sequence(parameter):
                raise RunFileError(
                    f"{name} is a sequence, whose length varies; ship it as json or as python"
                )
            elements = parameter.elements if is_permutation(parameter) else None
            given, extent = parameter.values if elements is None else elements, parameter.extent
            values = tuple((extent.low, extent.high) if given is None else given)
            size, kind = None if elements is None else len(elements), _type_of(values)
            members.append(_Member(name, word, kind, size))
            if kind == "const char *":
                # Without the leading signs of a flag: FLAG_O3 for "-O3".
                ends = [re.sub(r"\W+", "_", _text(v), flags=re.ASCII).strip("_") for v in values]
                own, *constants = c_names([f"{word}_enum", *(f"{word}_{e}" for e in ends)], used)
                used += [own, *constants]
                enum = f"enum {self._prefix}_{own}"
                members.append(_Member(name, own, enum, size, values, tuple(constants)))
        return members

    def _macro(self, word: str) -> str:
        return f"{self._prefix}_{word}".upper()

    def _constant(self, word: str) -> str:
        return f"{self._prefix}_{word.lower()}"

    def stamp_macros(self) -> str:
        """Return macros that a program can print or compare."""
        stamp, upper = self._table.stamp, self._prefix.upper()
        number = int(stamp.space, 16) if re.fullmatch("[0-9a-f]{16}", stamp.space) else 0
        return "\n".join(
            [
                f"#define {upper}_SPACE 0x{number:016x}ULL",
                f"#define {upper}_DEVICE {c_string(stamp.device or '')}",
                f"#define {upper}_COMPILER {c_string(stamp.compiler or '')}",
                f"#define {upper}_DATE {c_string(stamp.date)}",
                f"#define {upper}_COUNT {len(self._table.entries)}",
            ]
        )

    def enums(self) -> str:
        """Return an enum for each parameter with texts, and macros of the same numbers for ``#if``.

        They count from 1, because 0 is the number of an inactive parameter and of an undefined macro.
        """
        parts = []
        for member in self._members:
            if not member.values:
                continue
            names = [(self._constant(word), self._macro(word)) for word in member.constants]
            parts += [f"#define {macro} {i}" for i, (_, macro) in enumerate(names, 1)]
            listed = ",\n".join(f"    {name} = {macro}" for name, macro in names)
            parts.append(f"{member.kind} {{\n{listed}\n}};")
        return "\n".join(parts)

    def parameter_macros(self) -> str:
        """Return one macro for each parameter of each configuration; permutations are lists in braces."""
        lines = []
        for i, config in enumerate(self._configs):
            is_default = i == len(self._table.entries)
            middle = "default_" if is_default else f"{i}_" if len(self._table.entries) > 1 else ""
            for member in self._members:
                if member.name in config:  # else it is inactive
                    macro = self._macro(middle + member.word)
                    lines.append(f"#define {macro} {member.write(config, self._macro)}")
        return "\n".join(lines)

    def struct_and_table(self) -> str:
        """Return the type of a configuration and the table."""
        rows = [
            "    {" + ", ".join(each.write(config, self._constant) for each in self._members) + "}"
            for config in self._configs
        ]
        lines = [
            "typedef struct {",
            *(f"    {member.declaration}" for member in self._members),
            f"}} {self._prefix}_config;",
            "",
            f"static const {self._prefix}_config {self._prefix}_table[] = {{",
            ",\n".join(rows),
            "};",
        ]
        return "\n".join(lines)

    def functions(self) -> str:
        """Return the functions that choose a configuration."""
        prefix = self._prefix
        parameters = self._parameters()
        passed = ", ".join(self._arguments.values())
        conditions = [self._condition(config) for config in self._configs]
        cases = "".join(f"    case {i}: holds = {c}; break;\n" for i, c in enumerate(conditions))
        unused = "".join(f"    (void){word};\n" for word in self._arguments.values())
        distances = [self._distance(dict(entry.task)) for entry in self._table.entries]
        steps = "".join(f"    distances[{i}] = {d};\n" for i, d in enumerate(distances))
        count, has_default = len(self._table.entries), self._table.default is not None
        of_default = ", ".join(filter(None, [str(count), passed]))
        is_restricted = not all(map(all, self._table.allowed))
        test = f"{prefix}_may_use({of_default})"
        if is_restricted:
            test = f"(nearest < 0 || {prefix}_allowed[nearest][{count}]) && {test}"
        last = f"    if (best < 0 && {test}) best = {count};\n" if has_default else ""
        nearest = f" && {prefix}_allowed[nearest][i]" if is_restricted else ""
        closer, ranking, ranked = "distances[i] < distances[best]", "", ""
        if self._table.rule is not None:
            ranked = self._ranks(self._table.rule, parameters, unused)
            ranking = (
                f"    const int *ranks = {prefix}_ranks({passed});\n    int rank, least = 0;\n"
            )
            closer = "rank < least || (rank == least && distances[i] < distances[best])"
        own = f"int index{', ' if parameters else ''}{parameters}"
        arguments = ", ".join(filter(None, ["i", passed]))
        return f"""\
{self._allowed() if is_restricted else ""}/* Whether a configuration satisfies the known constraints for a task. */
static inline int {prefix}_may_use({own}) {{
    int ok = 1, holds = 0;
{unused}    switch (index) {{
{cases}    default: break;
    }}
    return ok && holds;
}}

{ranked}{self._comment()}
static inline int {prefix}_index({parameters or "void"}) {{
    double distances[{count}];
    int best = -1, nearest = -1, i;
{ranking}{steps}    for (i = 0; i < {count}; i++)
        if (distances[i] <= DBL_MAX && (nearest < 0 || distances[i] < distances[nearest]))
            nearest = i;
{self._loop(closer, f"{prefix}_may_use({arguments}){nearest}")}
{last}    return best;
}}

static inline const {prefix}_config *{prefix}_select({parameters or "void"}) {{
    int best = {prefix}_index({passed});
    return best < 0 ? 0 : &{prefix}_table[best];
}}"""

    def _loop(self, closer: str, test: str) -> str:
        """Return the loop that finds the best entry; with a tree, its rank comes before the distance."""
        first, last = "", ""
        if self._table.rule is not None:
            note = "/* the entry of exactly this task comes first */"
            first = f"        rank = distances[i] > 1 ? ranks[i] : -1; {note}\n"
            last = "            least = rank;\n"
        return f"""\
    for (i = 0; i < {len(self._table.entries)}; i++) {{
{first}        if (distances[i] <= DBL_MAX && (best < 0 || {closer}) &&
            {test}) {{
            best = i;
{last}        }}
    }}"""

    def _ranks(self, rule: Rule, parameters: str, unused: str) -> str:
        """Return the decision tree as a function: the place of each entry's configuration in the order of a leaf."""
        prefix, rows = self._prefix, []

        def walk(node: Rule) -> str:
            """Return the number of the leaf of a task as a C expression, and append the rows of the leaves."""
            if isinstance(node, Split):
                word = self._arguments[node.descriptor]
                if isinstance(node.value, str):
                    test = f"strcmp({word}, {c_string(node.value)}) == 0"
                else:
                    sign = "==" if node.is_equality else "<="
                    test = f"{word} {sign} {c_number(float(node.value))}"
                return f"({test} ? {walk(node.yes)} : {walk(node.no)})"
            assert isinstance(node, Leaf)
            rows.append("        {" + ", ".join(map(str, self._table.ranked(node))) + "}")
            return str(len(rows) - 1)

        leaf = walk(rule)
        listed = ",\n".join(rows)
        return f"""\
/* The decision tree: the rank of each entry, 0 first. */
static inline const int *{prefix}_ranks({parameters}) {{
    static const int ranks[][{len(self._table.entries)}] = {{
{listed}
    }};
{unused}    return ranks[{leaf}];
}}

"""

    def _allowed(self) -> str:
        rows = [
            "    {" + ", ".join(str(int(is_allowed)) for is_allowed in row) + "}"
            for row in self._table.allowed
        ]
        name = f"{self._prefix}_allowed[][{len(self._configs)}]"
        return (
            "/* Whether each configuration satisfies the constraints of the nearest task alone. */\n"
            f"static const unsigned char {name} = {{\n" + ",\n".join(rows) + "\n};\n\n"
        )

    def _parameters(self) -> str:
        kinds = self._table.kinds
        return ", ".join(
            f"const char *{word}" if kinds[name] is DescriptorKind.TEXT else f"double {word}"
            for name, word in self._arguments.items()
        )

    def _comment(self) -> str:
        described = [
            f"{word} is the descriptor {c_string(name)}" for name, word in self._arguments.items()
        ]
        text = "; ".join(described) or "there is one entry"
        safe = text.replace("*/", "*\\/").replace("/*", "/\\*")
        return f"/* The index of the configuration for a task, or -1: {safe}. */"

    def _condition(self, config: Config) -> str:
        texts = [
            condition_text(condition, self._arguments, self._prefix)
            for condition in self._table.conditions_of(config)
        ]
        return " && ".join(texts) or "1"

    def _distance(self, task: Mapping[str, Any]) -> str:
        factors, tests = [], []
        for name, kind in self._table.kinds.items():
            word = self._arguments[name]
            if kind is DescriptorKind.SIZE:
                factors.append(f"{self._prefix}_ratio({c_number(task[name])}, {word})")
            elif kind is DescriptorKind.TEXT:
                tests.append(f"strcmp({word}, {c_string(task[name])}) == 0")
            else:
                tests.append(f"{word} == {c_number(float(task[name]))}")
        distance = " * ".join(factors) or "1.0"
        return f"{' && '.join(tests)} ? {distance} : HUGE_VAL" if tests else distance


def _type_of(values: Sequence[Any]) -> str:
    """Return the C type of listed values, or of the bounds of a range."""
    if all(isinstance(value, bool) for value in values):
        return "int"
    if all(is_number(value) and isinstance(value, int) for value in values):
        is_unsigned = min(values) >= 0 and max(values) > INT64
        return "unsigned long long" if is_unsigned else "long long"
    return "double" if all(map(is_number, values)) else "const char *"


def _used_helpers(functions: str, prefix: str) -> str:
    """Return the helper functions that are called; without a constraint, the header needs no library."""
    helpers = re.split(r"(?m)^(?=static)", _RATIO + _HELPERS)[1:]
    needed: list[str] = []
    calls = functions
    for helper in reversed(helpers):
        text = helper.replace("@", f"{prefix}_")
        name = text.partition("(")[0].split()[-1]
        if f"{name}(" in calls:
            needed.insert(0, text)
            calls += text
    return "".join(needed).rstrip("\n")


# Conditions -----------------------------------------------------------------------------------------------------------


def condition_text(condition: Condition, names: Mapping[str, str], prefix: str) -> str:
    """Return a condition as a C expression; the variable ``ok`` becomes 0 where it cannot be computed.

    Args:
        condition: The condition.
        names: The variable of each descriptor; those of texts begin with ``t``.
        prefix: Beginning of the names of helper functions.

    Raises:
        RunFileError: C has no equivalent.
    """
    try:
        return _ConditionWriter(names, prefix).truth(condition.node)
    except _NoEquivalent as error:
        raise RunFileError(
            f"the constraint {condition.text!r} cannot be written in C: {error}; rewrite it, or ship another format"
        ) from None


class _NoEquivalent(Exception):
    """C has no equivalent of a part."""


_HELPER_NAMES = {
    "%": "mod",
    "/": "quotient",
    "//": "floor_quotient",
    "**": "power",
    "sqrt": "sqrt",
    "log": "log",
    "log2": "log2",
    "log10": "log10",
}
"""Helpers of the header that set ``ok`` to 0 where Python raises an error."""

_C_FUNCTIONS = {"abs": "fabs", "ceil": "ceil", "floor": "floor", "round": "rint", "int": "trunc"}
"""Functions of C; ``rint`` rounds halves to even numbers, as Python does."""


class _ConditionWriter:
    """Writes a tree as C. Numbers are doubles, which hold whole numbers exactly up to 2**53."""

    def __init__(self, names: Mapping[str, str], prefix: str) -> None:
        self._names, self._prefix = names, prefix

    def truth(self, node: Node) -> str:
        """Return an expression whose value is 0 or 1."""
        match node:
            case tree.Operation(operator="and" | "or" as word, parts=parts):
                sign = " && " if word == "and" else " || "
                return "(" + sign.join(map(self.truth, parts)) + ")"
            case tree.Operation(operator="not", parts=(part,)):
                return f"!{self.truth(part)}"
            case tree.Operation(operator="if", parts=(body, test, otherwise)):
                return f"({self.truth(test)} ? {self.truth(body)} : {self.truth(otherwise)})"
            case tree.Comparison(operators=operators, parts=sides):
                steps = zip(operators, sides, sides[1:], strict=False)
                return "(" + " && ".join(self._compare(*step) for step in steps) + ")"
            case tree.Literal(value=str(text)):
                return str(int(bool(text)))
            case tree.Name(name=name) if self._is_text(node):
                return f"({self._names[name]}[0] != 0)"
        return f"({self.number(node)} != 0)"

    def number(self, node: Node) -> str:
        """Return an expression whose value is a number."""
        if self._is_text(node):
            raise _NoEquivalent("it computes with a text")
        match node:
            case tree.Literal(value=value):
                if value is None or isinstance(value, tuple):
                    raise _NoEquivalent(f"it reads {value!r}")
                if isinstance(value, int) and abs(value) > EXACT:
                    raise _NoEquivalent(f"{value} is beyond 2**53, up to where doubles are exact")
                return c_number(float(value))
            case tree.Name(name=name):
                return self._names[name]
            case tree.Comparison() | tree.Operation(operator="not"):
                return self.truth(node)
            case tree.Operation(operator="if", parts=(body, test, otherwise)):
                return f"({self.truth(test)} ? {self.number(body)} : {self.number(otherwise)})"
            case tree.Operation(operator="+" | "-" | "*" as sign, parts=(_, _, *_) as parts):
                return f"({f' {sign} '.join(map(self.number, parts))})"
            case tree.Operation(operator="unary -" | "unary +" as sign, parts=(part,)):
                return f"({sign[-1]}{self.number(part)})"
            case tree.Operation(operator="~", parts=(part,)):
                return f"{self._prefix}_bits({self.number(part)}, '^', -1, &ok)"
            case tree.Operation(operator="<<" | ">>" | "&" | "^" | "|" as sign, parts=parts):
                text, *further = map(self.number, parts)
                for operand in further:
                    text = f"{self._prefix}_bits({text}, '{sign[0]}', {operand}, &ok)"
                return text
            case tree.Operation(operator="min" | "max" as word, parts=(first, *others)):
                text = self.number(first)
                for other in others:
                    text = f"f{word}({text}, {self.number(other)})"
                return text
            case tree.Operation(operator=name, parts=parts) if name in _HELPER_NAMES:
                arguments = ", ".join(map(self.number, parts))
                return f"{self._prefix}_{_HELPER_NAMES[name]}({arguments}, &ok)"
            case tree.Operation(operator=name, parts=(part,)) if name in _C_FUNCTIONS:
                return f"{_C_FUNCTIONS[name]}({self.number(part)})"
            case tree.Operation(operator=name):
                raise _NoEquivalent(f"it uses the value of {name!r}")
        raise _NoEquivalent(f"it uses {type(node).__name__.lower()}")

    def _compare(self, sign: str, left: Node, right: Node) -> str:
        if sign in ("in", "not in"):
            text = self._contain(left, right)
            return text if sign == "in" else f"!{text}"
        are_texts = self._is_text(left), self._is_text(right)
        if all(are_texts):
            if sign not in ("==", "!="):
                raise _NoEquivalent("it orders texts")
            return f"(strcmp({self._text(left)}, {self._text(right)}) {sign} 0)"
        if any(are_texts):
            if sign not in ("==", "!="):
                raise _NoEquivalent("it compares a text with a number")
            return str(int(sign == "!="))  # as in Python, a text never equals a number
        return f"({self.number(left)} {sign} {self.number(right)})"

    def _contain(self, left: Node, right: Node) -> str:
        match right:
            case tree.Listed(parts=parts):
                tests = [self._compare("==", left, part) for part in parts]
                return "(" + (" || ".join(tests) or "0") + ")"
            case tree.Span(numbers=numbers) if numbers:
                value = self.number(left)
                low, high = min(numbers), max(numbers)
                step = c_number(float(abs(numbers.step)))
                begin, end = c_number(float(low)), c_number(float(high))
                inside = f"{value} >= {begin} && {value} <= {end}"
                return f"({inside} && fmod({value} - {begin}, {step}) == 0)"
            case tree.Span():
                return "0"
        raise _NoEquivalent("the right side of 'in' is no list")

    def _is_text(self, node: Node) -> bool:
        match node:
            case tree.Literal(value=value):
                return isinstance(value, str)
            case tree.Name(name=name):
                return self._names[name].startswith("t")
        return False

    def _text(self, node: Node) -> str:
        if isinstance(node, tree.Name):
            return self._names[node.name]
        assert isinstance(node, tree.Literal)
        return c_string(str(node.value))


# Numbers, texts and names; they come from journals of other people, so everything is escaped --------------------------


_KEYWORD = re.compile(
    r"NULL|alignas|alignof|and|and_eq|asm|auto|bitand|bitor|bool|break|case|catch|"
    r"char|class|compl|const|const_cast|constexpr|continue|decltype|default|delete|"
    r"do|double|dynamic_cast|else|enum|errno|explicit|export|extern|false|float|"
    r"for|friend|goto|if|inline|int|linux|long|mutable|namespace|new|noexcept|not|"
    r"not_eq|nullptr|operator|or|or_eq|private|protected|public|register|"
    r"reinterpret_cast|restrict|return|short|signed|sizeof|static|static_assert|"
    r"static_cast|struct|switch|template|this|thread_local|throw|true|try|typedef|"
    r"typeid|typename|typeof|union|unix|unsigned|using|virtual|void|volatile|"
    r"wchar_t|while|xor|xor_eq"
)
"""Keywords of C and C++, and names that common headers define as macros."""

_INT64 = 2**63


def c_string(text: str) -> str:
    """Return a string literal in ASCII.

    Bytes outside printable ASCII, and question marks (trigraphs), are octal escapes of three digits, which end there
    whatever follows.

    Raises:
        RunFileError: C cannot hold the text: it has a null character, or is not valid Unicode.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise RunFileError(
            f"the text {text!r:.80} is not valid Unicode; C cannot hold it"
        ) from None
    if 0 in data:
        raise RunFileError(f"the text {text!r:.80} has a null character, which ends a string of C")
    plain = set(range(32, 127)) - set(b'"\\?')
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in data) + '"'


def c_number(value: float) -> str:
    """Return a double.

    Raises:
        RunFileError: It is not finite.
    """
    if not math.isfinite(value):
        raise RunFileError(f"the number {value} has no form in C source")
    text = repr(float(value))
    return f"({text})" if value < 0 else text


def c_integer(value: int, *, is_unsigned: bool = False) -> str:
    """Return an integer of at most 64 bits.

    Args:
        value: The integer.
        is_unsigned: Whether its type is ``unsigned long long`` instead of ``long long``.

    Raises:
        RunFileError: It is larger.
    """
    low, high = (0, 2 * _INT64) if is_unsigned else (-_INT64, _INT64)
    if not low <= value < high:
        raise RunFileError(
            f"the integer {value} does not fit the 64 bits of C's long long; ship another format"
        )
    if value == -_INT64:
        return f"({value + 1}LL - 1)"  # C reads the sign after the digits, which alone do not fit
    suffix = "" if abs(value) < 2**31 else "ULL" if value >= _INT64 else "LL"
    return f"({value}{suffix})" if value < 0 else f"{value}{suffix}"


def c_names(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Return an identifier for each name: ASCII, no keyword, different even in capitals, not ``default_...``.

    Args:
        names: The names.
        taken: Identifiers that are in use.
    """
    made: list[str] = []
    used = {word.upper() for word in taken}
    for name in names:
        word = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
        is_reserved = word[0] == "_" or word.upper().startswith("DEFAULT_")
        if word[0].isdigit() or is_reserved or _KEYWORD.fullmatch(word):
            word = f"p_{word.lstrip('_')}"
        free, number = word, 2
        while free.upper() in used:
            free, number = f"{word}_{number}", number + 1
        used.add(free.upper())
        made.append(free)
    return made


def check_prefix(name: str) -> str:
    """Return a name that begins identifiers of C.

    Raises:
        RunFileError: The name is not an identifier.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or _KEYWORD.fullmatch(name):
        raise RunFileError(
            f"name = {name!r:.80}: expected a letter, then letters, digits and underscores; give another one by --name"
        )
    return name
