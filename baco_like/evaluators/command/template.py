"""Command lines with placeholders.

The text is split into words first, and each word is filled in afterwards. A value therefore stays within its word
whatever characters it contains, and no shell interprets it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from baco_like._tables import shown, suggestion
from baco_like.exceptions import EvaluatorError, RunFileError

Text = str | tuple[str, ...] | list[str]
"""The text of a placeholder, the texts of an order's elements (a tuple), or words such as compiler flags (a list)."""


@dataclass(frozen=True)
class _Placeholder:
    """A placeholder: all of a value, one element of an order, or its elements with another separator."""

    name: str
    position: int | None = None
    separator: str = ","
    is_optional: bool = False

    def fill(self, text: Text) -> str:
        """Return the text that replaces it within a word."""
        if isinstance(text, str):
            return text
        if isinstance(text, list):
            return shlex.join(text)
        return self.separator.join(text) if self.position is None else text[self.position]


_Part = tuple[str, _Placeholder | None]
"""A literal text and the placeholder after it, or None at the end of a word."""

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
"""A doubled brace, a placeholder, or a brace without its partner."""

_ORDER = re.compile(r"([^\[\]:]+)(?:\[(\d{1,4})\]|:(.*))", re.DOTALL)
"""The placeholder of one element of an order, or of its elements with a separator."""

_SHELL_SYNTAX = re.compile(r"&&|\|\||[0-9&]?>>?(?:&[0-9])?|[|&;<`]|\$[\w({]")
"""Characters that a shell would interpret, outside of quotes."""

