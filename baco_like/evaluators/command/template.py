"""Command lines with placeholders.

The text is split into words first, and each word is filled in afterwards. A value therefore stays within its word
whatever characters it contains, and no shell interprets it.
"""

from __future__ import annotations

import re
import shlex
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from baco_like.evaluators.settings_table import shown, suggestion
from baco_like.exceptions import EvaluatorError, RunFileError

_Part = tuple[str, str | None]
"""A literal text and the name of the placeholder after it, or None at the end of a word."""

_SHELL_SYNTAX = re.compile(r"&&|\|\||[0-9&]?>>?(?:&[0-9])?|[|&;<`]|\$[\w({]")
"""Characters that a shell would interpret, outside of quotes."""

_NO_SHELL_SYNTAX = re.compile(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|\{[^{}]*\}", re.DOTALL)
"""Quoted text and placeholders."""

_OPTIONAL = re.compile(r"\{[^{}]+\?\}")


@dataclass(frozen=True)
class Template:
    """A command line, split into words with placeholders.

    Attributes:
        words: The parts of each word.
        optional: Numbers of the words that are left out if they are empty.
    """

    words: tuple[tuple[_Part, ...], ...]
    optional: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str, names: Iterable[str], where: str) -> Template:
        """Read a command line.

        Args:
            text: Quotes and backslashes as in a shell; ``{name}`` is a placeholder, ``{{`` and ``}}`` are braces. A
                word ``{name?}`` is left out if its text is empty.
            names: The allowed placeholders.
            where: Start of messages, such as ``[evaluator] build``.

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
        optional = frozenset(i for i, word in enumerate(words) if _OPTIONAL.fullmatch(word))
        words = [word.replace("?}", "}") if i in optional else word for i, word in enumerate(words)]
        return cls(tuple(_parse_word(word, known, where) for word in words), optional)

    @property
    def program(self) -> str | None:
        """The first word, or None if it has a placeholder."""
        parts = self.words[0]
        has_placeholder = any(name is not None for _, name in parts)
        return None if has_placeholder else "".join(text for text, _ in parts)

    @property
    def placeholders(self) -> frozenset[str]:
        """Names of the placeholders."""
        return frozenset(name for word in self.words for _, name in word if name is not None)

    @property
    def literal(self) -> str:
        """The text without the placeholders."""
        return " ".join(text for word in self.words for text, _ in word)

    def fill(self, texts: Mapping[str, str]) -> list[str]:
        """Return the words with every placeholder replaced by its text, without empty optional words."""
        filled = (
            "".join(text + (texts[name] if name is not None else "") for text, name in word)
            for word in self.words
        )
        return [text for i, text in enumerate(filled) if text or i not in self.optional]


def _parse_word(word: str, known: Sequence[str], where: str) -> tuple[_Part, ...]:
    try:
        parsed = list(string.Formatter().parse(word))
    except ValueError as error:
        raise RunFileError(
            f"{where}, word {shown(word)}: {error}; a brace is written {{{{ or }}}}"
        ) from None
    parts: list[_Part] = []
    for text, name, form, conversion in parsed:
        if name is not None and name not in known:
            raise RunFileError(
                f"{where}: unknown placeholder {{{name}}}; {suggestion(name, known)}"
            )
        if form or conversion:
            raise RunFileError(f"{where}: a placeholder is a name alone: {{{name}}}")
        parts.append((text, name))
    return tuple(parts) or (("", None),)


def to_text(value: Any) -> str:
    """Return a parameter's value as commands get it.

    Booleans are ``1`` and ``0`` (as in C), a permutation is its elements joined by commas, and floats are written so
    that reading them gives the same number.

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
