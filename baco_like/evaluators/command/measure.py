"""Take the measured number from a program's output, or from its wall time."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import math
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from baco_like.evaluators._processes.process import Finished
from baco_like.evaluators.settings_table import TEXT, Key, Table, choice, shown, suggestion
from baco_like.evaluators.staged import StageFailure
from baco_like.exceptions import RunFileError
from baco_like.records.reading import finite_number, number_in

Method = Literal["regex", "json", "wall", "metric"]
METHODS: tuple[Method, ...] = ("regex", "json", "wall")
"""The methods that a run file names; the name of a metric is a fourth one."""

MEASURE_KEYS = (
    Key(
        "measure",
        {**TEXT, "examples": list(METHODS)},
        'the number to tune: `"regex"` (with `pattern`), `"json"` (with `key`), `"wall"` (time of the run), or the '
        "name of one of the `metrics`",
        absent='`"regex"` if there is a `pattern`, else required',
    ),
    Key(
        "pattern",
        TEXT,
        "regular expression with at most one group without a name, the number; the last match counts; other named "
        "groups are metrics",
    ),
    Key(
        "key",
        TEXT,
        "key of the number, or of a list of numbers, in the JSON object that the program prints; `a.b` is the key `b` "
        "of the object `a`; other numbers are metrics",
    ),
)

_MOST_METRICS = 256
"""Numbers of a JSON object that are kept at most; a program may print a list of thousands of objects."""


@dataclass(frozen=True)
class Measure:
    """Takes the measured numbers from a finished run.

    Attributes:
        method: ``regex``, ``json``, ``wall``, or ``metric``: one of the metrics is the objective.
        pattern: For ``regex``: the number is the group without a name, else the group ``value``, else the first group,
            else the whole match. The last match on standard output that is not empty counts; ``^`` and ``$`` match at
            the ends of lines. Other named groups are metrics.
        key: For ``json``: the key of the number, or of a list of numbers, in the object on standard output (or on its
            last line that is an object); ``a.b`` is the key ``b`` of the object ``a``. All other numbers of the object
            are metrics; the name of ``a.b`` is ``a_b``. For ``metric``: its name.
        scale: For ``wall``: units of the objective in one second.
    """

    method: Method
    pattern: re.Pattern[str] | None = None
    key: str = ""
    scale: float = 1.0

    @classmethod
    def from_table(cls, table: Table, scale: float | None, metrics: Iterable[str] = ()) -> Measure:
        """Read the keys ``measure``, ``pattern`` and ``key``.

        Args:
            table: The evaluator's table.
            scale: Units of the objective in one second, or None if its unit is not one of time.
            metrics: Names of metrics, which ``measure`` may name.

        Raises:
            RunFileError: A key is missing, superfluous or wrong.
        """
        known = (*METHODS, *metrics)
        default = "regex" if table.has("pattern") else None
        method = table.value(Key("measure", choice(known), "", default, required=default is None))
        for key, owner in (("pattern", "regex"), ("key", "json")):
            if table.has(key) and method != owner:
                raise RunFileError(
                    f"[{table.name}] {key} belongs to measure = {owner!r}, not {method!r}"
                )
        if method == "regex":
            return cls("regex", pattern=parse_pattern(table, "pattern"))
        if method == "json":
            return cls("json", key=table.text("key"))
        if method != "wall":
            return cls("metric", key=method)
        if scale is None:
            raise RunFileError(
                f'[{table.name}] measure = "wall" measures time; '
                'write unit = "ms" (s, ms, us or ns) into [objective]'
            )
        return cls("wall", scale=scale)

    def take(
        self, finished: Finished, metrics: Mapping[str, float] = MappingProxyType({})
    ) -> tuple[float, ...] | str:
        """Return the measured numbers, or one line that says why there are none.

        Args:
            finished: The run.
            metrics: Its metrics, of which the method ``metric`` takes one.
        """
        if self.method == "wall":
            return (finished.seconds * self.scale,)
        if self.method == "metric":
            return (metrics[self.key],)
        if self.pattern is not None:
            return match_number(self.pattern, finished.out)
        return _look_up_numbers(self.key, finished.out)

    @property
    def metric_names(self) -> tuple[str, ...] | None:
        """The names of all `metrics`; None if the output decides them (``json``)."""
        if self.method == "json":
            return None
        if self.pattern is None:
            return ()
        own = _value_group(self.pattern)
        return tuple(name for name, i in self.pattern.groupindex.items() if i != own)

    def metrics(self, finished: Finished) -> dict[str, tuple[float, ...]]:
        """Return the other numbers in the output, by name: named groups, or numbers of the JSON object.

        They may be infinite or NaN; ``null`` in the JSON object is NaN.
        """
        if self.pattern is not None and self.pattern.groupindex:
            match = _last_match(self.pattern, finished.out)
            own = _value_group(self.pattern)
            groups = self.pattern.groupindex.items()
            texts = {} if match is None else {n: match[i] for n, i in groups if i != own}
            numbers = {name: _float_in(text) for name, text in texts.items()}
            return {name: (number,) for name, number in numbers.items() if number is not None}
        if self.method == "json":
            document = _parse_json_object(finished.out) or {}
            own_name = self.key if self.key in document else self.key.replace(".", "_")
            found = _flatten(document, "")
            return dict(
                itertools.islice(((k, v) for k, v in found if k != own_name), _MOST_METRICS)
            )
        return {}


def parse_pattern(table: Table, key: str) -> re.Pattern[str]:
    """Return the regular expression of a key; it has at most one group without a name.

    Raises:
        RunFileError: It is not one.
    """
    text = table.text(key)
    try:
        pattern = re.compile(text, re.MULTILINE)
    except (re.error, RecursionError, OverflowError) as error:
        raise table.error(key, text, f"a regular expression ({error})") from None
    if pattern.groups - len(pattern.groupindex) > 1:
        raise table.error(
            key, text, "one group; write (?:...) for the others, or (?P<name>...) for metrics"
        )
    return pattern


def match_number(pattern: re.Pattern[str], out: str) -> tuple[float, ...] | str:
    """Return the number in the last match of a pattern, or one line that says why there is none."""
    match = _last_match(pattern, out)
    if match is None:
        return f"no match of {pattern.pattern!r} in its output: {_shorten(out)}"
    text = (match[_value_group(pattern)] or "").strip()
    number = number_in(text)
    if number is None:
        return f"not a finite number: {shown(text)} in {shown(match[0])}"
    return (number,)


def _last_match(pattern: re.Pattern[str], out: str) -> list[str | None] | None:
    """Return the last match that is not empty: the whole match and its groups; None without one.

    Raises:
        StageFailure: The search has taken too long.
    """
    found: list[str | None] | None = _SEARCH.find(pattern.pattern, out)
    return found


_SEARCH_SECONDS = 10

# The alarm ends the process even within a search, which holds the interpreter lock. ".*" also matches the empty text at
# the end of a line.
_SEARCH_PROGRAM = f"""
import json, re, signal, sys
for line in sys.stdin:
    signal.alarm({_SEARCH_SECONDS})
    pattern, text = json.loads(line)
    last = None
    for match in re.finditer(pattern, text, re.MULTILINE):
        last = match if match[0] else last
    signal.alarm(0)
    print(json.dumps(last and [last[0], *last.groups()]), flush=True)