_NO_SHELL_SYNTAX = re.compile(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|\{[^{}]*\}", re.DOTALL)
"""Quoted text and placeholders."""


@dataclass(frozen=True)
class Template:
    """A command line, split into words with placeholders.

    Attributes:
        words: The parts of each word.
    """

    words: tuple[tuple[_Part, ...], ...]

    @classmethod
    def parse(
        cls,
        text: str,
        names: Iterable[str],
        where: str,
        orders: Mapping[str, int] = MappingProxyType({}),
    ) -> Template:
        """Read a command line.

        Args:
            text: Quotes and backslashes as in a shell; ``{name}`` is a placeholder, ``{{`` and ``}}`` are braces. A
                word with ``{name?}`` is left out if the text of this placeholder is empty. Of an order, ``{name[0]}``
                is the first element and ``{name:-}`` joins the elements by ``-`` instead of a comma; ``{name:}`` joins
                them by nothing.
            names: The allowed placeholders.
            where: Start of messages, such as ``[evaluator] build``.
            orders: Number of elements that every value has, of each placeholder that is an order or a sequence.

        Raises:
            RunFileError: A quote or brace is not closed, a placeholder is unknown, there is no word, or there is
                shell syntax outside of quotes.
        """
        known = list(names)
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise RunFileError(f"{where} = {shown(text)}: {error}") from None
        if not words:
            raise RunFileError(f"{where} = {shown(text)}: the command is empty")
        if match := _SHELL_SYNTAX.search(_NO_SHELL_SYNTAX.sub(" ", text)):
            raise RunFileError(
                f"{where} = {shown(text)}: {match[0]!r} needs a shell, but the command runs without one. Write a "
                "script, or sh -c '...' with the parameters from the environment ($BACO_NAME), or quote a literal "
                "character"
            )
        return cls(tuple(_parse_word(word, known, where, orders) for word in words))

    @property
    def program(self) -> str | None:
        """The first word, or None if it has a placeholder."""
        parts = self.words[0]
        has_placeholder = any(place is not None for _, place in parts)
        return None if has_placeholder else "".join(text for text, _ in parts)

    @property
    def placeholders(self) -> frozenset[str]:
        """Names of the placeholders."""
        return frozenset(
            place.name for word in self.words for _, place in word if place is not None
        )

    @property
    def literal(self) -> str:
        """The text without the placeholders."""
        return " ".join(text for word in self.words for text, _ in word)

    def fill(self, texts: Mapping[str, Text]) -> list[str]:
        """Return the words with every placeholder replaced by its text.

        A word with a placeholder that has no text, of an inactive parameter, is left out, and so is one with an
        optional placeholder whose text is empty.

        A word that is only the placeholder of a list of words becomes these words; within another word, such as a
        script for ``sh -c``, they are quoted and joined by spaces.
        """
        filled: list[str] = []
        for word in self.words:
            if any(place is not None and place.name not in texts for _, place in word):
                continue
            _, only = word[0]
            if len(word) == 1 and not word[0][0] and only is not None:
                words = texts[only.name]
                if isinstance(words, list):
                    filled += words
                    continue
            parts = [(text, p, "" if p is None else p.fill(texts[p.name])) for text, p in word]
            if all(value or p is None or not p.is_optional for _, p, value in parts):
                filled.append("".join(text + value for text, _, value in parts))
        return filled


def _parse_word(
    word: str, known: Sequence[str], where: str, orders: Mapping[str, int]
) -> tuple[_Part, ...]:
    parts: list[_Part] = []
    literal, begin = "", 0
    for token in _TOKEN.finditer(word):
        literal += word[begin : token.start()]
        begin = token.end()
        if token[0] in ("{{", "}}"):
            literal += token[0][0]
        elif token[1] is None:
            raise RunFileError(
                f"{where}, word {shown(word)}: {token[0]!r} has no partner; a brace is written {{{{ or }}}}"
            )
        else:
            parts.append((literal, _read_placeholder(token[1], known, where, orders)))
            literal = ""
    literal += word[begin:]
    if literal or not parts:
        parts.append((literal, None))
    return tuple(parts)


def _read_placeholder(
    field: str, known: Sequence[str], where: str, orders: Mapping[str, int]
) -> _Placeholder:
    if field in known:
        return _Placeholder(field)
    if field.endswith("?"):
        return replace(_read_placeholder(field[:-1], known, where, orders), is_optional=True)
    match = _ORDER.fullmatch(field)
    if match is not None and match[1] in orders:
        name, position, separator = match.groups()
        if position is None:
            return _Placeholder(name, separator=separator)
        if int(position) < orders[name]:
            return _Placeholder(name, int(position))
        raise RunFileError(
            f"{where}: {{{field}}}: every value of {name!r} has {orders[name]} elements, counted from 0"
        )
    name = re.split("[!:]", field, maxsplit=1)[0]
    if name in known and name != field:
        raise RunFileError(
            f"{where}: a placeholder is a name alone: {{{name}}}; only an order has a separator, as in {{{name}:-}}"
        )
    raise RunFileError(f"{where}: unknown placeholder {{{field}}}; {suggestion(field, known)}")


def to_text(value: Any) -> str:
    """Return a parameter's value as commands get it.

    Booleans are ``1`` and ``0`` (as in C), an order or sequence is its elements joined by commas, and floats are
    written so that reading them gives the same number.

    Raises:
        EvaluatorError: The text has a NUL character, which no command line can contain.
    """
    if isinstance(value, bool):
        return "1" if value else "0"
    text = ",".join(map(to_text, value)) if isinstance(value, tuple) else str(value)
    if "\0" in text:
        raise EvaluatorError(
            f"the value {shown(text)} has a NUL, which a command line cannot carry"
        )
    return text


def variable_names(parameters: Iterable[str]) -> dict[str, str]:
    """Return the environment variable of each parameter: ``tile-x`` becomes ``BACO_TILE_X``.

    Raises:
        RunFileError: Two parameters would share one variable.
    """
    owners: dict[str, str] = {}
    for parameter in parameters:
        variable = "BACO_" + re.sub(r"\W", "_", parameter, flags=re.ASCII).upper()
        other = owners.setdefault(variable, parameter)
        if other != parameter:
            raise RunFileError(
                f"parameters {other!r} and {parameter!r} both become {variable}; rename one"
            )
    return {parameter: variable for variable, parameter in owners.items()}
