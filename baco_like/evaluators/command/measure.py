"""How a number is taken from what a program printed, or from how long it ran."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

from baco_like.evaluators._processes.process import Finished
from baco_like.evaluators.settings_table import Table, shown, suggestion
from baco_like.exceptions import RunFileError
from baco_like.records.reading import finite_number

Method = Literal["regex", "json", "wall"]
METHODS: tuple[Method, ...] = ("regex", "json", "wall")


@dataclass(frozen=True)
class Measure:
    """Takes the measured numbers from a finished run.

    Attributes:
        method: ``regex``, ``json`` or ``wall``.
        pattern: Of ``regex``: its first group (or the whole match, without groups) is the number.
            The last match on standard output that is not empty counts; ``^`` and ``$`` stand for the ends of lines.
        key: Of ``json``: where the number, or the list of numbers, stands in the object on standard
            output (or on its last line that is an object); ``a.b`` is ``b`` within ``a``.
        scale: Of ``wall``: what a second is in the objective's unit.
    """

    method: Method
    pattern: re.Pattern[str] | None = None
    key: str = ""
    scale: float = 1.0

    @classmethod
    def from_table(cls, table: Table, scale: float | None) -> Measure:
        """Read the keys ``measure``, ``pattern`` and ``key``.

        Args:
            table: The evaluator's table.
            scale: What a second is in the objective's unit, or None if that is no unit of time.

        Raises:
            RunFileError: A key is missing, superfluous or wrong.
        """
        method = table.choice("measure", METHODS, "regex" if table.has("pattern") else None)
        for key, owner in (("pattern", "regex"), ("key", "json")):
            if table.has(key) and method != owner:
                raise RunFileError(
                    f"[{table.name}] {key} belongs to measure = {owner!r}, not {method!r}"
                )
        if method == "regex":
            return cls("regex", pattern=_pattern(table))
        if method == "json":
            return cls("json", key=table.text("key"))
        if scale is None:
            raise RunFileError(
                f'[{table.name}] measure = "wall" measures time; '
                'write unit = "ms" (s, ms, us or ns) into [objective]'
            )
        return cls("wall", scale=scale)

    def take(self, finished: Finished) -> tuple[float, ...] | str:
        """Return the measured numbers, or what is wrong in one line."""
        if self.method == "wall":
            return (finished.seconds * self.scale,)
        if self.pattern is not None:
            return _by_pattern(self.pattern, finished.out)
        return _by_key(self.key, finished.out)


def _pattern(table: Table) -> re.Pattern[str]:
    text = table.text("pattern")
    try:
        pattern = re.compile(text, re.MULTILINE)
    except (re.error, RecursionError, OverflowError) as error:
        raise table.wrong("pattern", text, f"a regular expression ({error})") from None
    if pattern.groups > 1:
        raise table.wrong("pattern", text, "one group; write (?:...) for the others")
    return pattern


def _by_pattern(pattern: re.Pattern[str], out: str) -> tuple[float, ...] | str:
    found = None
    for match in pattern.finditer(out):
        found = match if match[0] else found  # ".*" also matches the nothing at the end of a line
    if found is None:
        return f"no match of {pattern.pattern!r} in what it printed: {_shown_output(out)}"
    text = (found[pattern.groups] or "").strip()
    try:
        number = finite_number(float(text))
    except ValueError:
        number = None
    return (
        (number,)
        if number is not None
        else f"not a finite number: {shown(text)} in {shown(found[0])}"
    )


def _by_key(key: str, out: str) -> tuple[float, ...] | str:
    document = _json_object(out)
    if document is None:
        return f"it printed no JSON object: {_shown_output(out)}"
    found, value = _lookup(document, key)
    if not found:
        return f"no key {key!r} in the JSON that it printed; {suggestion(key, document)}"
    values = value if isinstance(value, list) else [value]
    numbers = tuple(number for number in map(finite_number, values) if number is not None)
    if not values or len(numbers) != len(values):
        return f"not a finite number: {key} = {shown(value)}"
    return numbers


def _json_object(out: str) -> dict[str, Any] | None:
    for text in (out, *reversed(out.splitlines())):
        if not text.strip():
            continue
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict):
            return document
    return None


def _lookup(document: dict[str, Any], key: str) -> tuple[bool, Any]:
    if key in document:
        return True, document[key]
    value: Any = document
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            return False, None
        value = value[part]
    return True, value


def _shown_output(out: str) -> str:
    return shown(out.strip()[-200:]) if out.strip() else "nothing"