"""


class _SearchProcess:
    """Searches in a process that ends if a search takes too long: some patterns take years for a line of 40 letters."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self._close)

    def find(self, pattern: str, text: str) -> Any:
        """Return the last match that is not empty as a list of texts, or None.

        Raises:
            StageFailure: The search has taken too long.
        """
        with self._lock:
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", _SEARCH_PROGRAM],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    start_new_session=True,  # Ctrl-C is for the run
                )
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(json.dumps([pattern, text]) + "\n")
                self._process.stdin.flush()
            if line := self._process.stdout.readline():
                return json.loads(line)
            self._close()
        raise StageFailure(
            "runtime",
            f"run: the search for {pattern!r:.200} in the output took more than {_SEARCH_SECONDS} s; write a pattern "
            "without repeats within repeats",
        )

    def _forget(self) -> None:
        self._inherited = self._process  # it belongs to the parent
        self._process, self._lock = None, threading.Lock()

    def _close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


_SEARCH = _SearchProcess()


def _value_group(pattern: re.Pattern[str]) -> int:
    """Return the number of the group that is the value; 0, the whole match, if there is none."""
    named = pattern.groupindex
    unnamed = set(range(1, pattern.groups + 1)) - set(named.values())
    return min(unnamed) if unnamed else named.get("value", min(pattern.groups, 1))


def _float_in(text: str | None) -> float | None:
    """Return the number in a group, which may be infinite or NaN; None for other texts."""
    try:
        return float((text or "").strip())
    except ValueError:
        return None


def _flatten(document: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yield the numbers and lists of numbers of a JSON object with their names."""
    for key, value in document.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flatten(value, f"{name}_")
            continue
        values = value if isinstance(value, list) else [value]
        if any(isinstance(each, bool | str | dict | list) for each in values):
            continue
        numbers = [number for number in map(finite_number, values) if number is not None]
        if values:
            yield name, tuple(numbers) if len(numbers) == len(values) else (math.nan,)


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
