"""The tuning problem in a text of MLIR: knobs, alternatives, and conditions of the SMT dialect.

No parser of MLIR is needed: the reader follows braces, keeps the values that it knows, and passes over all other
operations. It refuses what it does not understand about a condition, but never drops a condition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from baco_like.exceptions import SpaceError
from baco_like.integrations._shared import listed_parameter
from baco_like.integrations._smt_terms import (
    Choice,
    Draft,
    Sort,
    Term,
    Where,
    apply,
    constant,
    refuse,
)
from baco_like.parameters import Categorical
from baco_like.parameters.values import value_key

_STRING = r'"(?:[^"\\]|\\.)*"'
_STATEMENT = re.compile(
    rf"""//[^\n]* | {_STRING} | (?P<brace>[{{}}])
    | \^\w+\((?P<arguments>[^)]*)\)\s*:
    | (?:(?P<result>%[\w.$-]+)\s*=\s*)?
      (?<![\w#!.$])
      (?: transform\.tune\.(?P<choice>knob|alternatives)\s*<\s*"(?P<name>[^"]*)"\s*>
        | transform\.(?P<known>smt\.constrain_params|param\.constant)
        | (?P<family>smt|iree_codegen\.smt)\.(?P<operation>[\w.]+) )
      (?P<rest>[^\n{{]*)""",
    re.VERBOSE,
)
_GENERIC = re.compile(r'"(transform\.(tune|smt)|smt)\.')
_NAME = re.compile(r"%[\w.$#-]+")
_OPTIONS = re.compile(
    r"(\s*=(?P<selected>.*?)\bfrom)?\s*(?P<key>options)\s*=\s*\[(?P<list>.*?)\]\s*->", re.S
)
_REGION = re.compile(r"\s*selected_region\s*=\s*(\d+)(\s*:\s*i\d+)?")
_ANOTHER = re.compile(r"\s*,\s*(?={)")
_SORTS: Mapping[str, Sort] = {"!smt.int": "Int", "!smt.bool": "Bool"}
_WITHOUT_MEANING = ("solver", "constraints", "check", "set_logic", "yield")
_HEADS = {
    **{"eq": "=", "implies": "=>", "int.add": "+", "int.mul": "*", "int.sub": "-"},
    **{"int.div": "div", "int.mod": "mod", "int.abs": "abs"},
    **{"int.cmp lt": "<", "int.cmp le": "<=", "int.cmp gt": ">", "int.cmp ge": ">="},
}


def select(text: str, choices: Sequence[Choice], config: Mapping[str, Any]) -> str:
    """Return the text with the values of a configuration selected; an inactive choice stays unchanged."""
    for name, start, end, form, texts in reversed(choices):
        if name in config:
            value = texts.get(value_key(config[name]), str(config[name]))
            text = text[:start] + form.format(value) + text[end:]
    return text


class _Region(NamedTuple):
    """A part of the text in braces.

    Attributes:
        where: Where it applies.
        operands: The terms of its operation.
        choice: Which region of its operation applies, or None.
        number: The number of this region in its operation.
        outer: The values that are known outside.
    """

    where: Where
    operands: Sequence[Term] = ()
    choice: Term | None = None
    number: int = 0
    outer: Mapping[str, Term] = {}


class Reader:
    """Reads a text into a draft."""

    def __init__(self, text: str, draft: Draft) -> None:
        self._text, self._draft, self._line = text, draft, 1
        self._values: dict[str, Term] = {}
        self._regions = [_Region(frozenset())]

    def read(self) -> Draft:
        """Return the draft.

        Raises:
            SpaceError: A condition or a choice has no meaning in a space.
        """
        try:
            self._read()
        except (IndexError, ValueError) as error:
            if isinstance(error, SpaceError):
                raise
            refuse(self._line, "this operation cannot be read; check it by mlir-opt")
        return self._draft

    def _read(self) -> None:
        opening: _Region | None = None  # the region that the next brace opens
        place = 0
        while match := _STATEMENT.search(self._text, place):
            place, self._line = match.end(), self._text.count("\n", 0, match.start()) + 1
            result, where = match["result"] or "", self._regions[-1].where
            rest = (match["rest"] or "").partition("//")[0]
            if match["brace"] == "{":
                region = opening or _Region(where)
                self._regions.append(region._replace(outer=dict(self._values)))
                opening = None
            elif match["brace"] and len(self._regions) > 1:
                closed = self._regions.pop()
                self._values = dict(closed.outer)
                another = _ANOTHER.match(self._text, place)
                if closed.choice is not None and another is not None:
                    opening = self._alternative(closed.choice, closed.number + 1)
            elif match["arguments"]:
                self._enter(match["arguments"])
            elif match["choice"] == "knob":
                place = self._knob(match["name"], result, match.start("rest"))
            elif match["choice"]:
                opening, place = self._alternatives(match["name"], match.start("rest"))
            elif match["known"] == "smt.constrain_params":
                opening = _Region(where, self._operands(rest))
            elif match["known"] == "param.constant":
                if value := re.match(r"\s*(-?\d+|true|false)\b", rest):
                    self._values[result] = _constant(value[1])
            elif match["family"] == "iree_codegen.smt" and match["operation"] != "constraints":
                way_out = "iree-opt --iree-codegen-convert-constraints-to-smt"
                refuse(self._line, f"this is IREE's own form; convert the module by {way_out}")
            elif match["operation"] in _WITHOUT_MEANING:
                pass
            elif match["operation"] == "declare_fun":
                quoted, _, kind = rest.rpartition(":")
                name = quoted.strip().strip('"') or result[1:]
                self._draft.declare(name, self._sort(kind), self._line, where)
                self._values[result] = self._draft.variable(name)
            elif match["operation"] == "assert":
                self._draft.require(self._operands(rest)[0], self._line, where)
            elif match["operation"]:
                self._values[result] = self._computed(match["operation"], rest)
            elif _GENERIC.match(match[0]):
                refuse(self._line, f"{match[0]} is the generic form; print the usual form")

    def _operands(self, text: str) -> list[Term]:
        names = _NAME.findall(text)
        for name in names:
            if name not in self._values:
                refuse(
                    self._line, f"{name} is not a number of a knob or a constant; make it a knob"
                )
        return [self._values[name] for name in names]

    def _sort(self, kind: str) -> Sort:
        if kind.strip() not in _SORTS:
            refuse(self._line, f"{kind.strip()} cannot be read; use !smt.int and !smt.bool")
        return _SORTS[kind.strip()]

    def _knob(self, name: str, result: str, start: int) -> int:
        match = _OPTIONS.match(self._text, start)
        if match is None:
            refuse(self._line, f"the options of {name!r} are not a list; write options = [1, 2, 4]")
        texts, selected = _split(match["list"]), match["selected"]
        read: Callable[[str], Any] = _value
        if len(set(map(read, texts))) < len(texts):  # such as 1 : i32 and 1 : i64
            read = str.strip
        values, default = [*map(read, texts)], None if selected is None else read(selected)
        kinds = {type(value) for value in values}
        sort: Sort | None = "Int" if kinds == {int} else "Bool" if kinds == {bool} else None
        self._draft.declare(name, sort, self._line, self._regions[-1].where)
        self._draft.listed[name] = listed_parameter(values, default)
        if sort is not None:
            self._values[result] = self._draft.variable(name)
        named = {value_key(value): text for value, text in zip(values, texts, strict=True)}
        self._draft.choices.append(Choice(name, start, match.start("key"), " = {} from ", named))
        return match.end()

    def _alternatives(self, name: str, start: int) -> tuple[_Region, int]:
        selected = _REGION.match(self._text, start)
        end = selected.end() if selected else start
        place = self._text.index("{", end)
        if "selected_region" in self._text[end:place]:
            refuse(self._line, f"a value selects the region of {name!r}; give a number, or none")
        count, depth = 1, 0
        for match in _STATEMENT.finditer(self._text, place):
            depth += {"{": 1, "}": -1}.get(match["brace"], 0)
            if not depth and not _ANOTHER.match(self._text, match.end()):
                break
            count += not depth
        self._draft.declare(name, "Int", self._line, self._regions[-1].where)
        self._draft.listed[name] = Categorical(range(count), int(selected[1]) if selected else None)
        self._draft.choices.append(Choice(name, start, end, " selected_region = {}", {}))
        return self._alternative(self._draft.variable(name), 0), place

    def _alternative(self, choice: Term, number: int) -> _Region:
        chosen = apply("=", [choice, constant(number)], self._line).node
        return _Region(self._regions[-1].where | {chosen}, (), choice, number)

    def _enter(self, arguments: str) -> None:
        """Define the arguments of a region with conditions."""
        named = re.findall(r"(%[\w.$-]+)\s*:\s*(\S+?)\s*(?:,|$)", arguments)
        for (name, kind), term in zip(named, self._regions[-1].operands, strict=False):
            if term.sort != self._sort(kind):
                refuse(self._line, f"{name} has the type {kind}, but its knob has other options")
            self._values[name] = term

    def _computed(self, operation: str, rest: str) -> Term:
        """Return the term of an operation of the SMT dialect."""
        before = rest.partition(" : ")[0]
        words = re.sub(r"%\S+", "", before).split()
        if operation in ("constant", "int.constant"):
            return _constant(words[0])
        head = " ".join([operation, *words])
        return apply(_HEADS.get(head, head), self._operands(before), self._line)


def _constant(text: str) -> Term:
    return constant(text == "true", "Bool") if text in ("true", "false") else constant(int(text))


def _split(text: str) -> list[str]:
    """Return the parts between the commas outside of brackets and strings."""
    parts, depth, start = [], 0, 0
    for match in re.finditer(rf"{_STRING}|[][(){{}}<>,]", text):
        depth += (match[0] in "([{<") - (match[0] in ")]}>")
        if match[0] == "," and not depth:
            parts.append(text[start : match.start()])
            start = match.end()
    return [part.strip() for part in [*parts, text[start:]]]


def _value(text: str) -> Any:
    """Return an attribute as a number, bool or string; another one as its text."""
    bare = re.sub(r"\s*:\s*\w+$", "", text.strip())
    if bare in ("true", "false"):
        return bare == "true"
    if re.fullmatch(r'"[^"\\]*"', bare):
        return bare[1:-1]
    if re.fullmatch(r"-?\d+", bare):
        return int(bare)
    return float(bare) if re.fullmatch(r"-?\d+\.\d*(e[+-]?\d+)?", bare, re.I) else text.strip()
