"""Take the numbers of a run: from the output of a program, its wall time, sizes of files, and energy."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import re
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from baco_like._tables import shown, suggestion
from baco_like.evaluators._processes.process import Finished
from baco_like.evaluators._processes.worker import Worker
from baco_like.evaluators.command.template import Template, Text
from baco_like.evaluators.staged import StageFailure
from baco_like.exceptions import EvaluatorError, RunFileError
from baco_like.records.objective_values import finite_number, number_in

Method = Literal["regex", "json", "wall", "metric"]
METHODS: tuple[Method, ...] = ("regex", "json", "wall")
"""The methods that a run file names; the name of a metric is a fourth one."""

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
    def parse(
        cls,
        measure: str | None = None,
        pattern: str | None = None,
        key: str | None = None,
        scale: float | None = None,
        metrics: Iterable[str] = (),
    ) -> Measure:
        """Return what the keys ``measure``, ``pattern`` and ``key`` of a run file say.

        Args:
            measure: A method, or one of ``metrics``; None: ``regex`` if there is a pattern.
            pattern: For ``regex``.
            key: For ``json``.
            scale: Units of the objective in one second, or None if its unit is not one of time.
            metrics: Names of metrics.

        Raises:
            RunFileError: A key is missing, superfluous or wrong.
        """
        known = (*METHODS, *metrics)
        method = measure or (None if pattern is None else "regex")
        if method not in known and method is not None:
            raise RunFileError(
                f"[evaluator] measure = {shown(method)}; {suggestion(method, known)}"
            )
        given = {"measure": method, "pattern": pattern, "key": key}
        for name, owner in (("pattern", "regex"), ("key", "json")):
            if given[name] is not None and method not in (owner, None):
                raise RunFileError(
                    f"[evaluator] {name} belongs to measure = {owner!r}, not {method!r}"
                )
        needed = {None: "measure", "regex": "pattern", "json": "key"}.get(method)
        if needed is not None and given[needed] is None:
            raise RunFileError(f"[evaluator] needs the key {needed!r}")
        if pattern is not None:
            return cls("regex", pattern=parse_pattern(pattern, "[evaluator] pattern"))
        if key is not None:
            return cls("json", key=key)
        if method != "wall":
            return cls("metric", key=str(method))
        if scale is None:
            raise RunFileError(
                '[evaluator] measure = "wall" measures time; '
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


def parse_pattern(text: str, where: str) -> re.Pattern[str]:
    """Return the regular expression in a text; it has at most one group without a name.

    Args:
        text: The text.
        where: Its place in the run file, for messages.

    Raises:
        RunFileError: It is not one.
    """
    wrong = f"{where} = {shown(text)}: expected"
    try:
        pattern = re.compile(text, re.MULTILINE)
    except (re.error, RecursionError, OverflowError) as error:
        raise RunFileError(f"{wrong} a regular expression ({error})") from None
    if pattern.groups - len(pattern.groupindex) > 1:
        raise RunFileError(
            f"{wrong} one group; write (?:...) for the others, or (?P<name>...) for metrics"
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
    reply = _search().request([pattern.pattern, out], timeout=_SEARCH_SECONDS)
    if not reply.ok:
        raise StageFailure(
            "runtime",
            f"run: the search for {pattern.pattern!r:.200} in the output took more than {_SEARCH_SECONDS:g} s; write a "
            "pattern without repeats within repeats",
        )
    found: list[str | None] | None = reply.value
    return found


_SEARCH_SECONDS = 10.0


@cache
def _search() -> Worker:
    """Return a process that searches: some patterns take years for a line of 40 letters."""
    return Worker(
        "baco_like.evaluators._processes.worker_main:serve_search",
        environment={"TMPDIR": tempfile.gettempdir()},  # it needs no separate folder
    )


os.register_at_fork(after_in_child=_search.cache_clear)  # the process belongs to the parent


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


_CALL = re.compile(r"\s*(size|text|data|bss|rapl)\((.*)\)\s*", re.DOTALL)


@dataclass(frozen=True)
class CommandMetrics:
    """Numbers to keep of each run besides its value.

    Attributes:
        sizes: The counted part and the path of the file, by the name of the metric: ``size``, the bytes of the file, or
            those of one kind of sections of a program, see `section_bytes`.
        patterns: Patterns for the output; the number is the first group, or the whole match.
        energy: Name of the metric that is the energy of a run in joules, or None.
        counters: The energy counters, if there is such a metric.
        folder: Folder in which relative paths begin.
    """

    sizes: Mapping[str, tuple[str, Template]] = field(default_factory=dict)
    patterns: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    energy: str | None = None
    counters: EnergyCounters | None = None
    folder: Path = Path(".")

    @classmethod
    def parse(
        cls, metrics: Mapping[str, str], placeholders: Iterable[str], folder: Path
    ) -> CommandMetrics:
        """Read metrics: ``size(PATH)``, ``text(PATH)``, ``rapl()``, or a regular expression for the output.

        Args:
            metrics: Their texts by name.
            placeholders: The allowed placeholders of paths.
            folder: Folder in which relative paths begin.

        Raises:
            RunFileError: A metric cannot be read.
            EvaluatorError: This machine has no energy counters that can be read.
        """
        sizes, patterns, energy = {}, {}, []
        known = list(placeholders)
        for name, text in metrics.items():
            call, where = _CALL.fullmatch(text), f"[evaluator.metrics] {name}"
            if call is None:
                patterns[name] = parse_pattern(text, where)
            elif call[1] != "rapl":
                path = Template.parse(call[2] or " ", known, where)
                if len(path.words) != 1:
                    raise RunFileError(
                        f"{where} = {shown(text)}: expected {call[1]}(PATH) with one path; quote one that has spaces"
                    )
                sizes[name] = call[1], path
            elif call[2].strip():
                raise RunFileError(f"{where} = {shown(text)}: expected rapl()")
            else:
                energy.append(name)
        if len(energy) > 1:
            both = " and ".join(energy)
            raise RunFileError(f"[evaluator.metrics]: {both} are both rapl(); keep one")
        counters = EnergyCounters.find() if energy else None
        return cls(sizes, patterns, energy[0] if energy else None, counters, folder)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all metrics."""
        return (*self.sizes, *self.patterns, *([] if self.energy is None else [self.energy]))

    def start(self) -> tuple[int, ...]:
        """Return what `take` compares with: the energy counters before a run."""
        return () if self.counters is None else self.counters.read()

    def take(
        self, finished: Finished, texts: Mapping[str, Text], before: tuple[int, ...]
    ) -> dict[str, float] | str:
        """Return the metrics of a run, or one line that says which one is missing.

        Args:
            finished: The run.
            texts: The text of each placeholder.
            before: The result of `start` before the run.
        """
        values: dict[str, float] = {}
        if self.counters is not None and self.energy is not None:
            values[self.energy] = self.counters.joules(before, self.counters.read())
        for name, (kind, template) in self.sizes.items():
            path = self.folder / template.fill(texts)[0]
            try:
                count = path.stat().st_size if kind == "size" else section_bytes(path)[kind]
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                return f"metric {name}: the size of {path.name} cannot be read: {reason}"
            values[name] = float(count)
        for name, pattern in self.patterns.items():
            found = match_number(pattern, finished.out)
            if isinstance(found, str):
                return f"metric {name}: {found}"
            values[name] = found[0]
        return values


