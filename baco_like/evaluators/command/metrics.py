"""Metrics besides the objective: sizes of files, energy, and numbers in the output of a program."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from baco_like.evaluators._processes.process import Finished
from baco_like.evaluators.command.energy import EnergyCounters
from baco_like.evaluators.command.measure import match_number, parse_pattern
from baco_like.evaluators.command.template import Template, Text
from baco_like.evaluators.settings_table import Table
from baco_like.exceptions import RunFileError

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
    def from_table(cls, table: Table, placeholders: Iterable[str], folder: Path) -> CommandMetrics:
        """Read a table of metrics: ``size(PATH)``, ``text(PATH)``, ``rapl()``, or a regular expression for the output.

        Args:
            table: The metrics by name.
            placeholders: The allowed placeholders of paths.
            folder: Folder in which relative paths begin.

        Raises:
            RunFileError: A metric cannot be read.
            EvaluatorError: This machine has no energy counters that can be read.
        """
        sizes, patterns, energy = {}, {}, []
        known = list(placeholders)
        for name in table.entries:
            text = table.text(name)
            call = _CALL.fullmatch(text)
            if call is None:
                patterns[name] = parse_pattern(table, name)
            elif call[1] != "rapl":
                path = Template.parse(call[2] or " ", known, table.label(name))
                if len(path.words) != 1:
                    raise table.error(
                        name, text, f"{call[1]}(PATH) with one path; quote one that has spaces"
                    )
                sizes[name] = call[1], path
            elif call[2].strip():
                raise table.error(name, text, "rapl()")
            else:
                energy.append(name)
        if len(energy) > 1:
            raise RunFileError(f"[{table.name}]: {' and '.join(energy)} are both rapl(); keep one")
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
