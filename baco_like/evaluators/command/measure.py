"""Take the measured number from a program's output, or from its wall time."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from typing import Any, Literal

from baco_like.evaluators._processes.process import Finished
from baco_like.evaluators.settings_table import Table, shown, suggestion
from baco_like.exceptions import RunFileError
from baco_like.records.reading import finite_number, number_in

Method = Literal["regex", "json", "wall"]
METHODS: tuple[Method, ...] = ("regex", "json", "wall")


@dataclass(frozen=True)
class Measure:
    """Takes the measured numbers from a finished run.

    Attributes:
        method: ``regex``, ``json`` or ``wall``.
        pattern: For ``regex``: the number is its first group, or the whole match if it has no group. The last match
            on standard output that is not empty counts; ``^`` and ``$`` match at the ends of lines.
        key: For ``json``: the key of the number, or of a list of numbers, in the object on standard output (or on its
            last line that is an object); ``a.b`` is the key ``b`` of the object ``a``.
        scale: For ``wall``: units of the objective in one second.
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
            scale: Units of the objective in one second, or None if its unit is not one of time.

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
            return cls("regex", pattern=_read_pattern(table))
        if method == "json":
            return cls("json", key=table.text("key"))
        if scale is None:
            raise RunFileError(
                f'[{table.name}] measure = "wall" measures time; '
                'write unit = "ms" (s, ms, us or ns) into [objective]'
            )
        return cls("wall", scale=scale)

    def take(self, finished: Finished) -> tuple[float, ...] | str:
        """Return the measured numbers, or one line that says why there are none."""
        if self.method == "wall":
            return (finished.seconds * self.scale,)
        if self.pattern is not None:
            return _match_number(self.pattern, finished.out)
        return _look_up_numbers(self.key, finished.out)


def _read_pattern(table: Table) -> re.Pattern[str]:
    text = table.text("pattern")
    try:
        pattern = re.compile(text, re.MULTILINE)
    except (re.error, RecursionError, OverflowError) as error:
        raise table.error("pattern", text, f"a regular expression ({error})") from None
    if pattern.groups > 1:
        raise table.error("pattern", text, "one group; write (?:...) for the others")
    return pattern


def _match_number(pattern: re.Pattern[str], out: str) -> tuple[float, ...] | str:
    # ".*" also matches the empty text at the end of a line.
    matches = [match for match in pattern.finditer(out) if match[0]]
    if not matches:
        return f"no match of {pattern.pattern!r} in its output: {_shorten(out)}"
    text = (matches[-1][pattern.groups] or "").strip()
    number = number_in(text)
    if number is None:
        return f"not a finite number: {shown(text)} in {shown(matches[-1][0])}"
    return (number,)


def _look_up_numbers(key: str, out: str) -> tuple[float, ...] | str:
    document = _parse_json_object(out)
    if document is None:
        return f"it printed no JSON object: {_shorten(out)}"
    value: Any = document
    for part in [key] if key in document else key.split("."):
        if not isinstance(value, dict) or part not in value:
            return f"no key {key!r} in the JSON that it printed; {suggestion(key, document)}"
        value = value[part]
    values = value if isinstance(value, list) else [value]
    numbers = tuple(number for number in map(finite_number, values) if number is not None)
    if not values or len(numbers) != len(values):
        return f"not a finite number: {key} = {shown(value)}"
    return numbers


def _parse_json_object(out: str) -> dict[str, Any] | None:
    """Return the whole output as an object, otherwise its last line that is an object."""
    for text in (out, *reversed(out.splitlines())):
        with contextlib.suppress(ValueError, RecursionError):
            document = json.loads(text)
            if isinstance(document, dict):
                return document
    return None


def _shorten(out: str) -> str:
    return shown(out.strip()[-200:]) if out.strip() else "nothing"