def section_bytes(program: Path) -> dict[str, int]:
    """Return the bytes of ``text`` (code and constants), ``data`` and ``bss`` in an ELF file, as the program size.

    They are those of the loaded sections, without the padding to whole pages and without symbols. ``bss``, zeros at the
    start, takes no space in the file. The header is described in ``elf.h``.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not an ELF file of 64 bits, or it is cut off.
    """
    content = program.read_bytes()
    if content[:6] != b"\x7fELF\x02\x01":  # 64 bits, little-endian
        raise ValueError("it is not an ELF file of 64 bits")
    counts = {"text": 0, "data": 0, "bss": 0}
    try:
        (start,) = struct.unpack_from("<Q", content, 0x28)
        width, number = struct.unpack_from("<HH", content, 0x3A)
        for at in range(start, start + number * width, width):
            kind, flags = struct.unpack_from("<IQ", content, at + 4)
            is_writable, is_loaded, is_zeros = flags & 1, flags & 2, kind == 8
            if is_loaded:
                name = "bss" if is_zeros else "data" if is_writable else "text"
                counts[name] += struct.unpack_from("<Q", content, at + 0x20)[0]
    except (struct.error, OverflowError, ValueError):
        raise ValueError("its header is cut off") from None
    return counts


POWERCAP = Path("/sys/class/powercap")


@dataclass(frozen=True)
class EnergyCounters:
    """The energy counters of all packages.

    Attributes:
        zones: The file of each counter, and the number of microjoules after which it begins again.
    """

    zones: tuple[tuple[Path, int], ...]

    @classmethod
    def find(cls, folder: Path = POWERCAP) -> EnergyCounters:
        """Return the counters of this machine.

        Args:
            folder: Folder of the powercap files.

        Raises:
            EvaluatorError: The machine has no counters, or this user may not read them; the message says what to do.
        """
        # "intel-rapl:0" is a package (AMD's too), "intel-rapl:0:1" a part of it, "intel-rapl-mmio:0" the same again.
        zones = sorted(folder.glob("intel-rapl:*"))
        packages = [zone for zone in zones if zone.name.count(":") == 1]
        if not packages:
            raise EvaluatorError(
                f"energy cannot be measured: {folder} has no RAPL counter (virtual machines and containers usually "
                "hide them); measure on the machine itself, or leave this metric out"
            )
        found = []
        for zone in packages:
            try:
                limit = int((zone / "max_energy_range_uj").read_text())
                int((zone / "energy_uj").read_text())
            except PermissionError:
                raise EvaluatorError(
                    f"energy cannot be measured: {zone / 'energy_uj'} is readable by root only; allow it until the "
                    f"next restart with: sudo chmod a+r {folder}/intel-rapl:*/energy_uj"
                ) from None
            except (OSError, ValueError) as error:
                raise EvaluatorError(f"energy cannot be measured: {zone}: {error}") from None
            found.append((zone / "energy_uj", limit))
        return cls(tuple(found))

    def read(self) -> tuple[int, ...]:
        """Return the present count of each package in microjoules."""
        return tuple(int(path.read_text()) for path, _ in self.zones)

    def joules(self, before: Sequence[int], after: Sequence[int]) -> float:
        """Return the energy of all packages between two calls of `read`, less than one round of a counter apart."""
        limits = (limit for _, limit in self.zones)
        used = (
            end - start + (limit if end < start else 0)
            for start, end, limit in zip(before, after, limits, strict=True)
        )
        return sum(used) / 1e6
