"""Tuning problems that a compiler states: SMT-LIB, and MLIR with ``transform.tune`` and ``smt`` operations.

`read_smtlib` and `read_mlir` return a `Problem`, whose space has an exact count where the space can count. The values
that a search has chosen go back to the compiler as text. Nothing but this package is needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from baco_like.exceptions import ConfigError, SpaceError
from baco_like.integrations import _mlir
from baco_like.integrations._smt_terms import (
    Bounds,
    Choice,
    Draft,
    Sort,
    Term,
    apply,
    constant,
    find_space,
    refuse,
)
from baco_like.spaces import Space

__all__ = ["Problem", "read_mlir", "read_smtlib"]

_TOKEN = re.compile(r';[^\n]*|"(?:[^"]|"")*"|\|[^|]*\||[()]|[^\s()|";]+')
_WITHOUT_MEANING = re.compile(r"\((check-sat|echo|exit|get-\w+|reset|set-\w+) \.\.\.\)")


@dataclass(frozen=True, eq=False)
class Problem:
    """A tuning problem.

    Attributes:
        space: Its parameters and constraints. A knob or a variable keeps its name.
        sorts: The sort of each parameter: ``"Int"``, ``"Bool"``, the width of a bit vector, or None for other values.
    """

    space: Space
    sorts: Mapping[str, Sort | None]
    _text: str
    _choices: Sequence[Choice] = ()

    def write_model(self, config: Mapping[str, Any]) -> str:
        """Return a configuration as a model in SMT-LIB, with one ``define-fun`` for each number and bool.

        Raises:
            ConfigError: The configuration is not feasible.
        """
        self.space.validate(config)
        lines = [_define(n, value, self.sorts[n]) for n, value in config.items() if self.sorts[n]]
        return "\n".join(["(", *lines, ")", ""])

    def write_schedule(self, config: Mapping[str, Any]) -> str:
        """Return the text in MLIR with the options and regions of a configuration selected.

        Raises:
            ConfigError: The configuration is not feasible, or the text has no ``transform.tune`` operation.
        """
        self.space.validate(config)
        if not self._choices:
            raise ConfigError("the problem has no transform.tune operation; use write_model")
        return _mlir.select(self._text, self._choices, config)


def read_mlir(text: str, *, bounds: Bounds | None = None) -> Problem:
    """Return the problem of a text in MLIR.

    It has ``transform.tune.knob``, ``transform.tune.alternatives`` and ``transform.smt.constrain_params``; or
    ``smt.declare_fun`` and ``smt.assert``, as IREE writes them. Other operations are passed over.

    Args:
        text: The module, in the usual form (not the generic one).
        bounds: Least and greatest value of integers that the text does not bound, by name.

    Raises:
        SpaceError: A condition has no meaning in a space, an integer is unbounded, or no configuration is feasible.
    """
    space, draft = find_space(lambda known: _mlir.Reader(text, Draft(known)).read(), bounds)
    return Problem(space, draft.sorts, text, draft.choices)


def read_smtlib(text: str, *, bounds: Bounds | None = None) -> Problem:
    """Return the problem of a text in SMT-LIB: constants of the sorts Int, Bool and BitVec, and assertions.

    Args:
        text: The commands, such as those of ``mlir-translate --export-smtlib``.
        bounds: Least and greatest value of integers that the text does not bound, by name.

    Raises:
        SpaceError: A command or a condition has no meaning in a space, an integer is unbounded, or no configuration is
            feasible.
    """
    forms = _parse(text)
    space, draft = find_space(lambda known: _Script(Draft(known)).run(forms), bounds)
    return Problem(space, draft.sorts, text)


# Writing --------------------------------------------------------------------------------------------------------------


def _define(name: str, value: Any, sort: Sort | None) -> str:
    simple = re.fullmatch(r"[A-Za-z~!@$%^&*_+=<>.?/-][\w~!@$%^&*+=<>.?/-]*", name, re.ASCII)
    shown = str(value).lower() if sort == "Bool" else str(value) if value >= 0 else f"(- {-value})"
    kind: Any = sort
    if isinstance(sort, int):
        kind, shown = f"(_ BitVec {sort})", f"#b{value % 2**sort:0{sort}b}"
    return f"  (define-fun {name if simple else f'|{name}|'} () {kind} {shown})"


# Reading SMT-LIB ------------------------------------------------------------------------------------------------------


class _Form(list[Any]):
    """A list in parentheses: words and forms, and the line where it begins."""

    line = 1


def _parse(text: str) -> _Form:
    open_forms = [_Form()]
    line, end = 1, 0
    for match in _TOKEN.finditer(text):
        line, end, token = line + text.count("\n", end, match.start()), match.start(), match[0]
        if token[0] == ";":
            continue
        if token == "(":
            open_forms.append(_Form())
            open_forms[-1].line = line
        elif len(open_forms) == 1:
            refuse(line, f"{token!r:.40} is outside all parentheses; write (assert ...)")
        elif token == ")":
            closed = open_forms.pop()
            open_forms[-1].append(closed)
        else:
            open_forms[-1].append(token[1:-1] if token[0] == "|" else token)
    if len(open_forms) > 1:
        refuse(open_forms[-1].line, "the parenthesis is not closed")
    return open_forms[0]


class _Script:
    """Runs the commands of a text."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.defined: dict[str, Term] = {}

    def run(self, forms: _Form) -> Draft:
        """Return the draft after all commands.

        Raises:
            SpaceError: A command or a condition has no meaning in a space.
        """
        ended = False
        for form in forms:
            command = f"({form[0] if form and isinstance(form[0], str) else ''} ...)"
            try:
                if not _WITHOUT_MEANING.fullmatch(command):
                    if ended:
                        refuse(
                            form.line, "a second problem begins after (reset); give one at a time"
                        )
                    self.execute(form, command)
                ended = ended or command == "(reset ...)"
            except (AttributeError, TypeError, ValueError) as error:
                if isinstance(error, SpaceError):
                    raise
                refuse(form.line, f"{command} is not SMT-LIB; check its parentheses")
        return self.draft

    def execute(self, form: _Form, command: str) -> None:
        """Add a declaration, a definition or an assertion."""
        match form:
            case ["declare-const", str(name), sort] | ["declare-fun", str(name), [], sort]:
                self.draft.declare(name, _read_sort(sort, form.line), form.line)
            case ["define-fun", str(name), [], _, body]:
                self.defined[name] = self.term(body, self.defined, form.line)
            case ["assert", body]:
                self.draft.require(self.term(body, self.defined, form.line), form.line)
            case _:
                refuse(
                    form.line, f"{command} has no meaning in a space of Int, Bool and (_ BitVec n)"
                )

    def term(self, form: Any, known: Mapping[str, Term], line: int) -> Term:
        """Return the term of a form; ``known`` has the names of ``let`` and ``define-fun``."""
        if isinstance(form, str):
            return self.atom(form, known, line)
        line = form.line
        match form:
            case ["let", pairs, body]:
                values = {name: self.term(value, known, line) for name, value in pairs}
                return self.term(body, {**known, **values}, line)
            case ["!", body, *_]:
                return self.term(body, known, line)
            case ["_", str(value), width] if value.startswith("bv"):
                return constant(int(value[2:]) % 2 ** int(width), int(width))
            case [["_", str(head), *indices], *arguments]:
                terms = [self.term(argument, known, line) for argument in arguments]
                return apply(head, terms, line, *map(int, indices))
            case [str(head), *arguments]:
                return apply(
                    head, [self.term(argument, known, line) for argument in arguments], line
                )
        refuse(line, "this list is not a term")

    def atom(self, word: str, known: Mapping[str, Term], line: int) -> Term:
        """Return the term of a name or a constant."""
        if word in known:
            return known[word]
        if word in self.draft.sorts:
            return self.draft.variable(word)
        if word in ("true", "false"):
            return constant(word == "true", "Bool")
        if re.fullmatch(r"\d+", word):
            return constant(int(word))
        if re.fullmatch(r"#b[01]+|#x[0-9a-fA-F]+", word):
            base, width = (2, 1) if word[1] == "b" else (16, 4)
            return constant(int(word[2:], base), len(word[2:]) * width)
        refuse(line, f"{word!r} is neither declared nor a whole number")


def _read_sort(form: Any, line: int) -> Sort:
    match form:
        case "Int":
            return "Int"
        case "Bool":
            return "Bool"
        case ["_", "BitVec", str(width)]:
            return int(width)
    refuse(line, "a variable has the sort Int, Bool or (_ BitVec n); scale a Real to whole numbers")
